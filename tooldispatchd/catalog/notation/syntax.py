"""What a file of the notation says, as values: declarations, implementations, wirings, each with its place."""

import msgspec

from tooldispatchd.catalog.notation.places import Place
from tooldispatchd.catalog.types import Type


class Token(msgspec.Struct, frozen=True):
    """One word, sign or literal; `type` is the grammar's name for it, `value` is what a literal means."""

    type: str
    text: str
    place: Place
    value: object = None


class TypeText(msgspec.Struct, frozen=True):
    """A type, how deep it is nested, and where it begins; `marks` are the places of its names and `!`, in order."""

    type: Type
    depth: int
    place: Place
    marks: tuple[Place, ...] = ()


class Scalar(msgspec.Struct, frozen=True):
    """A text, a number, true or false."""

    value: str | float | bool
    place: Place


class Reference(msgspec.Struct, frozen=True):
    """A name that stands for a value, a process, a tool or a server."""

    name: str
    place: Place


class Items(msgspec.Struct, frozen=True):
    """`[…]`."""

    items: tuple["Value", ...]
    place: Place


class Pair(msgspec.Struct, frozen=True):
    """`key: value`."""

    key: str
    value: "Value"
    place: Place


class Pairs(msgspec.Struct, frozen=True):
    """`{…}`: no key stands there twice."""

    pairs: tuple[Pair, ...]
    place: Place


Value = Scalar | Reference | Items | Pairs


class Plain(msgspec.Struct, frozen=True):
    """`id`, `copy`, `discard`, `merge`, `barrier`."""

    kind: str
    place: Place


class Piece(msgspec.Struct, frozen=True):
    """A part of an expression: `kind` is name, number, text, sign or space."""

    kind: str
    text: str
    place: Place


class Formula(msgspec.Struct, frozen=True):
    """`map(…)` and `filter(…)`; `place` is where the expression begins."""

    kind: str
    pieces: tuple[Piece, ...]
    place: Place


class Projection(msgspec.Struct, frozen=True):
    """`project(N)`."""

    index: int
    place: Place


class Block(msgspec.Struct, frozen=True):
    """`tool {…}` and `agent {…}`."""

    kind: str
    entries: Pairs
    place: Place


class Lift(msgspec.Struct, frozen=True):
    """`lift(TOOL)`, in a wiring."""

    name: str
    place: Place


class Selection(msgspec.Struct, frozen=True):
    """`filter(…).field`, in a wiring."""

    formula: Formula
    field: str
    place: Place


Element = Reference | Lift | Plain | Formula | Projection | Selection


class Wire(msgspec.Struct, frozen=True):
    """`a ; b ; c`."""

    elements: tuple[Element, ...]


class Spawn(msgspec.Struct, frozen=True):
    """`spawn f(a, b)`: f reads a and writes b."""

    process: Reference
    ends: tuple[Reference, ...]
    place: Place


class Channel(msgspec.Struct, frozen=True):
    """`let ch : !T = channel`."""

    name: str
    type: TypeText
    place: Place


Statement = Wire | Spawn | Channel


class Plumb(msgspec.Struct, frozen=True):
    """`plumb(input, output) {…}`; the short `plumb {…}` has no ports and one wire."""

    ports: tuple[Reference, ...] | None
    statements: tuple[Statement, ...]
    place: Place


Implementation = Plain | Formula | Projection | Block | Plumb


class Annotation(msgspec.Struct, frozen=True):
    """`@name value`."""

    name: str
    value: Value
    place: Place


class Module(msgspec.Struct, frozen=True):
    """`module Fs`."""

    name: str
    place: Place


class TypeDeclaration(msgspec.Struct, frozen=True):
    """`type X = T`."""

    annotations: tuple[Annotation, ...]
    name: str
    type: TypeText
    place: Place


class ValueDeclaration(msgspec.Struct, frozen=True):
    """`let x = VALUE`."""

    annotations: tuple[Annotation, ...]
    name: str
    value: Value
    place: Place


class LetDeclaration(msgspec.Struct, frozen=True):
    """`let f : A -> B = IMPL`; without types both sides are None."""

    annotations: tuple[Annotation, ...]
    name: str
    source: TypeText | None
    target: TypeText | None
    implementation: Implementation
    place: Place


Declaration = Module | TypeDeclaration | ValueDeclaration | LetDeclaration
