"""The checked tree of a CEL expression, read from the engine's own serialisation.

The engine gives its tree only as protobuf bytes (`cel.expr.CheckedExpr`, in an `Any`), and no protobuf library is a
dependency of ours: of the wire format only what these few messages use is read. A tree is bounded by its source, which
is bounded; the depth is bounded here once more, since reading it is recursive.
"""

from collections.abc import Iterator
from typing import Final, Literal

import msgspec

# The engine refuses sources nested deeper than 32; a macro puts at most four nodes in the place of one.
MAX_DEPTH: Final = 256

Kind = Literal["constant", "name", "select", "call", "list", "map", "loop"]
Message = dict[int, list[int | bytes]]

_JSON: Final = frozenset({"INT", "UINT", "DOUBLE", "STRING", "BOOL", "NULL"})


class Made(msgspec.Struct, frozen=True):
    """What an expression makes, by CEL's own name (`INT`, `LIST`, `DYN`, …) and the types within."""

    name: str
    inner: tuple["Made", ...] = ()

    @property
    def is_json(self) -> bool:
        """Whether JSON can say it, as far as it is known before a run."""
        if self.name == "MAP":
            return self.inner[0].name in {"STRING", "DYN"} and self.inner[1].is_json
        if self.name == "LIST":
            return self.inner[0].is_json
        return self.name in _JSON or self.name == "DYN"

    @property
    def is_safe(self) -> bool:
        """Whether its values are surely JSON, so that a result need not be looked through."""
        if self.name == "MAP":
            return False  # Its keys are to be put in order.
        if self.name == "LIST":
            return self.inner[0].is_safe
        # A double may be no number at all, a uint wider than an int.
        return self.name in _JSON and self.name not in {"DOUBLE", "UINT"}


class Node(msgspec.Struct, frozen=True):
    """One node. `text` is a name, a field, a function's name or a text constant; `parts` are what it works on.

    A call on something has that first among its parts. A map has key, value, key, value; with a `text` it is a message
    of that name. A loop has the range, the first value, the condition, the step and the result, and `names` of its
    element and of what it gathers.
    """

    kind: Kind
    id: int
    text: str | None = None
    parts: tuple["Node", ...] = ()
    names: tuple[str, str] = ("", "")


class Tree(msgspec.Struct, frozen=True):
    """A tree with the types and the places (offsets in characters of the source) of its nodes, by their ids."""

    root: Node
    types: dict[int, Made]
    places: dict[int, int]

    def type_of(self, node: Node) -> Made:
        """What a node makes."""
        return self.types.get(node.id, Made("DYN"))

    def begin_of(self, node: Node) -> int:
        """Where the text of a node begins, as an offset: the first of all places within it."""
        begins: list[int] = []
        for inner in nodes_in(node):
            if inner is not node and inner.id not in self.places:
                continue
            place, name = self.places.get(inner.id, 0), inner.text or ""
            if inner.kind == "call" and name.isidentifier():
                # The place of a call is its parenthesis; where nothing stands before it, the function's name does.
                first = min((self.places.get(part.id, place) for part in inner.parts), default=place)
                place = place if first < place else max(place - len(name), 0)
            begins.append(place)
        return min(begins)


class NodeError(ValueError):
    """A node that an expression may not have; `node` is it."""

    def __init__(self, why: str, node: Node) -> None:
        super().__init__(why)
        self.node = node


def nodes_in(root: Node) -> Iterator[Node]:
    """Every node of a tree, from left to right, each before its parts."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting.extend(reversed(node.parts))
        yield node


def fields_read(root: Node, name: str, whole: str) -> frozenset[str] | None:
    """The fields of the record `name`, itself a field of `whole`, that a tree reads; None where it reads all of it."""
    fields: set[str] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if _is_field(node, whole, name) or (node.kind == "name" and _plain(node) in {name, whole}):
            return None
        read_from = node.parts[0] if node.parts else node
        if _field_of(node) is not None and (
            (read_from.kind == "name" and _plain(read_from) == name) or _is_field(read_from, whole, name)
        ):
            fields.add(str(_field_of(node)))
        elif not (node.kind == "select" and read_from.kind == "name" and _plain(read_from) == whole):
            waiting.extend(node.parts)
    return frozenset(fields)


def _is_field(node: Node, record: str, field: str) -> bool:
    return _field_of(node) == field and node.parts[0].kind == "name" and _plain(node.parts[0]) == record


def _field_of(node: Node) -> str | None:
    """Which field a node is of its first part; None where it is none that is known before a run."""
    if node.kind == "select":
        return node.text
    if node.kind == "call" and node.text == "_[_]" and node.parts[1].kind == "constant":
        return node.parts[1].text
    return None


def _plain(node: Node) -> str:
    """Its name, which may be written with a dot before it."""
    return (node.text or "").removeprefix(".")


def gathered(step: Node) -> Node | None:
    """The entry that the step of a `map` or a `filter` adds to its list; None for the step of another macro."""
    if step.kind == "call" and step.text == "_?_:_":
        return gathered(step.parts[1])
    if step.kind == "call" and step.text == "_+_" and step.parts[1].kind == "list" and step.parts[1].parts:
        return step.parts[1].parts[0]
    return None


class TreeError(ValueError):
    """Bytes that are no tree as this module knows them."""


def read_tree(serialized: bytes) -> Tree:
    """The tree that the engine serialised. Raises `TreeError`."""
    try:
        checked = _read(_bytes(_read(serialized), 2))
        source = _read(_bytes(checked, 5))
        types = [_read(entry) for entry in _all(checked, 3)]
        places = [_read(entry) for entry in _all(source, 4)]
        return Tree(
            _node(_bytes(checked, 4), 0),
            {_int(entry, 1): _made(_bytes(entry, 2), 0) for entry in types},
            {_int(entry, 1): _int(entry, 2) for entry in places},
        )
    except (IndexError, UnicodeDecodeError) as error:
        raise TreeError("the engine's tree ends early") from error


def _node(message: bytes, depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise TreeError(f"the expression is nested deeper than {MAX_DEPTH}")
    fields = _read(message)
    number = _int(fields, 2)
    kind = next((kind for kind in _KINDS if kind in fields), 0)
    body = _read(_bytes(fields, kind))
    match kind:
        case 3:
            # Bytes have only a length here, which one character a byte keeps.
            text = _text(body, 6) if 6 in body else _bytes(body, 7).decode("latin-1") if 7 in body else None
            return Node("constant", number, text)
        case 4:
            return Node("name", number, _text(body, 1))
        case 5:
            return Node("select", number, _text(body, 2), _nodes(body, (1,), depth))
        case 6:
            return Node("call", number, _text(body, 2), _nodes(body, (1, 3), depth))
        case 7:
            return Node("list", number, None, _nodes(body, (1,), depth))
        case 8:
            entries = [_read(entry) for entry in _all(body, 2)]
            return Node(
                "map", number, _text(body, 1) or None, tuple(part for e in entries for part in _nodes(e, (3, 4), depth))
            )
        case 9:
            parts = _nodes(body, (2, 4, 5, 6, 7), depth)
            return Node("loop", number, None, parts, (_text(body, 1), _text(body, 3)))
        case _:
            raise TreeError("the engine's tree has a node of an unknown kind")


_KINDS: Final = (3, 4, 5, 6, 7, 8, 9)


def _nodes(fields: Message, numbers: tuple[int, ...], depth: int) -> tuple[Node, ...]:
    return tuple(_node(message, depth + 1) for number in numbers for message in _all(fields, number))


_PRIMITIVES: Final = {1: "BOOL", 2: "INT", 3: "UINT", 4: "DOUBLE", 5: "STRING", 6: "BYTES"}
_WELL_KNOWN: Final = {2: "TIMESTAMP", 3: "DURATION"}


def _made(message: bytes, depth: int) -> Made:
    fields = _read(message)
    if depth > MAX_DEPTH:
        return Made("DYN")
    if 2 in fields:
        return Made("NULL")
    if 3 in fields:
        return Made(_PRIMITIVES.get(_int(fields, 3), "DYN"))
    if 5 in fields:
        return Made(_WELL_KNOWN.get(_int(fields, 5), "DYN"))
    if 6 in fields:
        return Made("LIST", (_inner(_read(_bytes(fields, 6)), 1, depth),))
    if 7 in fields:
        body = _read(_bytes(fields, 7))
        return Made("MAP", (_inner(body, 1, depth), _inner(body, 2, depth)))
    return Made("TYPE" if 11 in fields else "MESSAGE" if 9 in fields else "DYN")


def _inner(body: Message, number: int, depth: int) -> Made:
    return _made(_bytes(body, number), depth + 1) if number in body else Made("DYN")


def _read(message: bytes) -> Message:
    """The fields of one message by number: varints as int, all else as bytes."""
    fields: Message = {}
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        value: int | bytes
        if key & 7 == 0:
            value, place = _varint(message, place)
        else:
            size, place = _varint(message, place) if key & 7 == 2 else (_FIXED.get(key & 7, 0), place)
            if not size <= len(message) - place or key & 7 not in {1, 2, 5}:
                raise TreeError("the engine's tree is no protobuf message")
            value, place = message[place : place + size], place + size
        fields.setdefault(key >> 3, []).append(value)
    return fields


_FIXED: Final = {1: 8, 5: 4}


def _varint(message: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    # A varint has ten bytes at most.
    for shift in range(0, 70, 7):
        byte = message[place]
        place += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, place
    raise TreeError("the engine's tree has a number that does not end")


def _all(fields: Message, number: int) -> list[bytes]:
    return [value for value in fields.get(number, ()) if isinstance(value, bytes)]


def _bytes(fields: Message, number: int) -> bytes:
    found = _all(fields, number)
    return found[-1] if found else b""


def _int(fields: Message, number: int) -> int:
    found = [value for value in fields.get(number, ()) if isinstance(value, int)]
    return found[-1] if found else 0


def _text(fields: Message, number: int) -> str:
    return _bytes(fields, number).decode()
