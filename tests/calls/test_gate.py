"""Places shared fairly between channels and their agents."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tooldispatchd.calls.gate import Gate

# How many places one agent may hold of how many, and one channel with all its agents.
SHARES = [(1, 1, 1), (2, 1, 2), (3, 1, 2), (4, 2, 3), (8, 6, 7), (16, 12, 14), (64, 48, 56)]


def enter(gate: Gate[str], channel: str, owner: str, count: int) -> int:
    """How many of so many items get in."""
    return sum(gate.enter(channel, owner, f"{owner}{number}") for number in range(count))


@pytest.mark.parametrize(("places", "agent", "channel"), SHARES)
def test_neither_an_agent_nor_a_channel_gets_the_last_places(places: int, agent: int, channel: int) -> None:
    gate: Gate[str] = Gate(places)
    assert enter(gate, "x", "a", 100) == agent
    others = sum(enter(gate, "x", f"other{number}", 2) for number in range(100))
    assert agent + others == channel
    newcomers = sum(enter(gate, f"channel{number}", "b", 2) for number in range(100))
    assert channel + newcomers == places


def test_an_agent_with_many_items_delays_anothers_first_by_one_turn() -> None:
    gate: Gate[str] = Gate(1)
    assert gate.enter("x", "a", "a0")
    for item in ("a1", "a2", "a3"):
        assert not gate.enter("x", "a", item)
    assert not gate.enter("x", "b", "b1")
    assert [gate.leave("x", owner) for owner in "aabaa"] == ["a1", "b1", "a2", "a3", None]


def test_a_channel_with_many_agents_delays_anothers_first_by_one_turn() -> None:
    gate: Gate[str] = Gate(1)
    assert gate.enter("x", "a", "a0")
    for agent in ("a", "b", "c"):
        assert not gate.enter("x", agent, f"{agent}1")
    assert not gate.enter("y", "d", "d1")
    leavers = [("x", "a"), ("x", "a"), ("y", "d"), ("x", "b"), ("x", "c")]
    assert [gate.leave(*leaver) for leaver in leavers] == ["a1", "d1", "b1", "c1", None]


def test_a_place_that_comes_back_goes_to_who_holds_the_fewest() -> None:
    gate: Gate[str] = Gate(8)
    assert enter(gate, "x", "a", 9) == 6
    assert enter(gate, "y", "b", 9) == 1
    # One is kept for a channel and one for an agent that hold none, until the others have given back enough.
    given = [gate.leave("x", "a") for _ in range(4)]
    assert given == [None, "b1", "b2", "a6"]


def test_an_agent_that_keeps_all_that_it_can_get_holds_no_other_agent_of_its_channel_up() -> None:
    gate: Gate[str] = Gate(8)
    enter(gate, "x", "a", 9)
    for _ in range(3):
        assert gate.enter("x", "b", "b1")
        assert gate.leave("x", "b") is None


def test_an_item_that_waits_can_leave_and_one_that_does_not_cannot() -> None:
    gate: Gate[str] = Gate(1)
    gate.enter("x", "a", "inside")
    gate.enter("x", "b", "waiting")
    gate.withdraw("x", "b", "waiting")
    assert gate.leave("x", "a") is None
    with pytest.raises(KeyError):
        gate.withdraw("x", "b", "waiting")


Item = tuple[int, int, int]  # channel, owner, number


class Gates(RuleBasedStateMachine):
    """No place is lost or doubled, each owner's order is kept, and nobody waits for a place that is there for it."""

    def __init__(self) -> None:
        super().__init__()
        self.inside: set[Item] = set()
        self.waiting: list[Item] = []
        self.next = 0

    @initialize(places=st.integers(1, 9))
    def open(self, places: int) -> None:
        self.places = places
        self.gate: Gate[Item] = Gate(places)

    @rule(channel=st.integers(0, 2), owner=st.integers(0, 2), count=st.integers(1, 4))
    def enter(self, channel: int, owner: int, count: int) -> None:
        for _ in range(count):
            self.next += 1
            item = (channel, owner, self.next)
            has_room = self.may_enter(item)
            assert self.gate.enter(channel, owner, item) == has_room
            if has_room:
                self.inside.add(item)
            else:
                self.waiting.append(item)

    @precondition(lambda self: self.inside)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        left = data.draw(st.sampled_from(sorted(self.inside)))
        self.inside.remove(left)
        able = {item: self.claim(item) for item in self.waiting if self.may_enter(item)}
        item = self.gate.leave(left[0], left[1])
        assert (item is None) == (not able)
        if item is not None:
            assert able[item][:2] == min(able.values())[:2]
            assert able[item] == min(able[other] for other in able if other[0] == item[0])
            assert item == next(other for other in self.waiting if other[:2] == item[:2])
            self.waiting.remove(item)
            self.inside.add(item)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        item = data.draw(st.sampled_from(self.waiting))
        self.waiting.remove(item)
        self.gate.withdraw(item[0], item[1], item)

    @invariant()
    def places_are_used(self) -> None:
        assert len(self.inside) <= self.places
        assert not any(self.may_enter(item) for item in self.waiting)

    @rule()
    def empty(self) -> None:
        while self.inside:
            channel, owner, _ = self.inside.pop()
            following = self.gate.leave(channel, owner)
            if following is not None:
                self.inside.add(following)
                self.waiting.remove(following)
        assert not self.waiting
        assert (self.gate._free, self.gate._groups) == (self.places, {})

    def claim(self, item: Item) -> tuple[int, int, int]:
        """Less for who comes earlier: how many free places are not for it, how many its channel holds, and itself."""
        in_channel = sum(other[0] == item[0] for other in self.inside)
        own = sum(other[:2] == item[:2] for other in self.inside)
        kept = max(self.places // 4, min(self.places - 1, 2))
        return (0 if in_channel == 0 else kept // 2 if own == 0 else kept, in_channel, own)

    def may_enter(self, item: Item) -> bool:
        """Whether there is a place that is not kept for somebody else."""
        return self.places - len(self.inside) > self.claim(item)[0]


TestGates = Gates.TestCase
TestGates.settings = settings(max_examples=100, deadline=None)
