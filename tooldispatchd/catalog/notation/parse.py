"""Parse a text into declarations, and say its syntax errors in our words.

The tokens go to lark's parser one by one. The builder makes values bottom-up and never by recursion, so that no text
exhausts the stack. It also refuses what the grammar cannot: a field or a key that stands there twice, and a type that
is nested too deep to be read again.

The parser is made when this module is imported, which takes some 40 ms. So that happens with the first plumb file.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, Protocol, cast

from lark import Lark, UnexpectedToken

from tooldispatchd.catalog.notation.places import NotationError, SourcePosition, refusal
from tooldispatchd.catalog.notation.syntax import (
    Annotation,
    Block,
    ChannelLet,
    Declaration,
    Element,
    Formula,
    Implementation,
    Items,
    KeyValue,
    LetDeclaration,
    Lift,
    Module,
    Pairs,
    Piece,
    Plain,
    Plumb,
    Projection,
    Reference,
    Scalar,
    Selection,
    Spawn,
    Statement,
    Token,
    TypeDeclaration,
    TypeText,
    Value,
    ValueDeclaration,
    WireExpr,
)
from tooldispatchd.catalog.notation.tokens import END, GRAMMAR, KEYWORDS, expectation, tokens_of
from tooldispatchd.catalog.types import (
    MAX_DEPTH,
    WORDS,
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

# Tokens that are not shown as they are: a text may be a secret.
_FOUND: Final = {END: "the end of the file", "EXPRESSION": "an expression", "STRING": "a text"}
# What other notations of typed agents have and this one has not.
_PARALLEL: Final = "parallel composition is not part of this notation: a chain is linear"
_HINTS: Final = {
    "use": "every file that the configuration names is there already",
    "protocol": "protocols are not part of this notation",
    "builtin": "builtin tools are not part of this notation",
    "exec": "a program runs by tool { command: … } or agent { command: … }",
    "narrow": "narrow is not part of this notation",
    "'": 'texts stand in double quotes: "…"',
    "`": 'texts stand in double quotes: "…"',
}
# The same, in a wiring only: elsewhere these are right, or wrong for another reason.
_HINTS_IN_WIRING: Final = {
    "(": _PARALLEL,
    "*": _PARALLEL,
    "@": "ports of processes are not part of this notation: a chain is linear",
}
_PROCESS: Final = "a process"


class _Parsing(Protocol):
    def feed_token(self, token: Token) -> object: ...
    def accepts(self) -> set[str]: ...


def parse(file: str, text: str) -> tuple[Declaration, ...]:
    """What the text declares, in order. Raises `NotationError` with the first thing that is wrong."""
    parsing = _begin()
    declarations: object = ()
    earlier: Token | None = None
    for count, token in enumerate(tokens_of(file, text)):
        try:
            declarations = parsing.feed_token(token)
        except UnexpectedToken:
            raise _syntax_error(file, text, count, token, earlier) from None
        earlier = token
    return cast("tuple[Declaration, ...]", declarations)


def _syntax_error(file: str, text: str, count: int, token: Token, earlier: Token | None) -> NotationError:
    """What was expected in the place of `token`, the one after `count` right ones, and what was probably meant."""
    # Another parser is asked, because the one that met the wrong token went on with it as far as it could.
    parsing = _begin()
    for right in islice(tokens_of(file, text), count):
        parsing.feed_token(right)
    expected = expectation(parsing.accepts())
    hint = _HINTS.get(token.text) or (_HINTS.get(earlier.text) if earlier else None)
    if hint is None and _PROCESS in expected:
        hint = _HINTS_IN_WIRING.get(token.text[:1])
    shown = token.text if token.text.isprintable() else ascii(token.text)[1:-1]
    is_word = ", which is a word of the notation" if token.text in KEYWORDS else ""
    found = _FOUND.get(token.type) or f'"{shown[:40]}"{is_word}'
    return refusal(token.place, f"expected {expected}, found {found}" + (f"; {hint}" if hint else ""))


# --- what is built of each rule: the method of the rule's name makes its value of those of its parts ---

MAX_PROJECTED: Final = 63
_Annotations = tuple[Annotation, ...]


class _Field(Field, frozen=True):
    """A field as it is read, with how deep its type is nested, the places in that, and where it stands itself."""

    depth: int = 0
    marks: tuple[SourcePosition, ...] = ()
    place: SourcePosition = SourcePosition("", 0, 0)


class _Builder:
    """Stateless: one serves every text. Methods raise `NotationError`."""

    def file(self, *declarations: Declaration) -> tuple[Declaration, ...]:
        return declarations

    def module(self, _word: Token, name: Token) -> Module:
        return Module(name.text, name.place)

    def type_declaration(
        self, annotations: _Annotations, _word: Token, name: Token, type_: TypeText
    ) -> TypeDeclaration:
        return TypeDeclaration(annotations, name.text, type_, name.place)

    def let_declaration(
        self,
        annotations: _Annotations,
        _word: Token,
        name: Token,
        source: TypeText,
        target: TypeText,
        implementation: Implementation,
    ) -> LetDeclaration:
        return LetDeclaration(annotations, name.text, source, target, implementation, name.place)

    def inferred_declaration(
        self, annotations: _Annotations, _word: Token, name: Token, implementation: Implementation
    ) -> LetDeclaration:
        return LetDeclaration(annotations, name.text, None, None, implementation, name.place)

    def value_declaration(self, annotations: _Annotations, _word: Token, name: Token, value: Value) -> ValueDeclaration:
        return ValueDeclaration(annotations, name.text, value, name.place)

    def annotations(self, *annotations: Annotation) -> _Annotations:
        return annotations

    def annotation(self, name: Token, value: Value) -> Annotation:
        return Annotation(name.text.removeprefix("@"), value, name.place)

    def named(self, name: Token) -> TypeText:
        if name.text.startswith("_"):
            raise refusal(name.place, f'expected a type, found "{name.text[:40]}"')
        type_: Type = Named(name.text)
        if name.text in WORDS:
            type_ = Primitive(name.text)  # type: ignore[arg-type]  # WORDS are the literals
        return TypeText(type_, 1, name.place, (name.place,))

    def stream(self, sign: Token, item: TypeText) -> TypeText:
        # A union is written in parentheses there.
        depth = item.depth + 1 + isinstance(item.type, Union)
        return _type(Stream(item.type), depth, sign.place, (sign.place, *item.marks))

    def union(self, *options: TypeText) -> TypeText:
        flat: list[Type] = []
        for option in options:
            flat.extend(option.type.options if isinstance(option.type, Union) else (option.type,))
        depth = max(option.depth for option in options)
        return _type(Union(tuple(flat)), depth, options[0].place, _marks(options))

    def list_of(self, sign: Token, item: TypeText) -> TypeText:
        return _type(ListOf(item.type), item.depth + 1, sign.place, item.marks)

    def product(self, sign: Token, *items: TypeText) -> TypeText:
        if len(items) == 1:
            return TypeText(items[0].type, items[0].depth, sign.place, items[0].marks)
        depth = 1 + max(item.depth for item in items)
        return _type(Product(tuple(item.type for item in items)), depth, sign.place, _marks(items))

    def record(self, sign: Token, *fields: _Field) -> TypeText:
        known: dict[str, Field] = {}
        for field in fields:
            if field.name in known:
                raise refusal(field.place, f'a record has each field once, and "{field.name}" stands here again')
            known[field.name] = Field(field.name, field.type, field.optional)
        depth = 1 + max((field.depth for field in fields), default=0)
        return _type(Record(tuple(known.values())), depth, sign.place, _marks(fields))

    def field(self, name: Token, type_: TypeText) -> _Field:
        return _Field(_plain(name), type_.type, optional=False, depth=type_.depth, marks=type_.marks, place=name.place)

    def optional_field(self, name: Token, type_: TypeText) -> _Field:
        return _Field(_plain(name), type_.type, optional=True, depth=type_.depth, marks=type_.marks, place=name.place)

    def key(self, word: Token) -> Token:
        return word

    def scalar(self, token: Token) -> Scalar:
        assert isinstance(token.value, str | int | float), "every literal has its value"
        return Scalar(token.value, token.place)

    def reference(self, name: Token) -> Reference:
        return Reference(name.text, name.place)

    def items(self, sign: Token, *items: Value) -> Items:
        return Items(items, sign.place)

    def pairs(self, sign: Token, *pairs: KeyValue) -> Pairs:
        known: set[str] = set()
        for pair in pairs:
            if pair.key in known:
                raise refusal(pair.place, f'"{pair.key}" stands here again')
            known.add(pair.key)
        return Pairs(pairs, sign.place)

    def pair(self, key: Token, value: Value) -> KeyValue:
        return KeyValue(_plain(key), value, key.place)

    def quoted_pair(self, key: Token, value: Value) -> KeyValue:
        return KeyValue(str(key.value), value, key.place)

    def plain(self, word: Token) -> Plain:
        return Plain(word.text, word.place)

    def formula(self, word: Token, expression: Token) -> Formula:
        assert isinstance(expression.value, tuple), "an expression's value is its pieces"
        pieces: tuple[Piece, ...] = expression.value
        meant = [piece for piece in pieces if piece.kind != "space"]
        if not meant:
            raise refusal(expression.place, f"an expression is expected in {word.text}(…)")
        return Formula(word.text, pieces, meant[0].place)

    def projection(self, word: Token, _sign: Token, index: Token) -> Projection:
        if not isinstance(index.value, int) or not 0 <= index.value <= MAX_PROJECTED:
            raise refusal(index.place, f"project takes a whole number from 0 to {MAX_PROJECTED}")
        return Projection(index.value, word.place)

    def block(self, word: Token, entries: Pairs) -> Block:
        return Block(word.text, entries, word.place)

    def ports(self, *ports: Reference) -> tuple[Reference, ...]:
        return ports

    def plumb(
        self, word: Token, _open: Token, ports: tuple[Reference, ...], _brace: Token, *statements: Statement
    ) -> Plumb:
        return Plumb(ports, statements, word.place)

    def short_plumb(self, word: Token, _sign: Token, wire: WireExpr) -> Plumb:
        return Plumb(None, (wire,), word.place)

    def wire(self, *elements: Element) -> WireExpr:
        return WireExpr(elements)

    def spawn(self, word: Token, process: Reference, _sign: Token, *ends: Reference) -> Spawn:
        return Spawn(process, ends, word.place)

    def channel(self, _word: Token, name: Token, type_: TypeText, _channel: Token) -> ChannelLet:
        return ChannelLet(name.text, type_, name.place)

    def lift(self, word: Token, _sign: Token, name: Token) -> Lift:
        return Lift(name.text, word.place)

    def selection(self, formula: Formula, field: Token) -> Selection:
        return Selection(formula, field.text, field.place)


def _type(type_: Type, depth: int, place: SourcePosition, marks: tuple[SourcePosition, ...]) -> TypeText:
    if depth > MAX_DEPTH:
        raise refusal(place, f"a type is nested at most {MAX_DEPTH} deep")
    return TypeText(type_, depth, place, marks)


def _marks(holders: Sequence[TypeText | _Field]) -> tuple[SourcePosition, ...]:
    return tuple(mark for holder in holders for mark in holder.marks)


def _plain(key: Token) -> str:
    """The key's text. Raises `NotationError` for one with a dot in it, which only names have."""
    if "." in key.text:
        raise refusal(key.place, f'a key has no dots: "{key.text[:40]}"')
    return key.text


class _Unpacked:
    """The builder as lark calls it: with a list of parts."""

    def __getattr__(self, rule: str) -> Callable[[list[object]], object]:
        method: Callable[..., object] = getattr(_BUILDER, rule)
        return lambda parts: method(*parts)


_BUILDER: Final = _Builder()
_PARSER: Final = Lark(GRAMMAR, parser="lalr", start="file", maybe_placeholders=False, transformer=_Unpacked())
# A parse takes whatever has a `type`, and gives it to the builder as it is.
_begin: Final = cast("Callable[[], _Parsing]", _PARSER.parse_interactive)
