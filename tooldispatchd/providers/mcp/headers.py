"""The HTTP headers by which revision 2026-07-28 repeats parts of a message, and how their values are encoded.

Proxies route by them without reading the body, and a server refuses a message whose headers say something else than its
body (MCP 2026-07-28, "Streamable HTTP": "Standard Request Headers", "Custom Headers from Tool Parameters").

A tool's inputSchema marks with `x-mcp-header` which arguments headers repeat. Only a property of the arguments that the
path from the root leads to by `properties` alone may be marked so: anywhere else it could not be told which value is
meant. A tool with any other mark is not to be used over HTTP.
"""

import base64
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Raw

from tooldispatchd.catalog.violations import Violation, pointer_of
from tooldispatchd.providers.mcp.messages import DECODE_ERRORS
from tooldispatchd.wire.lines import Text

VERSION: Final = "MCP-Protocol-Version"
METHOD: Final = "Mcp-Method"
NAME: Final = "Mcp-Name"
PARAM_PREFIX: Final = "Mcp-Param-"

# The member of `params` that names what a request is about.
_NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

# Printable ASCII that keeps its blanks on the way: readers of headers cut off those at the ends.
_PLAIN: Final = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?")
_ENCODED: Final = re.compile(r"=\?base64\?.*\?=", re.IGNORECASE)

# Of one argument, as JSON. Servers take no more than that of all headers together.
MAX_VALUE_BYTES: Final = 64 * 1024

_decode: Final = msgspec.json.Decoder().decode
_ABSENT: Final = Raw(b"")

Path = tuple[str, ...]


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


def param_headers(params: tuple[tuple[str, Path], ...], arguments: Text) -> list[tuple[str, str]] | Violation:
    """The headers that repeat some of a tool's `arguments` (a JSON object): each header's name, and the path to it.

    An argument that is absent, null, or neither text, number nor boolean has no header. One longer than
    `MAX_VALUE_BYTES` is a violation.
    """
    paths, found = dict(params), dict[str, str]()
    try:
        _find(paths, arguments, found)
    except _TooLongError as error:
        why = f"is longer than {MAX_VALUE_BYTES} bytes, and the header {error} repeats it"
        return Violation(pointer_of(paths[str(error)]), why)
    return [(header, found[header]) for header, _ in params if header in found]


def find_param_headers(params: bytes, arguments: bytearray) -> tuple[bytes, bytes]:
    """As `param_headers`, in MessagePack (a job of a checker)."""
    return msgspec.msgpack.encode(param_headers(_decode_params(params), arguments)), b""


_decode_params: Final = msgspec.msgpack.Decoder(tuple[tuple[str, Path], ...]).decode


class _TooLongError(Exception):
    """The argument of that header is too long for one."""


def _find(paths: dict[str, Path], text: Text, found: dict[str, str]) -> None:
    """Add to `found` what headers say of the values in `text` to which these paths lead.

    Nothing else is decoded, for it may be as large as a line.
    """
    for header, path in paths.items():
        if path or bytes(memoryview(text)[:1]) in {b"{", b"["}:
            continue
        if len(text) > MAX_VALUE_BYTES:
            raise _TooLongError(header)
        value = _rendered(text)
        if value is not None:
            found[header] = encode_value(value)
    steps = tuple(dict.fromkeys(path[0] for path in paths.values() if path))
    try:
        members = _reader(steps)(text) if steps else ()
    except DECODE_ERRORS:
        return
    for step, member in zip(steps, members, strict=True):
        if member:
            _find({header: path[1:] for header, path in paths.items() if path[:1] == (step,)}, member, found)


# As many as there are tools with such arguments.
@lru_cache(maxsize=256)
def _reader(names: tuple[str, ...]) -> Callable[[Text], tuple[Raw, ...]]:
    """What reads these members of an object, empty where they are not there, and passes over all others."""
    fields = [(f"member_{number}", Raw, _ABSENT) for number in range(len(names))]
    rename = {field: name for (field, _, _), name in zip(fields, names, strict=True)}
    decode = msgspec.json.Decoder(msgspec.defstruct("Arguments", fields, rename=rename)).decode
    return lambda text: msgspec.structs.astuple(decode(text))


def _rendered(text: Text) -> str | None:
    try:
        value = _decode(text)
    except DECODE_ERRORS:
        return None
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


MARK: Final = "x-mcp-header"

# RFC 9110, section 5.6.2: `token`.
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# What a decoder of some members alone does not take as a name.
_UNREADABLE: Final = re.compile(r'["\\\x00-\x1f]')
# A number has many spellings, and its header just one.
_TYPES: Final = frozenset({"string", "integer", "boolean"})

# The keywords of 2020-12 whose values are schemas, lists of them, or schemas by name; all else is data, in which the
# mark is just a word. `properties` has a rule of its own.
_SCHEMAS: Final = frozenset(
    {
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_MAPS: Final = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties"})

MAX_SHOWN: Final = 80


class ParamHeaderError(Exception):
    """A mark that is not allowed: `where` it stands, and `why`."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where} {why}")
        self.where = where
        self.why = why


def read_param_headers(input_schema: dict[str, object]) -> tuple[tuple[str, Path], ...]:
    """The headers, and the path to the argument that each repeats; in the schema's order.

    The schema is bounded already, in size and depth. Raises `ParamHeaderError`.
    """
    found: dict[str, tuple[str, Path]] = {}
    for path, schema in _schemas(input_schema):
        if MARK not in schema:
            continue
        if not path:
            raise ParamHeaderError("inputSchema", f"has an {MARK} where no property of the arguments is")
        where, name, type_ = f"property {'.'.join(path)[:MAX_SHOWN]!a}", schema[MARK], schema.get("type")
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise ParamHeaderError(where, f"has an {MARK} that is no name of a header")
        if not isinstance(type_, str) or type_ not in _TYPES:
            raise ParamHeaderError(where, f"has an {MARK} and is neither string nor integer nor boolean")
        if any(map(_UNREADABLE.search, path)):
            raise ParamHeaderError(where, f"has an {MARK} and a name with a quote, a backslash or a control character")
        if name.lower() in found:
            raise ParamHeaderError(where, f"has the {MARK} {name[:MAX_SHOWN]!a} of another property")
        found[name.lower()] = (PARAM_PREFIX + name, path)
    return tuple(found.values())


def _schemas(root: dict[str, object]) -> Iterator[tuple[Path | None, dict[str, object]]]:
    """Every subschema with the path of properties to it; None where anything else lies on the way.

    References are not followed: what they lead to stands somewhere itself.
    """
    waiting: list[tuple[Path | None, object]] = [((), root)]
    while waiting:
        path, schema = waiting.pop()
        if not isinstance(schema, dict):
            continue
        yield path, schema
        # Backwards, as they are taken from the end.
        for keyword, value in reversed(schema.items()):
            if keyword == "properties" and isinstance(value, dict):
                waiting += [(None if path is None else (*path, name), each) for name, each in reversed(value.items())]
            elif keyword in _MAPS and isinstance(value, dict):
                waiting += [(None, each) for each in value.values()]
            elif keyword in _LISTS and isinstance(value, list):
                waiting += [(None, each) for each in value]
            elif keyword in _SCHEMAS:
                waiting.append((None, value))
