"""Equal calls in flight: one runs, the others have what came of it, and nobody is forgotten."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.examples import examples
from tooldispatchd.calls.flights import Flights


def gladly(_first: object) -> bool:
    return True


def test_those_that_join_take_what_came_of_the_first() -> None:
    flights: Flights[str, str] = Flights()
    assert flights.enter(b"key", "first", gladly)
    assert not flights.enter(b"key", "second", gladly)
    assert flights.enter(b"other", "third", gladly)
    flights.land("second", "of no account")
    flights.land("first", "done")
    assert flights.leave("first") == ["second"]
    assert (flights.take("second"), flights.take("second"), flights.take("third")) == ("done", None, None)


def test_where_the_first_has_not_landed_the_next_goes_in_its_place() -> None:
    flights: Flights[str, str] = Flights()
    for item in ("first", "second", "third"):
        flights.enter(b"key", item, gladly)
    assert flights.leave("first") == ["second", "third"]
    assert flights.take("second") is None
    assert flights.enter(b"key", "second", gladly)
    assert not flights.enter(b"key", "third", gladly)


def test_one_that_joined_leaves_without_a_trace() -> None:
    flights: Flights[str, str] = Flights()
    flights.enter(b"key", "first", gladly)
    flights.enter(b"key", "second", gladly)
    assert flights.leave("second") == []
    flights.land("first", "done")
    assert flights.leave("first") == []
    assert (len(flights), b"key" in flights) == (0, False)


def test_one_that_may_not_join_begins_a_flight_that_later_ones_join() -> None:
    flights: Flights[str, str] = Flights()
    assert flights.enter(b"key", "waiting", gladly)
    assert flights.enter(b"key", "running", lambda first: first != "waiting")
    assert not flights.enter(b"key", "third", gladly)
    flights.land("waiting", "late")
    assert flights.leave("waiting") == []
    flights.land("running", "done")
    assert flights.leave("running") == ["third"]
    assert (flights.take("third"), len(flights), b"key" in flights) == ("done", 0, False)


class Flying(RuleBasedStateMachine):
    """Each item is of one key; whoever has joined is handed on exactly once, and never to another key."""

    def __init__(self) -> None:
        super().__init__()
        self.flights: Flights[int, bytes] = Flights()
        self.first: dict[bytes, int] = {}
        self.joined: dict[bytes, list[int]] = {}
        self.owed: dict[int, bytes] = {}
        self.landed: set[int] = set()
        self.last = 0

    @rule(key=st.sampled_from([b"a", b"b"]))
    def enter(self, key: bytes) -> None:
        self.last += 1
        is_first = self.flights.enter(key, self.last, gladly)
        assert is_first == (key not in self.first)
        if is_first:
            self.first[key] = self.last
        else:
            self.joined.setdefault(key, []).append(self.last)

    @rule(key=st.sampled_from([b"a", b"b"]))
    def land(self, key: bytes) -> None:
        if key in self.first:
            self.flights.land(self.first[key], key)
            self.landed.add(self.first[key])

    @rule(key=st.sampled_from([b"a", b"b"]))
    def leave_first(self, key: bytes) -> None:
        if key in self.first:
            first, joined = self.first.pop(key), self.joined.pop(key, [])
            assert self.flights.leave(first) == joined
            if first in self.landed:
                self.owed |= dict.fromkeys(joined, key)
            else:
                assert all(self.flights.take(item) is None for item in joined)

    @rule(key=st.sampled_from([b"a", b"b"]), data=st.data())
    def leave_joined(self, key: bytes, data: st.DataObject) -> None:
        if self.joined.get(key):
            item = data.draw(st.sampled_from(self.joined[key]))
            self.joined[key].remove(item)
            assert self.flights.leave(item) == []

    @rule(has_ended=st.booleans())
    def take(self, *, has_ended: bool) -> None:
        if self.owed:
            item, key = self.owed.popitem()
            if has_ended:
                assert self.flights.leave(item) == []
            else:
                assert self.flights.take(item) == key

    @invariant()
    def forgets_nobody(self) -> None:
        assert len(self.flights) == len(self.first) + sum(map(len, self.joined.values())) + len(self.owed)


TestFlying = Flying.TestCase
TestFlying.settings = settings(max_examples=examples(20), stateful_step_count=30, deadline=None)
