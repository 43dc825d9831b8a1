"""When an agent is sent its tools that have changed: at once, but not again within a second."""

from collections.abc import Callable
from typing import Final

import trio

from tooldispatchd.calls.deadlines import Entry
from tooldispatchd.front.timer import Expiring, Timer

# The whole list is sent each time, and a model's host may start its prompt anew with it.
INTERVAL_S: Final = 1.0


class Changes:
    """The changes of one agent's tools; `send` is called at most once in `INTERVAL_S`."""

    __slots__ = ("_entry", "_next", "_send", "_timer")

    def __init__(self, timer: Timer, send: Callable[[], None]) -> None:
        self._timer = timer
        self._send = send
        self._next = 0.0
        self._entry: Entry[Expiring] | None = None

    def note(self) -> None:
        """Something has changed."""
        if self._entry is not None:
            return
        now = trio.current_time()
        if now < self._next:
            self._entry = self._timer.add(self._next, self)
        else:
            self._next = now + INTERVAL_S
            self._send()

    def expire(self) -> None:
        """The time has come to send what was noted since."""
        self._entry = None
        self.note()

    def close(self) -> None:
        """Send nothing any more."""
        if self._entry is not None:
            self._timer.drop(self._entry)
            self._entry = None
