import pytest
import trio
import trio.testing

from tooldispatchd.providers.mcp.tasks import Tasks


async def test_cancelling_ends_all_and_starts_none(autojump_clock: trio.testing.MockClock) -> None:
    ended = 0

    async def work() -> None:
        nonlocal ended
        try:
            await trio.sleep_forever()
        finally:
            ended += 1

    async with trio.open_nursery() as nursery:
        tasks = Tasks(nursery)
        own = trio.CancelScope()
        tasks.start(work)
        tasks.start(work, own)
        await trio.testing.wait_all_tasks_blocked()
        own.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert ended == 1
        tasks.cancel()
        tasks.start(work)
        await tasks.ended()
        assert ended == 2
        assert tasks.is_over
        assert not nursery.child_tasks


async def test_without_a_task_nothing_is_waited_for() -> None:
    async with trio.open_nursery() as nursery:
        tasks = Tasks(nursery)
        tasks.cancel()
        await tasks.ended()


async def test_a_defect_in_a_task_is_the_nursery_s() -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    with pytest.RaisesGroup(ZeroDivisionError):
        async with trio.open_nursery() as nursery:
            Tasks(nursery).start(fail)
