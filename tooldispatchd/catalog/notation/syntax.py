"""What a file of the notation says, as values: declarations, implementations, wirings, each with its place."""

from typing import ClassVar

import msgspec

from tooldispatchd.catalog.notation.places import SourcePosition
from tooldispatchd.catalog.types import Type


class Token(msgspec.Struct, frozen=True):
    """One word, sign or literal; `type` is the grammar's name for it, `value` is what a literal means."""

    type: str
    text: str
    place: SourcePosition
    value: object = None


class TypeText(msgspec.Struct, frozen=True):
    """A type, how deep it is nested, and where it begins; `marks` are the places of its names and `!`, in order."""

    type: Type
    depth: int
    place: SourcePosition
    marks: tuple[SourcePosition, ...] = ()


class Scalar(msgspec.Struct, frozen=True):
    """A text, a number, true or false."""

    value: str | float | bool
    place: SourcePosition


class Reference(msgspec.Struct, frozen=True):
    """A name that stands for a value, a process, a tool or a server."""

    name: str
    place: SourcePosition


class Items(msgspec.Struct, frozen=True):
    """`[…]`."""

    items: tuple["Value", ...]
    place: SourcePosition


class KeyValue(msgspec.Struct, frozen=True):
    """`key: value`."""

    key: str
    value: "Value"
    place: SourcePosition


class Pairs(msgspec.Struct, frozen=True):
    """`{…}`: no key stands there twice."""

    pairs: tuple[KeyValue, ...]
    place: SourcePosition


Value = Scalar | Reference | Items | Pairs


class Plain(msgspec.Struct, frozen=True):
    """`id`, `copy`, `discard`, `merge`, `barrier`."""

    kind: str
    place: SourcePosition


class Piece(msgspec.Struct, frozen=True):
    """A part of an expression: `kind` is name, number, text, sign or space."""

    kind: str
    text: str
    place: SourcePosition


class Formula(msgspec.Struct, frozen=True):
    """`map(…)` and `filter(…)`; `place` is where the expression begins."""

    kind: str
    pieces: tuple[Piece, ...]
    place: SourcePosition


class Projection(msgspec.Struct, frozen=True):
    """`project(N)`."""

    kind: ClassVar[str] = "project"
    index: int
    place: SourcePosition


class Block(msgspec.Struct, frozen=True):
    """`tool {…}` and `agent {…}`."""

    kind: str
    entries: Pairs
    place: SourcePosition


class Lift(msgspec.Struct, frozen=True):
    """`lift(TOOL)`, in a wiring."""

    name: str
    place: SourcePosition


class Selection(msgspec.Struct, frozen=True):
    """`filter(…).field`, in a wiring."""

    formula: Formula
    field: str
    place: SourcePosition


Element = Reference | Lift | Plain | Formula | Projection | Selection


class WireExpr(msgspec.Struct, frozen=True):
    """`a ; b ; c`."""

    elements: tuple[Element, ...]


class Spawn(msgspec.Struct, frozen=True):
    """`spawn f(a, b)`: f reads a and writes b."""

    process: Reference
    ends: tuple[Reference, ...]
    place: SourcePosition


class ChannelLet(msgspec.Struct, frozen=True):
    """`let ch : !T = channel`."""

    name: str
    type: TypeText
    place: SourcePosition


Statement = WireExpr | Spawn | ChannelLet


class Plumb(msgspec.Struct, frozen=True):
    """`plumb(input, output) {…}`; the short `plumb {…}` has no ports and one wire."""

    kind: ClassVar[str] = "plumb"
    ports: tuple[Reference, ...] | None
    statements: tuple[Statement, ...]
    place: SourcePosition


Implementation = Plain | Formula | Projection | Block | Plumb


class Annotation(msgspec.Struct, frozen=True):
    """`@name value`."""

    name: str
    value: Value
    place: SourcePosition


class Module(msgspec.Struct, frozen=True):
    """`module Fs`."""

    name: str
    place: SourcePosition


class TypeDeclaration(msgspec.Struct, frozen=True):
    """`type X = T`."""

    annotations: tuple[Annotation, ...]
    name: str
    type: TypeText
    place: SourcePosition


class ValueDeclaration(msgspec.Struct, frozen=True):
    """`let x = VALUE`."""

    annotations: tuple[Annotation, ...]
    name: str
    value: Value
    place: SourcePosition


class LetDeclaration(msgspec.Struct, frozen=True):
    """`let f : A -> B = IMPL`; without types both sides are None."""

    annotations: tuple[Annotation, ...]
    name: str
    source: TypeText | None
    target: TypeText | None
    implementation: Implementation
    place: SourcePosition


Declaration = Module | TypeDeclaration | ValueDeclaration | LetDeclaration
