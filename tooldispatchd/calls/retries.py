"""How often calls are tried again: a part of all calls, so that what is down is not asked many times as often. Pure."""

from typing import Final

# Retries for each call, and how many at once: what fails now and then is tried again each time, an outage costs a tenth
# more.
PER_CALL: Final = 0.1
AT_ONCE: Final = 10.0
# How often one call is tried.
MAX_TRIES: Final = 3


class RetryBudget:
    """The retries that the calls of one tool, or of one server's tools, have left."""

    __slots__ = ("__weakref__", "_left")

    def __init__(self) -> None:
        self._left = AT_ONCE

    def note(self) -> None:
        """There is one more call."""
        self._left = min(self._left + PER_CALL, AT_ONCE)

    def take(self) -> bool:
        """Whether a call may be tried again."""
        if self._left < 1:
            return False
        self._left -= 1
        return True
