"""The states of a connection and its pending requests."""

from random import Random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tooldispatchd.calls.connection import (
    TRANSITIONS,
    ConnectionEvent,
    ConnectionMachine,
    ConnectionState,
    Pending,
)
from tooldispatchd.calls.machine import TransitionError


def test_a_connection_opens_dies_and_is_gone() -> None:
    machine = ConnectionMachine()
    assert machine.apply(ConnectionEvent.OPENED) is ConnectionState.OPEN
    assert machine.apply(ConnectionEvent.DIED) is ConnectionState.DEAD
    assert machine.apply(ConnectionEvent.GONE) is ConnectionState.CLOSED


def test_a_server_that_does_not_come_up_leaves_a_dead_connection() -> None:
    machine = ConnectionMachine()
    assert machine.apply(ConnectionEvent.FAILED) is ConnectionState.DEAD


def test_closing_is_possible_in_every_state_and_never_opens() -> None:
    for state in ConnectionState:
        machine = ConnectionMachine()
        machine.state = state
        assert machine.apply(ConnectionEvent.CLOSE) is not ConnectionState.OPEN


def test_an_event_without_an_entry_raises_naming_both() -> None:
    machine = ConnectionMachine()
    with pytest.raises(TransitionError, match="cannot take GONE in OPENING"):
        machine.apply(ConnectionEvent.GONE)
    assert machine.state is ConnectionState.OPENING


def test_nothing_reconnects() -> None:
    into_open = [state for state, row in TRANSITIONS.items() if ConnectionState.OPEN in row.values()]
    assert into_open == [ConnectionState.OPENING]


def test_every_state_has_a_row_and_every_event_is_used() -> None:
    assert set(TRANSITIONS) == set(ConnectionState)
    assert {event for row in TRANSITIONS.values() for event in row} == set(ConnectionEvent)


class PendingMachine(RuleBasedStateMachine):
    """Requests are added, answered in any order and more than once, and drained; each entry leaves exactly once."""

    def __init__(self) -> None:
        super().__init__()
        self.pending: Pending[str] = Pending()
        self.waiting: dict[int, str] = {}
        self.past: list[int] = []

    @rule(entry=st.text(max_size=3))
    def add(self, entry: str) -> None:
        number = self.pending.add(entry)
        assert number not in self.waiting
        assert number not in self.past
        self.waiting[number] = entry

    @precondition(lambda self: self.waiting)
    @rule(choice=st.randoms(use_true_random=False))
    def take_one_that_waits(self, choice: Random) -> None:
        number = choice.choice(sorted(self.waiting))
        assert self.pending.get(number) == self.waiting[number]
        assert self.pending.take(number) == self.waiting.pop(number)
        self.past.append(number)

    @rule(number=st.integers(-2, 60))
    def take_any(self, number: int) -> None:
        if number in self.waiting:
            self.past.append(number)
        assert self.pending.take(number) == self.waiting.pop(number, None)

    @rule()
    def drain(self) -> None:
        assert self.pending.drain() == list(self.waiting.values())
        self.past.extend(self.waiting)
        self.waiting.clear()

    @invariant()
    def it_holds_what_waits(self) -> None:
        assert len(self.pending) == len(self.waiting)
        assert all(number in self.pending for number in self.waiting)


TestPending = PendingMachine.TestCase
