"""Which schemas OpenAI's strict mode takes as they stand (platform.openai.com, "Structured outputs").

Strict mode keeps the model to the schema while it writes. It takes few keywords, and objects whose properties are all
required and all there are. Whatever is not published as taken counts as refused: then the API asks for less, no more.
"""

from typing import Final

from tooldispatchd.catalog.forms.merging import types_of
from tooldispatchd.catalog.forms.rendered import Schema

# The published limits, each over the whole schema.
MAX_PROPERTIES: Final = 5_000
MAX_LEVELS: Final = 10
MAX_NAMED_CHARS: Final = 120_000
MAX_ENUM_VALUES: Final = 1_000
LONG_ENUM: Final = 250
MAX_LONG_ENUM_CHARS: Final = 15_000

_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"},
)
_TYPES: Final = frozenset({"string", "number", "boolean", "integer", "object", "array", "null"})
_NESTING: Final = frozenset({"properties", "items"})
_COMMON: Final = frozenset({"type", "title", "description", "enum", "const", "$defs", "anyOf"})
_BY_TYPE: Final = {
    "string": frozenset({"pattern", "format"}),
    "number": frozenset({"multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}),
    "integer": frozenset({"multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}),
    "array": frozenset({"items", "minItems", "maxItems"}),
    "object": frozenset({"properties", "required", "additionalProperties"}),
}


_KNOWN: Final = {kind: _COMMON | _BY_TYPE.get(kind, frozenset()) for kind in _TYPES}


def is_strict(schema: Schema) -> bool:
    """Whether strict mode takes a schema, whose own references must lead to its `$defs` or its root."""
    if schema.get("type") != "object" or "anyOf" in schema:
        return False
    definitions = schema.get("$defs", {})
    if not isinstance(definitions, dict):
        return False
    census = _Census()
    census.name(definitions)
    # A definition counts its levels from its own: written out in its place a recursive one would have no end of them.
    waiting: list[tuple[object, int]] = [(schema, 1), *((definition, 1) for definition in definitions.values())]
    while waiting:
        node, level = waiting.pop()
        if not isinstance(node, dict) or ("$defs" in node and node is not schema):
            return False
        if level > MAX_LEVELS and not _NESTING.isdisjoint(node):
            return False
        if "$ref" in node:
            if len(node) > 1 or not _leads(node["$ref"], definitions):
                return False
        elif not _is_part(node) or not census.count(node):
            return False
        waiting.extend(_inner(node, level))
    return True


class _Census:
    """What strict mode limits over a whole schema."""

    def __init__(self) -> None:
        self._properties = 0
        self._chars = 0
        self._values = 0

    def name(self, names: dict[str, object]) -> None:
        self._chars += sum(map(len, names))

    def count(self, node: Schema) -> bool:
        """Count what a part has; whether everything is within the limits still."""
        properties = node.get("properties")
        if isinstance(properties, dict):
            self.name(properties)
            self._properties += len(properties)
        values = node.get("enum", [])
        if not isinstance(values, list):
            return False
        self._values += len(values)
        chars = sum(len(value) for value in [*values, node.get("const")] if isinstance(value, str))
        self._chars += chars
        return (
            self._properties <= MAX_PROPERTIES
            and self._chars <= MAX_NAMED_CHARS
            and self._values <= MAX_ENUM_VALUES
            and not (len(values) > LONG_ENUM and chars > MAX_LONG_ENUM_CHARS)
        )


def _is_part(node: Schema) -> bool:
    """Whether a part has only what its types may have, and all that they must have."""
    types = types_of(node)
    if not types and "anyOf" not in node:
        return False
    if not _TYPES.issuperset(types):
        return False
    known = _KNOWN[types[0]] if len(types) == 1 else _COMMON.union(*(_KNOWN[kind] for kind in types))
    if not known.issuperset(node):
        return False
    if "anyOf" in node and not (isinstance(node["anyOf"], list) and node["anyOf"]):
        return False
    if "enum" in node and not node["enum"]:
        return False
    if "format" in node and node["format"] not in _FORMATS:
        return False
    if "array" in types and not isinstance(node.get("items"), dict):
        return False
    return "object" not in types or _is_closed(node)


def _is_closed(node: Schema) -> bool:
    properties = node.get("properties")
    required = node.get("required", [])
    return (
        isinstance(properties, dict)
        and isinstance(required, list)
        and node.get("additionalProperties") is False
        and len(required) == len(properties)
        and all(name in properties for name in required)
    )


def _leads(reference: object, definitions: dict[str, object]) -> bool:
    if reference == "#":
        return True
    head, _, name = str(reference).rpartition("/")
    return head == "#/$defs" and name in definitions


def _inner(node: Schema, level: int) -> list[tuple[object, int]]:
    """The parts of a part; an object's and an array's are a level further in."""
    properties = node.get("properties")
    options = node.get("anyOf")
    inner = [(one, level + 1) for one in (properties.values() if isinstance(properties, dict) else ())]
    if "items" in node:
        inner.append((node["items"], level + 1))
    return inner + [(one, level) for one in (options if isinstance(options, list) else ())]
