"""How often names that nobody knows are compared with those that there are. Pure.

A comparison takes some ten microseconds in which nobody else is served, so all agents together have a budget of them;
who asks beyond it is told that the name is unknown, and no more.
"""

from typing import Final

# One look at a large catalog at once, and about a twentieth of one core in the long run.
AT_ONCE: Final = 1000.0
A_SECOND: Final = 5000.0


class Hints:
    """The budget; `now` is in seconds of the caller's clock."""

    __slots__ = ("_at", "_left")

    def __init__(self) -> None:
        self._left = AT_ONCE
        self._at = 0.0

    def take(self, comparisons: int, now: float) -> bool:
        """Whether so many may be made. The last may overdraw, so that a large catalog has hints too."""
        self._left = min(AT_ONCE, self._left + (now - self._at) * A_SECOND)
        self._at = now
        if self._left <= 0:
            return False
        self._left -= comparisons
        return True
