"""One forker that dies, does not answer or talks nonsense: what becomes of its calls and its children."""

import os
import signal
from collections.abc import AsyncIterator

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.children.forkers import LAUNCHER, forker_of, program, start, until_exited
from tests.children.tended import tended_family
from tests.processes import until_gone
from tooldispatchd.children.control import ForkerGone
from tooldispatchd.children.family import Family, open_family
from tooldispatchd.children.forker import Forker
from tooldispatchd.children.spawn import Exit, SpawnError


@pytest.fixture
async def family(nothing_left: None) -> AsyncIterator[Family]:
    async with tended_family() as family:
        yield family


async def test_a_killed_forker_is_found_by_the_next_call(family: Family) -> None:
    async with forker_of(family) as forker:
        os.kill(forker.pid, signal.SIGKILL)
        with pytest.raises(ForkerGone, match="it ended"):
            await start(family, forker, "true")
        assert forker.is_gone
        with pytest.raises(ForkerGone, match="it ended"):
            await start(family, forker, "true")


async def test_calls_that_wait_are_told_when_the_forker_is_killed(family: Family) -> None:
    async def call() -> None:
        with pytest.raises(ForkerGone, match="it ended"):
            await start(family, forker, "sleep", "1000")

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
            await start(family, forker, "true")
        await until_gone(forker.pid)


async def test_children_of_a_dead_forker_live_on_and_are_reaped_as_ours(family: Family) -> None:
    async with forker_of(family) as forker:
        child = await start(family, forker, "sh", "-c", "cat; exit 7")
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
        children = [await start(family, forker, "sleep", "1000") for _ in range(5)]
        os.kill(forker.pid, signal.SIGKILL)
        ended = [await child.kill() for child in children]
        assert ended == [Exit(signal=signal.SIGKILL)] * 5


async def test_children_that_ended_before_their_forker_died_are_told(family: Family) -> None:
    async with forker_of(family) as forker:
        child = await start(family, forker, "sh", "-c", "exit 7")
        await until_exited(child)
        forker.end()
        assert await child.kill() in (Exit(code=7), Exit(signal=signal.SIGKILL))
        await until_gone(child.pid)


async def test_a_child_that_was_stopped_with_its_forker_is_killed(family: Family) -> None:
    async with forker_of(family, answer_s=0.1) as forker:
        child = await start(family, forker, "sleep", "1000")
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
        await start(family, forker, "true")
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
        await start(family, forker, "true")
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


async def test_a_retired_forker_ends_with_its_last_child(family: Family) -> None:
    async with forker_of(family) as forker:
        child = await start(family, forker, "cat")
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
        child = await start(family, forker, "sh", "-c", "trap '' TERM; sleep 1000")
    assert await child.kill() == Exit(signal=signal.SIGKILL)
    await until_gone(child.pid, forker.pid)
    await forker.close()


async def test_a_forker_that_died_unseen_is_found_when_its_children_are_to_be_reaped(family: Family) -> None:
    async with forker_of(family) as forker:
        child = await start(family, forker, "true")
        await until_exited(child)
        os.kill(forker.pid, signal.SIGKILL)
        await until_gone(forker.pid)
        await child.kill()
        with trio.fail_after(20):
            while not forker.is_gone or len(family):
                await trio.sleep(0.005)
