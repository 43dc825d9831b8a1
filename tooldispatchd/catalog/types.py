"""Types as text: the notation, its parser, and what it means as JSON Schema.

    type    = single { "|" single }
    single  = "!" single | word | "[" type "]" | record | "(" type { "," type } ")"
    record  = "{" [ field { "," field } ] "}"
    field   = name [ "?" ] ":" type
    word    = int | number | string | bool | unit | json | a declared name
    arrow   = type "->" type

Parentheses around one type only group. Types are plain values; a declared name stays a name in them, so that they
can be recursive, and is looked up in `declared` where its meaning is needed.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final, Literal, TypeVar, get_args

import msgspec

# A type that a person reads has neither; both bound the parser's work and its recursion.
MAX_TEXT: Final = 16 * 1024
MAX_DEPTH: Final = 64

Word = Literal["int", "number", "string", "bool", "unit", "json"]
WORDS: Final[frozenset[str]] = frozenset(get_args(Word))


class Primitive(msgspec.Struct, frozen=True):
    """One of the six built-in types; `json` is any JSON value."""

    word: Word


class Named(msgspec.Struct, frozen=True):
    """A declared name, not looked up."""

    name: str


class ListOf(msgspec.Struct, frozen=True):
    """`[T]`."""

    item: "Type"


class Field(msgspec.Struct, frozen=True):
    """One field of a record; an optional one may be missing, and is never null for that."""

    name: str
    type: "Type"
    optional: bool = False


class Record(msgspec.Struct, frozen=True):
    """`{a: T, b?: T}`: closed, it has no other fields."""

    fields: tuple[Field, ...]


class OpenRecord(Record, frozen=True):
    """A record that may have further fields, of which nothing is known: that of a JSON Schema which allows them."""


class Product(msgspec.Struct, frozen=True):
    """`(A, B)`: a JSON array of exactly these, two or more."""

    items: tuple["Type", ...]


class Union(msgspec.Struct, frozen=True):
    """`A | B`: two or more options, none of them a union itself."""

    options: tuple["Type", ...]


class Stream(msgspec.Struct, frozen=True):
    """`!T`: a stream of messages of type T; only processes have it."""

    item: "Type"


Type = Primitive | Named | ListOf | Record | Product | Union | Stream

JSON: Final = Primitive("json")
UNIT: Final = Primitive("unit")

OF_SCHEMA: Final[dict[object, Primitive]] = {
    "integer": Primitive("int"),
    "number": Primitive("number"),
    "string": Primitive("string"),
    "boolean": Primitive("bool"),
    "null": UNIT,
}
"""What a JSON Schema's `type` says, where it says a type that has no parts."""


class TypeTextError(ValueError):
    """A text that is no type: `why` is what is wrong at the `column`, which is 1-based."""

    def __init__(self, column: int, why: str) -> None:
        super().__init__(f"column {column}: {why}")
        self.column = column


class TypeNameError(ValueError):
    """A declared name that means nothing: there is none, or it is declared as itself."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{why}: {name}")
        self.name = name


_Token = tuple[str, str, int]

# A hyphen belongs to a name, but not where it begins an arrow: `A->B`.
_NAME: Final = r"[A-Za-z_](?:[A-Za-z0-9_]|-(?!>))*(?:\.[A-Za-z](?:[A-Za-z0-9_]|-(?!>))*)*"
_TOKEN: Final = re.compile(rf"[ \t\r\n]*(?:(?P<name>{_NAME})|(?P<sign>->|[!\[\]{{}}(),|:?])|(?P<end>\Z)|(?P<other>.))")
_START: Final = "a type"

FIELD_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
"""What a record's field may be called in a type's text."""


def parse_type(text: str) -> Type:
    """The type that `text` says. Raises `TypeTextError`."""
    return _Parser(text).whole(_Parser.type)


def parse_arrow(text: str) -> tuple[Type, Type]:
    """Input and output of `A -> B`. Raises `TypeTextError`."""
    return _Parser(text).whole(_Parser.arrow)


def column_of(text: str, name: str) -> int:
    """The column, from 1, where the declared `name` is first used in a text that has been parsed; 1 where it is not."""
    tokens = list(_tokens(text))
    for (kind, word, column), (_, after, _) in pairwise(tokens):
        if kind == "name" and word == name and after not in {":", "?"}:
            return column
    return 1


def columns_of_types(text: str) -> list[int]:
    """The column, from 1, of each built-in and declared name and each `!` in a text that has been parsed, in order."""
    return [
        column
        for (kind, word, column), (_, after, _) in pairwise(_tokens(text))
        if word == "!" or (kind == "name" and after not in {":", "?"})
    ]


def _tokens(text: str) -> Iterator[_Token]:
    place = 0
    while True:
        match = _TOKEN.match(text, place)
        assert match is not None, "the last alternative takes any character that the others leave"
        kind = match.lastgroup or "end"
        yield kind, match.group(kind), match.start(kind) + 1
        if kind == "end":
            return
        place = match.end()


_T = TypeVar("_T")


class _Parser:
    """Recursive descent over the tokens, one of them looked at ahead."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_TEXT:
            raise TypeTextError(1, f"expected at most {MAX_TEXT} characters, found {len(text)}")
        self._tokens = _tokens(text)
        self._kind, self._text, self._column = next(self._tokens)
        self._depth = 0

    def whole(self, read: Callable[["_Parser"], _T]) -> _T:
        """What `read` reads, with nothing after it."""
        result = read(self)
        if self._kind != "end":
            raise self._error("the end" if self._text == "->" else '"|" or the end')
        return result

    def arrow(self) -> tuple[Type, Type]:
        source = self.type()
        self._expect("->")
        return source, self.type()

    def type(self) -> Type:
        options: list[Type] = []
        while True:
            option = self._single()
            options.extend(option.options if isinstance(option, Union) else (option,))
            if self._text != "|":
                return options[0] if len(options) == 1 else Union(tuple(options))
            self._next()

    def _single(self) -> Type:
        if self._depth == MAX_DEPTH:
            raise self._error(f"a type nested at most {MAX_DEPTH} deep")
        kind, text = self._kind, self._text
        if kind == "name" and not text.startswith("_"):
            self._next()
            return Primitive(text) if text in WORDS else Named(text)  # type: ignore[arg-type]  # WORDS are the literals
        if kind != "sign" or text not in {"!", "[", "{", "("}:
            raise self._error(_START)
        self._next()
        self._depth += 1
        made: Type
        if text == "!":
            made = Stream(self._single())
        elif text == "{":
            made = self._record()
        elif text == "[":
            made = ListOf(self.type())
            self._expect("]")
        else:
            items = [self.type()]
            while self._text == ",":
                self._next()
                items.append(self.type())
            self._expect(")", '"|", "," or ")"')
            made = items[0] if len(items) == 1 else Product(tuple(items))
        self._depth -= 1
        return made

    def _record(self) -> Record:
        fields: dict[str, Field] = {}
        while self._text != "}" or fields:
            name = self._text
            if self._kind != "name" or not FIELD_NAME.fullmatch(name):
                raise self._error("a field's name" if fields else 'a field\'s name or "}"')
            if name in fields:
                raise TypeTextError(self._column, f'the field "{name[:40]}" stands here twice')
            self._next()
            optional = self._text == "?"
            if optional:
                self._next()
            self._expect(":", '":"' if optional else '":" or "?"')
            fields[name] = Field(name, self.type(), optional)
            if self._text != ",":
                break
            self._next()
        self._expect("}", '"|", "," or "}"' if fields else '"}"')
        return Record(tuple(fields.values()))

    def _expect(self, sign: str, expected: str | None = None) -> None:
        if self._kind != "sign" or self._text != sign:
            raise self._error(expected or f'"|" or "{sign}"')
        self._next()

    def _next(self) -> None:
        self._kind, self._text, self._column = next(self._tokens)

    def _error(self, expected: str) -> TypeTextError:
        found = "the end" if self._kind == "end" else f'"{self._text[:40]}"'
        return TypeTextError(self._column, f"expected {expected}, found {found}")


def show(type_: Type) -> str:
    """The type as text, which parses to the same type; `…` stands for what is not known of an open record."""
    match type_:
        case Primitive(word):
            return word
        case Named(name):
            return name
        case ListOf(item):
            return f"[{show(item)}]"
        case Record(fields):
            shown = [f"{field.name}{'?' if field.optional else ''}: {show(field.type)}" for field in fields]
            return f"{{{', '.join([*shown, '…'] if isinstance(type_, OpenRecord) else shown)}}}"
        case Product(items):
            return f"({', '.join(map(show, items))})"
        case Union(options):
            return " | ".join(map(show, options))
        case Stream(item):
            return f"!({show(item)})" if isinstance(item, Union) else f"!{show(item)}"


def show_arrow(source: Type, target: Type) -> str:
    return f"{show(source)} -> {show(target)}"


def parts(type_: Type) -> tuple[Type, ...]:
    """The types directly inside of one, in order; none inside a name."""
    match type_:
        case ListOf(item) | Stream(item):
            return (item,)
        case Record(fields):
            return tuple(field.type for field in fields)
        case Product(inner) | Union(inner):
            return inner
        case Primitive() | Named():
            return ()


def with_parts(type_: Type, inner: Sequence[Type]) -> Type:
    """The type with other ones inside of it, as many as `parts` gives."""
    match type_:
        case ListOf():
            return ListOf(*inner)
        case Stream():
            return Stream(*inner)
        case Record(fields):
            pairs = zip(fields, inner, strict=True)
            return Record(tuple(Field(field.name, item, field.optional) for field, item in pairs))
        case Product():
            return Product(tuple(inner))
        case Union():
            return Union(tuple(inner))
        case Primitive() | Named():
            return type_
