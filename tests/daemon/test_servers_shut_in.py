"""MCP servers with bounds and a sandbox: one that is sound works in it, and one that attacks gets nowhere."""

import json
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.daemon.hostile_ways import OTHERS_PYTHON
from tests.daemon.spawned import Agent, Daemon, Message, until
from tests.daemon.traces import daemon_in, open_directory
from tests.forked.sandbox.confined import abilities, lack_of

ATTACKING: Final = Path(__file__).parent.parent / "servers" / "attacking.py"
MEANS: Final = ("landlock", "bubblewrap")
JOBLESS: Final = "jobs = false\n"


def table(name: str, program: Path, *lines: str, python: str = sys.executable) -> str:
    args = json.dumps(["-I", "-S", "-B", str(program)])
    return "\n".join([f"[mcp.{name}]", f"command = {json.dumps(python)}", f"args = {args}", *lines, ""])


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that every user may pass, with a server's program and a file beside it that is not the server's."""
    with open_directory() as directory:
        (directory / "program").mkdir()
        shutil.copy(ATTACKING, directory / "program" / "server.py")
        for name in ("inside", "outside"):
            (directory / name).mkdir()
            (directory / name / "file").write_text(f"what is {name}")
        yield directory


@contextmanager
def served(place: Path, config: str) -> Iterator[tuple[Daemon, Agent]]:
    daemon = daemon_in(place, config)
    with daemon as running, running.agent() as agent:
        yield running, agent


def text(answer: Message) -> str:
    assert "fault" not in answer, answer
    return str(answer["content"])


def fault_of(answer: Message) -> Message:
    assert answer.get("fault") is True, answer
    content: Message = json.loads(answer["content"])
    return content


def keys(place: Path, means: str) -> tuple[str, ...]:
    readable = [str(place / "program"), sys.base_prefix, sys.prefix]
    return (
        "network = false",
        f"read = {json.dumps(readable)}",
        f"write = [{json.dumps(str(place / 'inside'))}]",
        f'sandbox = "{means}"',
    )


@pytest.mark.parametrize("means", MEANS)
def test_a_server_that_is_shut_in_reads_and_changes_what_it_may_and_reaches_nothing(place: Path, means: str) -> None:
    able = abilities().landlock if means == "landlock" else abilities().bubblewrap
    if (why := lack_of(able, "network", "read", "write")) is not None:
        pytest.skip(why)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        free, kept = place / "program" / "server.py", place / "program" / "server.py"
        config = table("free", free) + table("kept", kept, *keys(place, means))
        with served(place, config) as (_, agent):
            tries: dict[str, tuple[str, Message]] = {
                "inside": ("read", {"path": str(place / "inside/file")}),
                "outside": ("read", {"path": str(place / "outside/file")}),
                "change inside": ("write", {"path": str(place / "inside/new")}),
                "change outside": ("write", {"path": str(place / "outside/new")}),
                "connect": ("connect", {"port": port}),
            }
            said = {
                server: {what: text(agent.ask(f"{server}:{tool}", given)) for what, (tool, given) in tries.items()}
                for server in ("kept", "free")
            }
    # The same program shows what could have been done.
    assert said["free"] == {
        "inside": "what is inside",
        "outside": "what is outside",
        "change inside": "written",
        "change outside": "written",
        "connect": "connected",
    }
    refused = {what for what, answer in said["kept"].items() if answer.startswith("refused: ")}
    assert refused == {"outside", "change outside", "connect"}
    assert (said["kept"]["inside"], said["kept"]["change inside"]) == ("what is inside", "written")


def test_a_profiles_bounds_hold_for_its_own_servers_and_not_for_shared_ones(place: Path) -> None:
    program = place / "program" / "server.py"
    config = (
        table("own", program)
        + table("common", program, "shared = true")
        + '[agents.default]\nmcp = ["own", "common"]\n'
        + JOBLESS
        + f"write = [{json.dumps(str(place / 'inside'))}]\n"
    )
    with served(place, config) as (_, agent):
        outside = {"path": str(place / "outside/new")}
        assert text(agent.ask("own:write", outside)).startswith("refused: ")
        assert text(agent.ask("own:write", {"path": str(place / "inside/new")})) == "written"
        assert text(agent.ask("common:write", outside)) == "written"


def test_a_server_that_is_shut_in_has_a_scratch_directory_that_is_gone_after_it(place: Path) -> None:
    config = table("kept", place / "program" / "server.py", *keys(place, "required"), "nice = 7")
    with served(place, config) as (daemon, agent):
        said = json.loads(text(agent.ask("kept:about", {})))
        scratch = Path(said["TMPDIR"])
        assert said == {
            "uid": os.getuid(),
            "nice": 7,
            "cwd": str(scratch),
            **dict.fromkeys(("TMPDIR", "HOME", "TOOLDISPATCHD_SCRATCH"), str(scratch)),
        }
        assert text(agent.ask("kept:write", {"path": f"{scratch}/note"})) == "written"
        assert scratch.exists()
        agent.close()
        until(lambda: daemon.logged("session closed") == 1)
        until(lambda: not scratch.exists())


@pytest.mark.skipif(os.getuid() != 0 or not Path(OTHERS_PYTHON).exists(), reason="only root can be another user")
def test_a_server_runs_as_the_user_that_its_table_names(place: Path) -> None:
    config = table("other", place / "program" / "server.py", 'user = "nobody"', python=OTHERS_PYTHON)
    with served(place, config) as (_, agent):
        assert json.loads(text(agent.ask("other:about", {})))["uid"] > 0


@pytest.mark.parametrize(
    ("bound", "tool", "limit", "words"),
    [
        ('memory = "64M"', "allocate", "memory", "its limit of 67108864 bytes of memory"),
        ("cpu_s = 1", "burn", "cpu_s", "its limit of 1 s of processor time"),
    ],
)
def test_a_server_that_passes_a_bound_is_told_as_such(
    place: Path, bound: str, tool: str, limit: str, words: str
) -> None:
    arguments = {"bytes": 1 << 30}
    with served(place, table("kept", place / "program" / "server.py", bound)) as (_, agent):
        fault = fault_of(agent.ask(f"kept:{tool}", arguments))
        assert (fault["error"], fault["limit"]) == ("connection_dead", limit)
        assert words in fault["detail"]
        # Who calls later is told the same.
        assert fault_of(agent.ask(f"kept:{tool}", arguments))["limit"] == limit


def test_a_bound_that_a_server_notices_itself_is_its_own_to_answer(place: Path) -> None:
    with served(place, table("kept", place / "program" / "server.py", 'file_size = "1K"')) as (_, agent):
        arguments = {"path": str(place / "inside/large"), "bytes": 1 << 20}
        assert text(agent.ask("kept:grow", arguments)) == "refused: File too large"


def test_an_answer_over_output_bytes_is_told_as_such(place: Path) -> None:
    (place / "inside/file").write_text("x" * 5000)
    with served(place, table("kept", place / "program" / "server.py", "output_bytes = 4096")) as (_, agent):
        fault = fault_of(agent.ask("kept:read", {"path": str(place / "inside/file")}))
        assert (fault["error"], fault["limit"]) == ("tool_failed", "content_bytes")
        assert text(agent.ask("kept:write", {"path": str(place / "inside/new")})) == "written"


def test_nothing_of_a_server_that_is_shut_in_outlives_its_session(place: Path) -> None:
    config = table("kept", place / "program" / "server.py", *keys(place, "required"))
    with served(place, config) as (daemon, agent):
        assert text(agent.ask("kept:fork", {"children": 3})) == "forked"
        assert len(daemon.running(str(place / "program" / "server.py"))) == 4
        agent.close()
        until(lambda: not daemon.running(str(place / "program" / "server.py")))


def test_a_server_that_is_shut_in_is_started_anew_where_its_table_says_so(place: Path) -> None:
    bounds = ("cpu_s = 1", 'restart = "backoff"')
    with served(place, table("kept", place / "program" / "server.py", *keys(place, "required"), *bounds)) as (_, agent):
        assert fault_of(agent.ask("kept:burn", {}))["limit"] == "cpu_s"
        until(lambda: "fault" not in agent.ask("kept:about", {}))
