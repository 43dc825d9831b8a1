import math

import pytest
import trio
import trio.testing

from tooldispatchd.providers.mcp.http.tasks import Tasks
from tooldispatchd.providers.mcp.link import Bell, LinkError


async def test_a_ring_before_the_wait_is_not_lost_and_counts_once(autojump_clock: trio.testing.MockClock) -> None:
    bell = Bell()
    bell.ring()
    bell.ring()
    await bell.wait(math.inf)
    assert trio.current_time() == 0
    await bell.wait(7)
    assert trio.current_time() == 7


async def test_a_ring_ends_the_wait(autojump_clock: trio.testing.MockClock) -> None:
    bell = Bell()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bell.wait, math.inf)
        await trio.sleep(1)
        bell.ring()
    assert trio.current_time() == 1


async def test_the_first_loss_is_what_every_wait_raises() -> None:
    bell = Bell()
    before = bell.is_lost
    bell.lose("it left", {"http_status": 404})
    bell.lose("later")
    assert (before, bell.is_lost) == (False, True)
    for _ in range(2):
        with pytest.raises(LinkError) as caught:
            await bell.wait(math.inf)
        assert (caught.value.why, caught.value.extras) == ("it left", {"http_status": 404})


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
