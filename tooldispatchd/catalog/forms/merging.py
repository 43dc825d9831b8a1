"""Merge rewritten schemas: two into one, and a root's alternatives into the one object that providers want."""

import re
from collections.abc import Collection, Iterable
from typing import Final

from tooldispatchd.catalog.forms.rendered import Notes, Schema

_LOWER: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_FIRST: Final = ("enum", "anyOf", "pattern", "format", "multipleOf")
_TYPES: Final = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object", list: "array"}


def merge(left: Schema, right: Schema) -> Schema:
    """A schema that admits whatever both admit, and little else; the left one's words win."""
    merged = right | left
    for key in _LOWER:
        if key in left and key in right:
            merged[key] = max(_number(left[key]), _number(right[key]))
    for key in _UPPER:
        if key in left and key in right:
            merged[key] = min(_number(left[key]), _number(right[key]))
    if "type" in left and "type" in right:
        both = [kind for kind in types_of(left) if kind in _widened(types_of(right))]
        both += [kind for kind in types_of(right) if kind in _widened(types_of(left)) and kind not in both]
        # Where no type is left nothing is admitted; the left one's types are a superset of that.
        merged["type"] = spelled(both) if both else left["type"]
    if right.get("uniqueItems") is True:
        merged["uniqueItems"] = True
    # A name that either one lists may stand, so a closed object stays closed.
    if "properties" in left and "properties" in right:
        others = properties_of(right)
        named = {name: merge(one, others[name]) if name in others else one for name, one in properties_of(left).items()}
        merged["properties"] = named | {name: one for name, one in others.items() if name not in named}
    if "required" in left and "required" in right:
        merged["required"] = list(dict.fromkeys(required_of(left) + required_of(right)))
    if "additionalProperties" in left and "additionalProperties" in right:
        rest = (left["additionalProperties"], right["additionalProperties"])
        merged["additionalProperties"] = False if False in rest else rest[0]
    if isinstance(left.get("items"), dict) and isinstance(right.get("items"), dict):
        merged["items"] = merge(schema_at(left, "items"), schema_at(right, "items"))
    return merged


def lost(left: Schema, right: Schema) -> list[str]:
    """Which keywords of the right one `merge` leaves out: two patterns, say, cannot be one."""
    return [key for key in _FIRST if key in left and key in right and left[key] != right[key]]


def types_of(schema: Schema) -> list[str]:
    """The types that a rewritten schema names; none where it names none."""
    said = schema.get("type")
    if isinstance(said, list):
        return said
    return [said] if isinstance(said, str) else []


def type_of(value: object) -> str:
    """Name the type of a JSON value; 1.0 is an integer to JSON Schema only."""
    return _TYPES.get(type(value), "null")


def types_alone(schema: Schema) -> Schema:
    """Reduce a rewritten schema to its types and those of its alternatives and items."""
    options = options_of(schema)
    known = all(types_of(option) for option in options)
    types = types_of(schema) or list(dict.fromkeys(kind for option in options for kind in types_of(option) if known))
    alone: Schema = {"type": spelled(types)} if types else {}
    return alone | ({"items": types_alone(schema_at(schema, "items"))} if "items" in schema else {})


def spelled(types: list[str]) -> object:
    return types[0] if len(types) == 1 else types


def schema_at(schema: Schema, key: str) -> Schema:
    """The schema under a keyword; `{}` where none stands there."""
    inner = schema.get(key)
    return inner if isinstance(inner, dict) else {}


def properties_of(schema: Schema) -> dict[str, Schema]:
    return schema_at(schema, "properties")  # type: ignore[return-value]  # a rewritten schema's properties are schemas


def options_of(schema: Schema) -> list[Schema]:
    """The options of a rewritten schema's `anyOf`."""
    options = schema.get("anyOf")
    return options if isinstance(options, list) else []


def required_of(schema: Schema) -> list[str]:
    required = schema.get("required")
    return required if isinstance(required, list) else []


def alternatives(options: Iterable[Schema]) -> Schema:
    """A schema that admits what any of the options admits; equal ones are said once."""
    # By their text: comparing each with each would be quadratic.
    distinct = list({repr(option): option for option in options}.values())
    return distinct[0] if len(distinct) == 1 else {"anyOf": distinct}


def _widened(types: list[str]) -> list[str]:
    return [*types, "integer"] if "number" in types else types


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return value


# Parts that joining alternatives may copy: with many that say much each it would be their product.
MAX_JOINED: Final = 2_000


def as_object(schema: Schema, notes: Notes) -> Schema:
    """A rewritten schema as one that names `object`, lists its properties, and has no anyOf and no enum.

    Every object that it admits is admitted still: a tool whose schema says less is called with objects all the same.
    """
    root = {**schema, "type": "object"}
    if root.pop("enum", None) is not None:
        notes.add("the enum at", (), "is dropped: no object may have one there")
    root.pop("anyOf", None)
    options = _objects_in(options_of(schema))
    if options:
        notes.add("the alternatives at", (), "are said as one object with the properties of all")
        named = properties_of(root)
        root["properties"] = named | _properties_of_any(options, named.keys(), notes)
        # What only some of the options require is required no more.
        everywhere = set(required_of(options[0])).intersection(*(required_of(one) for one in options[1:]))
        required = [*required_of(root), *(name for name in required_of(options[0]) if name in everywhere)]
        if required:
            root["required"] = list(dict.fromkeys(required))
        if "additionalProperties" not in root and all(one.get("additionalProperties") is False for one in options):
            root["additionalProperties"] = False
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


def _objects_in(options: list[Schema], room: int = MAX_JOINED) -> list[Schema]:
    """The options that admit objects, those in options with them."""
    found: list[Schema] = []
    for option in options:
        if types_of(option) and "object" not in types_of(option):
            continue
        inner = options_of(option)
        own = {key: value for key, value in option.items() if key != "anyOf"}
        # Each of the inner ones is a copy of what stands beside them: where that is much, they are left out.
        copied = len(inner) * (1 + len(properties_of(own)) + len(required_of(own)))
        if inner and copied <= room:
            room -= copied
            found.extend(merge(own, one) for one in _objects_in(inner, room))
        else:
            found.append(own)
    return found


def _properties_of_any(options: list[Schema], known: Collection[str], notes: Notes) -> dict[str, Schema]:
    """The properties of all options but the known ones: what each option says of one, in the options' order."""
    listing: dict[str, dict[int, Schema]] = {}
    # What an option says of a property that it does not list, with the places of the options that say the same.
    rests: dict[str, tuple[Schema, list[int]]] = {}
    for place, option in enumerate(options):
        for name, one in properties_of(option).items():
            if name not in known:
                listing.setdefault(name, {})[place] = one
        rest = option.get("additionalProperties")
        if rest is not False:
            said = rest if isinstance(rest, dict) else {}
            rests.setdefault(repr(said), (said, []))[1].append(place)
    if len(listing) * len(rests) > MAX_JOINED:
        notes.add("the properties of the alternatives at", (), "are left open: there are too many")
        return {name: {} for name in listing}
    joined: dict[str, Schema] = {}
    for name, listed in listing.items():
        said = dict(listed)
        for rest, places in rests.values():
            # No more places are looked at than there are options that list the property.
            first = next((place for place in places if place not in listed), None)
            if first is not None:
                said[first] = rest
        joined[name] = alternatives(said[place] for place in sorted(said))
    return joined
