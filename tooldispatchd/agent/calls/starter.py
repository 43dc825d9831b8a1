"""Whose turn has come is started here: after an end that gave a place back, or when a rate lets the next one in."""

from collections import deque
from collections.abc import Hashable
from functools import partial
from typing import Generic, Protocol, TypeVar

import trio

from tooldispatchd.calls.deadlines import Entry
from tooldispatchd.calls.gate import Gate
from tooldispatchd.front.timer import Deferred, Expiring, Timer


class StartedCall(Hashable, Protocol):
    """A `Call`, as it is started."""

    def run(self) -> None:
        """Its turn has come."""

    def flush(self) -> None:
        """Send what there is to say."""


CallT = TypeVar("CallT", bound=StartedCall)


class Starter(Generic[CallT]):
    """Starts the calls whose turn has come, one after the other; and comes to gates with a rate when that says.

    A call may end while it is being started (its connection is dead), which makes room for the next: a queue here,
    where calling on would go as deep as the agent has calls waiting.
    """

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self._turn: deque[CallT] = deque()
        self._is_starting = False
        # When each gate is due, of those at which something waits for its time.
        self._due: dict[Gate[CallT], Entry[Expiring]] = {}

    def start(self, call: CallT) -> None:
        """Start the call, now or after those before it."""
        self._turn.append(call)
        if self._is_starting:
            return
        self._is_starting = True
        try:
            while self._turn:
                first = self._turn.popleft()
                first.run()
                first.flush()
        finally:
            self._is_starting = False

    def leave(self, gate: Gate[CallT], call: CallT) -> None:
        """The call leaves the gate: start those whose turn has come."""
        for following in gate.leave(call, 0.0 if gate.rate is None else trio.current_time()):
            self.start(following)
        self.watch(gate)

    def watch(self, gate: Gate[CallT]) -> None:
        """Something has changed at a gate: come to it when the next of those that wait is due."""
        if gate.rate is None:
            return
        due, entry = gate.due(trio.current_time()), self._due.get(gate)
        if entry is not None and entry.when != due:
            self._timer.drop(self._due.pop(gate))
        if due is not None and gate not in self._due:
            self._due[gate] = self._timer.add(due, Deferred(partial(self._let_in, gate)))

    def _let_in(self, gate: Gate[CallT]) -> None:
        del self._due[gate]
        for call in gate.let_in(trio.current_time()):
            self.start(call)
        self.watch(gate)
