"""When an agent is told that its tools have changed: at once, but not again within a second."""

from collections.abc import Callable
from typing import Final

import trio

from tooldispatchd.calls.deadlines import Entry
from tooldispatchd.front.timer import Expiring, Timer

# The whole list is told each time, and a model's host may start its prompt anew with it.
INTERVAL_S: Final = 1.0


class Changes:
    """The changes of one agent's tools; `tell` is called at most once in `INTERVAL_S`."""

    __slots__ = ("_entry", "_next", "_tell", "_timer")

    def __init__(self, timer: Timer, tell: Callable[[], None]) -> None:
        self._timer = timer
        self._tell = tell
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
            self._tell()

    def expire(self) -> None:
        """The time has come to tell what was noted since."""
        self._entry = None
        self.note()

    def close(self) -> None:
        """Tell nothing any more."""
        if self._entry is not None:
            self._timer.drop(self._entry)
            self._entry = None
