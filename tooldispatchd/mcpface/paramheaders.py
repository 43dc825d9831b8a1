"""The headers by which a client of 2026-07-28 repeats arguments over HTTP (`x-mcp-header`), compared with the body.

Only a property of the root is shown with its mark, and so compared; any other mark is left out of what is shown.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

import msgspec
from msgspec import Raw, UnsetType

from tooldispatchd.mcpface.jsonrpc import UNREADABLE, members

MARK: Final = "x-mcp-header"
PREFIX: Final = "mcp-param-"
# RFC 9110, section 5.6.2: `token`.
TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_TYPES: Final = ("string", "integer", "boolean")
_BEGIN, _END = "=?base64?", "?="


def with_marks(schema: Raw, *, is_kept: bool) -> Raw:
    """Leave the marks out of an input schema but those that are compared, and these too where they are not kept."""
    if MARK.encode() not in bytes(schema):
        return schema
    kept = marks_of(schema) if is_kept else {}
    shown = _unmark(msgspec.json.decode(schema))
    for name, mark in kept.items():
        shown["properties"][name][MARK] = mark  # type: ignore[index]  # read there
    return Raw(msgspec.json.encode(shown))


def marks_of(schema: Raw | UnsetType) -> dict[str, str]:
    """Read the mark of each property of the root that is repeated in a header, by the property's name."""
    if isinstance(schema, UnsetType) or MARK.encode() not in bytes(schema):
        return {}
    properties = msgspec.json.decode(schema).get("properties")
    found: dict[str, str] = {}
    for name, part in properties.items() if isinstance(properties, dict) else ():
        mark = part.get(MARK) if isinstance(part, dict) and part.get("type") in _TYPES else None
        if isinstance(mark, str) and TOKEN.fullmatch(mark) and mark.lower() not in map(str.lower, found.values()):
            found[name] = mark
    return found


def find_mismatch(marks: Mapping[str, str], arguments: Raw | UnsetType, headers: Mapping[str, str]) -> str | None:
    """Find the header that does not repeat its argument; None where all do. `headers` have names in lower case."""
    try:
        given = {} if isinstance(arguments, UnsetType) else members(arguments)
        for name, mark in marks.items():
            value = msgspec.json.decode(given.get(name, b"null"))
            if not _is_same(value, headers.get(PREFIX + mark.lower())):
                return f"Mcp-Param-{mark}"
    except UNREADABLE:
        # Not an object: the daemon says so.
        pass
    return None


def decoded(value: str | None) -> str | None:
    """Read a header's value, which is written in base64 where a header could not hold it; None for a wrong one."""
    if value is None or not (value.startswith(_BEGIN) and value.endswith(_END)):
        return value
    try:
        return base64.b64decode(value[len(_BEGIN) : -len(_END)], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def _is_same(value: object, header: str | None) -> bool:
    said = decoded(header)
    if said is None or isinstance(value, str):
        # What is no text, number or boolean has no header, and breaks the schema.
        return said == value if isinstance(value, str) else header is None and not isinstance(value, bool | int | float)
    if isinstance(value, bool):
        return said == ("true" if value else "false")
    try:
        # A number has many spellings, and is compared in full.
        return isinstance(value, int | float) and Decimal(said) == value
    except ArithmeticError:
        return False


def _unmark(schema: object) -> object:
    # A property of that name stays, since its schema is no string.
    if isinstance(schema, list):
        return [_unmark(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _unmark(value) for key, value in schema.items() if not (key == MARK and isinstance(value, str))}
