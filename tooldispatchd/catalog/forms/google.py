"""The form of Google's Gemini and Vertex AI: a function declaration whose schema is their own `Schema`.

That is a part of OpenAPI 3.0's, as a protocol buffer (ai.google.dev, "Schema"; cloud.google.com, "Schema"): one `type`,
upper case, and `nullable` beside it; an `enum` of strings only; no references, no `additionalProperties`; what is not
one of its fields fails the whole request. The APIs' errors tell the rest: a schema has a type, or `anyOf` and nothing
else; an array has `items`. A function without parameters has no `parameters`. No length of a description is published.
"""

import json
from collections import deque
from typing import Final

from tooldispatchd.catalog.forms.merging import (
    as_object,
    keep_names,
    merge,
    options_of,
    properties_of,
    required_of,
    schema_at,
    type_of,
    types_of,
)
from tooldispatchd.catalog.forms.propertynames import PROPERTY_NAMES
from tooldispatchd.catalog.forms.rendered import Notes, Path, Rendered, Schema
from tooldispatchd.catalog.forms.rewriting import rewrite
from tooldispatchd.catalog.offered import Offered
from tooldispatchd.catalog.problems import cut

# Published of a declaration's parameters; the names deeper within are not restricted.
_NAME: Final = PROPERTY_NAMES["google"]
_ALL: Final = ("string", "number", "boolean", "object", "array", "null")
_FORMATS: Final = {
    "string": frozenset({"date-time"}),
    "number": frozenset({"float", "double"}),
    "integer": frozenset({"int32", "int64"}),
}
_FIELDS: Final = {
    "string": ("minLength", "maxLength", "pattern"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}
_EXCLUSIVE: Final = {"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}
_COUNTS: Final = frozenset({"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"})
_MAX_COUNT: Final = 2**63 - 1
_UNSAID: Final = {
    "array": "uniqueItems",
    "number": "multipleOf",
    "integer": "multipleOf",
    "object": "additionalProperties",
}
_WORDS: Final = ("title", "description", "default")
# What stands beside alternatives without making each of them a copy of a large object.
_SMALL: Final = frozenset({*_WORDS, "type", "format", "pattern", "minLength", "maxLength", "minimum", "maximum"})
_MAX_QUOTED: Final = 200
# A part that may be anything is written as all the types there are, some twenty values: no more of them than a page.
_MAX_OPEN: Final = 64
# How many types that is beyond the one that each part has: four others, and four that the items of an array have.
_OPEN_TYPES: Final = 8


def render_google(tool: Offered, name: str) -> Rendered:
    """`{name, description, parameters?}`; `parameters` only where there are any."""
    notes = Notes()
    root = keep_names(as_object(rewrite(tool.input_schema, notes), notes), _NAME, notes)
    root = _pruned(root, notes)
    entry: dict[str, object] = {"name": name, "description": tool.description}
    if properties_of(root):
        entry["parameters"] = _single("object", root, (), notes)
    elif root.get("additionalProperties") is not False:
        notes.add("any object may stand at", (), "but its form can name no parameters")
    return Rendered(entry, notes.phrases())


def _spell(schema: Schema, path: Path, notes: Notes) -> Schema:
    """A part in Google's words: one option for each type that it admits, null said of the first."""
    schema = _opened(schema, path, notes)
    options: list[Schema] = []
    nullable = False
    for part in options_of(schema) or [schema]:
        if options_of(part):
            spelled = _spell(part, path, notes)
            options.extend(options_of(spelled) or [spelled])
            continue
        types = _types(part)
        nullable |= "null" in types
        # Several types of one schema: its words stand with the first.
        bare = {key: value for key, value in part.items() if key not in _WORDS}
        kinds = [kind for kind in types if kind != "null"]
        options.extend(_single(kind, bare if index else part, path, notes) for index, kind in enumerate(kinds))
    distinct = list({repr(option): option for option in options}.values())
    if not distinct:
        return {"type": "NULL"} | {key: schema[key] for key in _WORDS if key in schema}
    first = distinct[0]
    if nullable:
        first = {**first, "nullable": True}
    if options_of(schema):
        # `anyOf` stands alone, so what is said of all options is said with the first of them.
        said = [schema.get("description"), first.get("description")]
        about = " ".join(text for text in said if isinstance(text, str))
        first |= {"description": about} if about else {}
        first |= {key: schema[key] for key in ("title", "default") if key in schema}
    return first if len(distinct) == 1 else {"anyOf": [first, *distinct[1:]]}


def _pruned(root: Schema, notes: Notes) -> Schema:
    """A root without the last of the properties that may be anything, where they are many: no object here is closed."""
    pruned = dict(root)
    waiting = deque([pruned])
    left = _MAX_OPEN * _OPEN_TYPES
    while waiting:
        node = waiting.popleft()
        if properties_of(node):
            kept: dict[str, Schema] = {}
            for name, one in properties_of(node).items():
                beyond = _types_written(one) - 1
                left -= max(beyond, 0)
                if beyond <= 0 or left >= 0:
                    kept[name] = dict(one)
            node["properties"] = kept
            waiting.extend(kept.values())
        if "items" in node:
            items = dict(schema_at(node, "items"))
            node["items"] = items
            waiting.append(items)
        if "anyOf" in node:
            options = [dict(option) for option in options_of(node)]
            node["anyOf"] = options
            waiting.extend(options)
    if left < 0:
        notes.add("of the properties that may be anything, in", (), f"only {_MAX_OPEN} are listed")
    return pruned


def _types_written(schema: Schema) -> int:
    """How many parts of one type each a schema is written as, those of its properties aside. It is shallow."""
    options = options_of(schema)
    if options:
        return sum(map(_types_written, options))
    types = [kind for kind in _types(schema) if kind != "null"]
    if "array" not in types:
        return len(types)
    items = {} if "enum" in schema else schema_at(schema, "items")
    return len(types) + (len(_ALL) - 2 if _is_anything(items) else _types_written(items))


def _opened(schema: Schema, path: Path, notes: Notes) -> Schema:
    """A schema that has alternatives or constraints, not both: alternatives stand alone here."""
    options = options_of(schema)
    if not options:
        return schema
    own = {key: value for key, value in schema.items() if key != "anyOf"}
    if _SMALL.issuperset(own):
        beside = {key: value for key, value in own.items() if key not in _WORDS}
        words = {key: value for key, value in own.items() if key in _WORDS}
        return {**words, "anyOf": [merge(option, beside) for option in options]}
    notes.add("anyOf at", path, "is dropped: it cannot stand beside other keywords")
    return own


def _types(schema: Schema) -> list[str]:
    """The types that a schema without alternatives admits: those it names, else those of its values, else all."""
    values = schema.get("enum")
    if isinstance(values, list):
        return list(dict.fromkeys(type_of(value) for value in values))
    types = types_of(schema) or list(_ALL)
    return [kind for kind in types if not (kind == "integer" and "number" in types)]


def _single(kind: str, schema: Schema, path: Path, notes: Notes) -> Schema:
    """A schema of one type other than null, with the fields that this type may have."""
    shown: Schema = {"type": kind.upper()}
    shown |= {key: schema[key] for key in _WORDS if key in schema}
    listed = schema.get("enum")
    if isinstance(listed, list):
        values = [value for value in listed if type_of(value) == kind]
        if kind == "string" and all(values):
            return shown | {"format": "enum", "enum": list(dict.fromkeys(values))}
        # An enum has strings only, and no empty one.
        notes.add("the enum at", path, "is told in the description")
        said = cut(", ".join(json.dumps(value, ensure_ascii=False) for value in values), _MAX_QUOTED)
        about = schema.get("description")
        shown["description"] = f"{about} One of: {said}." if isinstance(about, str) else f"One of: {said}."
        return shown | ({"items": _items({}, path, notes)} if kind == "array" else {})
    for key in _FIELDS.get(kind, ()):
        # There are no exclusive limits here: an inclusive one admits one value more.
        value = schema.get(key, schema.get(_EXCLUSIVE.get(key, "")))
        if value is not None and (key not in _COUNTS or (isinstance(value, int) and value <= _MAX_COUNT)):
            shown[key] = value
    form = schema.get("format")
    if form in _FORMATS.get(kind, ()):
        shown["format"] = form
    elif form is not None and not any(form in known for known in _FORMATS.values()):
        notes.add(f"the format {form} at", path, "is dropped")
    unsaid = _UNSAID.get(kind)
    # Closed objects are what a model writes anyway: only what else may stand in one is lost.
    if unsaid in schema and schema[unsaid] is not False:
        notes.add(f"{unsaid} at", path, "is dropped")
    named = properties_of(schema) if kind == "object" else {}
    if named:
        shown["properties"] = {name: _spell(one, (*path, "properties", name), notes) for name, one in named.items()}
        required = [name for name in required_of(schema) if name in named]
        if required:
            shown["required"] = required
    if kind == "array":
        shown["items"] = _items(schema, path, notes)
    return shown


def _items(schema: Schema, path: Path, notes: Notes) -> Schema:
    """What stands in an array. Where that may be anything, it is anything but an array: there is no end to those."""
    items = schema_at(schema, "items")
    words: Schema = {key: items[key] for key in _WORDS if key in items}
    if _is_anything(items):
        notes.add("arrays within the array at", path, "are not described: their items must have types")
        items = {**words, "type": [kind for kind in _ALL if kind != "array"]}
    return _spell(items, (*path, "items"), notes)


def _is_anything(schema: Schema) -> bool:
    return all(key in _WORDS for key in schema)
