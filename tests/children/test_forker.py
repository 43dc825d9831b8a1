"""One forker: what becomes of calls and children whatever becomes of it. Its program is the launcher."""

import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.processes import until_gone
from tooldispatchd.children.control import ForkerGone
from tooldispatchd.children.descriptors import close_all
from tooldispatchd.children.family import Family, open_family
from tooldispatchd.children.forker import Forker
from tooldispatchd.children.launchers import START
from tooldispatchd.children.orphans import TICK_S
from tooldispatchd.children.spawn import Child, Exit, SpawnError, open_pipes
from tooldispatchd.forked.policy import Policy

LAUNCHER = [sys.executable, "-I", "-S", str(START), "launcher", Policy().to_json()]
# The guardian's pipe and table, orphans' and trio's own are open before the first forker is.
SILENT = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(1000)"]


def program(script: str) -> list[str]:
    """A forker that speaks as the script does; `control` is its socket."""
    return [sys.executable, "-I", "-S", "-c", f"import os, socket, sys\ncontrol = socket.socket(fileno=3)\n{script}"]


@pytest.fixture
async def family(nothing_left: None) -> AsyncIterator[Family]:
    """A family that takes orphans in, as the daemon's does."""
    async with open_family() as family, trio.open_nursery() as services:
        services.start_soon(partial(family.end_orphans, tick_s=TICK_S))
        await wait_all_tasks_blocked()
        yield family
        services.cancel_scope.cancel()


@asynccontextmanager
async def forker_of(family: Family, *, answer_s: float = 5.0) -> AsyncIterator[Forker]:
    forker = Forker(family, LAUNCHER, name="launcher", answer_s=answer_s)
    try:
        await forker.ready()
        yield forker
    finally:
        await forker.close()  # noqa: ASYNC102  # it shields and bounds itself


async def bear(family: Family, forker: Forker, *argv: str, env: Mapping[str, str] = {}) -> Child:
    birth = family.expect(argv[0], env=env)
    theirs, ours = open_pipes(3)
    request = {"argv": argv, "env": birth.env, "cwd": None, "fds": [0, 1, 2], "scratch": None}
    try:
        return await forker.bear(birth, argv[0], {"spawn": request}, theirs, ours)
    except BaseException:
        close_all(ours)
        raise
    finally:
        close_all(theirs)


async def read_all(child: Child) -> bytes:
    whole = b""
    with trio.fail_after(20):
        while True:
            await trio.lowlevel.wait_readable(child.stdout)
            if not (chunk := os.read(child.stdout, 65536)):
                return whole
            whole += chunk


async def until_exited(child: Child) -> None:
    with trio.fail_after(20):
        await child.exited()


async def test_a_child_reads_writes_and_ends(family: Family) -> None:
    async with forker_of(family) as forker:
        child = await bear(family, forker, "cat")
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
        child = await bear(family, forker, "sh", "-c", script)
        await until_exited(child)
        assert await child.kill() == exit_


async def test_how_a_child_ended_is_asked_of_the_forker_where_proc_does_not_tell(family: Family) -> None:
    async with forker_of(family) as forker:
        child = await bear(family, forker, "sh", "-c", "exit 7")
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
        child = await bear(family, forker, sys.executable, "-I", "-S", "-c", script)
        await until_exited(child)
        assert await child.kill() == Exit(code=3)


async def test_a_running_child_is_killed_with_its_group(family: Family) -> None:
    async with forker_of(family) as forker:
        child = await bear(family, forker, "sh", "-c", "sleep 1000 & echo $!; exec cat")
        with trio.fail_after(20):
            await trio.lowlevel.wait_readable(child.stdout)
        left = int(os.read(child.stdout, 100))
        assert await child.kill() == Exit(signal=signal.SIGKILL)
        await until_gone(left)


async def test_a_child_is_asked_to_stop_first(family: Family) -> None:
    async with forker_of(family) as forker:
        child = await bear(family, forker, "sh", "-c", "cat; exit 5")
        assert await child.stop(polite_s=20) == Exit(code=5)


async def test_any_number_of_tasks_kill_a_child_at_once(family: Family) -> None:
    async with forker_of(family) as forker:
        child = await bear(family, forker, "sleep", "1000")
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
                await bear(family, forker, "no-such")
        assert len(family) == 1
        assert forker.is_idle


@pytest.mark.parametrize("word", ["a\0b", "\ud800"])
async def test_a_word_that_no_program_can_get_is_told(family: Family, word: str) -> None:
    async with forker_of(family) as forker:
        with pytest.raises(SpawnError, match=r"^cannot start 'echo': "):
            await bear(family, forker, "echo", word)


async def test_words_that_are_no_text_and_much_environment_arrive_whole(family: Family) -> None:
    async with forker_of(family) as forker:
        env = {"LONG": "x" * 100_000, "OTHER": "y" * 100_000}
        child = await bear(
            family, forker, "sh", "-c", 'printf %s "$1"; echo "${#LONG} ${#OTHER}"', "sh", "\udcff", env=env
        )
        assert await read_all(child) == b"\xff100000 100000\n"
        await child.kill()


async def test_fifty_are_born_at_once_each_with_its_own_pipes(family: Family) -> None:
    seen: dict[int, bytes] = {}

    async def call(number: int) -> None:
        child = await bear(family, forker, "echo", str(number))
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
        child = await bear(family, forker, "echo", str(number), env={"LONG": "x" * 60_000})
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
            await bear(family, forker, "true", env={"LONG": "x" * 60_000})
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
            child = await bear(family, forker, "sleep", "1000")
            assert await child.kill() == Exit(signal=signal.SIGKILL)
        assert forker.children == 0


async def test_a_killed_forker_is_found_by_the_next_call(family: Family) -> None:
    async with forker_of(family) as forker:
        os.kill(forker.pid, signal.SIGKILL)
        with pytest.raises(ForkerGone, match="it ended"):
            await bear(family, forker, "true")
        assert forker.is_gone
        with pytest.raises(ForkerGone, match="it ended"):
            await bear(family, forker, "true")


async def test_calls_that_wait_are_told_when_the_forker_is_killed(family: Family) -> None:
    async def call() -> None:
        with pytest.raises(ForkerGone, match="it ended"):
            await bear(family, forker, "sleep", "1000")

    async with forker_of(family) as forker:
        os.kill(forker.pid, signal.SIGSTOP)
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(call)
            await wait_all_tasks_blocked()
            os.kill(forker.pid, signal.SIGKILL)
        assert len(family) == 1


async def test_a_forker_that_does_not_answer_is_killed(family: Family) -> None:
    async with forker_of(family, answer_s=0.1) as forker:
        os.kill(forker.pid, signal.SIGSTOP)
        with pytest.raises(ForkerGone, match=r"it did not answer within 0\.1 s"):
            await bear(family, forker, "true")
        await until_gone(forker.pid)


async def test_children_of_a_dead_forker_live_on_and_are_reaped_as_ours(family: Family) -> None:
    async with forker_of(family) as forker:
        child = await bear(family, forker, "sh", "-c", "cat; exit 7")
        os.kill(forker.pid, signal.SIGKILL)
        await until_gone(forker.pid)
        # Something of another child's ends, and orphans are looked at.
        await family.spawn(["true"]).kill()
        child.close_stdin()
        await until_exited(child)
        assert await forker.status(child.pid, child.pidfd) == Exit(code=7)
        forker.children += 1
        await child.kill()


async def test_children_of_a_dead_forker_are_killed_by_who_ends_them(family: Family) -> None:
    async with forker_of(family) as forker:
        children = [await bear(family, forker, "sleep", "1000") for _ in range(5)]
        os.kill(forker.pid, signal.SIGKILL)
        ended = [await child.kill() for child in children]
        assert ended == [Exit(signal=signal.SIGKILL)] * 5


async def test_children_that_ended_before_their_forker_died_are_told(family: Family) -> None:
    async with forker_of(family) as forker:
        child = await bear(family, forker, "sh", "-c", "exit 7")
        await until_exited(child)
        forker.end()
        assert await child.kill() in (Exit(code=7), Exit(signal=signal.SIGKILL))
        await until_gone(child.pid)


async def test_a_child_that_was_stopped_with_its_forker_is_killed(family: Family) -> None:
    async with forker_of(family, answer_s=0.1) as forker:
        child = await bear(family, forker, "sleep", "1000")
        for pid in (forker.pid, child.pid):
            os.kill(pid, signal.SIGSTOP)
        assert await child.kill() == Exit(signal=signal.SIGKILL)


async def test_a_child_that_was_born_unheard_is_ended_as_an_orphan(family: Family) -> None:
    """It is born, but its forker dies before the daemon reads so; nobody knows its number."""
    script = """
control.send(b'{"ready": true}')
control.recvmsg(65536, 1024)
pid = os.fork()
if pid == 0:
    os.setpgid(0, 0)
    control.close()
    import signal
    while True:
        signal.pause()
print(pid, file=sys.stderr)
os.kill(os.getpid(), 9)
"""
    forker = Forker(family, program(script), name="forker")
    await forker.ready()
    with pytest.raises(ForkerGone) as gone:
        await bear(family, forker, "true")
    await until_gone(int(gone.value.why.partition("(")[2].rstrip(")")))
    await forker.close()


@pytest.mark.parametrize("pid", ["1", "os.getpid()", "os.getppid()", "999999999", "0", "-1"])
async def test_a_process_that_is_no_child_of_the_forker_is_left_alone(family: Family, pid: str) -> None:
    script = f"""
control.send(b'{{"ready": true}}')
control.recvmsg(65536, 1024)
control.send(b'{{"pid": %d}}' % {pid})
control.recv(1)
"""
    forker = Forker(family, program(script), name="forker")
    await forker.ready()
    with pytest.raises(SpawnError, match=r"^cannot start 'true': "):
        await bear(family, forker, "true")
    await forker.close()


@pytest.mark.parametrize("said", ["{", '{"pid": "one"}', "\\xff", "[" * 40_000])
async def test_a_forker_that_talks_nonsense_is_ended(family: Family, said: str) -> None:
    forker = Forker(family, program(f"control.send(b'{said}'); control.recv(1)"), name="forker")
    with pytest.raises(ForkerGone, match="it said something that is no reply"):
        await forker.ready()
    await forker.close()


async def test_a_forker_that_cannot_serve_is_told_in_its_own_words(family: Family) -> None:
    forker = Forker(family, program("""control.send(b'{"error": "no such user"}')"""), name="forker")
    with pytest.raises(ForkerGone, match=r"^no such user$"):
        await forker.ready()
    await forker.close()


async def test_a_forker_that_dies_at_its_start_is_told_with_its_last_words(family: Family) -> None:
    forker = Forker(family, program("sys.exit('no module named x')"), name="forker")
    with pytest.raises(ForkerGone, match=r"^it ended \(no module named x\)$"):
        await forker.ready()
    await forker.close()


async def test_a_forker_that_talks_while_it_starts_is_not_held_up(family: Family) -> None:
    script = """sys.stderr.write("x" * 200_000); control.send(b'{"ready": true}'); control.recv(1)"""
    forker = Forker(family, program(script), name="forker")
    with trio.fail_after(20):
        await forker.ready()
    await forker.close()


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


async def test_a_retired_forker_ends_with_its_last_child(family: Family) -> None:
    async with forker_of(family) as forker:
        child = await bear(family, forker, "cat")
        forker.retire()
        before = forker.is_usable, forker.is_gone
        child.close_stdin()
        await until_exited(child)
        assert await child.kill() == Exit(code=0)
        assert before == (False, False)
        assert forker.is_gone
        await until_gone(forker.pid)


async def test_the_end_of_a_family_is_the_end_of_forkers_and_their_children(nothing_left: None) -> None:
    async with open_family() as family:
        forker = Forker(family, LAUNCHER, name="launcher")
        await forker.ready()
        child = await bear(family, forker, "sh", "-c", "trap '' TERM; sleep 1000")
    assert await child.kill() == Exit(signal=signal.SIGKILL)
    await until_gone(child.pid, forker.pid)
    await forker.close()


async def test_children_that_ended_are_reaped_soon_though_nothing_else_is_asked(family: Family) -> None:
    async with forker_of(family) as forker:
        child = await bear(family, forker, "true")
        await until_exited(child)
        await child.kill()
        with trio.fail_after(20):
            while children_of(forker.pid):
                await trio.sleep(0.005)


async def test_a_forker_that_died_unseen_is_found_when_its_children_are_to_be_reaped(family: Family) -> None:
    async with forker_of(family) as forker:
        child = await bear(family, forker, "true")
        await until_exited(child)
        os.kill(forker.pid, signal.SIGKILL)
        await until_gone(forker.pid)
        await child.kill()
        with trio.fail_after(20):
            while not forker.is_gone or len(family):
                await trio.sleep(0.005)


async def test_a_thousand_children_leave_nothing(family: Family) -> None:
    async with forker_of(family) as forker:
        before = {entry.name for entry in Path("/proc/self/fd").iterdir()}
        theirs = {entry.name for entry in Path(f"/proc/{forker.pid}/fd").iterdir()}
        for _ in range(1000):
            child = await bear(family, forker, "/bin/true")
            await child.exited()
            await child.kill()
        assert {entry.name for entry in Path("/proc/self/fd").iterdir()} == before
        assert {entry.name for entry in Path(f"/proc/{forker.pid}/fd").iterdir()} == theirs
        with trio.fail_after(20):
            while children_of(forker.pid):
                await trio.sleep(0.005)


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
