"""JSON Pointer (RFC 6901) on the text of a document: where a value stands, and the text with another in its place.

Texts are changed, not values: what is not pointed at stays as it was, with its indentation, and numbers keep the
digits that Python's would lose.
"""

import difflib
import json
import re
from typing import Final

import msgspec

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_WRONG_ESCAPE: Final = re.compile(r"~(?![01])")
_INDENT: Final = re.compile(r"[ \t]*")
_INDENTED: Final = re.compile(r"\n([ \t]+)\S")
_KINDS: Final = {'"': "a string", "t": "true", "f": "false", "n": "null"}
_MAX_TOLD_KEYS: Final = 10
END: Final = "-"


class PointerError(ValueError):
    """The pointer is none, or leads nowhere; its text says where it ends."""


class Span(msgspec.Struct, frozen=True):
    """Where a value stands in the text."""

    start: int
    end: int


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} stands twice in one object")
    return members


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


# Numbers are only passed over: as texts they have no bound.
_STRICT: Final = json.JSONDecoder(object_pairs_hook=_once, parse_int=str, parse_float=str, parse_constant=_refuse)
_FAST: Final = json.JSONDecoder(parse_int=str, parse_float=str)


def check(text: str) -> None:
    """Raises ValueError for what is no JSON, and for a key that an object has twice."""
    try:
        _STRICT.decode(text)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def keys_of(pointer: str) -> list[str]:
    """The keys and indexes on the way."""
    if pointer and not pointer.startswith("/"):
        raise PointerError('a pointer is empty, for the whole document, or begins with "/", as /servers/0/name')
    if _WRONG_ESCAPE.search(pointer):
        raise PointerError("in a pointer ~ is written ~0, and / within a key ~1")
    return [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]


def find(text: str, keys: list[str]) -> Span:
    """Where the value stands in `text`, which `check` has passed. Raises PointerError."""
    start = _after_space(text, 0)
    span = Span(start, _FAST.raw_decode(text, start)[1])
    for depth, key in enumerate(keys):
        members = _members(text, span, _said(keys[:depth]), key)
        if key not in members:
            raise PointerError(_missing(_said(keys[:depth]), key, members, is_list=text[span.start] == "["))
        span = members[key]
    return span


def put(text: str, keys: list[str], value: object) -> str:
    """The text with `value` at the place: another one's, a new key of an object, or with `-` the end of a list."""
    if keys:
        holder = find(text, keys[:-1])
        members = _members(text, holder, _said(keys[:-1]), keys[-1])
        is_list = text[holder.start] == "["
        if keys[-1] not in members and (not is_list or keys[-1] == END):
            return _added(text, holder, list(members.values()), None if is_list else keys[-1], value)
    span = find(text, keys)
    return text[: span.start] + _written(text, value, _indent_at(text, span.start)) + text[span.end :]


def _members(text: str, holder: Span, where: str, key: str) -> dict[str, Span]:
    """The values in an object or a list, by key or index."""
    bracket = text[holder.start]
    if bracket not in "{[":
        raise PointerError(f"{where} is {_KINDS.get(bracket, 'a number')}, in which there is no {key}")
    found: dict[str, Span] = {}
    at = _after_space(text, holder.start + 1)
    while text[at] not in "}]":
        name = str(len(found))
        if bracket == "{":
            name, at = _FAST.raw_decode(text, at)
            # Behind the colon.
            at = _after_space(text, _after_space(text, at) + 1)
        found[name] = Span(at, _FAST.raw_decode(text, at)[1])
        at = _after_space(text, found[name].end)
        if text[at] == ",":
            at = _after_space(text, at + 1)
    return found


def _added(text: str, holder: Span, members: list[Span], key: str | None, value: object) -> str:
    """The text with one member more at the end of `holder`, laid out as those before it."""
    after_bracket = text[holder.start + 1 : _after_space(text, holder.start + 1)]
    outer = _indent_at(text, holder.start)
    unit = _unit(text)
    is_spread = "\n" in after_bracket if members else unit is not None
    indent = outer + (unit or "") if is_spread else outer
    name = "" if key is None else json.dumps(key, ensure_ascii=False) + (": " if _is_spaced(text) else ":")
    member = name + _written(text, value, indent)
    if not members:
        inner = f"\n{indent}{member}\n{outer}" if is_spread else member
        return text[: holder.start + 1] + inner + text[holder.end - 1 :]
    gap = after_bracket if is_spread else " " * _is_spaced(text)
    return f"{text[: members[-1].end]},{gap}{member}{text[members[-1].end :]}"


def _written(text: str, value: object, indent: str) -> str:
    """The value as the document writes its own; lines behind the first one begin with `indent`."""
    unit = _unit(text)
    if unit is None:
        separators = (", ", ": ") if _is_spaced(text) else (",", ":")
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=separators)
    return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=unit).replace("\n", "\n" + indent)


def _unit(text: str) -> str | None:
    """What the first indented line begins with; None for a document on one line."""
    found = _INDENTED.search(text)
    return found.group(1) if found else None


def _is_spaced(text: str) -> bool:
    return ": " in text or ", " in text or not re.search(r"[:,]", text)


def _indent_at(text: str, at: int) -> str:
    """What the line begins with in which `at` is."""
    found = _INDENT.match(text, text.rfind("\n", 0, at) + 1)
    return found.group() if found else ""


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _said(keys: list[str]) -> str:
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in keys) or "the document"


def _missing(where: str, key: str, members: dict[str, Span], *, is_list: bool) -> str:
    if is_list:
        indexes = f": indexes go from 0 to {len(members) - 1}" if members else ""
        return f"{where} is a list of {len(members):,} items and has no {key}{indexes}"
    near = difflib.get_close_matches(key, members) or list(members)[:_MAX_TOLD_KEYS]
    return f"{where} has no key {key}" + (f"; near ones: {', '.join(near)}" if near else ", nor any other")
