"""The root of a schema as the providers want it: one object with properties, and nothing beside that."""

import re
from typing import Final

from tooldispatchd.catalog.forms.merging import (
    alternatives,
    merge,
    options_of,
    properties_of,
    required_of,
    types_of,
)
from tooldispatchd.catalog.forms.rendered import Notes, Schema

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
    options = _objects(options_of(schema))
    if options:
        notes.add("the alternatives at", (), "are said as one object with the properties of all")
        root = _joined(root, options, notes)
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


def _objects(options: list[Schema], room: int = MAX_JOINED) -> list[Schema]:
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
            found.extend(merge(own, one) for one in _objects(inner, room))
        else:
            found.append(own)
    return found


def _joined(root: Schema, options: list[Schema], notes: Notes) -> Schema:
    """One object for a root and any of its options: what only some require is required no more."""
    joined = {**root, "properties": _joined_properties(properties_of(root), options, notes)}
    everywhere = set(required_of(options[0])).intersection(*(required_of(one) for one in options[1:]))
    required = [name for name in required_of(options[0]) if name in everywhere]
    if required or required_of(root):
        joined["required"] = list(dict.fromkeys(required_of(root) + required))
    if "additionalProperties" not in root and all(one.get("additionalProperties") is False for one in options):
        joined["additionalProperties"] = False
    return joined


def _joined_properties(named: dict[str, Schema], options: list[Schema], notes: Notes) -> dict[str, Schema]:
    """A root's properties, and those of its options: what each option says of one, in the options' order."""
    listing: dict[str, dict[int, Schema]] = {}
    for place, option in enumerate(options):
        for name, one in properties_of(option).items():
            listing.setdefault(name, {})[place] = one
    rests = _rests(options)
    added = [name for name in listing if name not in named]
    is_open = len(added) * len(rests) > MAX_JOINED
    if is_open:
        notes.add("the properties of the alternatives at", (), "are left open: there are too many")
    return named | {name: {} if is_open else _any_of(listing[name], rests) for name in added}


def _rests(options: list[Schema]) -> list[tuple[Schema, list[int]]]:
    """What options say of a property that they do not list, each with the places of the options that say so."""
    places: dict[str, tuple[Schema, list[int]]] = {}
    for place, option in enumerate(options):
        rest = option.get("additionalProperties")
        if rest is not False:
            said = rest if isinstance(rest, dict) else {}
            places.setdefault(repr(said), (said, []))[1].append(place)
    return list(places.values())


def _any_of(listed: dict[int, Schema], rests: list[tuple[Schema, list[int]]]) -> Schema:
    """What the options say of one property: those at the places in `listed` list it, of the others the rest counts."""
    said = dict(listed)
    for rest, places in rests:
        # No more places are looked at than there are options that list the property.
        first = next((place for place in places if place not in listed), None)
        if first is not None:
            said[first] = rest
    return alternatives(said[place] for place in sorted(said))
