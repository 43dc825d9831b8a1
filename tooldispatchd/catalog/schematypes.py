"""JSON Schemas read as types: exactly, where a schema says what a type of ours says, or as near as can be shown.

What `to_schema` writes is read back as the same type. Whoever else wrote a schema may have said more than a type can
say; that is never taken for a type, only described as one.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Final

from tooldispatchd.catalog.meanings import check_names, resolve
from tooldispatchd.catalog.names import declared_name_problem
from tooldispatchd.catalog.types import (
    FIELD_NAME,
    JSON,
    MAX_DEPTH,
    OF_SCHEMA,
    WORDS,
    Field,
    ListOf,
    Named,
    Product,
    Record,
    Type,
    TypeNameError,
    Union,
    show,
)

MAX_DESCRIBED: Final = 200
# How deep a long description goes: the first of these with which it is short enough.
_DEPTHS: Final = (6, 5, 4, 3, 2, 1)
_MAX_PARTS: Final = 10
_MORE: Final = "…"

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
REFERENCE: Final = "#/$defs/"
"""What stands before the name of a definition of a schema's own."""

# Every keyword that a validator may hold a value to; what is not among them says nothing about values.
_ASSERTIONS: Final = frozenset(
    [
        "$ref",
        "$dynamicRef",
        "$recursiveRef",
        "$id",
        "type",
        "enum",
        "const",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "then",
        "else",
        "properties",
        "required",
        "additionalProperties",
        "additionalItems",
        "patternProperties",
        "propertyNames",
        "minProperties",
        "maxProperties",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "unevaluatedProperties",
        "unevaluatedItems",
        "items",
        "prefixItems",
        "contains",
        "minContains",
        "maxContains",
        "minItems",
        "maxItems",
        "uniqueItems",
        "multipleOf",
        "maximum",
        "exclusiveMaximum",
        "minimum",
        "exclusiveMinimum",
        "maxLength",
        "minLength",
        "pattern",
    ]
)


def type_of_schema(schema: object) -> tuple[Type, dict[str, Type]] | None:
    """The type that a schema of 2020-12 says, with the names that stand in its `$defs`; None where no type says it."""
    try:
        return _Reader(schema).whole()
    except (_NoTypeError, TypeNameError):
        return None


def describe(schema: object) -> str:
    """A schema as a type for people, at most 200 characters: its type's text, or the nearest that is surely true of it.

    `…` in a record says that there may be other fields, or that there are more than are shown; what no type says is
    `json`. A definition is shown by its name.
    """
    exact = type_of_schema(schema)
    text = show(resolve(*exact)) if exact else ""
    if 0 < len(text) <= MAX_DESCRIBED:
        return text
    for depth in _DEPTHS:
        text = _Describer(schema).root(depth)
        if len(text) <= MAX_DESCRIBED:
            return text
    return text[: MAX_DESCRIBED - 1] + _MORE


class _NoTypeError(Exception):
    """A schema that says what no type says."""


class _Reader:
    """Reads one schema and those of its definitions that it needs."""

    def __init__(self, schema: object) -> None:
        self._schema = schema
        root = schema if isinstance(schema, dict) else {}
        # In older drafts the same words may say something else.
        if root.get("$schema", _DIALECT) != _DIALECT:
            raise _NoTypeError
        definitions = root.get("$defs", {})
        self._definitions = definitions if isinstance(definitions, dict) else {}
        self._declared: dict[str, Type] = {}
        self._waiting: list[str] = []

    def whole(self) -> tuple[Type, dict[str, Type]]:
        type_ = self._read(self._schema, 1)
        while self._waiting:
            name = self._waiting.pop()
            if name not in self._declared:
                self._declared[name] = self._read(self._definitions[name], 1)
        check_names(type_, self._declared)
        return type_, self._declared

    def _read(self, schema: object, depth: int) -> Type:
        # A union stands on a level of its own in a schema, in a type's text it does not.
        if depth > 2 * MAX_DEPTH:
            raise _NoTypeError
        if schema is True:
            return JSON
        if not isinstance(schema, dict):
            raise _NoTypeError
        said = {keyword: value for keyword, value in schema.items() if keyword in _ASSERTIONS}
        if not said:
            return JSON
        if said.keys() == {"$ref"}:
            return self._reference(said["$ref"])
        if said.keys() == {"anyOf"}:
            return _union(self._read(option, depth + 1) for option in _items(said["anyOf"]))
        kind = said.pop("type", None)
        if isinstance(kind, list) and not said:
            return _union(_word(option) for option in _items(kind))
        if kind == "object":
            return self._record(said, depth)
        if kind == "array":
            return self._array(said, depth)
        if said:
            raise _NoTypeError
        return _word(kind)

    def _reference(self, reference: object) -> Type:
        name = reference.removeprefix(REFERENCE) if isinstance(reference, str) else ""
        if reference != REFERENCE + name or name in WORDS or declared_name_problem(name):
            raise _NoTypeError
        if name not in self._definitions:
            raise _NoTypeError
        self._waiting.append(name)
        return Named(name)

    def _record(self, said: dict[str, object], depth: int) -> Type:
        properties, required = said.pop("properties", {}), said.pop("required", [])
        # A required name that is no field, in a closed record: no value has it.
        if (
            said != {"additionalProperties": False}
            or not isinstance(properties, dict)
            or not isinstance(required, list)
        ):
            raise _NoTypeError
        needed = set(_names(required))
        if not needed <= properties.keys() or not all(map(FIELD_NAME.fullmatch, properties)):
            raise _NoTypeError
        return Record(
            tuple(Field(name, self._read(part, depth + 1), name not in needed) for name, part in properties.items())
        )

    def _array(self, said: dict[str, object], depth: int) -> Type:
        if said.keys() <= {"items"}:
            return ListOf(self._read(said.get("items", True), depth + 1))
        items = _items(said.pop("prefixItems", None))
        size = len(items)
        # Nothing after the last item: the most items need not be said beside that.
        said.setdefault("maxItems", size)
        if size < 2 or said != {"items": False, "minItems": size, "maxItems": size}:
            raise _NoTypeError
        return Product(tuple(self._read(item, depth + 1) for item in items))


def _items(value: object) -> list[object]:
    if not isinstance(value, list):
        raise _NoTypeError
    return value


def _names(values: Iterable[object]) -> list[str]:
    return [value for value in values if isinstance(value, str)]


def _word(kind: object) -> Type:
    if not isinstance(kind, str) or kind not in OF_SCHEMA:
        raise _NoTypeError
    return OF_SCHEMA[kind]


def _union(read: Iterable[Type]) -> Type:
    options = [option for type_ in read for option in (type_.options if isinstance(type_, Union) else (type_,))]
    if not options:
        raise _NoTypeError
    return options[0] if len(options) == 1 else Union(tuple(options))


class _Describer:
    """Writes what is surely true of one schema's values; each part has a character at least, and so a bound."""

    def __init__(self, schema: object) -> None:
        self._schema = schema
        self._parts = 0

    def root(self, depth: int) -> str:
        """The whole schema, `depth` levels of it; a root that only refers to a definition is that definition."""
        schema = self._schema
        for _ in range(_MAX_PARTS):
            name = _definition(schema)
            if name is None:
                break
            schema = self._defined(name)
        return self._part(schema, depth)

    def _defined(self, name: str) -> object:
        tables = [self._schema.get(key) for key in ("$defs", "definitions")] if isinstance(self._schema, dict) else []
        return next((table[name] for table in tables if isinstance(table, dict) and name in table), True)

    def _part(self, schema: object, depth: int) -> str:
        self._parts += 1
        if depth < 0 or self._parts > MAX_DESCRIBED:
            return _MORE
        if not isinstance(schema, dict):
            return show(JSON)
        name = _definition(schema)
        if name is not None:
            return name
        kind = schema.get("type")
        if isinstance(kind, str):
            return self._kind(kind, schema, depth)
        if isinstance(kind, list):
            return _either(self._kind(option, schema, depth) for option in _names(kind[:_MAX_PARTS]))
        return self._untyped(schema, depth)

    def _kind(self, kind: str, schema: Mapping[str, object], depth: int) -> str:
        """A schema as one of the types that its `type` names."""
        if kind == "object":
            return self._record(schema, depth)
        if kind == "array":
            return self._array(schema, depth)
        return show(OF_SCHEMA.get(kind, JSON))

    def _untyped(self, schema: Mapping[str, object], depth: int) -> str:
        for keyword in ("anyOf", "oneOf"):
            options = schema.get(keyword)
            if isinstance(options, list) and options:
                shown = [self._part(option, depth - 1) for option in options[:_MAX_PARTS]]
                return _either([*shown, _MORE] if len(options) > _MAX_PARTS else shown)
        every = schema.get("allOf")
        if isinstance(every, list) and every:
            # All of them are true of a value, and so is the first.
            return self._part(every[0], depth - 1)
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(values, list) and values:
            return _either(_word_of(value) for value in values)
        return show(JSON)

    def _record(self, schema: Mapping[str, object], depth: int) -> str:
        properties, required = schema.get("properties"), schema.get("required")
        fields: dict[str, object] = dict(properties) if isinstance(properties, dict) else {}
        needed = dict.fromkeys(_names(required)) if isinstance(required, list) else {}
        for name in needed:
            fields.setdefault(name, True)
        shown = [
            f"{_field_name(name)}{'' if name in needed else '?'}: {self._part(part, depth - 1)}"
            for name, part in list(fields.items())[:_MAX_PARTS]
        ]
        is_closed = schema.get("additionalProperties") is False or schema.get("unevaluatedProperties") is False
        if depth == 0 and shown:
            shown = [_MORE]
        elif not is_closed or len(fields) > _MAX_PARTS:
            shown.append(_MORE)
        return f"{{{', '.join(shown)}}}"

    def _array(self, schema: Mapping[str, object], depth: int) -> str:
        prefix, items = schema.get("prefixItems"), schema.get("items", True)
        if not isinstance(prefix, list) or not prefix:
            return f"[{self._part(items, depth - 1)}]"
        if items is False and schema.get("minItems") == len(prefix) > 1:
            shown = [self._part(item, depth - 1) for item in prefix[:_MAX_PARTS]]
            return f"({', '.join([*shown, _MORE] if len(prefix) > _MAX_PARTS else shown)})"
        return f"[{show(JSON)}]"


def _definition(schema: object) -> str | None:
    """The name of the definition to which a schema refers; None where it does not, or the name cannot be shown."""
    reference = schema.get("$ref") if isinstance(schema, dict) else None
    if not isinstance(reference, str):
        return None
    place, _, name = reference.rpartition("/")
    return None if place not in {"#/$defs", "#/definitions"} or declared_name_problem(name) else name


def _word_of(value: object) -> str:
    match value:
        case None:
            return "unit"
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "[json]"
        case _:
            return "{…}"


def _either(texts: Iterable[str]) -> str:
    """A union's text, each option once; what may be anything is json."""
    options = dict.fromkeys(texts)
    return show(JSON) if not options or show(JSON) in options else " | ".join(options)


def _field_name(name: str) -> str:
    """A field's name, quoted where a type's text could not have it."""
    return name if FIELD_NAME.fullmatch(name) else json.dumps(name)
