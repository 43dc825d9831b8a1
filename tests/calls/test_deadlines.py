"""Deadlines in one heap."""

from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.calls.deadlines import Deadlines


def test_what_is_due_comes_in_order_and_once() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for when, item in ((3.0, "c"), (1.0, "a"), (2.0, "b")):
        deadlines.add(when, item)
    assert deadlines.next == 1.0
    assert list(deadlines.due(2.0)) == ["a", "b"]
    assert list(deadlines.due(2.0)) == []
    assert deadlines.next == 3.0


def test_a_dropped_entry_is_never_due_and_dropping_it_again_is_nothing() -> None:
    deadlines: Deadlines[str] = Deadlines()
    entry = deadlines.add(1.0, "a")
    deadlines.drop(entry)
    deadlines.drop(entry)
    assert deadlines.next is None
    assert list(deadlines.due(5.0)) == []
    assert len(deadlines) == 0


def test_an_item_that_another_one_drops_is_not_due_any_more() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.add(1.0, "first")
    second = deadlines.add(2.0, "second")
    taken = []
    for item in deadlines.due(5.0):
        taken.append(item)
        deadlines.drop(second)
    assert taken == ["first"]


def test_entries_that_are_dropped_do_not_pile_up_behind_one_that_waits() -> None:
    deadlines: Deadlines[int] = Deadlines()
    deadlines.add(0.0, -1)
    for number in range(100_000):
        deadlines.drop(deadlines.add(60.0 + number, number))
    assert len(deadlines) == 1
    assert len(deadlines._heap) < 5_000


@given(st.lists(st.tuples(st.floats(0, 100), st.booleans())), st.floats(0, 100))
def test_exactly_what_was_added_and_not_dropped_is_due(entries: list[tuple[float, bool]], now: float) -> None:
    deadlines: Deadlines[int] = Deadlines()
    for number, (when, dropped) in enumerate(entries):
        entry = deadlines.add(when, number)
        if dropped:
            deadlines.drop(entry)
    kept = [number for number, (when, dropped) in enumerate(entries) if not dropped and when <= now]
    assert sorted(deadlines.due(now)) == kept
    assert len(deadlines) == sum(1 for when, dropped in entries if not dropped and when > now)
