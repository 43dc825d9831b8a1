"""What is due when; the time is told, never read."""

import heapq
import math
from collections.abc import Callable


class Alarms:
    """Functions to run at a time. Nothing is taken out: what is no longer wanted does nothing when it is due."""

    def __init__(self, now: float) -> None:
        self.now = now
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def after(self, delay_s: float, then: Callable[[], None]) -> None:
        """Run `then` in `delay_s` seconds."""
        self._count += 1
        heapq.heappush(self._due, (self.now + delay_s, self._count, then))

    @property
    def next_at(self) -> float:
        """When the next one is due."""
        return self._due[0][0] if self._due else math.inf

    def run(self) -> None:
        """Run what is due."""
        while self._due and self._due[0][0] <= self.now:
            heapq.heappop(self._due)[2]()
