"""A request's place in a distributed trace: the `traceparent` of the W3C Trace Context Recommendation.

Only what is valid is passed on, to servers, HTTP headers and environments: who gets it need not guard against it.
"""

import re
from typing import Final

# A later version may append what it likes without a bound of its own. This is as much as the Recommendation wants
# passed on of `tracestate`, the longer of its two values.
MAX_TRACEPARENT_BYTES: Final = 512

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
