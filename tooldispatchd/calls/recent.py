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


class RecentCaller(msgspec.Struct, frozen=True):
    """Whose calls they are, one for each session: the fields of `RecentCall` that all of them share."""

    session: int
    profile: str
    agent: str | None
    program: str | None
    pid: int | None
    parent: int | None
    root: int | None


_Noted = tuple[RecentCaller, str, str, str | None, str | None, float, float, str, str | None]


class RecentCalls:
    """At most `MAX_CALLS` of them, the latest ones; each becomes a `RecentCall` when somebody looks."""

    def __init__(self) -> None:
        self._calls: Final[deque[_Noted]] = deque(maxlen=MAX_CALLS)
        self.note: Final = self._calls.append
        """Take the values of one, in the order of `_FIELDS`; called for each call that ends."""

    def since(self, now: float) -> list[RecentCall]:
        """Those of the last `KEPT_S` seconds, the oldest first; `now` in seconds since 1970."""
        return [
            msgspec.convert(dict(zip(_FIELDS, noted[1:], strict=True)) | msgspec.structs.asdict(noted[0]), RecentCall)
            for noted in self._calls
            if noted[5] >= now - KEPT_S
        ]


_FIELDS: Final = ("id", "tool", "kind", "provider", "ended_at", "took_s", "outcome", "detail")
