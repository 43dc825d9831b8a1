"""Deadlines of one length, one of which stands for all in the heap."""

from collections.abc import Callable, Sized
from itertools import pairwise

import trio
from trio.testing import MockClock

from tests.front.test_front import Incidents
from tooldispatchd.front.timer import EXPIRIES, Deferred, Timer


async def told_after(timer: Timer, seconds: float) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timer.run)
        await trio.sleep(seconds)
        nursery.cancel_scope.cancel()


def teller(told: list[tuple[str, float]], name: str) -> Callable[[], None]:
    return lambda: told.append((name, trio.current_time()))


async def test_each_expires_at_its_time_and_not_where_it_was_dropped(autojump_clock: MockClock) -> None:
    timer, told = Timer(Incidents()), list[tuple[str, float]]()
    line, began = timer.line(1.0), trio.current_time()
    items = {name: Deferred(teller(told, name)) for name in "abc"}
    assert all(line.add(item, began + 1.0 + 0.1 * number) for number, item in enumerate(items.values()))
    line.drop(items["b"])
    assert len(timer) == 2
    await told_after(timer, 5.0)
    assert [(name, round(when - began, 3)) for name, when in told] == [("a", 1.0), ("c", 1.2)]
    assert len(timer) == 0


async def test_one_that_comes_before_the_last_is_no_deadline_of_the_line(autojump_clock: MockClock) -> None:
    timer, told = Timer(Incidents()), list[tuple[str, float]]()
    line, now = timer.line(1.0), trio.current_time()
    assert line.add(Deferred(teller(told, "late")), now + 1.0)
    assert not line.add(Deferred(teller(told, "soon")), now + 0.5)
    await told_after(timer, 5.0)
    assert [name for name, _ in told] == ["late"]


async def test_what_expires_may_set_the_next_and_a_defect_of_one_ends_no_other(autojump_clock: MockClock) -> None:
    timer, told = Timer(incidents := Incidents()), list[tuple[str, float]]()
    line, began = timer.line(1.0), trio.current_time()

    def again() -> None:
        told.append(("first", trio.current_time()))
        line.add(Deferred(teller(told, "again")), trio.current_time() + 1.0)
        raise RuntimeError("a defect")

    line.add(Deferred(again), began + 1.0)
    line.add(Deferred(teller(told, "second")), began + 1.0)
    await told_after(timer, 5.0)
    assert [(name, round(when - began, 3)) for name, when in told] == [("first", 1.0), ("second", 1.0), ("again", 2.0)]
    assert len(timer) == 0
    assert incidents.events == ["deadline failed: a defect"]


class Steps(trio.abc.Instrument):
    """How much was told after each step of any task: in one turn of the loop trio runs them in any order."""

    def __init__(self, told: Sized) -> None:
        self._now = told
        self.told = [0]

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.told.append(len(self._now))


async def test_many_that_are_due_at_once_let_others_have_their_turns() -> None:
    timer, told = Timer(Incidents()), list[tuple[str, float]]()
    steps = Steps(told)
    line, now = timer.line(1.0), trio.current_time()
    for _ in range(200):
        line.add(Deferred(teller(told, "line")), now)
        timer.add(now, Deferred(teller(told, "heap")))
    trio.lowlevel.add_instrument(steps)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timer.run)
        while len(told) < 400:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert max(after - before for before, after in pairwise(steps.told)) <= 2 * EXPIRIES


async def test_an_expiring_one_may_drop_another_that_is_due_and_set_itself_anew(autojump_clock: MockClock) -> None:
    timer, told = Timer(Incidents()), list[tuple[str, float]]()
    line, began = timer.line(1.0), trio.current_time()
    second = Deferred(teller(told, "second"))

    class First:
        def expire(self) -> None:
            told.append(("first", trio.current_time()))
            if len(told) == 1:
                line.drop(second)
                line.add(self, trio.current_time() + 1.0)

    line.add(First(), began + 1.0)
    line.add(second, began + 1.0)
    await told_after(timer, 5.0)
    assert [(name, round(when - began, 3)) for name, when in told] == [("first", 1.0), ("first", 2.0)]
    assert len(timer) == 0
