"""Look for a request's `id` in the head of a line that cannot be decoded: too long, cut, or malformed.

One pass over the top-level keys, without recursion. What cannot be read there is not guessed: the caller then has no
id and says so in a `fault` line.
"""

import re
from typing import Final

import msgspec

# A string and whether it names a value; a run of brackets; the quote of a string that never ends. No step back: what
# was taken once is not tried again, and a head of nothing but brackets is one token.
_TOKEN: Final = re.compile(rb'("(?:[^"\\\x00-\x1f]++|\\.)*+")([ \t\r\n]*+:[ \t\r\n]*+)?+|[{\[]++|[}\]]++|"')
_BEGINS: Final = (b'"', b"{", b"[")


class Seen(msgspec.Struct, frozen=True):
    """The fields found in the head of a line: its id, whether that stood in `msg`, its port, its agent."""

    id: str | None = None
    nested: bool = False
    port: str | None = None
    agent: str | None = None


def peek(head: bytes) -> Seen:
    """Read the fields of the object in `head` at its top level, or else in its top-level `msg`."""
    outer, inner = _string_fields(head)
    port = outer.get("__port")
    if "id" in outer:
        return Seen(outer["id"], port=port, agent=outer.get("agent"))
    agent = outer.get("agent", inner.get("agent"))
    if "id" in inner and port == "tool_req":
        return Seen(inner["id"], nested=True, port=port, agent=agent)
    return Seen(port=port, agent=agent)


def _string_fields(head: bytes) -> tuple[dict[str, str], dict[str, str]]:
    """The string fields at the top level, and those in the object at the top-level key `msg`; the first of a name."""
    outer: dict[str, str] = {}
    inner: dict[str, str] = {}
    depth = 0
    in_msg = False
    key: str | None = None
    for token in _TOKEN.finditer(head):
        literal, colon = token.groups()
        if literal is not None:
            text = _text(literal)
            if text is None:
                break
            if colon is None and key is not None and depth == 1 + in_msg:
                (inner if in_msg else outer).setdefault(key, text)
            # Where no string and no bracket follows, the value is one that ends before the next token.
            key = text if colon is not None and head.startswith(_BEGINS, token.end()) else None
            continue
        run = token.group()
        if run[:1] == b'"':
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


def _text(literal: bytes) -> str | None:
    try:
        return msgspec.json.decode(literal, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
