"""The HTTP headers by which revision 2026-07-28 repeats parts of a message, and how their values are encoded.

Proxies route by them without reading the body, and a server refuses a message whose headers say something else than its
body (MCP 2026-07-28, "Streamable HTTP": "Standard Request Headers", "Custom Headers from Tool Parameters").
"""

import base64
import re
from typing import Final

import msgspec
from msgspec import Raw

from tooldispatchd.providers.mcp.messages import DECODE_ERRORS
from tooldispatchd.wire.lines import Text

VERSION: Final = "MCP-Protocol-Version"
METHOD: Final = "Mcp-Method"
NAME: Final = "Mcp-Name"
PARAM_PREFIX: Final = "Mcp-Param-"

# The member of `params` that names what a request is about.
_NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

# Printable ASCII that keeps its blanks on the way: those at the ends are cut off by whoever reads a header.
_PLAIN: Final = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?")
_ENCODED: Final = re.compile(r"=\?base64\?.*\?=", re.IGNORECASE)

_decode: Final = msgspec.json.Decoder().decode


def encode_value(value: str) -> str:
    """`value` as it stands in a header: itself, or in base64 where it could be changed or misread on the way."""
    if _PLAIN.fullmatch(value) and not _ENCODED.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


def name_in(method: str, params: dict[str, object]) -> str | None:
    """The tool, prompt or resource that a request is about; None where it is about none."""
    member = _NAMED_BY.get(method)
    name = None if member is None else params.get(member)
    if isinstance(name, Raw):
        try:
            name = _decode(name)
        except DECODE_ERRORS:
            return None
    return name if isinstance(name, str) else None


def param_headers(params: tuple[tuple[str, tuple[str, ...]], ...], arguments: Text) -> list[tuple[str, str]]:
    """The headers that repeat some of a tool's `arguments` (a JSON object): each header's name, and the path to it.

    An argument that is absent, null, or neither text, number nor boolean has no header.
    """
    if not params:
        return []
    try:
        value = _decode(arguments)
    except DECODE_ERRORS:
        return []
    found = ((header, _rendered(_at(value, path))) for header, path in params)
    return [(header, encode_value(text)) for header, text in found if text is not None]


def _at(value: object, path: tuple[str, ...]) -> object:
    for step in path:
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


def _rendered(value: object) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        # An integer to JSON Schema and to JavaScript, which writes no point either.
        value = int(value)
    if not isinstance(value, int | float):
        return None
    try:
        return str(value)
    except ValueError:
        # An integer of thousands of digits.
        return None
