"""Places shared fairly between channels and their agents; rooms to wait in, rates, priorities, readers and writers."""

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.examples import examples
from tooldispatchd.calls.gate import UNBOUNDED, Gate, GateVerdict, Places, Priority, kept_of
from tooldispatchd.calls.rate import Rate

IN, WAIT, FULL, LIMITED = GateVerdict
# How many places one agent may hold of how many, and one channel with all its agents.
SHARES = [(1, 1, 1), (2, 1, 2), (3, 1, 2), (4, 2, 3), (8, 6, 7), (16, 12, 14), (64, 48, 56)]


def shared(places: int) -> Gate[str]:
    """A gate that keeps some of its places."""
    return Gate(places, kept=kept_of(places))


def enter(gate: Gate[str], channel: str, owner: str, count: int) -> int:
    """How many of so many items get in."""
    return sum(gate.enter(f"{owner}{number}", (channel, owner)) is IN for number in range(count))


@pytest.mark.parametrize(("places", "agent", "channel"), SHARES)
def test_neither_an_agent_nor_a_channel_gets_the_last_places(places: int, agent: int, channel: int) -> None:
    gate = shared(places)
    assert enter(gate, "x", "a", 100) == agent
    others = sum(enter(gate, "x", f"other{number}-", 2) for number in range(100))
    assert agent + others == channel
    newcomers = sum(enter(gate, f"channel{number}", f"new{number}-", 2) for number in range(100))
    assert channel + newcomers == places


def test_a_gate_that_keeps_none_gives_all_its_places_to_one_agent() -> None:
    assert enter(Gate(3), "x", "a", 9) == 3


def test_an_agent_with_many_items_delays_anothers_first_by_one_turn() -> None:
    gate: Gate[str] = Gate(1)
    assert enter(gate, "x", "a", 4) == 1
    assert enter(gate, "x", "b", 1) == 0
    assert [gate.leave(item) for item in ("a0", "b0", "a1", "a2", "a3")] == [["b0"], ["a1"], ["a2"], ["a3"], []]


def test_a_channel_with_many_agents_delays_anothers_first_by_one_turn() -> None:
    gate: Gate[str] = Gate(1)
    assert gate.enter("a0", ("x", "a")) is IN
    for agent in ("a", "b", "c"):
        assert gate.enter(f"{agent}1", ("x", agent)) is WAIT
    assert gate.enter("d1", ("y", "d")) is WAIT
    leavers = ["a0", "d1", "b1", "c1", "a1"]
    assert [gate.leave(leaver) for leaver in leavers] == [["d1"], ["b1"], ["c1"], ["a1"], []]


def test_a_place_that_comes_back_goes_to_who_holds_the_fewest() -> None:
    gate = shared(8)
    assert enter(gate, "x", "a", 9) == 6
    assert enter(gate, "y", "b", 9) == 1
    # One is kept for a channel and one for an agent that hold none, until the others have given back enough.
    given = [gate.leave(f"a{number}") for number in range(4)]
    assert given == [[], ["b1"], ["b2"], ["a6"]]


def test_an_agent_that_keeps_all_that_it_can_get_holds_no_other_agent_of_its_channel_up() -> None:
    gate = shared(8)
    enter(gate, "x", "a", 9)
    for _ in range(3):
        assert gate.enter("b1", ("x", "b")) is IN
        assert gate.leave("b1") == []


def test_an_item_that_waits_can_leave_and_one_that_is_not_there_cannot() -> None:
    gate: Gate[str] = Gate(1)
    gate.enter("inside", ("x", "a"))
    gate.enter("waiting", ("x", "b"))
    assert gate.leave("waiting") == []
    assert gate.leave("inside") == []
    assert gate.is_empty
    with pytest.raises(KeyError):
        gate.leave("waiting")


# --- how many of one agent, and how many wait ---


def test_one_agent_has_no_more_than_its_part_and_the_others_pass_it() -> None:
    gate: Gate[str] = Gate(4, per_agent=2)
    assert enter(gate, "x", "a", 4) == 2
    assert enter(gate, "x", "b", 1) == 1
    assert gate.leave("b0") == []
    assert gate.leave("a0") == ["a2"]


def test_what_finds_no_room_to_wait_is_refused() -> None:
    gate: Gate[str] = Gate(1, waiting=2)
    assert [gate.enter(item, ("x", "a")) for item in "abcd"] == [IN, WAIT, WAIT, FULL]
    assert gate.leave("b") == []
    assert gate.enter("d", ("x", "a")) is WAIT


def test_the_last_quarter_of_the_room_is_for_agents_of_which_none_waits() -> None:
    gate: Gate[str] = Gate(1, waiting=8, room_kept=2)
    gate.enter("inside", ("x", "a"))
    assert [gate.enter(f"a{number}", ("x", "a")) for number in range(7)] == [WAIT] * 6 + [FULL]
    assert [gate.enter(f"b{number}", ("x", "b")) for number in range(2)] == [WAIT, FULL]
    assert [gate.enter(f"c{number}", ("y", "c")) for number in range(2)] == [WAIT, FULL]


def test_where_nothing_may_wait_an_open_gate_still_lets_in() -> None:
    gate: Gate[str] = Gate(1, waiting=0)
    assert [gate.enter(item, ("x", "a")) for item in "ab"] == [IN, FULL]
    gate.leave("a")
    assert gate.enter("c", ("x", "a")) is IN


# --- rates ---


def test_what_comes_too_soon_waits_until_it_is_due() -> None:
    gate: Gate[str] = Gate(rate=Rate(2.0))
    assert gate.enter("a", ("x", "a"), now=10.0) is IN
    assert gate.due(10.0) is None
    assert [gate.enter(item, ("x", "a"), now=10.1) for item in "bc"] == [WAIT, WAIT]
    assert gate.leave("a", 10.2) == []
    assert gate.due(10.2) == 10.5
    assert gate.let_in(10.4) == []
    assert gate.let_in(10.5) == ["b"]
    assert gate.due(10.5) == 11.0


def test_what_would_be_too_late_is_refused_at_once() -> None:
    gate: Gate[str] = Gate(rate=Rate(1.0))
    gate.enter("a", ("x", "a"), now=10.0)
    assert gate.enter("b", ("x", "a"), now=10.0, until=11.0) is WAIT
    assert gate.enter("c", ("x", "a"), now=10.0, until=11.5) is LIMITED
    assert gate.retry_after_s(10.0) == 2.0
    assert gate.enter("d", ("x", "a"), now=10.0, until=11.5, priority=Priority.HIGH) is WAIT


def test_it_is_the_rate_that_refuses_where_there_is_a_place() -> None:
    gate: Gate[str] = Gate(2, waiting=0, rate=Rate(1.0))
    assert [gate.enter(item, ("x", "a"), now=10.0) for item in "ab"] == [IN, LIMITED]
    assert [gate.enter(item, ("x", "a"), now=20.0) for item in "cd"] == [IN, FULL]


def test_what_waits_for_a_place_is_not_due_by_the_rate() -> None:
    gate: Gate[str] = Gate(1, rate=Rate(1.0))
    gate.enter("a", ("x", "a"), now=10.0)
    gate.enter("b", ("x", "a"), now=10.0)
    assert gate.due(10.0) is None
    assert gate.leave("a", 10.5) == []
    assert gate.due(10.5) == 11.0


# --- priorities ---


def turns_of(gate: Gate[str], inside: str, count: int) -> str:
    """The first letters of those that are let in one after the other."""
    served = ""
    for _ in range(count):
        [inside] = gate.leave(inside)
        served += inside[0]
    return served


def test_the_high_come_first_and_the_low_are_not_forgotten() -> None:
    gate: Gate[str] = Gate(1)
    gate.enter("inside", ("x", "a"))
    for number in range(100):
        for priority in Priority:
            gate.enter(f"{priority.name}{number}", ("x", "a"), priority=priority)
    served = turns_of(gate, "inside", 84)
    assert served[0] == "H"
    assert [served.count(first) for first in "HNL"] == [64, 16, 4]
    assert all("L" in served[start : start + 21] for start in range(84 - 21))


def test_a_priority_of_which_nothing_waited_has_saved_no_turns() -> None:
    gate: Gate[str] = Gate(1)
    gate.enter("inside", ("x", "a"))
    for number in range(100):
        gate.enter(f"H{number}", ("x", "a"), priority=Priority.HIGH)
    served = turns_of(gate, "inside", 64)
    for number in range(100):
        gate.enter(f"L{number}", ("x", "b"), priority=Priority.LOW)
    served = turns_of(gate, "H63", 17)
    assert served.count("L") <= 2


# --- readers and writers ---


def test_readers_are_inside_together_and_a_writer_alone() -> None:
    gate: Gate[str] = Gate()
    assert [gate.enter(item, ("x", item)) for item in ("r1", "r2")] == [IN, IN]
    assert gate.enter("w1", ("x", "w1"), whole=True) is WAIT
    assert gate.leave("r1") == []
    assert gate.leave("r2") == ["w1"]
    assert gate.enter("r3", ("x", "r3")) is WAIT
    assert gate.enter("r4", ("x", "r4")) is WAIT
    assert gate.leave("w1") == ["r3", "r4"]


def test_readers_that_come_later_wait_behind_a_writer() -> None:
    gate: Gate[str] = Gate()
    gate.enter("r1", ("x", "r1"))
    gate.enter("w1", ("x", "w1"), whole=True)
    assert gate.enter("r2", ("x", "r2")) is WAIT
    assert gate.leave("r1") == ["w1"]
    assert gate.leave("w1") == ["r2"]


def test_a_writer_that_gives_up_lets_the_readers_behind_it_in() -> None:
    gate: Gate[str] = Gate()
    gate.enter("r1", ("x", "r1"))
    gate.enter("w1", ("x", "w1"), whole=True)
    gate.enter("r2", ("x", "r2"))
    gate.enter("r3", ("x", "r3"))
    assert gate.leave("w1") == ["r2", "r3"]


def test_a_writer_is_not_passed_by_later_readers_though_its_own_agent_holds_places() -> None:
    gate: Gate[str] = Gate()
    assert [gate.enter(item, ("x", "a")) for item in ("r1", "r2")] == [IN, IN]
    assert gate.enter("w", ("x", "a"), whole=True) is WAIT
    # Of other agents, of other channels, that hold nothing.
    for number, turns in enumerate([("x", "b"), ("y", "c"), ("x", "b"), ("z", "d")]):
        assert gate.enter(f"late{number}", turns) is WAIT
    assert [gate.leave(item) for item in ("r1", "r2")] == [[], ["w"]]
    assert sorted(gate.leave("w")) == ["late0", "late1", "late2", "late3"]


def test_an_agent_with_many_writers_delays_anothers_reader_by_the_first_that_waits() -> None:
    gate: Gate[str] = Gate()
    for number in range(4):
        gate.enter(f"w{number}", ("x", "a"), whole=True)
    gate.enter("r", ("y", "b"))
    assert [gate.leave(item) for item in ("w0", "w1", "r")] == [["w1"], ["r"], ["w2"]]


@settings(max_examples=examples(200))
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.booleans()), max_size=40))
def test_no_reader_passes_a_writer_that_is_the_first_of_its_agents(events: list[tuple[int, bool, bool]]) -> None:
    gate: Gate[int] = Gate()
    inside: dict[int, bool] = {}
    # With its agent, and whether it wants the gate whole, in the order in which they came.
    waiting: dict[int, tuple[int, bool]] = {}
    firsts: dict[int, int] = {}

    def look(let_in: list[int], now: int) -> None:
        for item in let_in:
            _, whole = waiting.pop(item)
            assert not (inside and (whole or any(inside.values())))
            assert whole or all(since > item for first, since in firsts.items() if first != item)
            firsts.pop(item, None)
            inside[item] = whole
            heads = {waiting[each][0]: each for each in reversed(waiting)}
            firsts.update({each: now for each in heads.values() if waiting[each][1] and each not in firsts})

    for now, (agent, whole, leaves) in enumerate(events):
        if leaves and inside:
            left = min(inside)
            del inside[left]
            look(gate.leave(left), now)
            continue
        is_first = agent not in {other for other, _ in waiting.values()}
        waiting[now] = agent, whole
        verdict = gate.enter(now, (agent % 2, agent), whole=whole)
        if verdict is IN:
            look([now], now)
        elif whole and is_first:
            firsts[now] = now
    assert gate.inside == len(inside)
    while inside:
        left = min(inside)
        del inside[left]
        look(gate.leave(left), len(events))
    assert gate.is_empty


# --- any order of events ---

Item = tuple[int, int, int]  # channel, owner, number


class Gates(RuleBasedStateMachine):
    """No place is lost or doubled, each owner's order is kept, and nobody waits for a place that is there for it."""

    def __init__(self) -> None:
        super().__init__()
        self.inside: set[Item] = set()
        self.waiting: list[Item] = []
        self.next = 0

    @initialize(
        places=st.integers(1, 9),
        keeps=st.booleans(),
        per_agent=st.sampled_from([1, 2, UNBOUNDED]),
        room=st.sampled_from([0, 3, 8, UNBOUNDED]),
    )
    def open(self, places: int, keeps: bool, per_agent: int, room: int) -> None:
        self.places, self.per_agent, self.room = places, per_agent, room
        self.kept = kept_of(places) if keeps else 0
        self.room_kept = room // 4 if room < UNBOUNDED else 0
        self.gate: Gate[Item] = Gate(
            places, kept=self.kept, per_agent=per_agent, waiting=room, room_kept=self.room_kept
        )

    @rule(channel=st.integers(0, 2), owner=st.integers(0, 2), count=st.integers(1, 4))
    def enter(self, channel: int, owner: int, count: int) -> None:
        for _ in range(count):
            self.next += 1
            item = (channel, owner, self.next)
            expected = IN if self.may_enter(item) else WAIT if self.has_room(item) else FULL
            assert self.gate.enter(item, (channel, (channel, owner))) is expected
            if expected is IN:
                self.inside.add(item)
            elif expected is WAIT:
                self.waiting.append(item)

    @precondition(lambda self: self.inside)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        left = data.draw(st.sampled_from(sorted(self.inside)))
        self.inside.remove(left)
        for item in self.gate.leave(left):
            self.let_in(item)

    def let_in(self, item: Item) -> None:
        able = {other: self.claim(other) for other in self.waiting if self.may_enter(other)}
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
        assert self.gate.leave(item) == []

    @invariant()
    def places_are_used(self) -> None:
        assert len(self.inside) <= self.places
        assert len(self.waiting) <= self.room
        assert not any(self.may_enter(item) for item in self.waiting)
        assert all(item in self.gate for item in self.inside)

    @rule()
    def empty(self) -> None:
        while self.inside:
            left = self.inside.pop()
            for item in self.gate.leave(left):
                self.let_in(item)
        assert not self.waiting
        assert self.gate.is_empty
        assert (self.gate._free, self.gate._channels) == (self.places, {})

    def claim(self, item: Item) -> tuple[int, int, int]:
        """Less for who comes earlier: how many free places are not for it, how many its channel holds, and itself."""
        return self.kept_from(self.kept, item, self.inside)

    @staticmethod
    def kept_from(kept: int, item: Item, among: "set[Item] | list[Item]") -> tuple[int, int, int]:
        in_channel = sum(other[0] == item[0] for other in among)
        own = sum(other[:2] == item[:2] for other in among)
        return (0 if in_channel == 0 else kept // 2 if own == 0 else kept, in_channel, own)

    def may_enter(self, item: Item) -> bool:
        """Whether there is a place that is not kept for somebody else."""
        kept, _, own = self.claim(item)
        return self.places - len(self.inside) > kept and own < self.per_agent

    def has_room(self, item: Item) -> bool:
        return self.room - len(self.waiting) > self.kept_from(self.room_kept, item, self.waiting)[0]


TestGates = Gates.TestCase
TestGates.settings = settings(max_examples=examples(150), deadline=None)


CHANNELS, AGENTS = 2, 2


class Writers(RuleBasedStateMachine):
    """A writer is alone; and before each item of its agent it waits for one round of turns of all others, no more."""

    def __init__(self) -> None:
        super().__init__()
        self.gate: Gate[Item] = Gate()
        self.inside: set[Item] = set()
        self.waiting: list[Item] = []
        # How many came in before each writer while its channel held nothing, and how many may.
        self.passed: dict[Item, int] = {}
        self.most: dict[Item, int] = {}
        self.next = 0

    @rule(channel=st.integers(1, CHANNELS), owner=st.integers(1, AGENTS), writes=st.booleans())
    def enter(self, channel: int, owner: int, writes: bool) -> None:
        self.next += 1
        item = (channel, owner, self.next)
        if writes:
            own = sum(other[:2] == item[:2] for other in self.waiting)
            self.passed[item], self.most[item] = 0, (1 + own) * CHANNELS * AGENTS
        verdict = self.gate.enter(item, (channel, (channel, owner)), whole=writes)
        assert verdict in (IN, WAIT)
        self.waiting.append(item)
        if verdict is IN:
            self.let_in(item)

    def let_in(self, item: Item) -> None:
        self.waiting.remove(item)
        for writer in self.waiting:
            is_held_up = any(other[0] == writer[0] for other in self.inside)
            if writer in self.passed and not is_held_up and item[:2] != writer[:2]:
                self.passed[writer] += 1
        self.inside.add(item)

    @precondition(lambda self: self.inside or self.waiting)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        left = data.draw(st.sampled_from(sorted(self.inside) + self.waiting))
        self.inside.discard(left)
        if left in self.waiting:
            self.waiting.remove(left)
        for item in self.gate.leave(left):
            self.let_in(item)

    @invariant()
    def a_writer_is_alone(self) -> None:
        assert not self.inside & self.passed.keys() or len(self.inside) == 1
        assert bool(self.inside) >= bool(self.waiting)

    @invariant()
    def writers_are_not_starved(self) -> None:
        assert all(self.passed[writer] <= self.most[writer] for writer in self.passed)


TestWriters = Writers.TestCase
TestWriters.settings = settings(max_examples=examples(150), deadline=None)


class Rates(RuleBasedStateMachine):
    """However it is used, no more come in than places and rate allow, none waits that is due, none beyond its time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self.inside: list[Item] = []
        self.waiting: dict[Item, float] = {}
        self.came: list[float] = []
        self.next = 0

    @initialize(places=st.integers(1, 4), burst=st.integers(1, 3), room=st.sampled_from([0, 2, UNBOUNDED]))
    def open(self, places: int, burst: int, room: int) -> None:
        self.places, self.burst, self.room = places, burst, room
        self.gate: Gate[Item] = Gate(places, waiting=room, rate=Rate(2.0, burst))

    @rule(owner=st.integers(0, 2), patience=st.sampled_from([0.0, 0.6, 3.0, math.inf]), high=st.booleans())
    def enter(self, owner: int, patience: float, high: bool) -> None:
        self.next += 1
        item = (0, owner, self.next)
        priority = Priority.HIGH if high else Priority.NORMAL
        until = self.now + patience
        verdict = self.gate.enter(item, (0, owner), priority=priority, now=self.now, until=until)
        if verdict is IN:
            self.let_in(item)
        elif verdict is WAIT:
            self.waiting[item] = until
        elif verdict is FULL:
            assert len(self.inside) == self.places
        else:
            assert len(self.waiting) >= self.room or self.gate.retry_after_s(self.now)

    def let_in(self, item: Item) -> None:
        self.inside.append(item)
        self.came.append(self.now)

    def let_in_all(self, items: list[Item]) -> None:
        for item in items:
            del self.waiting[item]
            self.let_in(item)

    @precondition(lambda self: self.inside)
    @rule()
    def leave(self) -> None:
        self.let_in_all(self.gate.leave(self.inside.pop(0), self.now))

    @rule(seconds=st.sampled_from([0.0, 0.1, 0.5, 2.0]))
    def wait(self, seconds: float) -> None:
        """Time passes, and the caller comes back whenever `due` says."""
        end = self.now + seconds
        while (due := self.gate.due(self.now)) is not None and due <= end:
            self.now = due
            let_in = self.gate.let_in(due)
            assert let_in
            self.let_in_all(let_in)
        self.now = end
        for item in [item for item, until in self.waiting.items() if until < self.now]:
            del self.waiting[item]
            self.let_in_all(self.gate.leave(item, self.now))

    @invariant()
    def it_keeps_to_its_bounds(self) -> None:
        assert len(self.inside) <= self.places
        assert len(self.waiting) <= self.room
        recent = self.came[-12:]
        for first, began in enumerate(recent):
            assert len(recent) - first <= self.burst + 2.0 * (recent[-1] - began) + 1e-6

    @invariant()
    def nothing_is_forgotten(self) -> None:
        if self.waiting and len(self.inside) < self.places:
            assert self.gate.due(self.now) is not None


TestRates = Rates.TestCase
TestRates.settings = settings(max_examples=examples(150), deadline=None)


@given(
    others=st.lists(st.integers(1, 6), min_size=1, max_size=6),
    places=st.integers(1, 3),
    order=st.randoms(use_true_random=False),
)
def test_who_holds_nothing_waits_for_one_turn_of_each_other_agent(
    others: list[int], places: int, order: Random
) -> None:
    gate: Gate[tuple[int, int]] = Gate(places)
    inside: list[tuple[int, int]] = []
    items = [(agent, number) for agent, count in enumerate(others) for number in range(count)]
    inside += [item for item in items if gate.enter(item, ("x", item[0])) is IN]
    if gate.enter((99, 0), ("x", 99)) is IN:
        return
    turns = 0
    while (99, 0) not in inside:
        index = order.randrange(len(inside))
        inside += gate.leave(inside.pop(index))
        turns += 1
    assert turns <= len(others) + places


@given(st.integers(1, 3), st.integers(0, 2), st.lists(st.integers(0, 5), max_size=40))
def test_the_places_of_one_agent_are_had_in_the_order_of_coming(number: int, room: int, picks: list[int]) -> None:
    places: Places[int] = Places(number, room)
    inside: list[int] = []
    waiting: list[int] = []
    for came, pick in enumerate(picks):
        there = inside + waiting
        if pick < len(there):
            following = places.leave(there[pick])
            if there[pick] in waiting:
                waiting.remove(there[pick])
                assert following is None
            else:
                inside.remove(there[pick])
                assert following == (waiting[0] if waiting else None)
                inside += waiting[:1]
                waiting = waiting[1:]
        elif len(inside) < number:
            assert places.enter(came) is GateVerdict.IN
            inside.append(came)
        elif len(waiting) < room:
            assert places.enter(came) is GateVerdict.WAIT
            waiting.append(came)
        else:
            assert places.enter(came) is GateVerdict.FULL
        assert (places.inside, places.is_empty) == (len(inside), not (inside or waiting))
