"""Programs that are started under a policy: what they get, and what becomes of the launchers."""

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.children.tended import tended_family, whole
from tests.processes import PATIENCE_S, is_running, until_gone
from tooldispatchd.children.family import Family, open_family
from tooldispatchd.children.inheritance import CHILD, RUN_ID, UPDATES_FD, environment
from tooldispatchd.children.launchers import Launchers, open_launchers
from tooldispatchd.children.spawn import Child, Exit, SpawnError
from tooldispatchd.forked.policy import Policy

LIMITED = Policy(cpu_s=5, memory=1 << 30, files=64, file_size=1 << 20, nice=3)
# Each call is forked, as it is where something is asked for that is a call's own.
FORKED = LIMITED._replace(files=20)
BOTH = pytest.mark.parametrize("policy", [LIMITED, FORKED])


@pytest.fixture
async def family(nothing_left: None) -> AsyncIterator[Family]:
    async with tended_family() as family:
        yield family


@pytest.fixture
async def launchers(family: Family) -> AsyncIterator[Launchers]:
    async with open_launchers(family) as launchers:
        yield launchers


async def read_all(fd: int) -> bytes:
    whole = b""
    with trio.fail_after(PATIENCE_S):
        while True:
            await trio.lowlevel.wait_readable(fd)
            if not (chunk := os.read(fd, 65536)):
                return whole
            whole += chunk


async def output(child: Child) -> str:
    """All of a child's stdout; it must end well."""
    said = await read_all(child.stdout)
    with trio.fail_after(PATIENCE_S):
        await child.exited()
    assert await child.kill() == Exit(code=0)
    return said.decode()


def launcher_pids() -> list[int]:
    """Our children that are launchers."""
    pids = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [int(pid) for pid in pids if b"launcher" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]


def descriptors(pid: int) -> set[str]:
    """What the process has open, as `fd -> target`."""
    found = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        # The descriptor of this very listing is gone by now.
        with suppress(FileNotFoundError):
            found.add(f"{entry.name} {entry.readlink()}")
    return found


@BOTH
async def test_a_program_has_the_limits_of_its_policy(launchers: Launchers, policy: Policy) -> None:
    said = await output(await launchers.launch(policy, ["cat", "/proc/self/limits"]))
    limits = {line[:26].strip(): line[26:].split()[:2] for line in said.splitlines()}
    assert limits["Max cpu time"] == ["5", "6"]
    assert limits["Max data size"] == [str(1 << 30)] * 2
    assert limits["Max open files"] == [str(policy.files)] * 2
    assert limits["Max file size"] == [str(1 << 20)] * 2
    assert limits["Max core file size"] == ["0", "0"]


@BOTH
async def test_a_program_stands_back_as_its_policy_says(launchers: Launchers, policy: Policy) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert int(await output(await launchers.launch(policy, ["nice"]))) == max(3, own)


@BOTH
async def test_a_program_has_the_family_s_environment_and_its_own_and_nothing_else(
    family: Family, launchers: Launchers, policy: Policy
) -> None:
    said = await output(await launchers.launch(policy, ["env", "-0"], env={"A": "1", "B": "ü\n", UPDATES_FD: "9"}))
    seen = dict(entry.split("=", 1) for entry in said.split("\0") if entry)
    assert int(seen.pop(CHILD)) > 0
    assert seen == {**environment(), "A": "1", "B": "ü\n", RUN_ID: family.run_id}


@BOTH
async def test_a_program_has_its_pipes_and_no_other_descriptor(launchers: Launchers, policy: Policy) -> None:
    said = await output(await launchers.launch(policy, ["ls", "/proc/self/fd"]))
    # The fourth is that of the listing.
    assert said.split() == ["0", "1", "2", "3"]


@BOTH
async def test_updates_and_further_descriptors_have_their_numbers(launchers: Launchers, policy: Policy) -> None:
    reading, writing = os.pipe()
    own = os.open(__file__, os.O_RDONLY)
    script = f'ls /proc/$$/fd; echo "${UPDATES_FD}"; echo three >&3; echo five >&5; cat <&4'
    child = await launchers.launch(policy, ["sh", "-c", script], with_updates=True, extra={5: writing, 4: own})
    # The caller's own are still the caller's.
    os.close(writing)
    os.close(own)
    said = await read_all(child.stdout)
    assert said == b"0\n1\n2\n3\n4\n5\n3\n" + Path(__file__).read_bytes()
    assert await read_all(child.updates) == b"three\n"
    assert whole(reading) == b"five\n"
    await child.kill()


@BOTH
async def test_a_program_has_default_signals_a_group_of_its_own_and_no_new_privileges(
    launchers: Launchers, policy: Policy
) -> None:
    child = await launchers.launch(policy, ["cat", "/proc/self/status"])
    said = await output(child)
    status = dict(line.split(":\t") for line in said.splitlines() if ":\t" in line)
    ignored = int(status["SigIgn"], 16) & ~(3 << 31)
    assert (ignored, int(status["SigBlk"], 16), status["NoNewPrivs"]) == (0, 0, "1")
    assert status["NSpgid"] == status["Pid"] == str(child.pid)


@BOTH
async def test_a_program_runs_in_its_directory(launchers: Launchers, tmp_path: Path, policy: Policy) -> None:
    assert await output(await launchers.launch(policy, ["pwd"], cwd=str(tmp_path))) == f"{tmp_path}\n"
    assert await output(await launchers.launch(policy, ["pwd"])) == f"{Path.cwd()}\n"


@BOTH
@pytest.mark.parametrize(("argv0", "path"), [("./here", "/bin"), ("here", "."), ("here", ""), ("sub/here", "/bin")])
async def test_a_relative_program_or_path_starts_in_the_directory(
    launchers: Launchers, tmp_path: Path, policy: Policy, argv0: str, path: str
) -> None:
    for program in (tmp_path / "here", tmp_path / "sub" / "here"):
        program.parent.mkdir(exist_ok=True)
        program.write_text('#!/bin/sh\necho "$0"\n')
        program.chmod(0o755)
    child = await launchers.launch(policy, [argv0], env={"PATH": path}, cwd=str(tmp_path))
    assert (await output(child)).strip().endswith("here")


@BOTH
async def test_what_cannot_be_started_is_told(launchers: Launchers, tmp_path: Path, policy: Policy) -> None:
    with pytest.raises(SpawnError, match=r"^cannot start 'no-such': No such file or directory$"):
        await launchers.launch(policy, ["no-such"])
    with pytest.raises(SpawnError, match=r"^cannot start 'true': No such file or directory$"):
        await launchers.launch(policy, ["true"], env={"PATH": str(tmp_path)})
    with pytest.raises(SpawnError, match=r"^cannot start 'true': directory '/no/such': No such file or directory$"):
        await launchers.launch(policy, ["true"], cwd="/no/such")


async def test_a_policy_that_cannot_be_had_is_told(launchers: Launchers) -> None:
    with pytest.raises(SpawnError, match=r"^cannot start 'true': its launcher cannot serve: .*'/no/such'"):
        await launchers.launch(Policy(write=("/no/such",)), ["true"])


async def test_a_policy_has_one_launcher_however_many_calls(launchers: Launchers) -> None:
    seen = []

    async def call(number: int) -> None:
        child = await launchers.launch(LIMITED, ["echo", str(number)])
        seen.append(int(await output(child)))

    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(call, number)
    assert sorted(seen) == list(range(50))
    assert len(launcher_pids()) == len(launchers) == 1


async def test_calls_under_other_policies_have_other_launchers(launchers: Launchers) -> None:
    for policy in (LIMITED, FORKED, LIMITED):
        await output(await launchers.launch(policy, ["true"]))
    assert len(launcher_pids()) == 2


async def test_a_killed_launcher_is_replaced_and_no_call_is_lost(launchers: Launchers) -> None:
    await output(await launchers.launch(LIMITED, ["true"]))
    (pid,) = launcher_pids()
    os.kill(pid, signal.SIGKILL)
    assert await output(await launchers.launch(LIMITED, ["echo", "well"])) == "well\n"
    assert pid not in launcher_pids()


async def test_calls_that_wait_for_a_launcher_that_is_killed_go_to_the_next(launchers: Launchers) -> None:
    await output(await launchers.launch(LIMITED, ["true"]))
    (pid,) = launcher_pids()
    os.kill(pid, signal.SIGSTOP)
    seen = []

    async def call(number: int) -> None:
        seen.append(await output(await launchers.launch(LIMITED, ["echo", str(number)])))

    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(call, number)
        await wait_all_tasks_blocked()
        os.kill(pid, signal.SIGKILL)
    assert sorted(seen) == [f"{number}\n" for number in range(10)]


async def test_a_stopped_launcher_is_replaced_when_it_does_not_answer(family: Family) -> None:
    async with open_launchers(family, answer_s=0.2) as launchers:
        running = await launchers.launch(LIMITED, ["cat"])
        (pid,) = launcher_pids()
        os.kill(pid, signal.SIGSTOP)
        assert await output(await launchers.launch(LIMITED, ["echo", "well"])) == "well\n"
        await until_gone(pid)
        # What it had started goes on, and is told by its own end.
        running.close_stdin()
        assert await output(running) == ""


async def test_a_call_that_is_cancelled_starts_nothing_on_a_second_launcher(family: Family) -> None:
    async with open_launchers(family, answer_s=0.2) as launchers:
        await output(await launchers.launch(LIMITED, ["true"]))
        os.kill(launcher_pids()[0], signal.SIGSTOP)
        with trio.move_on_after(0.05) as scope:
            await launchers.launch(LIMITED, ["true"])
        assert scope.cancelled_caught
        assert len(family) <= 1


async def test_a_launcher_that_used_up_its_time_is_replaced(launchers: Launchers) -> None:
    policy = Policy(cpu_s=1)
    running = await launchers.launch(policy, ["cat"])
    (first,) = launcher_pids()
    # It looks into each, which takes it far longer than asking for it takes us.
    places = {"PATH": ":".join(["/no/such"] * 5_000)}
    for _ in range(10_000):
        if len(launcher_pids()) > 1:
            break
        with pytest.raises(SpawnError):
            await launchers.launch(policy, ["no-such"], env=places)
    # It stays until its last child is reaped.
    assert is_running(first)
    running.close_stdin()
    assert await output(running) == ""
    await until_gone(first)


async def test_there_are_no_more_launchers_than_allowed_but_for_busy_ones(family: Family) -> None:
    launchers = Launchers(family, max_launchers=2)
    busy = [await launchers.launch(Policy(nice=number), ["cat"]) for number in range(3)]
    assert len(launchers) == 3
    for child in busy:
        child.close_stdin()
        await output(child)
    await output(await launchers.launch(Policy(nice=4), ["true"]))
    assert len(launchers) == 2
    await launchers.close()
    assert len(launchers) == 0


@BOTH
async def test_what_a_program_leaves_behind_ends_after_it(launchers: Launchers, policy: Policy) -> None:
    script = "(setsid sh -c 'echo $$; exec sleep 1000' &); sleep 1000 & echo $!"
    child = await launchers.launch(policy, ["sh", "-c", script])
    left: list[int] = []
    with trio.fail_after(PATIENCE_S):
        while len(left) < 2:
            await trio.lowlevel.wait_readable(child.stdout)
            left += map(int, os.read(child.stdout, 100).split())
    await child.kill()
    await until_gone(*left)


@BOTH
async def test_many_calls_leave_nothing(launchers: Launchers, policy: Policy) -> None:
    async def calls() -> None:
        for _ in range(5):
            child = await launchers.launch(policy, ["true"])
            with trio.fail_after(PATIENCE_S):
                await child.exited()
            assert await child.kill() == Exit(code=0)

    await output(await launchers.launch(policy, ["true"]))
    (pid,) = launcher_pids()
    ours, theirs = descriptors(os.getpid()), descriptors(pid)
    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(calls)
    assert descriptors(os.getpid()) == ours
    with trio.fail_after(PATIENCE_S):
        # The last children are reaped after the answers that nobody waits for.
        while Path(f"/proc/{pid}/task/{pid}/children").read_text():
            await trio.sleep(0.005)
    assert descriptors(pid) == theirs


async def test_without_calls_there_is_no_process(nothing_left: None) -> None:
    before = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    async with open_family() as family, open_launchers(family):
        assert Path(f"/proc/self/task/{os.getpid()}/children").read_text() == before


DAEMON = """
import sys, trio
from tooldispatchd.children.family import open_family
from tooldispatchd.children.launchers import open_launchers
from tooldispatchd.forked.policy import Policy

async def main():
    async with open_family() as family, open_launchers(family) as launchers:
        for policy in (Policy(files=64), Policy(files=20)):
            for _ in range(10):
                script = "setsid sleep 1000 & exec sleep 1000"
                child = await launchers.launch(policy, ["sh", "-c", script], env={"MARK": sys.argv[1]})
                print(child.pid)
        for forker in launchers._forkers.values():
            print(forker.pid)
        print("ready", flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


async def test_nothing_survives_a_daemon_that_is_killed(nothing_left: None) -> None:
    mark = secrets.token_hex()
    daemon = subprocess.Popen([sys.executable, "-c", DAEMON, mark], stdout=subprocess.PIPE, text=True)
    with daemon:
        assert daemon.stdout is not None
        pids = [int(line) for line in iter(daemon.stdout.readline, "ready\n")]
        assert len(pids) == 22
        daemon.kill()
    await until_gone(*pids)
    with trio.fail_after(PATIENCE_S):
        while any(has_mark(entry, f"MARK={mark}".encode()) for entry in Path("/proc").iterdir()):
            await trio.sleep(0.02)


def has_mark(process: Path, mark: bytes) -> bool:
    try:
        return mark in (process / "environ").read_bytes()
    except OSError:
        return False
