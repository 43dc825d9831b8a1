"""The faults that the agent layer itself gives."""

from typing import Final

from tooldispatchd.wire.faults import Code, Fault

CANCELLED: Final = Fault(Code.CANCELLED, "the call was cancelled")
DRAINING: Final = Fault(Code.DRAINING, "the daemon is shutting down")
# A queue of calls moves within about this; an agent that asks again sooner only finds it full again.
RETRY_AFTER_MS: Final = 1000


def queue_full(queue: str) -> Fault:
    """No room for the call in `queue`, where calls wait for their turn."""
    return Fault(Code.QUEUE_FULL, "too many calls are waiting", {"queue": queue, "retry_after_ms": RETRY_AFTER_MS})


def too_many(buffered_bytes: int) -> Fault:
    """Unread answers of all agents have reached their bound."""
    detail = "too many answers lie unread in the daemon"
    return Fault(Code.TOO_MANY, detail, {"what": "buffered_bytes", "limit": buffered_bytes})


def too_large(max_content_bytes: int) -> Fault:
    """An answer over the bound."""
    detail = f"the answer is larger than {max_content_bytes} bytes"
    return Fault(Code.TOOL_FAILED, detail, {"limit": "content_bytes"})
