"""When a connection that ended is opened anew: soon after the first end, and ever later while it does not last. Pure.

0 ─ 1 ─ 2 ─ 5 ─ 10 ─ 30 ─ 60 ─ 60 ─ … s      from the start again once a connection has lived `STEADY_S`
"""

from typing import Final

SCHEDULE_S: Final = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
# A connection that served so long was sound: its end is a new failure, and not one more of the same.
STEADY_S: Final = 60.0
# Each wait is moved by up to so much of itself: servers that ended together must not come back together.
JITTER: Final = 0.2
# A wait that a server asks for is kept up to this; its clock may be wrong.
MAX_ASKED_S: Final = 300.0


class Backoff:
    """The waits after `failures` that came before."""

    __slots__ = ("_failures",)

    def __init__(self, failures: int = 0) -> None:
        self._failures = failures

    def wait_s(self, lived_s: float, chance: float, *, asked_s: float = 0.0) -> float:
        """Seconds until the next opening, after a connection that was open for `lived_s` (0 if it never was).

        `chance` is a random number from 0 to 1; `asked_s` is the least that the server asked for (RFC 9110, 10.2.3).
        """
        if lived_s >= STEADY_S:
            self._failures = 0
        wait_s = SCHEDULE_S[min(self._failures, len(SCHEDULE_S) - 1)]
        self._failures += 1
        return max(wait_s * (1 + JITTER * (2 * chance - 1)), min(asked_s, MAX_ASKED_S))
