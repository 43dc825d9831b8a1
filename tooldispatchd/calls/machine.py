"""A state machine as a table: nothing but `apply` moves it, and an event that the table does not allow is a defect."""

from collections.abc import Mapping
from enum import Enum
from typing import Generic, TypeVar

StateT = TypeVar("StateT", bound=Enum)
EventT = TypeVar("EventT", bound=Enum)


class TransitionError(Exception):
    """An event for which the state has no entry: a defect of the caller."""

    def __init__(self, state: Enum, event: Enum) -> None:
        super().__init__(f"cannot take {event.name} in {state.name}: no such transition")
        self.state = state
        self.event = event


class StateMachine(Generic[StateT, EventT]):
    """Begins in `state`, and moves by `table`: for each state the states that follow, by event."""

    __slots__ = ("_table", "state")

    def __init__(self, table: Mapping[StateT, Mapping[EventT, StateT]], state: StateT) -> None:
        self._table = table
        self.state = state

    def apply(self, event: EventT) -> StateT:
        """The state after `event`; raises `TransitionError` where the table has no entry."""
        after = self._table[self.state].get(event)
        if after is None:
            raise TransitionError(self.state, event)
        self.state = after
        return after
