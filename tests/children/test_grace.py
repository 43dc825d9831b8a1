import trio
from trio.testing import MockClock

from tooldispatchd.children.grace import Grace


async def time_given(grace: Grace, stop_s: float) -> float:
    """How long a tool that does not end has."""
    began = trio.current_time()
    with grace.given(stop_s):
        await trio.sleep(3600)
    return trio.current_time() - began


async def test_without_being_opened_there_is_no_time(autojump_clock: MockClock) -> None:
    assert await time_given(Grace(), 5) == 0


async def test_a_tool_has_its_own_time_and_no_more(autojump_clock: MockClock) -> None:
    grace = Grace()
    grace.open()
    assert await time_given(grace, 5) == 5


async def test_what_ends_in_time_is_waited_for_no_longer(autojump_clock: MockClock) -> None:
    grace = Grace()
    grace.open()
    with grace.given(5):
        await trio.sleep(2)
    assert trio.current_time() == 2


async def test_the_time_is_not_cut_by_the_scope_that_was_cancelled_around_it(autojump_clock: MockClock) -> None:
    grace = Grace()
    grace.open()
    with trio.CancelScope() as scope:
        scope.cancel()
        assert await time_given(grace, 5) == 5


async def test_a_bound_that_was_said_before_holds(autojump_clock: MockClock) -> None:
    grace = Grace()
    grace.open()
    grace.within(2)
    assert await time_given(grace, 5) == 2


async def test_a_bound_that_comes_while_the_time_runs_cuts_it(autojump_clock: MockClock) -> None:
    grace = Grace()
    grace.open()
    given: list[float] = []

    async def give() -> None:
        given.append(await time_given(grace, 5))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(give)
        await trio.sleep(1)
        grace.within(0)
    assert given == [1]


async def test_no_bound_makes_the_time_longer(autojump_clock: MockClock) -> None:
    grace = Grace()
    grace.open()
    grace.within(1)
    grace.within(10)
    assert await time_given(grace, 5) == 1
