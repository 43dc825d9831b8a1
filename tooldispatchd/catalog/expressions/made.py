"""CEL's types and ours: how one of ours is declared to CEL, what an expression makes, and whether that fits.

CEL has no records. A record is a map of dynamic values there, so what an expression makes of its fields is known only
when it runs, and is checked then by the tool's output schema. Of a record literal more is known than CEL's type says.
"""

import re
from typing import Final

from tooldispatchd.catalog.expressions.tree import Made, Node, Tree, gathered
from tooldispatchd.catalog.meanings import Declared, resolve
from tooldispatchd.catalog.types import (
    JSON,
    Field,
    ListOf,
    Named,
    Primitive,
    Product,
    Record,
    Stream,
    Type,
    Union,
)

# How deep lists within lists are told apart: the engine takes 13 levels, and a recursive type has no end of them.
MAX_LISTS: Final = 8

_PRIMITIVES: Final = {
    "INT": Primitive("int"),
    "UINT": Primitive("int"),
    "DOUBLE": Primitive("number"),
    "STRING": Primitive("string"),
    "BOOL": Primitive("bool"),
    "NULL": Primitive("unit"),
}
_FIELD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_SIGNATURES: Final = {"int": "int", "number": "double", "string": "string", "bool": "bool", "unit": "null_type"}
_SHOWN: Final = {"INT": "int", "UINT": "int", "DOUBLE": "number", "STRING": "string", "BOOL": "bool", "NULL": "unit"}
_FITTING: Final = {
    "int": {"INT", "UINT"},
    "number": {"INT", "UINT", "DOUBLE"},
    "string": {"STRING"},
    "bool": {"BOOL"},
    "unit": {"NULL"},
}


def signature(type_: Type, declared: Declared, lists: int = 0) -> str:
    """How a type is declared to CEL, as CEL's own type text."""
    meaning = resolve(type_, declared)
    match meaning:
        case Primitive(word):
            return _SIGNATURES.get(word, "dyn")
        case Record():
            return "map<string, dyn>"
        case ListOf(item) if lists < MAX_LISTS:
            return f"list<{signature(item, declared, lists + 1)}>"
        case ListOf() | Product():
            return "list<dyn>"
        case Union() | Stream() | Named():
            return "dyn"


def show_made(made: Made) -> str:
    """What an expression makes, in our notation where it has one."""
    if made.name == "LIST":
        return f"[{show_made(made.inner[0])}]"
    if made.name == "MAP":
        return "a record" if made.inner[1].name == "DYN" else f"a record of {show_made(made.inner[1])}"
    if made.name == "DYN":
        return "json"
    return _SHOWN.get(made.name, made.name.lower())


def fits(made: Made, type_: Type, declared: Declared) -> bool:
    """Whether a result may be of a type: False only where it surely is not."""
    if made.name == "DYN":
        return True
    meaning = resolve(type_, declared)
    match meaning:
        case Primitive("json"):
            return made.is_json
        case Primitive(word):
            return made.name in _FITTING[word]
        case ListOf(item):
            return made.name == "LIST" and fits(made.inner[0], item, declared)
        case Product(items):
            return made.name == "LIST" and all(fits(made.inner[0], item, declared) for item in items)
        case Record(fields):
            # One type stands for all values of a map; an optional field may be missing from it.
            return made.name == "MAP" and all(
                fits(made.inner[1], field.type, declared) for field in fields if not field.optional
            )
        case Union(options):
            return any(fits(made, option, declared) for option in options)
        case Stream() | Named():
            return False


def result_of(tree: Tree) -> Type:
    """The type of what a tree makes: json where it is not known, a closed record for a record literal."""
    return _result(tree, tree.root)


def _result(tree: Tree, node: Node) -> Type:
    made = tree.type_of(node)
    match node.kind:
        case "map" if node.text is None:
            keys, values = node.parts[::2], node.parts[1::2]
            names = [key.text for key in keys if key.kind == "constant" and key.text is not None]
            named = [name for name in names if _FIELD.fullmatch(name)]
            if len(named) != len(keys) or len(set(named)) != len(named):
                return JSON
            return Record(tuple(Field(name, _result(tree, value)) for name, value in zip(named, values, strict=True)))
        case "list" if node.parts:
            return _common(tree, node.parts, made, in_list=True)
        case "call" if node.text == "_?_:_":
            return _common(tree, node.parts[1:], made, in_list=False)
        case "loop":
            item = gathered(node.parts[3])
            return type_of_made(made) if item is None else ListOf(_result(tree, item))
        case _:
            return type_of_made(made)


def _common(tree: Tree, nodes: tuple[Node, ...], made: Made, *, in_list: bool) -> Type:
    types = [_result(tree, node) for node in nodes]
    if any(type_ != types[0] for type_ in types):
        return type_of_made(made)
    return ListOf(types[0]) if in_list else types[0]


def type_of_made(made: Made) -> Type:
    """The type behind CEL's own: json for what is known only when it runs, and for maps."""
    if made.name == "LIST":
        return ListOf(type_of_made(made.inner[0]))
    return _PRIMITIVES.get(made.name, JSON)
