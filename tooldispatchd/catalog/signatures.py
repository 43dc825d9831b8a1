"""What Python functions take and give, as they were read from their annotations; and what a tool may say beside that.

A tool may state a type or schemas of its own, which models are shown: they must have the structure of the function's,
as far as the stated ones say anything, but may leave out what the function need not be given.
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from tooldispatchd.catalog.compatible import compatible, difference
from tooldispatchd.catalog.meanings import Declared, resolve
from tooldispatchd.catalog.schematypes import REFERENCE
from tooldispatchd.catalog.types import (
    FIELD_NAME,
    JSON,
    OF_SCHEMA,
    UNIT,
    Field,
    ListOf,
    Named,
    Primitive,
    Product,
    Record,
    Type,
    Union,
    show,
)

# Deeper parts of a schema are any JSON.
MAX_DEPTH: Final = 32

# Marks of names in a type's text, where a field's colon follows its name.
_MARKS: Final = re.compile(r"(?<!\w)::?(?=\w)")
_OF_VALUE: Final[dict[type, Type]] = {
    int: Primitive("int"),
    float: Primitive("number"),
    str: Primitive("string"),
    bool: Primitive("bool"),
    type(None): UNIT,
}


class Signature(msgspec.Struct, frozen=True):
    """One function: the schemas of its input (an object always) and of its result, and how it is called.

    `interpreter` is the Python that it was read in, and `place` the directory that stood behind that one's own in the
    search for modules; the function must be called in the same way.
    """

    input_schema: dict[str, object]
    output_schema: dict[str, object]
    description: str = ""
    takes_ctx: bool = False
    is_async: bool = False
    interpreter: str = ""
    place: str = ""


Schema = dict[str, object]


def input_misfit(stated: Type | Schema, own: Schema, declared: Declared) -> str | None:
    """Why a tool cannot say that it takes `stated` where its function's input has the schema `own`; None where it can.

    Raises `TypeNameError`.
    """
    said, type_, declared = _beside(stated, own, declared)
    return _misfit(said, _LoosenedInput(declared).beside(type_, said), declared)


def output_misfit(stated: Type | Schema, own: Schema, declared: Declared) -> str | None:
    """Why a tool cannot say that it gives `stated` where its function's result has the schema `own`; None where it can.

    Raises `TypeNameError`.
    """
    said, type_, declared = _beside(stated, own, declared)
    return _misfit(said, _Loosened(declared).beside(type_, said), declared)


def structure_of(schema: Schema, mark: str = ":") -> tuple[Type, dict[str, Type]]:
    """The type nearest to a schema, and the names in it: records are closed, bounds and formats are nothing.

    What no type is near to is json. The names begin with `mark`, so that no declared one is among them.
    """
    definitions = schema.get("$defs")
    near = _Near(definitions if isinstance(definitions, dict) else {}, mark)
    return near.type(schema, 1), near.names()


def _beside(stated: Type | Schema, own: Schema, declared: Declared) -> tuple[Type, Type, Declared]:
    type_, names = structure_of(own)
    said, others = structure_of(stated, "::") if isinstance(stated, dict) else (stated, {})
    return said, type_, {**declared, **names, **others}


def _misfit(stated: Type, own: Type, declared: Declared) -> str | None:
    if compatible(stated, own, declared):
        return None
    why = difference(stated, own, declared) or f"{show(stated)} is not {show(own)}"
    return _MARKS.sub("", why)


class _Loosened:
    """A function's type with those fields required that it does not require and the tool does.

    Of the input that asks for more than the function; of a result, that a field with a default is always written.
    """

    def __init__(self, declared: Declared) -> None:
        self._declared = declared
        # Each name is opened once: a type that holds itself twice would be walked for ever.
        self._opened: set[str] = set()

    def beside(self, own: Type, stated: Type) -> Type:
        """`own`, as it is to be compared with `stated`."""
        if isinstance(own, Named):
            if own.name in self._opened:
                return own
            self._opened.add(own.name)
            own = resolve(own, self._declared)
        stated = resolve(stated, self._declared)
        if isinstance(own, ListOf) and isinstance(stated, ListOf):
            return ListOf(self.beside(own.item, stated.item))
        if not (isinstance(own, Record) and isinstance(stated, Record)):
            return own
        others = {field.name: field for field in stated.fields}
        fields = (self._field(field, others.get(field.name)) for field in own.fields)
        return Record(tuple(field for field in fields if field is not None))

    def _field(self, own: Field, stated: Field | None) -> Field | None:
        if stated is None:
            return self._unstated(own)
        return Field(own.name, self.beside(own.type, stated.type), own.optional and stated.optional)

    def _unstated(self, own: Field) -> Field | None:
        """A field that a tool does not state; None where nothing is lost by that."""
        return own


class _LoosenedInput(_Loosened):
    """A function's input, without what it need not be given and the tool does not state."""

    def _unstated(self, own: Field) -> Field | None:
        return None if own.optional else own


class _Near:
    """Reads one schema, of which only the structure counts."""

    def __init__(self, definitions: Mapping[str, object], mark: str) -> None:
        self._definitions = definitions
        self._mark = mark

    def names(self) -> dict[str, Type]:
        """What its definitions are near to."""
        types = {f"{self._mark}{name}": self.type(part, 1) for name, part in self._definitions.items()}
        # A name that stands for a name could stand for itself in the end.
        return {name: JSON if isinstance(type_, Named) else type_ for name, type_ in types.items()}

    def type(self, schema: object, depth: int) -> Type:
        """What one part of it is near to."""
        if not isinstance(schema, dict) or depth > MAX_DEPTH:
            return JSON
        reference, options, kind = schema.get("$ref"), schema.get("anyOf"), schema.get("type")
        if isinstance(reference, str):
            name = reference.removeprefix(REFERENCE)
            return Named(f"{self._mark}{name}") if name in self._definitions else JSON
        if isinstance(options, list):
            return _either([self.type(option, depth + 1) for option in options])
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(values, list):
            return _either([_OF_VALUE.get(type(value), JSON) for value in values])
        if isinstance(kind, list):
            return _either([self.type({**schema, "type": each}, depth + 1) for each in kind])
        if kind == "object":
            return self._record(schema, depth)
        if kind == "array":
            return self._array(schema, depth)
        return OF_SCHEMA.get(kind, JSON) if isinstance(kind, str) else JSON

    def _record(self, schema: Mapping[str, object], depth: int) -> Type:
        properties, required = schema.get("properties"), schema.get("required")
        if not isinstance(properties, dict) or schema.get("additionalProperties", False) is not False:
            return JSON
        if not all(map(FIELD_NAME.fullmatch, properties)):
            return JSON
        needed = required if isinstance(required, list) else []
        return Record(
            tuple(
                Field(name, self.type(part, depth + 1), optional=name not in needed)
                for name, part in properties.items()
            )
        )

    def _array(self, schema: Mapping[str, object], depth: int) -> Type:
        prefix = schema.get("prefixItems")
        if not isinstance(prefix, list):
            return ListOf(self.type(schema.get("items"), depth + 1))
        if len(prefix) < 2 or schema.get("items", True) is not False:
            return JSON
        return Product(tuple(self.type(item, depth + 1) for item in prefix))


def _either(options: list[Type]) -> Type:
    """A union of what may be unions themselves, each option once; json where one of them is."""
    flat = dict.fromkeys(
        each for option in options for each in (option.options if isinstance(option, Union) else (option,))
    )
    if not flat or JSON in flat:
        return JSON
    return next(iter(flat)) if len(flat) == 1 else Union(tuple(flat))
