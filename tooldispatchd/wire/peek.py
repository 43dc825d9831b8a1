"""Look for a request's `id` in the head of a line that cannot be decoded: too long, cut, or malformed.

One pass over the strings, brackets and colons of the head, without recursion. A string before a colon is a member's
name, and its value is known where a string follows at once. Of several members of one name in an object the first one
counts, whatever its value is. What cannot be read so is not guessed: the caller then has no id and says so in a `fault`
line.
"""

import re
from typing import Final

import msgspec

# A string and whether it names a value; a run of brackets; the quote of a string that never ends. No step back: what
# was taken once is not tried again, and a head of nothing but brackets is one token.
_TOKEN: Final = re.compile(rb'("(?:[^"\\\x00-\x1f]++|\\.)*+")([ \t\r\n]*+:[ \t\r\n]*+)?+|[{\[]++|[}\]]++|"')
_BEGINS: Final = (b'"', b"{", b"[")


class Seen(msgspec.Struct, frozen=True):
    """The fields found in the head of a line: its id, whether that stood in `msg`, its port, its agent.

    A port that is no string is the empty one: such a line is no request, unlike one without a port.
    """

    id: str | None = None
    nested: bool = False
    port: str | None = None
    agent: str | None = None


def peek(head: bytes) -> Seen:
    """Read the fields of the object in `head` at its top level, or else in its top-level `msg`."""
    outer, inner = _members(head)
    port, agent = outer["__port"] or "" if "__port" in outer else None, outer.get("agent")
    if "id" in outer or port != "tool_req":
        return Seen(outer.get("id"), port=port, agent=agent)
    nested, agent = inner.get("id"), agent if "agent" in outer else inner.get("agent")
    return Seen(nested, nested=nested is not None, port=port, agent=agent)


def _members(head: bytes) -> tuple[dict[str, str | None], dict[str, str | None]]:
    """The members at the top level, and those of the object in its member `msg`; None for a value that is no string."""
    outer: dict[str, str | None] = {}
    inner: dict[str, str | None] = {}
    depth = 0
    in_msg = False
    key: str | None = None
    for token in _TOKEN.finditer(head):
        literal, colon = token.groups()
        if literal is not None:
            try:
                text = msgspec.json.decode(literal, type=str)
            except (msgspec.DecodeError, UnicodeDecodeError):
                break
            members = inner if in_msg else outer
            if colon is None:
                if key is not None:
                    members[key] = text
                key = None
            elif depth == 1 + in_msg and text not in members:
                members[text] = None
                # Where no string and no bracket follows, the value is one that ends before the next token.
                key = text if head.startswith(_BEGINS, token.end()) else None
            else:
                key = None
            continue
        run = token.group()
        if run[:1] == b'"' or (depth == 0 and run[:1] == b"["):
            break
        if run[:1] in b"{[":
            in_msg = in_msg or (depth == 1 and key == "msg" and run[:1] == b"{")
            depth += len(run)
        else:
            depth -= len(run)
            in_msg = in_msg and depth > 1
        key = None
        if depth <= 0:
            break
    return outer, inner
