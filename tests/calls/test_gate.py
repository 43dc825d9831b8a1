"""Places shared fairly between channels and their agents."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tooldispatchd.calls.gate import Gate

PLACES = 2


def test_an_agent_with_many_items_delays_anothers_first_by_one_turn() -> None:
    gate: Gate[str] = Gate(1)
    assert gate.enter("x", "a", "a0")
    for item in ("a1", "a2", "a3"):
        assert not gate.enter("x", "a", item)
    assert not gate.enter("x", "b", "b1")
    assert [gate.leave() for _ in range(5)] == ["a1", "b1", "a2", "a3", None]


def test_a_channel_with_many_agents_delays_anothers_first_by_one_turn() -> None:
    gate: Gate[str] = Gate(1)
    assert gate.enter("x", "a", "a0")
    for agent in ("a", "b", "c"):
        assert not gate.enter("x", agent, f"{agent}1")
    assert not gate.enter("y", "d", "d1")
    assert [gate.leave() for _ in range(5)] == ["a1", "d1", "b1", "c1", None]


def test_an_item_that_waits_can_leave_and_one_that_does_not_cannot() -> None:
    gate: Gate[str] = Gate(1)
    gate.enter("x", "a", "inside")
    gate.enter("x", "b", "waiting")
    gate.withdraw("x", "b", "waiting")
    assert gate.leave() is None
    with pytest.raises(KeyError):
        gate.withdraw("x", "b", "waiting")


class Gates(RuleBasedStateMachine):
    """No place is lost or doubled, each owner's order is kept, and nobody waits while a place is free."""

    def __init__(self) -> None:
        super().__init__()
        self.gate: Gate[tuple[int, int]] = Gate(PLACES)
        self.inside: set[tuple[int, int]] = set()
        self.waiting: list[tuple[int, int]] = []
        self.next = 0

    @rule(owner=st.integers(0, 2))
    def enter(self, owner: int) -> None:
        self.next += 1
        item = (owner, self.next)
        if self.gate.enter(owner % 2, owner, item):
            self.inside.add(item)
        else:
            self.waiting.append(item)

    @precondition(lambda self: self.inside)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        self.inside.remove(data.draw(st.sampled_from(sorted(self.inside))))
        item = self.gate.leave()
        assert (item is None) == (not self.waiting)
        if item is not None:
            assert item == next(other for other in self.waiting if other[0] == item[0])
            self.waiting.remove(item)
            self.inside.add(item)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        item = data.draw(st.sampled_from(self.waiting))
        self.waiting.remove(item)
        self.gate.withdraw(item[0] % 2, item[0], item)

    @invariant()
    def places_are_used(self) -> None:
        assert len(self.inside) <= PLACES
        assert not self.waiting or len(self.inside) == PLACES


TestGates = Gates.TestCase
TestGates.settings = settings(max_examples=60, deadline=None)
