"""Two rewritten schemas as one: both at once (`merge`), as a superset of what both admit.

Rewritten schemas have few keywords and no references (see `rewriting`), and are bounded in depth.
"""

from collections.abc import Iterable
from typing import Final

from tooldispatchd.catalog.forms.rendered import Schema

_LOWER: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_FIRST: Final = ("enum", "anyOf", "pattern", "format", "multipleOf")


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
    merged |= _objects(left, right)
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


def spelled(types: list[str]) -> object:
    """Types as the keyword's value: one alone is no list."""
    return types[0] if len(types) == 1 else types


def schema_at(schema: Schema, key: str) -> Schema:
    """The schema under a keyword; `{}` where none stands there."""
    inner = schema.get(key)
    return inner if isinstance(inner, dict) else {}


def properties_of(schema: Schema) -> dict[str, Schema]:
    """The properties of a rewritten schema."""
    return schema_at(schema, "properties")  # type: ignore[return-value]  # a rewritten schema's properties are schemas


def options_of(schema: Schema) -> list[Schema]:
    """The options of a rewritten schema's `anyOf`."""
    options = schema.get("anyOf")
    return options if isinstance(options, list) else []


def required_of(schema: Schema) -> list[str]:
    """The names that a rewritten schema requires."""
    required = schema.get("required")
    return required if isinstance(required, list) else []


def alternatives(options: Iterable[Schema]) -> Schema:
    """A schema that admits what any of the options admits; equal ones are said once."""
    # By their text: comparing each with each would be quadratic.
    distinct = list({repr(option): option for option in options}.values())
    return distinct[0] if len(distinct) == 1 else {"anyOf": distinct}


def _objects(left: Schema, right: Schema) -> Schema:
    """What both say of objects: a name that either lists may stand, so a closed one stays closed."""
    merged: Schema = {}
    if "properties" in left and "properties" in right:
        others = properties_of(right)
        both = {name: merge(one, others[name]) if name in others else one for name, one in properties_of(left).items()}
        merged["properties"] = both | {name: one for name, one in others.items() if name not in both}
    if "required" in left and "required" in right:
        merged["required"] = list(dict.fromkeys(required_of(left) + required_of(right)))
    if "additionalProperties" in left and "additionalProperties" in right:
        rest = (left["additionalProperties"], right["additionalProperties"])
        merged["additionalProperties"] = False if False in rest else rest[0]
    return merged


def _widened(types: list[str]) -> list[str]:
    return [*types, "integer"] if "number" in types else types


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return value
