"""The faults that the agent layer itself gives."""

import math
from collections.abc import Callable, Sequence
from typing import Final

from tooldispatchd.catalog.masker import Masker
from tooldispatchd.wire.faults import Code, Fault

CANCELLED: Final = Fault(Code.CANCELLED, "the call was cancelled")
DRAINING: Final = Fault(Code.DRAINING, "the daemon is shutting down")
NO_JOBS: Final = Fault(Code.NOT_ALLOWED, "calls in the background are not among what this agent may do")
# For a call that is to become a job and has its answer, or is about to have it.
TOO_LATE: Final = Fault(Code.INVALID_REQUEST, "too late, or never: no call of this id runs or waits")
# A queue of calls moves within about this; an agent that asks again sooner only finds it full again.
RETRY_AFTER_MS: Final = 1000
# An unknown name is repeated in a fault up to this many characters.
SHOWN_NAME: Final = 128

# A fault names at most this many of the servers where a tool was looked for.
SHOWN_SERVERS: Final = 8

# The meaning of each limit that `too_many` names.
TOO_MANY: Final = {
    "connections": "channels at once",
    "in_flight_bytes": "bytes in the inputs of this agent's calls",
    "lines_per_s": "lines a second on one channel",
    "mcp_processes": "processes of MCP servers of one channel, or user, at once",
    "sessions": "sessions at once",
    "sessions_per_uid": "sessions, or channels, of one user at once",
}


def without_secrets(fault: Fault, masker: Masker) -> Fault:
    """The fault as its agent is told it; the same one where it holds no secret, nor what is left of one at an end.

    Tails are cut from longer texts, and so are exceptions: where, a tool's input may have a say in. A server's name is
    whole, though it may be the origin with which a secret URL begins.
    """
    if not masker:
        return fault
    detail = masker.mask_cut(fault.detail)
    extras = {key: masker.mask_value(value, is_cut=key != "server") for key, value in fault.extras.items()}
    return fault if detail == fault.detail and extras == fault.extras else Fault(fault.code, detail, extras)


def unknown_tool(name: str, close: str | None, *, profile: str, servers: Sequence[str]) -> Fault:
    """No tool has this name: where it was looked for, and the near name that was probably meant."""
    shown = name[:SHOWN_NAME]
    where = f"it is not among those of profile {profile}"
    if servers:
        rest = len(servers) - SHOWN_SERVERS
        named = ", ".join([*servers[:SHOWN_SERVERS], *([f"{rest} more"] if rest > 0 else [])])
        where = f"{where}, nor at its server{'s' if len(servers) > 1 else ''} {named}"
    extras: dict[str, object] = {"source": shown}
    return propose(Fault(Code.UNKNOWN_TOOL, f"{shown} is an unknown tool: {where}", extras), close)


def tool_left_out(name: str, why: str, *, server: str) -> Fault:
    """A server lists the tool, and it cannot be used."""
    shown = name[:SHOWN_NAME]
    detail = f"{shown} is an unknown tool: server {server} lists it, and it is left out: {why}"
    return Fault(Code.UNKNOWN_TOOL, detail, {"source": shown})


def propose(fault: Fault, close: str | None) -> Fault:
    """The fault with the name that was probably meant, in its sentence too; as it is where there is none."""
    if close is None:
        return fault
    return Fault(fault.code, f"{fault.detail}; did you mean {close}?", {**fault.extras, "did_you_mean": close})


def renamed(fault: Fault, name: str, spell: Callable[[str], str]) -> Fault:
    """The fault in the words of who asked: its name as it was written, and the near one as it is shown.

    The sentence of a fault with a `source` begins with it.
    """
    source, close = fault.extras.get("source"), fault.extras.get("did_you_mean")
    detail, extras = fault.detail, dict(fault.extras)
    if isinstance(close, str):
        detail = detail.removesuffix(f"; did you mean {close}?")
        del extras["did_you_mean"]
    if isinstance(source, str):
        shown = extras["source"] = name[:SHOWN_NAME]
        detail = shown + detail.removeprefix(source)
    return propose(Fault(fault.code, detail, extras), spell(close) if isinstance(close, str) else None)


def no_workspace(tool: str) -> Fault:
    """The tool works in a workspace, and its caller's session has none."""
    detail = f"{tool} works in the session's workspace, and this session has none"
    return Fault(Code.NOT_ALLOWED, detail, {"source": tool})


def never_in_background(tool: str) -> Fault:
    """A job that waits for jobs could wait for itself."""
    return Fault(Code.INVALID_REQUEST, f"{tool} never runs in the background")


def queue_full(queue: str) -> Fault:
    """No room for the call in `queue`, where calls wait for their turn."""
    return Fault(Code.QUEUE_FULL, "too many calls are waiting", {"queue": queue, "retry_after_ms": RETRY_AFTER_MS})


def rate_limited(queue: str, after_s: float | None) -> Fault:
    """The call comes too soon after others in `queue`."""
    after_ms = RETRY_AFTER_MS if after_s is None else math.ceil(after_s * 1000)
    return Fault(Code.RATE_LIMITED, f"calls come too often to {queue}", {"queue": queue, "retry_after_ms": after_ms})


def resting(name: str, after_s: float) -> Fault:
    """What `name` is of, a tool or a server, failed so often that it is not called for a while."""
    reason = "it failed too often, and rests"
    extras: dict[str, object] = {"server": name, "reason": reason, "retry_after_ms": math.ceil(after_s * 1000)}
    return Fault(Code.SERVER_UNAVAILABLE, f"{name} is not called now: {reason}", extras)


def switched_off(name: str) -> Fault:
    """The agent itself has switched the tool off."""
    detail = f"{name} is switched off: select switches it on again"
    return Fault(Code.NOT_ALLOWED, detail, {"source": name})


def too_many(what: str, limit: int) -> Fault:
    """More than `limits.WHAT` allows."""
    return Fault(Code.TOO_MANY, f"over the limit: {TOO_MANY[what]}", {"what": what, "limit": limit})


def too_large(max_content_bytes: int) -> Fault:
    """An answer over the bound."""
    detail = f"the answer is larger than {max_content_bytes} bytes"
    return Fault(Code.TOOL_FAILED, detail, {"limit": "content_bytes"})


def unknown_target(what: str, source: object) -> Fault:
    """The fault where an administrator names something that is not there."""
    extras: dict[str, object] = {"what": what, "source": str(source)[:SHOWN_NAME]}
    return Fault(Code.UNKNOWN_TARGET, f"there is no such {what}", extras)


def ran_at_once(fault: Fault) -> Fault:
    """The fault of a tool that answers at once, with whether the tool may have begun."""
    return fault.ran(may_have=fault.code is not Code.INVALID_INPUT)
