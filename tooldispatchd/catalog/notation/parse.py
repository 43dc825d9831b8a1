"""A text to declarations: its tokens, one by one, through lark's parser, and its syntax errors in our words."""

from collections.abc import Callable
from functools import cache
from itertools import islice
from typing import Final, Protocol, cast

from tooldispatchd.catalog.notation.build import BUILDER
from tooldispatchd.catalog.notation.grammar import END, GRAMMAR, KEYWORDS, expectation
from tooldispatchd.catalog.notation.places import refusal
from tooldispatchd.catalog.notation.syntax import Declaration, Token
from tooldispatchd.catalog.notation.tokens import tokens_of

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
    # The parser is needed by those who write in this notation only.
    from lark.exceptions import UnexpectedToken  # noqa: PLC0415

    parsing = _begin()
    declarations: object = ()
    earlier: Token | None = None
    for count, token in enumerate(tokens_of(file, text)):
        try:
            declarations = parsing.feed_token(token)
        except UnexpectedToken:
            expected = _expected_after(file, text, count)
            why = f"expected {expected}, found {_found(token)}{_hint(token, earlier, expected)}"
            raise refusal(token.place, why) from None
        earlier = token
    return cast("tuple[Declaration, ...]", declarations)


def _expected_after(file: str, text: str, count: int) -> str:
    """What may follow so many tokens: read again, because the parser went on as far as it could with the wrong one."""
    parsing = _begin()
    for token in islice(tokens_of(file, text), count):
        parsing.feed_token(token)
    return expectation(parsing.accepts())


def _found(token: Token) -> str:
    if token.type == END:
        return "the end of the file"
    if token.type == "EXPRESSION":
        return "an expression"
    if token.type == "STRING":
        return "a text"  # it may be a secret
    shown = token.text if token.text.isprintable() else ascii(token.text)[1:-1]
    return f'"{shown[:40]}"' + (", which is a word of the notation" if token.text in KEYWORDS else "")


def _hint(token: Token, earlier: Token | None, expected: str) -> str:
    """What to write instead, where a person seems to think of another notation."""
    hint = _HINTS.get(token.text) or (_HINTS.get(earlier.text) if earlier else None)
    if hint is None and _PROCESS in expected:
        hint = _HINTS_IN_WIRING.get(token.text[:1])
    return f"; {hint}" if hint else ""


@cache
def _parser() -> Callable[[], _Parsing]:
    """How a parse begins; the tables cost some 40 ms, once."""
    from lark import Lark  # noqa: PLC0415

    parser = Lark(GRAMMAR, parser="lalr", start="file", maybe_placeholders=False, transformer=_Unpacked())
    # It takes whatever has a `type`, and gives it to the builder as it is.
    return cast("Callable[[], _Parsing]", parser.parse_interactive)


def _begin() -> _Parsing:
    return _parser()()


class _Unpacked:
    """The builder as lark calls it: with a list of parts."""

    def __getattr__(self, rule: str) -> Callable[[list[object]], object]:
        method: Callable[..., object] = getattr(BUILDER, rule)
        return lambda parts: method(*parts)
