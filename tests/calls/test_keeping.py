"""The states of a keeper."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tooldispatchd.calls.keeping import (
    MAX_SERVERS,
    TRANSITIONS,
    AllServerCounts,
    KeeperEvent,
    KeeperMachine,
    KeeperState,
    ServerCounts,
)
from tooldispatchd.calls.machine import TransitionError


def test_a_lazy_keeper_sleeps_until_it_is_called() -> None:
    machine = KeeperMachine(ServerCounts())
    assert machine.apply(KeeperEvent.KNOWN) is KeeperState.ASLEEP
    assert machine.apply(KeeperEvent.CALLED) is KeeperState.WAKING
    assert machine.apply(KeeperEvent.CALLED) is KeeperState.WAKING
    assert machine.apply(KeeperEvent.OPENED) is KeeperState.OPEN


def test_what_was_lost_is_opened_again() -> None:
    machine = KeeperMachine(ServerCounts())
    assert machine.apply(KeeperEvent.OPENED) is KeeperState.OPEN
    assert machine.apply(KeeperEvent.LOST) is KeeperState.AWAY
    assert machine.apply(KeeperEvent.RETRY) is KeeperState.OPENING
    assert machine.apply(KeeperEvent.OPENED) is KeeperState.OPEN


@pytest.mark.parametrize("state", KeeperState)
def test_a_keeper_can_be_closed_in_every_state_and_stays_so(state: KeeperState) -> None:
    machine = KeeperMachine(ServerCounts())
    machine.state = state
    assert machine.apply(KeeperEvent.CLOSE) is KeeperState.ENDED
    assert set(TRANSITIONS[KeeperState.ENDED].values()) == {KeeperState.ENDED}


def test_an_event_without_an_entry_raises_naming_both() -> None:
    machine = KeeperMachine(ServerCounts())
    with pytest.raises(TransitionError, match="cannot take RETRY in OPENING"):
        machine.apply(KeeperEvent.RETRY)
    assert machine.state is KeeperState.OPENING


def test_every_state_has_a_row_and_every_event_is_used() -> None:
    assert set(TRANSITIONS) == set(KeeperState)
    assert {event for row in TRANSITIONS.values() for event in row} == set(KeeperEvent)


def test_connections_are_counted_by_what_became_of_them() -> None:
    counts = ServerCounts()
    first, second = KeeperMachine(counts), KeeperMachine(counts)
    for event in (KeeperEvent.OPENED, KeeperEvent.LOST, KeeperEvent.LOST, KeeperEvent.RETRY, KeeperEvent.LOST):
        first.apply(event)
    second.apply(KeeperEvent.OPENED)
    second.apply(KeeperEvent.CLOSE)
    second.apply(KeeperEvent.LOST)
    assert (counts.opened, counts.died, counts.failed, counts.retries) == (2, 1, 1, 1)
    assert {state: number for state, number in counts.now.items() if number} == {
        KeeperState.AWAY: 1,
        KeeperState.ENDED: 1,
    }


def test_servers_beyond_the_bound_are_counted_together() -> None:
    counts = AllServerCounts()
    for number in range(MAX_SERVERS + 2):
        counts.of(f"s{number}").opened += 1
    told = [(name, each.opened) for name, each in counts.servers()]
    assert (len(told), told[0], told[-1]) == (MAX_SERVERS + 1, ("s0", 1), ("other", 2))


class Keeping(RuleBasedStateMachine):
    """A keeper's connections come and go, in any order; calls are held only before the first of them."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = KeeperMachine(ServerCounts())
        self.opened = 0
        self.has_begun = False
        self.is_closed = False

    @precondition(lambda self: not self.has_begun and not self.is_closed)
    @rule()
    def know(self) -> None:
        self.has_begun = True
        assert self.machine.apply(KeeperEvent.KNOWN) is KeeperState.ASLEEP

    @precondition(lambda self: self.machine.state in {KeeperState.ASLEEP, KeeperState.WAKING})
    @rule()
    def call(self) -> None:
        assert not self.opened
        assert self.machine.apply(KeeperEvent.CALLED) is KeeperState.WAKING

    @precondition(lambda self: self.machine.state in {KeeperState.OPENING, KeeperState.WAKING})
    @rule()
    def open(self) -> None:
        self.has_begun = True
        self.opened += 1
        assert self.machine.apply(KeeperEvent.OPENED) is KeeperState.OPEN

    @precondition(lambda self: self.machine.state is not KeeperState.ASLEEP)
    @rule(times=st.integers(1, 2))
    def lose(self, times: int) -> None:
        self.has_begun = True
        for _ in range(times):
            self.machine.apply(KeeperEvent.LOST)
        assert self.machine.state is (KeeperState.ENDED if self.is_closed else KeeperState.AWAY)

    @precondition(lambda self: self.machine.state is KeeperState.AWAY)
    @rule()
    def retry(self) -> None:
        assert self.machine.apply(KeeperEvent.RETRY) is KeeperState.OPENING

    @rule()
    def close(self) -> None:
        self.is_closed = True
        assert self.machine.apply(KeeperEvent.CLOSE) is KeeperState.ENDED

    @invariant()
    def it_ends_when_it_is_closed_and_not_before(self) -> None:
        assert (self.machine.state is KeeperState.ENDED) == self.is_closed


TestKeeping = Keeping.TestCase
