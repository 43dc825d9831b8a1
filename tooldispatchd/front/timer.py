"""One task that wakes for the daemon's nearest deadline; everything that waits has its entry here."""

import math
from collections.abc import Callable
from itertools import islice, takewhile
from typing import Final, Protocol

import trio

from tooldispatchd.calls.deadlines import Deadlines, Entry

# Deadlines between two turns of the loop: as many calls are ended in three milliseconds.
EXPIRIES: Final = 64


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


class TimerLine:
    """Deadlines that come in the order in which they are set, as those of one length do: one of them is in the heap.

    Setting and dropping one costs a tenth of what it does in the heap, and most are dropped before they are due.
    """

    __slots__ = ("_is_armed", "_last", "_timer", "_waiting")

    def __init__(self, timer: "Timer") -> None:
        self._timer = timer
        self._waiting: dict[Expiring, float] = {}
        self._last = -math.inf
        self._is_armed = False

    @property
    def more(self) -> int:
        """How many there are more than stand for them in the heap."""
        return len(self._waiting) - self._is_armed

    def add(self, item: Expiring, when: float) -> bool:
        """`item.expire()` will be called at `when` unless it is dropped; false for one that comes before the last."""
        if when < self._last:
            return False
        self._last = when
        self._waiting[item] = when
        if not self._is_armed:
            self._is_armed = True
            self._timer.add(when, self)
        return True

    def drop(self, item: Expiring) -> None:
        """The item will not expire."""
        del self._waiting[item]

    def expire(self) -> None:
        """Fire those that are due, thousands in further turns, and set the next."""
        now, waiting = trio.current_time(), self._waiting
        # At once, not one by one: finding the first of a dict passes all that were taken out before it.
        due = list(islice(takewhile(lambda each: each[1] <= now, waiting.items()), EXPIRIES))
        for item, when in due:
            # The end of one may have dropped another, or set the next one of the same.
            if waiting.get(item) == when:
                del waiting[item]
                self._timer.fire(item)
        self._is_armed = bool(waiting)
        if waiting:
            # After what is due in this turn, however late it is.
            self._timer.add(max(next(iter(waiting.values())), math.nextafter(now, math.inf)), self)


class Timer:
    """Deadlines on trio's clock."""

    def __init__(self, log: GuardLog) -> None:
        self._log = log
        self._deadlines: Deadlines[Expiring] = Deadlines()
        self._lines: dict[float, TimerLine] = {}
        self._sleeps_until = -math.inf
        self._nearer = trio.Event()

    def __len__(self) -> int:
        """How many deadlines there are."""
        return len(self._deadlines) + sum(line.more for line in self._lines.values())

    def add(self, when: float, item: Expiring) -> Entry[Expiring]:
        """`item.expire()` will be called at `when` (seconds of `trio.current_time()`) unless it is dropped."""
        entry = self._deadlines.add(when, item)
        if when < self._sleeps_until:
            self._nearer.set()
        return entry

    def drop(self, entry: Entry[Expiring]) -> None:
        """The entry's item will not expire."""
        self._deadlines.drop(entry)

    def line(self, limit_s: float) -> TimerLine:
        """The line for deadlines of this length, of which there are as many as a configuration has limits."""
        line = self._lines.get(limit_s)
        if line is None:
            line = self._lines[limit_s] = TimerLine(self)
        return line

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
        for item in islice(self._deadlines.due(trio.current_time()), EXPIRIES):
            self.fire(item)

    def fire(self, item: Expiring) -> None:
        """Have an item expire, under its guard."""
        try:
            item.expire()
        except Exception as error:  # noqa: BLE001  # guard: what is due belongs to one call or one channel
            self._log.incident("deadline failed", error)
