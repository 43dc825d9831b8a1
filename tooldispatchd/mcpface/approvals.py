"""Whether a call may run, as a form that an MCP client shows, and the verdict that its answer is. Pure.

A client says `accept`, and with that at most for how long; any other answer, and none, is a no.
"""

import json
from typing import Final

import msgspec
from msgspec import Raw

from tooldispatchd.mcpface.daemonside import DaemonLine
from tooldispatchd.mcpface.jsonrpc import UNREADABLE

NO_FORMS: Final = (
    "this MCP client does not declare `elicitation` with forms, by which its user is asked: "
    "use one that does, or name an `approver` in the profile"
)
_NO_ANSWER: Final = "the client gave no answer"
# Clients without a way to leave a field out need a word for what holds without it.
_REMEMBERED: Final = {"this call": None, "this input": True, "this tool": "tool"}
_FORM: Final = {
    "type": "object",
    "properties": {
        "allow": {
            "type": "string",
            "title": "Allow",
            "description": "What an accepted question allows; without an answer this call.",
            "enum": list(_REMEMBERED),
        }
    },
}


class _Elicited(msgspec.Struct):
    """What is read of an `ElicitResult`."""

    action: str
    content: dict[str, object] | None = None


_read: Final = msgspec.json.Decoder(_Elicited).decode


def form_of(line: DaemonLine) -> Raw:
    """The `params` of `elicitation/create` for an `approve_req`."""
    said = [f"May {line.name} run?", f"Why this is asked: {line.reason}"]
    if line.caller is not None:
        said.append(f"For: {'/'.join(line.caller.values())}")
    said += [f"Input: {bytes(line.input).decode()}", f"SHA-256 of the input: {line.sha256}"]
    # A value that a model chose must not look like a line of ours, nor like another value.
    return Raw(msgspec.json.encode({"message": "\n".join(map(_seen, said)), "requestedSchema": _FORM}))


def verdict_of(result: Raw | None) -> dict[str, object]:
    """The fields of `approve_resp` for an `ElicitResult`; None where there is none."""
    try:
        elicited = None if result is None else _read(result)
    except UNREADABLE:
        elicited = None
    if elicited is not None and elicited.action == "accept":
        allowed = (elicited.content or {}).get("allow")
        return {"allow": True, "remember": _REMEMBERED.get(allowed) if isinstance(allowed, str) else None}
    is_declined = elicited is not None and elicited.action == "decline"
    return {"allow": False, "reason": "the client's user declined" if is_declined else _NO_ANSWER}


def _seen(text: str) -> str:
    """The text with what cannot be seen, such as a change of direction, as JSON escapes it."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)
