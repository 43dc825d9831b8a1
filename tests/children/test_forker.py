"""One forker that serves: the children that it starts, and what calls get of it."""

import os
import resource
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.children.forkers import LAUNCHER, children_of, forker_of, program, read_all, start, until_exited
from tests.children.tended import tended_family
from tests.processes import PATIENCE_S, until_gone
from tooldispatchd.children.control import ForkerGone
from tooldispatchd.children.descriptors import close_all
from tooldispatchd.children.family import Family
from tooldispatchd.children.forker import Forker
from tooldispatchd.children.spawn import Exit, SpawnError, open_pipes

# The guardian's pipe and table, orphans' and trio's own are open before the first forker is.
SILENT = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(1000)"]


@pytest.fixture
async def family(nothing_left: None) -> AsyncIterator[Family]:
    async with tended_family() as family:
        yield family


async def test_a_child_reads_writes_and_ends(family: Family) -> None:
    async with forker_of(family) as forker:
        child = await start(family, forker, "cat")
        os.write(child.stdin, b"hello")
        child.close_stdin()
        assert await read_all(child) == b"hello"
        await until_exited(child)
        assert await child.kill() == Exit(code=0)
        assert await child.kill() == Exit(code=0)
        assert (child.stdin, child.stdout, child.stderr, child.pidfd) == (-1, -1, -1, -1)


@pytest.mark.parametrize(
    ("script", "exit_"),
    [("exit 7", Exit(code=7)), ("kill -SEGV $$", Exit(signal=signal.SIGSEGV)), ("exit 255", Exit(code=255))],
)
async def test_how_a_child_ended_is_told(family: Family, script: str, exit_: Exit) -> None:
    async with forker_of(family) as forker:
        child = await start(family, forker, "sh", "-c", script)
        await until_exited(child)
        assert await child.kill() == exit_


async def test_how_a_child_ended_is_asked_of_the_forker_where_proc_does_not_tell(family: Family) -> None:
    async with forker_of(family) as forker:
        child = await start(family, forker, "sh", "-c", "exit 7")
        await until_exited(child)
        assert await forker.status(child.pid, child.pidfd) == Exit(code=7)
        assert await forker.status(child.pid, child.pidfd) == Exit(signal=signal.SIGKILL)
        forker.children += 2
        await child.kill()


async def test_a_process_whose_first_thread_ended_first_is_told_by_its_own_end(family: Family) -> None:
    script = """
import ctypes, os, threading, time
def outlive():
    while "Z" not in open(f"/proc/self/task/{os.getpid()}/stat").read().rpartition(")")[2]:
        time.sleep(0.001)
    os._exit(3)
threading.Thread(target=outlive).start()
ctypes.CDLL(None).syscall(60, 0)
"""
    async with forker_of(family) as forker:
        child = await start(family, forker, sys.executable, "-I", "-S", "-c", script)
        await until_exited(child)
        assert await child.kill() == Exit(code=3)


async def test_a_running_child_is_killed_with_its_group(family: Family) -> None:
    async with forker_of(family) as forker:
        child = await start(family, forker, "sh", "-c", "sleep 1000 & echo $!; exec cat")
        with trio.fail_after(20):
            await trio.lowlevel.wait_readable(child.stdout)
        left = int(os.read(child.stdout, 100))
        assert await child.kill() == Exit(signal=signal.SIGKILL)
        await until_gone(left)


async def test_a_child_is_asked_to_stop_first(family: Family) -> None:
    async with forker_of(family) as forker:
        child = await start(family, forker, "sh", "-c", "cat; exit 5")
        assert await child.stop(polite_s=20) == Exit(code=5)


async def test_any_number_of_tasks_kill_a_child_at_once(family: Family) -> None:
    async with forker_of(family) as forker:
        child = await start(family, forker, "sleep", "1000")
        ended = []

        async def kill() -> None:
            ended.append(await child.kill())

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(kill)
        assert ended == [Exit(signal=signal.SIGKILL)] * 3


async def test_what_cannot_be_started_is_told_and_takes_no_place(family: Family) -> None:
    async with forker_of(family) as forker:
        for _ in range(3):
            with pytest.raises(SpawnError, match=r"^cannot start 'no-such': No such file or directory$"):
                await start(family, forker, "no-such")
        assert len(family) == 1
        assert forker.is_idle


@pytest.mark.parametrize("word", ["a\0b", "\ud800"])
async def test_a_word_that_no_program_can_get_is_told(family: Family, word: str) -> None:
    async with forker_of(family) as forker:
        with pytest.raises(SpawnError, match=r"^cannot start 'echo': "):
            await start(family, forker, "echo", word)


async def test_words_that_are_no_text_and_much_environment_arrive_whole(family: Family) -> None:
    async with forker_of(family) as forker:
        env = {"LONG": "x" * 100_000, "OTHER": "y" * 100_000}
        child = await start(
            family, forker, "sh", "-c", 'printf %s "$1"; echo "${#LONG} ${#OTHER}"', "sh", "\udcff", env=env
        )
        assert await read_all(child) == b"\xff100000 100000\n"
        await child.kill()


async def test_fifty_are_born_at_once_each_with_its_own_pipes(family: Family) -> None:
    seen: dict[int, bytes] = {}

    async def call(number: int) -> None:
        child = await start(family, forker, "echo", str(number))
        seen[number] = await read_all(child)
        await until_exited(child)
        assert await child.kill() == Exit(code=0)

    async with forker_of(family) as forker:
        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(call, number)
        assert seen == {number: f"{number}\n".encode() for number in range(50)}
        assert forker.children == 0


async def test_calls_wait_for_room_in_the_socket_and_lose_nothing(family: Family) -> None:
    """A stopped forker's socket takes only a few requests of 60 KB; the others wait, and are served in order."""

    async def call(number: int) -> None:
        child = await start(family, forker, "echo", str(number), env={"LONG": "x" * 60_000})
        seen.append(int(await read_all(child)))
        await child.kill()

    seen: list[int] = []
    async with forker_of(family) as forker:
        os.kill(forker.pid, signal.SIGSTOP)
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(call, number)
            await wait_all_tasks_blocked()
            os.kill(forker.pid, signal.SIGCONT)
        assert sorted(seen) == list(range(20))


async def test_a_call_that_is_cancelled_while_it_waits_for_room_starts_nothing(family: Family) -> None:
    """Those that were sent wait for the forker's answer; those that were not are cancelled at once."""
    gone: list[ForkerGone] = []

    async def call() -> None:
        try:
            await start(family, forker, "true", env={"LONG": "x" * 60_000})
        except ForkerGone as error:
            gone.append(error)

    async with forker_of(family, answer_s=0.2) as forker:
        os.kill(forker.pid, signal.SIGSTOP)
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                for _ in range(20):
                    nursery.start_soon(call)
                await wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
        assert forker.is_gone
        assert 1 <= len(gone) < 10


async def test_a_call_that_is_cancelled_during_birth_still_gets_its_child(family: Family) -> None:
    async with forker_of(family) as forker:
        with trio.CancelScope() as scope:
            scope.cancel()
            child = await start(family, forker, "sleep", "1000")
            assert await child.kill() == Exit(signal=signal.SIGKILL)
        assert forker.children == 0


async def test_a_forker_that_talks_while_it_starts_is_not_held_up(family: Family) -> None:
    script = """sys.stderr.write("x" * 200_000); control.send(b'{"ready": true}'); control.recv(1)"""
    forker = Forker(family, program(script), name="forker")
    with trio.fail_after(20):
        await forker.ready()
    await forker.close()


async def test_a_forker_that_says_megabytes_while_it_starts_is_ready_soon(family: Family) -> None:
    """A pipe's worth at each look of a tenth of a second would take half a minute."""
    line = "x" * 79 + "\\n"
    script = f"""
for _ in range(250_000): os.write(2, b"{line}")
control.send(b'{{"ready": true}}')
control.recv(1)
"""
    forker = Forker(family, program(script), name="forker")
    with trio.fail_after(25):
        await forker.ready()
    await forker.close()


@pytest.mark.parametrize("room", [0, 1])
async def test_a_child_that_cannot_be_watched_for_want_of_descriptors_is_killed(family: Family, room: int) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with forker_of(family) as forker:
        others = set(children_of(os.getpid())) - {forker.pid}
        reserved = family.reserve("sleep", env={})
        theirs, ours = open_pipes(3)
        request = {"argv": ["sleep", "1000"], "env": reserved.env, "cwd": None, "fds": [0, 1, 2], "scratch": None}
        filled = [os.dup(0)]
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (filled[0] + 10, before[1]))
            filled += fill()
            close_all(filled[:room])
            del filled[:room]
            with pytest.raises(SpawnError, match="Too many open files"):
                await forker.start_child(reserved, "sleep", {"spawn": request}, theirs, ours)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
            close_all((*filled, *theirs, *ours))
        assert forker.is_gone
        assert forker.children == 0
        with trio.fail_after(PATIENCE_S):
            while set(children_of(os.getpid())) - others:  # noqa: ASYNC110  # nobody tells it
                await trio.sleep(0.005)


def fill() -> list[int]:
    """Copies of a descriptor until there is room for none."""
    found = []
    while True:
        try:
            found.append(os.dup(0))
        except OSError:
            return found


async def test_waiting_for_a_silent_forker_may_be_cancelled(family: Family) -> None:
    forker = Forker(family, SILENT, name="forker")
    with trio.move_on_after(0.05) as scope:
        await forker.ready()
    assert scope.cancelled_caught
    await forker.close()


async def test_any_number_of_tasks_wait_for_the_greeting(family: Family) -> None:
    forker = Forker(family, LAUNCHER, name="launcher")
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(forker.ready)
    await forker.close()


async def test_a_forker_that_is_no_program_is_told(family: Family) -> None:
    with pytest.raises(SpawnError, match=r"^cannot start '/no/such': No such file or directory$"):
        Forker(family, ["/no/such"], name="forker")
    assert len(family) == 0


@pytest.mark.parametrize("program", ["true", "yes"])
async def test_a_child_is_reaped_when_it_has_been_killed(family: Family, program: str) -> None:
    async with forker_of(family) as forker:
        child = await start(family, forker, program)
        await child.kill()
        assert children_of(forker.pid) == []


async def test_a_child_that_is_reaped_without_waiting_is_gone_soon(family: Family) -> None:
    async with forker_of(family) as forker:
        child = await start(family, forker, "sh", "-c", "exit 7")
        await until_exited(child)
        assert child.reap() == Exit(code=7)
        with trio.fail_after(PATIENCE_S):
            while children_of(forker.pid):  # noqa: ASYNC110  # nobody tells it
                await trio.sleep(0.005)


async def test_hundreds_of_children_leave_nothing(family: Family) -> None:
    async with forker_of(family) as forker:
        before = {entry.name for entry in Path("/proc/self/fd").iterdir()}
        theirs = {entry.name for entry in Path(f"/proc/{forker.pid}/fd").iterdir()}
        for _ in range(250):
            child = await start(family, forker, "/bin/true")
            await child.exited()
            await child.kill()
        assert {entry.name for entry in Path("/proc/self/fd").iterdir()} == before
        assert {entry.name for entry in Path(f"/proc/{forker.pid}/fd").iterdir()} == theirs
        assert children_of(forker.pid) == []
