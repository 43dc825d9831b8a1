"""The launcher alone, as the daemon speaks to it; what it does for calls is tested with the launchers."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.forked.peer import Peer
from tooldispatchd.children.launchers import START
from tooldispatchd.forked.policy import Policy
from tooldispatchd.forked.sandbox.launch import LEAST_FILES, LEAST_MEMORY

ENV = {"PATH": "/usr/bin:/bin"}
NOBODY = 65534


@contextmanager
def launcher(policy: Policy, *words: str) -> Iterator[Peer]:
    peer = Peer([sys.executable, "-I", "-S", str(START), "launcher", policy.to_json(), *words])
    try:
        yield peer
    finally:
        peer.end()


def start(peer: Peer, *argv: str, cwd: str | None = None, env: dict[str, str] = ENV) -> tuple[object, str]:
    """The reply, and all that was written to stdout and stderr."""
    reading, writing = os.pipe()
    with Path(os.devnull).open("rb") as null:
        request = {"argv": argv, "env": env, "cwd": cwd, "fds": [0, 1, 2], "scratch": None}
        reply = peer.ask({"spawn": request}, null.fileno(), writing, writing)
    os.close(writing)
    with os.fdopen(reading) as stream:
        return reply, stream.read()


def run(peer: Peer, *argv: str, cwd: str | None = None, env: dict[str, str] = ENV) -> str:
    reply, said = start(peer, *argv, cwd=cwd, env=env)
    assert isinstance(reply, dict)
    assert peer.ask({"status": reply["pid"]}) == {"code": 0}
    return said


# The least that is put on the launcher itself, and what is put on forks.
@pytest.mark.parametrize(
    "policy", [Policy(memory=LEAST_MEMORY, files=LEAST_FILES), Policy(memory=LEAST_MEMORY - 4096, files=8)]
)
def test_a_launcher_serves_however_little_its_programs_may_use(nothing_left: None, policy: Policy) -> None:
    with launcher(policy) as peer:
        assert peer.hear() == {"ready": True}
        for _ in range(3):
            said = run(peer, "cat", "/proc/self/limits", env={**ENV, "LONG": "x" * 40_000})
            assert f"Max data size             {policy.memory}" in said
            assert f"Max open files            {policy.files}" in said


def test_a_policy_that_cannot_be_taken_on_is_told_in_the_greeting(nothing_left: None) -> None:
    with launcher(Policy(write=("/no/such",))) as peer:
        reply = peer.hear()
        assert isinstance(reply, dict)
        assert "/no/such" in reply["error"]
        assert peer.socket.recv(100) == b""


def test_a_launcher_that_is_told_nothing_it_knows_ends(nothing_left: None) -> None:
    with launcher(Policy()) as peer:
        peer.hear()
        peer.say({"fork": {"dance": 1}})
        assert peer.socket.recv(100) == b""


@pytest.mark.parametrize("policy", [Policy(), Policy(files=8)])
def test_a_program_that_cannot_be_started_is_never_taken_for_one_that_exited(
    nothing_left: None, tmp_path: Path, policy: Policy
) -> None:
    (tmp_path / "plain").touch(mode=0o644)
    (tmp_path / "broken").write_text("#!/no/such/interpreter\n")
    (tmp_path / "broken").chmod(0o755)
    with launcher(policy) as peer:
        peer.hear()
        assert start(peer, "no-such")[0] == {"error": "No such file or directory"}
        assert start(peer, f"{tmp_path}/plain")[0] == {"error": "Permission denied"}
        assert start(peer, f"{tmp_path}/broken")[0] == {"error": "No such file or directory"}
        assert start(peer, "true", cwd="/no/such")[0] == {
            "error": "directory '/no/such': No such file or directory",
        }
        assert start(peer, "a\0b")[0] in ({"error": "embedded null byte"}, {"error": "embedded null character"})
        assert run(peer, "echo", "well") == "well\n"


@pytest.mark.parametrize("policy", [Policy(), Policy(files=8)])
def test_each_call_starts_in_its_own_directory_and_others_where_the_daemon_is(
    nothing_left: None, tmp_path: Path, policy: Policy
) -> None:
    with launcher(policy) as peer:
        peer.hear()
        assert run(peer, "pwd") == f"{Path.cwd()}\n"
        assert run(peer, "pwd", cwd=str(tmp_path)) == f"{tmp_path}\n"
        assert run(peer, "pwd") == f"{Path.cwd()}\n"


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes another")
@pytest.mark.parametrize("policy", [Policy(), Policy(files=8)])
def test_a_program_runs_as_the_policys_user_with_its_groups_alone(nothing_left: None, policy: Policy) -> None:
    with launcher(policy._replace(uid=NOBODY, gid=NOBODY, groups=(4,))) as peer:
        assert peer.hear() == {"ready": True}
        assert run(peer, "id", "-u") == f"{NOBODY}\n"
        assert run(peer, "id", "-G") == f"{NOBODY} 4\n"


def test_a_launcher_that_used_half_of_its_programs_time_wants_to_be_replaced(nothing_left: None) -> None:
    with launcher(Policy(cpu_s=1)) as peer:
        peer.hear()
        for _ in range(10_000):
            # It looks into each, which takes it far longer than asking for it takes us.
            reply, _ = start(peer, "no-such", env={"PATH": ":".join(["/no/such"] * 5_000)})
            assert isinstance(reply, dict)
            if "retiring" in reply:
                break
        assert isinstance(reply, dict)
        assert reply["retiring"] is True
        reply, said = start(peer, "echo", "well")
        assert isinstance(reply, dict)
        assert said == "well\n"
        assert peer.ask({"status": reply["pid"]}) == {"code": 0, "retiring": True}


def test_a_program_that_is_not_known_is_told(nothing_left: None) -> None:
    ended = subprocess.run(
        [sys.executable, str(START), "dance"], capture_output=True, text=True, timeout=20, check=False
    )
    assert (ended.returncode, ended.stderr) == (1, "there is no program 'dance'\n")
