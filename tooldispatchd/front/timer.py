"""One task that wakes for the daemon's nearest deadline; everything that waits has its entry here."""

import math
from collections.abc import Callable
from typing import Protocol

import trio

from tooldispatchd.calls.deadlines import Deadlines, Entry


class Expiring(Protocol):
    def expire(self) -> None:
        """The deadline has passed; called once, must not block or raise."""


class Deferred:
    """Something to be done when a deadline passes, and nothing else."""

    __slots__ = ("_do",)

    def __init__(self, do: Callable[[], None]) -> None:
        self._do = do

    def expire(self) -> None:
        """Do it."""
        self._do()


class GuardLog(Protocol):
    """The part of a log that the timer and the front use."""

    def incident(self, event: str, error: Exception) -> str:
        """Log a defect with its traceback; returns the incident's id."""


class Timer:
    """Deadlines on trio's clock."""

    def __init__(self, log: GuardLog) -> None:
        self._log = log
        self._deadlines: Deadlines[Expiring] = Deadlines()
        self._sleeps_until = -math.inf
        self._nearer = trio.Event()

    def add(self, when: float, item: Expiring) -> Entry[Expiring]:
        """`item.expire()` will be called at `when` (seconds of `trio.current_time()`) unless it is dropped."""
        entry = self._deadlines.add(when, item)
        if when < self._sleeps_until:
            self._nearer.set()
        return entry

    def drop(self, entry: Entry[Expiring]) -> None:
        """The entry's item will not expire."""
        self._deadlines.drop(entry)

    async def run(self) -> None:
        """Call what is due, for ever."""
        while True:
            nearest = self._deadlines.next
            self._sleeps_until = math.inf if nearest is None else nearest
            self._nearer = trio.Event()
            with trio.move_on_at(self._sleeps_until):
                await self._nearer.wait()
            self._call_due()

    def _call_due(self) -> None:
        # Not in the loop above, which would hold the last item until another is due.
        for item in self._deadlines.due(trio.current_time()):
            try:
                item.expire()
            except Exception as error:  # noqa: BLE001  # guard: what is due belongs to one call or one channel
                self._log.incident("deadline failed", error)
