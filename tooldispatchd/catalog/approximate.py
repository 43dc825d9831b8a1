"""As much of a JSON Schema as a type can say that is nearly right: for what asks which fields there are."""

from typing import Final

from tooldispatchd.catalog.types import JSON, OF_SCHEMA, Field, ListOf, Record, Type

# What is deeper is json: deep enough for every field that a person names.
MAX_DEPTH: Final = 8


def approximate_type(schema: object, depth: int = 0) -> Type:
    """What a schema's `type`, `properties` and `items` say, else json. Values may have more fields than the record."""
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return JSON
    kind = schema.get("type")
    if kind == "object":
        return _record_of_schema(schema, depth)
    if kind == "array" and "prefixItems" not in schema:
        return ListOf(approximate_type(schema.get("items"), depth + 1))
    return OF_SCHEMA.get(kind, JSON) if isinstance(kind, str) else JSON


def _record_of_schema(schema: dict[str, object], depth: int) -> Type:
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict) or not properties:
        return JSON
    needed = required if isinstance(required, list) else []
    return Record(
        tuple(
            Field(name, approximate_type(part, depth + 1), optional=name not in needed)
            for name, part in properties.items()
        )
    )
