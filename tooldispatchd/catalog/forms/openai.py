"""The forms of OpenAI's two APIs: chat completions nests a function, responses has it flat.

Published (platform.openai.com, "Structured outputs", "Function calling") and told by the API's errors: the root is an
object with `properties` and without `anyOf`, `oneOf`, `allOf`, `enum`, `not`; an array has `items`; the description of
a function in chat completions has at most 1,024 characters. What strict mode wants more stands below.
"""

from collections.abc import Collection
from copy import deepcopy
from typing import Final

from tooldispatchd.catalog.forms.drafts import REFERENCES, is_short, reads_alike
from tooldispatchd.catalog.forms.merging import as_object, options_of, properties_of, schema_at, types_of
from tooldispatchd.catalog.forms.rendered import Notes, Rendered, Schema, cut_description
from tooldispatchd.catalog.forms.rewriting import rewrite
from tooldispatchd.catalog.matching import looks_around
from tooldispatchd.catalog.offered import Offered, is_object
from tooldispatchd.catalog.schemakeywords import subschemas

MAX_DESCRIPTION: Final = 1_024

_REFUSED: Final = frozenset({"anyOf", "oneOf", "allOf", "enum", "not"})


def render_openai(tool: Offered, name: str) -> Rendered:
    """`{type, function: {name, description, parameters, strict}}`, for chat completions."""
    notes = Notes()
    description = cut_description(tool.description, MAX_DESCRIPTION, notes)
    function = _function(name, description, tool.input_schema, notes)
    return Rendered({"type": "function", "function": function}, notes.phrases())


def render_openai_responses(tool: Offered, name: str) -> Rendered:
    """`{type, name, description, parameters, strict}`, for responses."""
    notes = Notes()
    function = _function(name, tool.description, tool.input_schema, notes)
    return Rendered({"type": "function", **function}, notes.phrases())


def _function(name: str, description: str, schema: Schema, notes: Notes) -> Schema:
    """The function; `strict` is true where the schema is one of strict mode as it stands, references and all."""
    shown = {key: value for key, value in schema.items() if key != "$schema"}
    may_stand = is_short(schema) and reads_alike(schema)
    strict = may_stand and is_strict(shown)
    if not strict and not (may_stand and _fits(schema)):
        shown = _filled(as_object(rewrite(schema, notes), notes))
        strict = is_strict(shown)
    if strict and any("properties" in node and "required" not in node for node in subschemas(shown)):
        # The API refuses a strict object without `required`, even where nothing would stand in it.
        shown = deepcopy(shown)
        for node in subschemas(shown):
            if "properties" in node:
                node.setdefault("required", [])
    return {"name": name, "description": description, "parameters": shown, "strict": strict}


def _fits(schema: Schema) -> bool:
    """Whether the API takes a schema without strict mode, as it stands."""
    return (
        is_object(schema)
        and isinstance(schema.get("properties"), dict)
        and _REFUSED.isdisjoint(schema)
        and all(
            REFERENCES.isdisjoint(node) and ("array" not in types_of(node) or isinstance(node.get("items"), dict))
            for node in subschemas(schema)
        )
    )


def _filled(schema: Schema) -> Schema:
    """A rewritten schema in which each object has properties and each array items, if only empty ones."""
    filled = dict(schema)
    if "object" in types_of(schema) or "properties" in schema:
        filled["properties"] = {name: _filled(one) for name, one in properties_of(schema).items()}
    if "array" in types_of(schema) or "items" in schema:
        filled["items"] = _filled(schema_at(schema, "items"))
    if isinstance(schema.get("additionalProperties"), dict):
        filled["additionalProperties"] = _filled(schema_at(schema, "additionalProperties"))
    if "anyOf" in schema:
        filled["anyOf"] = [_filled(one) for one in options_of(schema)]
    return filled


# --- strict mode ---
#
# It keeps the model to the schema while it writes. It takes few keywords, and objects whose properties are all required
# and all there are. Whatever is not published as taken counts as refused: then the API asks for less, no more.

# The published limits, each over the whole schema.
MAX_PROPERTIES: Final = 5_000
MAX_LEVELS: Final = 10
MAX_NAMED_CHARS: Final = 120_000
MAX_ENUM_VALUES: Final = 1_000
LONG_ENUM: Final = 250
MAX_LONG_ENUM_CHARS: Final = 15_000

_FORMATS: Final = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
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
    parts: list[Schema] = []
    # A definition counts its levels from its own: written out in its place a recursive one would have no end of them.
    waiting: list[tuple[object, int]] = [(schema, 1), *((definition, 1) for definition in definitions.values())]
    while waiting:
        node, level = waiting.pop()
        if not isinstance(node, dict) or ("$defs" in node and node is not schema):
            return False
        if level > MAX_LEVELS and not _NESTING.isdisjoint(node):
            return False
        if "$ref" in node:
            head, _, name = str(node["$ref"]).rpartition("/")
            if len(node) > 1 or not (node["$ref"] == "#" or (head == "#/$defs" and name in definitions)):
                return False
        elif not _is_part(node):
            return False
        else:
            parts.append(node)
        # What an object and an array hold is a level further in; an option is not.
        waiting.extend((one, level + 1) for one in properties_of(node).values())
        if "items" in node:
            waiting.append((node["items"], level + 1))
        waiting.extend((one, level) for one in options_of(node))
    return _is_within_limits(parts, definitions)


def _is_within_limits(parts: list[Schema], definitions: Collection[str]) -> bool:
    properties, values, chars = 0, 0, sum(map(len, definitions))
    for part in parts:
        named, enum = properties_of(part), part.get("enum")
        listed = enum if isinstance(enum, list) else []
        said = sum(len(value) for value in [*listed, part.get("const")] if isinstance(value, str))
        if len(listed) > LONG_ENUM and said > MAX_LONG_ENUM_CHARS:
            return False
        properties += len(named)
        values += len(listed)
        chars += sum(map(len, named)) + said
    return properties <= MAX_PROPERTIES and values <= MAX_ENUM_VALUES and chars <= MAX_NAMED_CHARS


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
    if any(key in node and not (isinstance(node[key], list) and node[key]) for key in ("anyOf", "enum")):
        return False
    if "format" in node and node["format"] not in _FORMATS:
        return False
    if looks_around(str(node.get("pattern", ""))):
        # The API refuses the whole request.
        return False
    if "array" in types and not isinstance(node.get("items"), dict):
        return False
    properties, required = node.get("properties"), node.get("required", [])
    return "object" not in types or (
        isinstance(properties, dict)
        and isinstance(required, list)
        and node.get("additionalProperties") is False
        and len(required) == len(properties)
        and all(name in properties for name in required)
    )
