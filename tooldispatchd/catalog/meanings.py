"""What types mean once declared names are looked up: their JSON Schema, their equality, their faults.

Names make types into graphs, which may have cycles: everything here walks with a list of its own, never by recursion
through names.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from tooldispatchd.catalog.types import (
    ListOf,
    Named,
    Primitive,
    Product,
    Record,
    Stream,
    Type,
    TypeNameError,
    Union,
    parts,
)

_PRIMITIVES: Final[dict[str, dict[str, object]]] = {
    "int": {"type": "integer"},
    "number": {"type": "number"},
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "unit": {"type": "null"},
    "json": {},
}

Declared = Mapping[str, Type]


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


def check_names(type_: Type, declared: Declared) -> None:
    """Raise `TypeNameError` where a name in a type or behind it is unknown, or declared as itself without a guard."""
    # All of them first: what leads nowhere is told as unknown.
    for node in list(reachable(type_, declared)):
        if isinstance(node, Named) and leads_to_itself(node.name, declared):
            raise TypeNameError(node.name, "a type declared as itself")


def leads_to_itself(name: str, declared: Declared) -> bool:
    """Whether a declared name is reached from itself through names and unions alone, and so has no meaning."""
    waiting = [declared[name]]
    seen: set[str] = set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, Union):
            waiting.extend(node.options)
        elif isinstance(node, Named) and node.name not in seen:
            if node.name == name:
                return True
            seen.add(node.name)
            if node.name in declared:
                waiting.append(declared[node.name])
    return False


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


def same(left: Type, right: Type, declared: Declared) -> bool:
    """Whether two types mean the same structure, whatever their names; options and fields may stand in any order.

    Raises `TypeNameError`. Types are graphs with cycles, so they are compared as automata are: all nodes begin in one
    class and are parted, round by round, by the classes of what stands in them, until a round parts no more.
    """
    check_names(left, declared)
    check_names(right, declared)
    nodes = _graph(left, right, declared)
    classes = [0] * len(nodes)
    count = 1
    while True:
        signs: dict[frozenset[tuple[object, tuple[int, ...]]], int] = {}
        fresh = []
        for node in nodes:
            sign = frozenset((label, tuple(classes[child] for child in children)) for label, children in node)
            fresh.append(signs.setdefault(sign, len(signs)))
        classes = fresh
        if len(signs) == count:
            return classes[0] == classes[1]
        count = len(signs)


# A type as its options; each is what kind it is, field names included, and its parts as indices of other nodes.
_Node = list[tuple[object, tuple[int, ...]]]


def _graph(left: Type, right: Type, declared: Declared) -> list[_Node]:
    """Every type in and behind two types, whose own nodes are the first two."""
    order: list[Type] = [left, right]
    places: dict[Type, int] = {right: 1, left: 0}
    nodes: list[_Node] = []
    # `order` grows while it is walked, and ends: there are finitely many types in a text.
    for type_ in order:
        node: _Node = []
        for option in _options(type_, declared):
            label, inner = _shape(option)
            for part in inner:
                if part not in places:
                    places[part] = len(order)
                    order.append(part)
            node.append((label, tuple(places[part] for part in inner)))
        nodes.append(node)
    return nodes


def _options(type_: Type, declared: Declared) -> list[Type]:
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


def _shape(type_: Type) -> tuple[object, tuple[Type, ...]]:
    """What tells one kind of type from another, and the parts in an order that does not depend on the text."""
    match type_:
        case Primitive(word):
            return word, ()
        case Record(fields):
            ordered = sorted(fields, key=lambda field: field.name)
            names = tuple((field.name, field.optional) for field in ordered)
            return ("record", names), tuple(field.type for field in ordered)
        case _:
            inner = parts(type_)
            return (type(type_).__name__, len(inner)), inner
