"""What an expression makes, beside our types: CEL's type of it, what its literals say besides, and whether it fits.

CEL has no records, so a record is a map of dynamic values there; what an expression makes of those is checked when it
runs, by the tool's output schema.
"""

import re
from collections.abc import Mapping
from typing import Final

from tooldispatchd.catalog.expressions.tree import Made, Node, Tree
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

# Lists within lists that are still told apart: the engine takes 13 levels, and a recursive type has no end of them.
MAX_LISTS: Final = 8
# Records within records that are still looked into; what is deeper is left to the check of each result.
MAX_RECORDS: Final = 16

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
_MADE: Final = {"int": "INT", "number": "DOUBLE", "string": "STRING", "bool": "BOOL", "unit": "NULL"}
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


def made_name(type_: Type | None, declared: Declared) -> str:
    """CEL's own name of a type that is one of its words; `DYN` of every other."""
    meaning = None if type_ is None else resolve(type_, declared)
    return _MADE.get(meaning.word, "DYN") if isinstance(meaning, Primitive) else "DYN"


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


def type_read(node: Node, variables: Mapping[str, Type], declared: Declared) -> Type | None:
    """The declared type of a part of the input, which CEL sees as a dynamic value; None where it is not known."""
    if node.kind == "name":
        return variables.get(node.text or "")
    if node.kind == "loop":
        over, item = type_read(node.parts[0], variables, declared), _gathered(node.parts[3])
        inner = {**variables, node.names[0]: type_within(over, declared)}
        type_ = None if item is None else type_read(item, inner, declared)
        return type_ and ListOf(type_)
    if node.kind != "select" and node.text != "_[_]":
        return None
    type_ = type_read(node.parts[0], variables, declared)
    meaning = None if type_ is None else resolve(type_, declared)
    if isinstance(meaning, Record):
        named = node if node.kind == "select" else node.parts[1]
        is_known = named.kind in {"select", "constant"} and named.text is not None
        return next((field.type for field in meaning.fields if is_known and field.name == named.text), None)
    return meaning.item if isinstance(meaning, ListOf) else None


def type_within(type_: Type | None, declared: Declared) -> Type:
    """The type of what a loop over a value sees: the entries of a list, the keys of a record."""
    meaning = JSON if type_ is None else resolve(type_, declared)
    if isinstance(meaning, Record):
        return Primitive("string")
    return meaning.item if isinstance(meaning, ListOf) else JSON


def type_of_made(made: Made) -> Type:
    """The type behind CEL's own: json for what is known only when it runs, and for maps."""
    if made.name == "LIST":
        return ListOf(type_of_made(made.inner[0]))
    return _PRIMITIVES.get(made.name, JSON)
