"""What types mean once declared names are looked up: their JSON Schema, their streams; and the `[types]` table.

Names make types into graphs, which may have cycles: everything here walks with a list of its own, never by recursion
through names.
"""

from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Final

from tooldispatchd.catalog.names import declared_name_problem, nearest
from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.types import (
    JSON,
    OF_SCHEMA,
    UNIT,
    WORDS,
    ListOf,
    Named,
    Primitive,
    Product,
    Record,
    Stream,
    Type,
    TypeNameError,
    TypeTextError,
    Union,
    column_of,
    parse_type,
    parts,
)

_PRIMITIVES: Final[dict[str, dict[str, object]]] = {
    "json": {},
    **{type_.word: {"type": kind} for kind, type_ in OF_SCHEMA.items()},
}

Declared = Mapping[str, Type]

# A product of streams with more parts than this is none: names in it may double it at each step, or never end it.
MAX_STREAMS: Final = 256


def resolve(type_: Type, declared: Declared) -> Type:
    """The type itself, or what a declared name stands for. Raises `TypeNameError`."""
    seen: set[str] = set()
    while isinstance(type_, Named):
        if type_.name in seen:
            raise TypeNameError(type_.name, "a type declared as itself")
        seen.add(type_.name)
        if type_.name not in declared:
            raise TypeNameError(type_.name, "no such type")
        type_ = declared[type_.name]
    return type_


def reachable(type_: Type, declared: Declared) -> Iterator[Type]:
    """Every type in `type_` and behind its names, each name once. Raises `TypeNameError` at an unknown one."""
    waiting = [type_]
    seen: set[str] = set()
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, Named):
            if node.name not in declared:
                raise TypeNameError(node.name, "no such type")
            if node.name not in seen:
                seen.add(node.name)
                waiting.append(declared[node.name])
        else:
            waiting.extend(reversed(parts(node)))


def has_stream(type_: Type, declared: Declared) -> bool:
    """Whether there is a stream anywhere in a type. Raises `TypeNameError`."""
    return any(isinstance(node, Stream) for node in reachable(type_, declared))


def is_stream(type_: Type, declared: Declared) -> bool:
    """Whether a type is `!T`, `unit`, or a product of such types, names looked up. Raises `TypeNameError`."""
    waiting = [type_]
    for _ in range(MAX_STREAMS):
        if not waiting:
            return True
        node = resolve(waiting.pop(), declared)
        if isinstance(node, Product) and len(waiting) + len(node.items) <= MAX_STREAMS:
            waiting.extend(node.items)
        elif not isinstance(node, Stream) and node != UNIT:
            return False
    return not waiting


def strip_stream(type_: Type, declared: Declared) -> Type:
    """`!T` as `T`, in a product of streams each of them; a type that is no stream as it is. Raises `TypeNameError`."""
    return _stripped(type_, declared) if is_stream(type_, declared) else type_


def _stripped(type_: Type, declared: Declared) -> Type:
    # `is_stream` has bounded the parts, and so this recursion.
    match resolve(type_, declared):
        case Stream(item):
            return item
        case Product(items):
            return Product(tuple(_stripped(item, declared) for item in items))
        case _:
            return type_


def check_names(type_: Type, declared: Declared) -> None:
    """Raise `TypeNameError` where a name in a type or behind it is unknown, or declared as itself without a guard.

    Linear in what is reached: a schema from outside, read as a type, may have thousands of names.
    """
    # All of them first: what leads nowhere is told as unknown.
    names = dict.fromkeys(node.name for node in reachable(type_, declared) if isinstance(node, Named))
    try:
        TopologicalSorter({name: _unguarded(declared[name]) for name in names}).prepare()
    except CycleError as error:
        raise TypeNameError(error.args[1][0], "a type declared as itself") from None


def leads_to_itself(name: str, declared: Declared) -> bool:
    """Whether a declared name is reached from itself through names and unions alone, and so has no meaning."""
    waiting = [name]
    seen: set[str] = set()
    while waiting:
        for used in _unguarded(declared[waiting.pop()]):
            if used == name:
                return True
            if used not in seen and used in declared:
                seen.add(used)
                waiting.append(used)
    return False


def _unguarded(type_: Type) -> set[str]:
    """The names in a type with nothing but unions around them."""
    names = set()
    waiting = [type_]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Union):
            waiting.extend(node.options)
        elif isinstance(node, Named):
            names.add(node.name)
    return names


def to_schema(type_: Type, declared: Declared) -> dict[str, object]:
    """The JSON Schema (2020-12) of a type; names stand in `$defs`, but the root itself is written out.

    Raises `TypeNameError`, and `ValueError` at a stream, which no schema describes.
    """
    check_names(type_, declared)
    root = resolve(type_, declared)
    schema = _schema(root)
    names = sorted({node.name for node in reachable(root, declared) if isinstance(node, Named)})
    if names:
        schema["$defs"] = {name: _schema(declared[name]) for name in names}
    return schema


def _schema(type_: Type) -> dict[str, object]:
    """The schema of one type, as deep as its text is; names become references."""
    match type_:
        case Primitive(word):
            return dict(_PRIMITIVES[word])
        case Named(name):
            return {"$ref": f"#/$defs/{name}"}
        case ListOf(item):
            return {"type": "array", "items": _schema(item)}
        case Record(fields):
            schema: dict[str, object] = {"type": "object"}
            schema["properties"] = {field.name: _schema(field.type) for field in fields}
            required = [field.name for field in fields if not field.optional]
            if required:
                schema["required"] = required
            schema["additionalProperties"] = False
            return schema
        case Product(items):
            size = len(items)
            prefix = [_schema(item) for item in items]
            return {"type": "array", "prefixItems": prefix, "items": False, "minItems": size, "maxItems": size}
        case Union(options):
            return {"anyOf": [_schema(option) for option in options]}
        case Stream():
            raise ValueError("a stream has no schema")


def options_of(type_: Type, declared: Declared) -> list[Type]:
    """The alternatives of a type whose names are checked: names and unions opened, any other type alone."""
    options: list[Type] = []
    waiting = [type_]
    opened: set[str] = set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, Union):
            waiting.extend(node.options)
        elif not isinstance(node, Named):
            options.append(node)
        elif node.name not in opened:
            opened.add(node.name)
            waiting.append(declared[node.name])
    return options


# --- the `[types]` table ---

TYPE_WORDS: Final = "int, number, string, bool, unit, json, or a declared name"
"""What may stand where a type is named."""
# What these types are called elsewhere; no likeness of letters would tell.
_CALLED_HERE: Final = {
    "any": "json",
    "object": "json",
    "unknown": "json",
    "boolean": "bool",
    "double": "number",
    "float": "number",
    "integer": "int",
    "long": "int",
    "none": "unit",
    "null": "unit",
    "void": "unit",
    "str": "string",
    "text": "string",
}


def nearest_type(name: str, declared: Iterable[str]) -> str | None:
    """The type that was probably meant by a name that is none, of the built-in ones and those `declared`; or None."""
    return _CALLED_HERE.get(name.lower()) or nearest(name, [*WORDS, *declared])


def build_types(texts: Mapping[str, str]) -> tuple[dict[str, Type], list[Problem]]:
    """Each declared type by name, and every problem; a type that has one means json, so that it is told only once."""
    declared: dict[str, Type] = {}
    problems: list[Problem] = []
    for name, text in texts.items():
        refused = "a built-in type has this name" if name in WORDS else declared_name_problem(name)
        if refused:
            problems.append(Problem(("types", name), refused))
        try:
            declared[name] = parse_type(text)
        except TypeTextError as error:
            declared[name] = JSON
            problems.append(Problem(("types", name), str(error), value=text))
    broken: list[str] = []
    for name, type_ in declared.items():
        path, text = ("types", name), texts[name]
        unknown = [used for used in _names_in(type_) if used not in declared]
        for used in unknown:
            why = f"column {column_of(text, used)}: no such type: {used}"
            close = nearest_type(used, declared)
            problems.append(Problem(path, why, value=text, allowed=None if close else TYPE_WORDS, nearest=close))
        is_itself = leads_to_itself(name, declared)
        if is_itself:
            why = "a type cannot be itself: a list, a record or a product must stand between"
            problems.append(Problem(path, why, value=text))
        if unknown or is_itself:
            broken.append(name)
    # Afterwards: each must be seen as it is written.
    declared.update(dict.fromkeys(broken, JSON))
    return declared, problems


def _names_in(type_: Type) -> list[str]:
    """The declared names in one text, each once, in order."""
    names: dict[str, None] = {}
    waiting = [type_]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Named):
            names[node.name] = None
        waiting.extend(reversed(parts(node)))
    return list(names)
