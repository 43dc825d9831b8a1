"""The root of a schema as the providers want it: one object with properties, and nothing beside that."""

import re

from tooldispatchd.catalog.forms.merging import (
    alternatives,
    merge,
    options_of,
    properties_of,
    required_of,
    types_of,
)
from tooldispatchd.catalog.forms.rendered import Notes, Schema


def as_object(schema: Schema, notes: Notes) -> Schema:
    """A rewritten schema as one that names `object`, lists its properties, and has no anyOf and no enum.

    Every object that it admits is admitted still: a tool whose schema says less is called with objects all the same.
    """
    root = {**schema, "type": "object"}
    if root.pop("enum", None) is not None:
        notes.add("the enum at", (), "is dropped: no object may have one there")
    root.pop("anyOf", None)
    options = _objects(options_of(schema))
    if options:
        notes.add("the alternatives at", (), "are said as one object with the properties of all")
        root = _joined(root, options)
    return {"type": "object", "properties": {}, **root}


def keep_names(root: Schema, allowed: re.Pattern[str], notes: Notes) -> Schema:
    """A root without the properties whose names a provider refuses; it is open then, so that they may stand."""
    named = properties_of(root)
    refused = [name for name in named if not allowed.fullmatch(name)]
    if not refused:
        return root
    for name in refused:
        notes.add("the property", ("properties", name), "is left out: the form does not take its name")
    kept = {key: value for key, value in root.items() if key != "additionalProperties"}
    kept["properties"] = {name: one for name, one in named.items() if allowed.fullmatch(name)}
    kept["required"] = [name for name in required_of(root) if allowed.fullmatch(name)]
    if not kept["required"]:
        del kept["required"]
    return kept


def _objects(options: list[Schema]) -> list[Schema]:
    """The options that admit objects, those in options with them."""
    found: list[Schema] = []
    for option in options:
        if types_of(option) and "object" not in types_of(option):
            continue
        inner = options_of(option)
        if inner:
            own = {key: value for key, value in option.items() if key != "anyOf"}
            found.extend(merge(own, one) for one in _objects(inner))
        else:
            found.append(option)
    return found


def _joined(root: Schema, options: list[Schema]) -> Schema:
    """One object for a root and any of its options: what only some require is required no more."""
    named = dict(properties_of(root))
    for name in dict.fromkeys(name for option in options for name in properties_of(option)):
        if name not in named:
            named[name] = alternatives(_said_of(name, option) for option in options if _admits(name, option))
    required = [name for name in required_of(options[0]) if all(name in required_of(one) for one in options)]
    joined = {**root, "properties": named}
    if required or required_of(root):
        joined["required"] = list(dict.fromkeys(required_of(root) + required))
    if "additionalProperties" not in root and all(one.get("additionalProperties") is False for one in options):
        joined["additionalProperties"] = False
    return joined


def _admits(name: str, option: Schema) -> bool:
    return name in properties_of(option) or option.get("additionalProperties") is not False


def _said_of(name: str, option: Schema) -> Schema:
    """What an option says of a property: of one that it does not list, what it says of the rest, or nothing."""
    listed = properties_of(option).get(name)
    if listed is not None:
        return listed
    rest = option.get("additionalProperties")
    return rest if isinstance(rest, dict) else {}
