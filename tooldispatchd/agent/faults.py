"""The faults that the agent layer itself gives."""

from typing import Final

from tooldispatchd.wire.faults import Code, Fault

CANCELLED: Final = Fault(Code.CANCELLED, "the call was cancelled")
DRAINING: Final = Fault(Code.DRAINING, "the daemon is shutting down")
# A queue of calls moves within about this; an agent that asks again sooner only finds it full again.
RETRY_AFTER_MS: Final = 1000
# Of a name that is not known only so much is said back.
SHOWN_NAME: Final = 128

# What each limit that `too_many` names is on.
TOO_MANY: Final = {
    "buffered_bytes": "bytes that lie unread or unfinished in the daemon",
    "connections": "channels at once",
    "in_flight_bytes": "bytes in the inputs of this agent's calls",
    "lines_per_s": "lines a second on one channel",
    "sessions": "sessions at once",
    "sessions_per_uid": "sessions, or channels, of one user at once",
}


def queue_full(queue: str) -> Fault:
    """No room for the call in `queue`, where calls wait for their turn."""
    return Fault(Code.QUEUE_FULL, "too many calls are waiting", {"queue": queue, "retry_after_ms": RETRY_AFTER_MS})


def too_many(what: str, limit: int) -> Fault:
    """More than `limits.WHAT` allows."""
    return Fault(Code.TOO_MANY, f"over the limit: {TOO_MANY[what]}", {"what": what, "limit": limit})


def too_large(max_content_bytes: int) -> Fault:
    """An answer over the bound."""
    detail = f"the answer is larger than {max_content_bytes} bytes"
    return Fault(Code.TOOL_FAILED, detail, {"limit": "content_bytes"})
