"""The calls that ended last, for who looks at the daemon: so many of them, and for so long. Pure."""

from collections import deque
from typing import Final

import msgspec

# Some hundred kilobytes; a screen or a tree shows fewer.
MAX_CALLS: Final = 1_000
KEPT_S: Final = 600.0


class RecentCall(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """A request that was answered, unless its tool did so in the moment it came; `outcome` is as in tallies.

    `program` is that of its agent's process; `detail` is the sentence of a fault.
    """

    session: int
    id: str
    tool: str
    ended_at: float
    took_s: float
    outcome: str
    profile: str
    agent: str | None = None
    program: str | None = None
    pid: int | None = None
    kind: str | None = None
    provider: str | None = None
    parent: int | None = None
    root: int | None = None
    detail: str | None = None


class RecentCalls:
    """At most `MAX_CALLS` of them, the latest ones."""

    def __init__(self) -> None:
        self._calls: Final[deque[RecentCall]] = deque(maxlen=MAX_CALLS)

    def note(self, call: RecentCall) -> None:
        """This one has ended."""
        self._calls.append(call)

    def since(self, now: float) -> list[RecentCall]:
        """Those of the last `KEPT_S` seconds, the oldest first; `now` in seconds since 1970."""
        while self._calls and self._calls[0].ended_at < now - KEPT_S:
            self._calls.popleft()
        return list(self._calls)
