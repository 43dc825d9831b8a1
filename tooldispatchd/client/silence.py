"""How long a daemon may be silent before it counts as gone; pure bookkeeping, no clock and no channel.

Standard library alone, for the quick commands.
"""

from enum import Enum
from math import inf
from typing import Final

# A private daemon reads its configuration, and imports the modules of its Python tools, before it says a word; and
# servers may wait for a place to start, before their own limits begin.
START_S: Final = 600.0
# A daemon whose channel has ended cancels its calls and stops its servers, each of which has a ladder of 4 s.
STOP_S: Final = 20.0


class Doubt(Enum):
    """What is to be done about a daemon."""

    NONE = 0
    PING = 1
    GIVE_UP = 2


class Silence:
    """A daemon that was silent for half of its time is to be pinged, and given up after all of it.

    Its time is `timeout_s`, or at least `START_S` before the first word of one that is starting. It counts from `begin`
    on; at `due` there is something to be done.
    """

    def __init__(self, timeout_s: float, *, is_starting: bool) -> None:
        self.due = inf
        self._timeout_s = timeout_s
        self._patience_s = max(START_S, timeout_s) if is_starting else timeout_s
        self._has_pinged = False

    @property
    def why(self) -> str:
        """Why it was given up."""
        return f"the daemon did not answer within {self._patience_s:g} s"

    def begin(self, now: float) -> None:
        """Count anew, whatever was before."""
        self._has_pinged = False
        self.due = now + self._patience_s / 2

    def heard(self, now: float) -> None:
        self._patience_s = self._timeout_s
        if self.due < inf:
            self.begin(now)

    def await_end(self, now: float) -> None:
        """Count anew: all is said, and the daemon has but to stop, which takes it up to `STOP_S`."""
        self._timeout_s = max(self._timeout_s, STOP_S)
        self._patience_s = max(self._patience_s, STOP_S)
        self.begin(now)

    def doubt(self, now: float) -> Doubt:
        """What is to be done now; `PING` once for each silence."""
        if now < self.due:
            return Doubt.NONE
        if self._has_pinged:
            return Doubt.GIVE_UP
        self.begin(now)
        self._has_pinged = True
        return Doubt.PING
