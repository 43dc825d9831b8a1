"""A request's place in a distributed trace: the `traceparent` of the W3C Trace Context Recommendation.

Only what is valid is passed on, to servers, HTTP headers and environments: who gets it need not guard against it.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

# A later version may append what it likes without a bound of its own. This is as much as the Recommendation wants
# passed on of `tracestate`, the longer of its two values.
MAX_TRACEPARENT_BYTES: Final = 512
# How much of an id or a name is told in a span: those of requests are as long as an agent likes.
MAX_ID_CHARS: Final = 256

# version-trace-parent-flags; an id of zeros only means none. Version 00 ends there and ff is never a version. Others
# may go on behind a dash; in visible ASCII, because the whole becomes a header's or a variable's value.
_TRACEPARENT: Final = re.compile(
    r"(?!ff)(?P<version>[0-9a-f]{2})-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?P<appended>-[!-~]*)?"
)


def is_traceparent(text: str) -> bool:
    """Whether `text` is a valid `traceparent`: of version 00, or of a later one that begins in the same form."""
    if len(text) > MAX_TRACEPARENT_BYTES:
        return False
    found = _TRACEPARENT.fullmatch(text)
    return found is not None and (found["version"] != "00" or found["appended"] is None)


class TracePlace(NamedTuple):
    """A span: its trace, its own id, and the flags that come with it, in hexadecimal digits."""

    trace: str
    span: str
    flags: str

    @classmethod
    def of(cls, traceparent: str) -> "TracePlace":
        """The span that a valid `traceparent` names."""
        _, trace, span, flags = traceparent.split("-")[:4]
        return cls(trace, span, flags)

    @property
    def traceparent(self) -> str:
        """What tells others of it, in version 00, which knows the first two flags (level 2: sampled, random)."""
        return f"00-{self.trace}-{self.span}-{self.flags}"

    @property
    def is_sampled(self) -> bool:
        """Whether whoever began the trace wants it recorded."""
        return bool(int(self.flags, 16) & 1)


def place_below(traceparent: str | None, random_bits: Callable[[int], int]) -> TracePlace:
    """A new span below the one that a valid `traceparent` names; without one it begins a trace, which is recorded."""
    span = f"{random_bits(64) or 1:016x}"
    if traceparent is None:
        return TracePlace(f"{random_bits(128) or 1:032x}", span, "01")
    above = TracePlace.of(traceparent)
    return above._replace(span=span, flags=f"{int(above.flags, 16) & 3:02x}")
