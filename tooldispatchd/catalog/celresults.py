"""What an expression makes, as a type of ours: read from its checked tree, and from the literals in it."""

import re
from typing import Final

from tooldispatchd.catalog.celtree import Node, Tree
from tooldispatchd.catalog.celtypes import Made
from tooldispatchd.catalog.types import JSON, Field, ListOf, Primitive, Record, Type

_PRIMITIVES: Final = {
    "INT": Primitive("int"),
    "UINT": Primitive("int"),
    "DOUBLE": Primitive("number"),
    "STRING": Primitive("string"),
    "BOOL": Primitive("bool"),
    "NULL": Primitive("unit"),
}
_FIELD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def result_of(tree: Tree) -> Type:
    """The type of what a tree makes: json where it is not known, a closed record for a record literal."""
    return _result(tree, tree.root)


def _result(tree: Tree, node: Node) -> Type:
    made = tree.type_of(node)
    match node.kind:
        case "map" if node.text is None:
            return _record(tree, node)
        case "list" if node.parts:
            return _common(tree, node.parts, made, in_list=True)
        case "call" if node.text == "_?_:_":
            return _common(tree, node.parts[1:], made, in_list=False)
        case "loop":
            item = _gathered(node.parts[3])
            return type_of_made(made) if item is None else ListOf(_result(tree, item))
        case _:
            return type_of_made(made)


def _record(tree: Tree, node: Node) -> Type:
    keys, values = node.parts[::2], node.parts[1::2]
    names = [key.text for key in keys if key.kind == "constant" and key.text is not None]
    named = [name for name in names if _FIELD.fullmatch(name)]
    if len(named) != len(keys) or len(set(named)) != len(named):
        return JSON
    return Record(tuple(Field(name, _result(tree, value)) for name, value in zip(named, values, strict=True)))


def _common(tree: Tree, nodes: tuple[Node, ...], made: Made, *, in_list: bool) -> Type:
    types = [_result(tree, node) for node in nodes]
    if any(type_ != types[0] for type_ in types):
        return type_of_made(made)
    return ListOf(types[0]) if in_list else types[0]


def _gathered(step: Node) -> Node | None:
    """The entry that a step of `map` or `filter` puts to its list; None of another macro's."""
    if step.kind == "call" and step.text == "_?_:_":
        return _gathered(step.parts[1])
    if step.kind == "call" and step.text == "_+_" and step.parts[1].kind == "list" and step.parts[1].parts:
        return step.parts[1].parts[0]
    return None


def type_of_made(made: Made) -> Type:
    """The type behind CEL's own: json for what is known only when it runs, and for maps."""
    if made.name == "LIST":
        return ListOf(type_of_made(made.inner[0]))
    return _PRIMITIVES.get(made.name, JSON)


def doubled_key(root: Node) -> tuple[Node, str] | None:
    """The first literal key that a record has twice, which the engine would tell only when it runs."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting.extend(reversed(node.parts))
        seen: set[str] = set()
        for key in node.parts[::2] if node.kind == "map" and node.text is None else ():
            if key.kind == "constant" and key.text is not None:
                if key.text in seen:
                    return key, key.text
                seen.add(key.text)
    return None
