"""Names of properties that a provider does not take (`$filter`, `filter[id]`): what they are shown as instead.

A name depends on the tool's schema alone, whatever the form, so that what a model writes can be named back. The root's
properties are meant, in alternatives and behind references too: no provider restricts the names deeper within.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from tooldispatchd.catalog.forms.drafts import REFERENCES, find, is_short
from tooldispatchd.catalog.forms.merging import as_object, properties_of, required_of
from tooldispatchd.catalog.forms.rendered import Notes, Schema
from tooldispatchd.catalog.forms.rewriting import rewrite
from tooldispatchd.catalog.names import MAX_FIELD, field_name
from tooldispatchd.catalog.schemakeywords import subschemas

# What every provider takes.
_ANYWHERE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
PROPERTY_NAMES: Final[Mapping[str, re.Pattern[str]]] = {
    "anthropic": re.compile(r"[A-Za-z0-9_.-]{1,64}"),
    "google": _ANYWHERE,
}
"""What each form takes that does not take every name."""

# Parts of a schema in which names are looked for, and names that are kept: a model is shown no more parts.
_MAX_VISITED: Final = 1_000
# A schema with these alone at its root can be shown as it is, but for the names.
_SIMPLE: Final = frozenset(
    ("type", "properties", "required", "additionalProperties", "title", "description", "$schema", "$defs")
)


def shown_properties(schema: Schema) -> dict[str, str]:
    """Map each name of the root's properties that some provider does not take to a mended one, all distinct."""
    named = dict.fromkeys(_names(schema))
    shown: dict[str, str] = {}
    taken = set(named)
    # A number is tried once, so that a thousand names that look alike take no longer than others.
    numbers: dict[str, int] = {}
    for name in named:
        if _ANYWHERE.fullmatch(name):
            continue
        wanted = field_name(name).replace("-", "_") or "field"
        wanted = f"_{wanted}"[:MAX_FIELD] if wanted[0].isdigit() else wanted
        free = wanted
        while free in taken:
            numbers[wanted] = numbers.get(wanted, 1) + 1
            free = f"{wanted[: MAX_FIELD - 5]}_{numbers[wanted]}"
        shown[name] = free
        taken.add(free)
    return shown


def with_shown(form: str, schema: Schema, notes: Notes, own: Schema) -> Schema:
    """Give the schema names of properties that the form takes; the same schema where it takes all of them.

    It may say less than the tool's `own`, by which the names go.
    """
    allowed = PROPERTY_NAMES.get(form)
    if allowed is None or all(map(allowed.fullmatch, _names(own))):
        return schema
    shown = {name: other for name, other in shown_properties(own).items() if not allowed.fullmatch(name)}
    root = schema if _is_simple(schema) else as_object(rewrite(schema, notes), notes)
    renamed = {**root, "properties": {shown.get(name, name): one for name, one in _described(root, shown)}}
    required = [shown.get(name, name) for name in required_of(root) if isinstance(name, str)]
    return {**renamed, "required": required} if "required" in root else renamed


def _described(root: Schema, shown: Mapping[str, str]) -> Iterator[tuple[str, object]]:
    """List the properties; a renamed one is described by its own name too, which the tool's texts may use."""
    for name, one in properties_of(root).items():
        if name in shown and isinstance(one, dict):
            about = one.get("description")
            yield name, {**one, "description": f"{name}: {about}" if isinstance(about, str) and about else name}
        else:
            yield name, one


def _is_simple(schema: Schema) -> bool:
    return (
        _SIMPLE.issuperset(schema)
        and is_short(schema)
        and not any(
            str(node[key]).startswith("#/properties") for node in subschemas(schema) for key in REFERENCES & node.keys()
        )
    )


def _names(schema: Schema) -> Iterator[str]:
    """List the names of the root's properties, in their order."""
    waiting: list[object] = [schema]
    left = _MAX_VISITED
    while waiting and left > 0:
        node = waiting.pop()
        left -= 1
        if not isinstance(node, dict):
            continue
        named, required = node.get("properties"), node.get("required")
        for names in (named if isinstance(named, dict) else (), required if isinstance(required, list) else ()):
            for name in names:
                if left > 0 and isinstance(name, str):
                    left -= 1
                    yield name
        for key in ("anyOf", "oneOf", "allOf"):
            options = node.get(key)
            waiting.extend(reversed(options[:left]) if isinstance(options, list) else ())
        if isinstance(node.get("$ref"), str):
            waiting.append(find(str(node["$ref"]), schema))
