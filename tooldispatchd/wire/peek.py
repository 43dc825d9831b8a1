"""Look for a request's `id` in the head of a line that cannot be decoded: too long, cut, or malformed.

One pass over the top-level keys, without recursion. What cannot be read there is not guessed: the caller then has no
id and says so in a `fault` line.
"""

import re
from typing import Final

import msgspec

_STRING: Final = re.compile(rb'"(?:[^"\\\x00-\x1f]|\\.)*"')
# All that is neither a string nor a bracket: numbers, literals, commas, colons, white space.
_BETWEEN: Final = re.compile(rb'[^"{}\[\]]*')
_COLON: Final = re.compile(rb"[ \t\r\n]*:[ \t\r\n]*")


class Seen(msgspec.Struct, frozen=True):
    """What the head of a line showed: the id, whether it stood in `msg`, and the port and the agent if they did."""

    id: str
    nested: bool
    port: str | None
    agent: str | None = None


def peek_id(head: bytes) -> Seen | None:
    """The id that the object in `head` bears at its top level or in its top-level `msg`; None where it has none."""
    ids: dict[bool, str] = {}
    agents: dict[bool, str] = {}
    port: str | None = None
    for in_msg, key, text in _string_fields(head):
        if key == "id":
            ids.setdefault(in_msg, text)
        elif key == "agent":
            agents.setdefault(in_msg, text)
        elif key == "__port" and not in_msg:
            port = text
    if False in ids:
        return Seen(ids[False], nested=False, port=port, agent=agents.get(False))
    if True in ids and port == "tool_req":
        return Seen(ids[True], nested=True, port=port, agent=agents.get(False, agents.get(True)))
    return None


def peek_agent(head: bytes) -> str | None:
    """The agent that the object in `head` names at its top level, else in its top-level `msg`; None for none."""
    agents: dict[bool, str] = {}
    for in_msg, key, text in _string_fields(head):
        if key == "agent":
            agents.setdefault(in_msg, text)
    return agents.get(False, agents.get(True))


def _string_fields(head: bytes) -> list[tuple[bool, str, str]]:
    """`(in msg, key, value)` of each string field at the top level and in the object at the top-level key `msg`."""
    fields: list[tuple[bool, str, str]] = []
    depth = msg_depth = 0
    key: str | None = None
    at = _BETWEEN.match(head).end()  # type: ignore[union-attr]  # it matches the empty string too
    while at < len(head):
        mark = head[at : at + 1]
        if mark == b'"':
            string = _STRING.match(head, at)
            text = None if string is None else _text(string.group())
            if string is None or text is None:
                break
            at = string.end()
            colon = _COLON.match(head, at)
            if colon is not None:
                key, at = text, colon.end()
                if head[at : at + 1] in b'"{[':
                    # The value begins here: `key` is still its name.
                    if head[at : at + 1] == b"{" and depth == 1 and key == "msg":
                        msg_depth = 2
                    continue
            elif key is not None and depth in (1, msg_depth):
                fields.append((depth == msg_depth, key, text))
            key = None
        else:
            depth += 1 if mark in b"{[" else -1
            if depth < msg_depth:
                msg_depth = 0
            key = None
            at += 1
            if depth <= 0:
                break
        at = _BETWEEN.match(head, at).end()  # type: ignore[union-attr]  # as above
    return fields


def _text(literal: bytes) -> str | None:
    try:
        return msgspec.json.decode(literal, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
