"""JSON Schemas read as types: one reader, and four readings that differ in what they make of what no type says.

    exact_type     refuses it: what a chain is told must be true of every value
    structure_of   any JSON: a function's schema beside a tool's, where bounds and formats do not count
    outline_of     the nearest type that is true, of a schema's outermost words alone: what an expression can use
    describe       the nearest type that is true, as a text for people

What `to_schema` writes is read back as the same type. Schemas come from outside, so each reading has a depth.
"""

import json
from collections.abc import Mapping
from itertools import islice
from typing import ClassVar, Final

import msgspec

from tooldispatchd.catalog.meanings import check_names, resolve
from tooldispatchd.catalog.names import declared_name_problem
from tooldispatchd.catalog.olderdrafts import DIALECT
from tooldispatchd.catalog.types import (
    FIELD_NAME,
    JSON,
    MAX_DEPTH,
    OF_SCHEMA,
    UNIT,
    WORDS,
    Field,
    ListOf,
    Named,
    OpenRecord,
    Primitive,
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
# How many fields, items or options of one part are described.
_MAX_PARTS: Final = 10
_MORE: Final = Named("…")

# Deeper parts of a schema are any JSON; an outline as deep as expressions tell lists within lists apart.
_MAX_STRUCTURE: Final = 32
_MAX_OUTLINE: Final = 9

_OF_VALUE: Final[dict[type, Type]] = {
    int: Primitive("int"),
    float: Primitive("number"),
    str: Primitive("string"),
    bool: Primitive("bool"),
    type(None): UNIT,
    list: ListOf(JSON),
    dict: OpenRecord(()),
}

# Every keyword that a validator may hold a value to; what is not among them says nothing about values.
_ASSERTIONS: Final = frozenset(
    (
        *("$ref", "$dynamicRef", "$recursiveRef", "$id", "type", "enum", "const"),
        *("allOf", "anyOf", "oneOf", "not", "if", "then", "else"),
        *("properties", "required", "additionalProperties", "patternProperties", "propertyNames"),
        *("minProperties", "maxProperties", "dependencies", "dependentRequired", "dependentSchemas"),
        *("unevaluatedProperties", "unevaluatedItems", "items", "prefixItems", "additionalItems", "contains"),
        *("minContains", "maxContains", "minItems", "maxItems", "uniqueItems", "multipleOf"),
        *("maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength", "minLength", "pattern"),
    )
)


def exact_type(schema: object) -> tuple[Type, dict[str, Type]] | None:
    """The type that a schema of 2020-12 says, with the names that stand in its `$defs`; None where no type says it."""
    try:
        return _Exact(schema).whole()
    except (_NoTypeError, TypeNameError):
        return None


def structure_of(schema: object, mark: str = ":") -> tuple[Type, dict[str, Type]]:
    """The type nearest to a schema, and the names in it: records are closed, bounds and formats are nothing.

    What no type is near to is json. The names begin with `mark`, so that no declared one is among them.
    """
    return _Structure(schema, mark).whole()


def outline_of(schema: object) -> Type:
    """As much of a JSON Schema as expressions can use: what its `type`, `properties` and `items` say, else json."""
    return _Outline(schema, _MAX_OUTLINE).read(schema, 1)


def describe(schema: object) -> str:
    """A schema as a type for people, at most 200 characters: its type's text, or the nearest that is surely true of it.

    `…` in a record says that there may be other fields, or that there are more than are shown; what no type says is
    `json`. A definition is shown by its name.
    """
    exact = exact_type(schema)
    text = show(resolve(*exact)) if exact else ""
    if 0 < len(text) <= MAX_DESCRIBED:
        return text
    for depth in _DEPTHS:
        text = show(_Description(schema, depth + 1).root())
        if len(text) <= MAX_DESCRIBED:
            return text
    return text[: MAX_DESCRIBED - 1] + "…"


class _NoTypeError(Exception):
    """A schema that says what no type says."""


class _Reader:
    """Reads the parts of one schema; what no type says is the nearest type that is true of its values."""

    # Where one of these is left beside what a type says, the type says too little.
    _lost: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, schema: object, max_depth: int) -> None:
        self._schema = schema
        self._root: dict[str, object] = schema if isinstance(schema, dict) else {}
        self._max_depth = max_depth

    def read(self, schema: object, depth: int) -> Type:
        """The type of a part that stands `depth` levels deep."""
        if schema is True:
            return JSON
        if depth > self._max_depth:
            return self._too_deep()
        if not isinstance(schema, dict):
            return self._unsaid(JSON)
        said = {keyword: value for keyword, value in schema.items() if keyword in _ASSERTIONS}
        if not said:
            return JSON
        type_ = self._around(said, depth) or self._typed(said, depth)
        return type_ if self._lost.isdisjoint(said) else self._unsaid(type_)

    # --- what differs ---

    def _unsaid(self, near: Type, /) -> Type:
        """What stands for a part that no type says; `near` is true of its values."""
        return near

    def _too_deep(self) -> Type:
        return JSON

    def _reference(self, _reference: object, /) -> Type | None:
        """The name of what a reference leads to; None where it cannot be said."""
        return None

    def _parts(self, schemas: list[object], depth: int) -> list[Type]:
        return [self.read(schema, depth + 1) for schema in schemas]

    def _fields(self, properties: Mapping[str, object], needed: Mapping[str, object], depth: int) -> list[Field]:
        return [Field(name, self.read(part, depth + 1), name not in needed) for name, part in properties.items()]

    # --- what does not ---

    def _around(self, said: dict[str, object], depth: int, /) -> Type | None:
        """What is said other than by `type`, taken out of `said`; None where that is nothing, or less."""
        if "$ref" in said and (named := self._reference(said["$ref"])):
            del said["$ref"]
            return named
        values = [said["const"]] if "const" in said else said.get("enum")
        if isinstance(values, list) and values:
            types = [_OF_VALUE.get(type(value), JSON) for value in values]
            return self._either([each if isinstance(each, Primitive) else self._unsaid(each) for each in types])
        if "type" in said:
            return None
        for keyword in ("anyOf", "oneOf"):
            options = said.get(keyword)
            if isinstance(options, list) and options:
                if keyword == "anyOf":
                    del said[keyword]
                return self._either(self._parts(options, depth))
        every = said.get("allOf")
        # All of them are true of a value, and so is the first.
        return self._unsaid(self.read(every[0], depth + 1)) if isinstance(every, list) and every else None

    def _typed(self, said: dict[str, object], depth: int) -> Type:
        """What `type` says, and the keywords that belong to it; they are taken out of `said`."""
        kind = said.pop("type", None)
        match kind:
            case "object":
                return self._record(said, depth)
            case "array":
                if "prefixItems" not in said:
                    return ListOf(self.read(said.pop("items", True), depth + 1))
                items = said.pop("prefixItems")
                size = len(items) if isinstance(items, list) else 0
                # Nothing after the last item: the most items need not be said beside that.
                is_closed = said.pop("items", True) is False
                is_closed = is_closed and said.pop("minItems", 0) == said.pop("maxItems", size) == size
                if not isinstance(items, list) or size < 2 or not is_closed:
                    return self._unsaid(ListOf(JSON))
                return Product(tuple(self._parts(items, depth)))
            case str() if kind in OF_SCHEMA:
                return OF_SCHEMA[kind]
            case [_, *_]:
                inner = dict(said)
                said.clear()
                return self._either(
                    [
                        self.read({**inner, "type": each}, depth) if isinstance(each, str) else self._unsaid(JSON)
                        for each in kind
                    ]
                )
            case _:
                return self._unsaid(JSON)

    def _record(self, said: dict[str, object], depth: int) -> Type:
        properties, required = said.pop("properties", None), said.pop("required", None)
        needed = {name: True for name in required if isinstance(name, str)} if isinstance(required, list) else {}
        named = properties if isinstance(properties, dict) else {}
        fields = tuple(self._fields(named, needed, depth))
        is_sayable = isinstance(properties, dict | None) and isinstance(required, list | None)
        is_sayable = is_sayable and needed.keys() <= named.keys() and all(map(FIELD_NAME.fullmatch, named))
        if not self._is_closed(said, named):
            return self._unsaid(OpenRecord(fields))
        said.pop("additionalProperties", None)
        return Record(fields) if is_sayable else self._unsaid(Record(fields))

    def _is_closed(self, said: Mapping[str, object], _properties: Mapping[str, object], /) -> bool:
        return said.get("additionalProperties") is False and "patternProperties" not in said

    def _either(self, types: list[Type]) -> Type:
        """A union, each option once; json where one of them is."""
        options = dict.fromkeys(_flat(types))
        if JSON in options:
            return JSON
        return next(iter(options)) if len(options) == 1 else Union(tuple(options))


def _flat(types: list[Type]) -> list[Type]:
    return [option for type_ in types for option in (type_.options if isinstance(type_, Union) else (type_,))]


class _Exact(_Reader):
    """Refuses what no type says, and reads the definitions that it needs."""

    _lost = _ASSERTIONS

    def __init__(self, schema: object) -> None:
        # A union stands on a level of its own in a schema, in a type's text it does not.
        super().__init__(schema, 2 * MAX_DEPTH)
        # In older drafts the same words may say something else.
        if self._root.get("$schema", DIALECT) != DIALECT:
            raise _NoTypeError
        definitions = self._root.get("$defs")
        self._definitions = definitions if isinstance(definitions, dict) else {}
        self._waiting: list[str] = []

    def whole(self) -> tuple[Type, dict[str, Type]]:
        """The type and its names. Raises `_NoTypeError`, and `TypeNameError` where a name stands for itself."""
        type_ = self.read(self._schema, 1)
        declared: dict[str, Type] = {}
        while self._waiting:
            name = self._waiting.pop()
            if name not in declared:
                declared[name] = self.read(self._definitions[name], 1)
        check_names(type_, declared)
        return type_, declared

    def _unsaid(self, _near: Type, /) -> Type:
        raise _NoTypeError

    def _too_deep(self) -> Type:
        raise _NoTypeError

    def _reference(self, reference: object, /) -> Type | None:
        name = _definition(reference, ("#/$defs",))
        if name is None or name in WORDS or name not in self._definitions:
            raise _NoTypeError
        self._waiting.append(name)
        return Named(name)

    def _either(self, types: list[Type]) -> Type:
        # As it is written, so that a union of json and others is read back.
        options = _flat(types)
        return options[0] if len(options) == 1 else Union(tuple(options))


class _Structure(_Reader):
    """Takes what no type says for any JSON, and a record that does not say whether it is closed for a closed one."""

    # Alternatives beside a type say more of a record's fields than bounds do.
    _lost = frozenset({"anyOf"})

    def __init__(self, schema: object, mark: str) -> None:
        super().__init__(schema, _MAX_STRUCTURE)
        definitions = self._root.get("$defs")
        self._definitions = definitions if isinstance(definitions, dict) else {}
        self._mark = mark

    def whole(self) -> tuple[Type, dict[str, Type]]:
        """The type, and what all definitions are near to."""
        names = {f"{self._mark}{name}": self.read(part, 1) for name, part in self._definitions.items()}
        # A name that stands for a name could stand for itself in the end.
        declared: dict[str, Type] = {name: JSON if isinstance(type_, Named) else type_ for name, type_ in names.items()}
        return self.read(self._schema, 1), declared

    def _unsaid(self, _near: Type, /) -> Type:
        return JSON

    def _reference(self, reference: object, /) -> Type | None:
        name = str(reference).removeprefix("#/$defs/")
        return Named(f"{self._mark}{name}") if name in self._definitions else JSON

    def _is_closed(self, said: Mapping[str, object], properties: Mapping[str, object], /) -> bool:
        return said.get("additionalProperties", not properties) is False


class _Outline(_Reader):
    """Looks at `type`, `properties` and `items` alone."""

    def _around(self, said: dict[str, object], _depth: int, /) -> Type | None:
        return None if isinstance(said.get("type"), str) else JSON

    def _record(self, said: dict[str, object], depth: int) -> Type:
        # Nothing is known of its fields, and an expression can ask json for any.
        return super()._record(said, depth) if isinstance(said.get("properties"), dict) and said["properties"] else JSON


class _Description(_Reader):
    """Shows definitions by name, and stops after 200 parts: each has a character at least in the text."""

    def __init__(self, schema: object, max_depth: int) -> None:
        super().__init__(schema, max_depth)
        self._left = MAX_DESCRIBED

    def root(self) -> Type:
        """The whole schema; a root that only refers to a definition is that definition."""
        schema = self._schema
        for _ in range(_MAX_PARTS):
            name = _definition(schema.get("$ref")) if isinstance(schema, dict) else None
            if name is None:
                break
            tables = [self._root.get(key) for key in ("$defs", "definitions")]
            schema = next((table[name] for table in tables if isinstance(table, dict) and name in table), True)
        return self.read(schema, 1)

    def read(self, schema: object, depth: int) -> Type:
        self._left -= 1
        return super().read(schema, depth) if self._left >= 0 else _MORE

    def _too_deep(self) -> Type:
        return _MORE

    def _reference(self, reference: object, /) -> Type | None:
        name = _definition(reference)
        return None if name is None else Named(name)

    def _parts(self, schemas: list[object], depth: int) -> list[Type]:
        shown = super()._parts(schemas[:_MAX_PARTS], depth)
        return shown if len(schemas) <= _MAX_PARTS else [*shown, _MORE]

    def _fields(self, properties: Mapping[str, object], needed: Mapping[str, object], depth: int) -> list[Field]:
        if depth == self._max_depth:
            return []
        listed = {**properties, **{name: True for name in needed if name not in properties}}
        shown = super()._fields(dict(islice(listed.items(), _MAX_PARTS)), needed, depth)
        # In quotes where a type's text could not have such a name.
        names = [each.name if FIELD_NAME.fullmatch(each.name) else json.dumps(each.name) for each in shown]
        return [msgspec.structs.replace(each, name=name) for each, name in zip(shown, names, strict=True)]

    def _is_closed(self, said: Mapping[str, object], properties: Mapping[str, object], /) -> bool:
        is_closed = said.get("additionalProperties") is False or said.get("unevaluatedProperties") is False
        return is_closed and len(properties) <= _MAX_PARTS


def _definition(reference: object, places: tuple[str, ...] = ("#/$defs", "#/definitions")) -> str | None:
    """The name of the definition to which a reference leads; None for any other, and for what cannot be declared."""
    place, _, name = str(reference).rpartition("/")
    return None if place not in places or declared_name_problem(name) else name
