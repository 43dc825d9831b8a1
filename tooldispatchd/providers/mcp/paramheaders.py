"""`x-mcp-header`: which of a tool's arguments HTTP headers repeat, as the tool's inputSchema says.

Only a property of the arguments that the path from the root leads to by `properties` alone may be marked so: anywhere
else it could not be told which value is meant. A tool with any other mark is not to be used over HTTP (MCP 2026-07-28,
"Custom Headers from Tool Parameters").
"""

import re
from collections.abc import Iterator
from typing import Final

from tooldispatchd.providers.mcp.headers import PARAM_PREFIX

MARK: Final = "x-mcp-header"

# RFC 9110, section 5.6.2: `token`.
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
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

Path = tuple[str, ...]
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
        if MARK in schema:
            name = _marked(path, schema)
            if name.lower() in found:
                raise ParamHeaderError(_shown(path), f"has the {MARK} {name[:MAX_SHOWN]!a} of another property")
            assert path is not None
            found[name.lower()] = (PARAM_PREFIX + name, path)
    return tuple(found.values())


def _marked(path: Path | None, schema: dict[str, object]) -> str:
    where = _shown(path)
    name = schema[MARK]
    if not path:
        raise ParamHeaderError(where, f"has an {MARK} where no property of the arguments is")
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        raise ParamHeaderError(where, f"has an {MARK} that is no name of a header")
    type_ = schema.get("type")
    if not isinstance(type_, str) or type_ not in _TYPES:
        raise ParamHeaderError(where, f"has an {MARK} and is neither string nor integer nor boolean")
    return name


def _shown(path: Path | None) -> str:
    return "inputSchema" if not path else f"property {'.'.join(path)[:MAX_SHOWN]!a}"


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
