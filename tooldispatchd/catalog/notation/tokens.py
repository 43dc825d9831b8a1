"""The grammar, and the tokens of a text. Reading them is linear in the text, and brackets nest at most 64 deep.

The grammar only declares its terminals. They are made here, because comments nest and an expression is taken as a
whole. A terminal that begins with an underscore leaves no trace in what is built.

What stands in the parentheses of `map(…)` and `filter(…)` is one token, and `expressions` translates its pieces. There
a hyphen is a minus, and signs mean what they mean in CEL.
"""

import json
import math
import re
from bisect import bisect_right
from collections.abc import Collection, Iterator
from typing import Final

from tooldispatchd.catalog.notation.places import SourcePosition, refusal
from tooldispatchd.catalog.notation.syntax import Piece, Token
from tooldispatchd.catalog.speckinds import MIB

RULES: Final = r"""
file: _declaration*
_declaration: module | type_declaration | let_declaration | inferred_declaration | value_declaration
module: MODULE NAME
type_declaration: annotations TYPE NAME _EQUALS type
let_declaration: annotations LET NAME _COLON type _ARROW type _EQUALS implementation
inferred_declaration: annotations LET NAME _EQUALS implementation
value_declaration: annotations LET NAME _EQUALS value
annotations: annotation*
annotation: ANNOTATION value

?type: single | union
union: single (_BAR single)+
?single: BANG single -> stream
       | NAME -> named
       | LSQB type _RSQB -> list_of
       | LBRACE (field (_COMMA? field)* _COMMA?)? _RBRACE -> record
       | LPAR type (_COMMA type)* _RPAR -> product
?field: key _COLON type -> field
      | key _QUESTION _COLON type -> optional_field

?value: scalar | reference | items | pairs
scalar: STRING | NUMBER | TRUE | FALSE
reference: NAME
items: LSQB (value (_COMMA? value)* _COMMA?)? _RSQB
pairs: LBRACE (pair (_COMMA? pair)* _COMMA?)? _RBRACE
pair: key _COLON value -> pair
    | STRING _COLON value -> quoted_pair

?implementation: plain | formula | projection | block | plumb | short_plumb
plain: ID | COPY | DISCARD | MERGE | BARRIER
formula: (MAP | FILTER) EXPRESSION
projection: PROJECT LPAR NUMBER _RPAR
block: (TOOL | AGENT) pairs
plumb: PLUMB LPAR ports _RPAR LBRACE (_statement _COMMA?)* _RBRACE
ports: reference (_COMMA reference)*
short_plumb: PLUMB LBRACE wire _RBRACE
_statement: wire | spawn | channel
wire: _element (_SEMICOLON _element)*
spawn: SPAWN reference LPAR reference (_COMMA reference)* _RPAR _SEMICOLON?
channel: LET NAME _COLON type _EQUALS CHANNEL _SEMICOLON?
_element: reference | lift | plain | formula | projection | selection
lift: LIFT LPAR NAME _RPAR
selection: formula _DOT key
"""

KEYWORDS: Final = {
    word: word.upper()
    for word in (
        "agent", "barrier", "channel", "copy", "discard", "false", "filter", "id", "let", "lift", "map", "merge",
        "module", "plumb", "project", "spawn", "tool", "true", "type",
    )
}  # fmt: skip
SIGNS: Final = {
    "->": "_ARROW", "!": "BANG", "[": "LSQB", "]": "_RSQB", "{": "LBRACE", "}": "_RBRACE", "(": "LPAR", ")": "_RPAR",
    ",": "_COMMA", "|": "_BAR", ":": "_COLON", "?": "_QUESTION", "=": "_EQUALS", ";": "_SEMICOLON", ".": "_DOT",
}  # fmt: skip
# What no rule takes: it is told apart only so that the error names it.
STRANGE: Final = "STRANGE"
END: Final = "$END"
_OTHERS: Final = ("NAME", "STRING", "NUMBER", "ANNOTATION", "EXPRESSION", STRANGE)

GRAMMAR: Final = f"""{RULES}
key: {" | ".join(["NAME", *KEYWORDS.values()])}
%declare {" ".join([*_OTHERS, *KEYWORDS.values(), *SIGNS.values()])}
"""

_PLAIN: Final = frozenset({"ID", "COPY", "DISCARD", "MERGE", "BARRIER", "MAP", "FILTER", "PROJECT"})
# In this order: where all of a group would be right they are called by one word. A key may be any keyword, so that
# group stands first.
_GROUPS: Final[tuple[tuple[str, frozenset[str]], ...]] = (
    ("a key", frozenset({"NAME", *KEYWORDS.values()})),
    ("a declaration", frozenset({"LET", "TYPE", "ANNOTATION", "MODULE"})),
    ('"let", "type" or "@…"', frozenset({"LET", "TYPE", "ANNOTATION"})),
    ("a value", frozenset({"NAME", "STRING", "NUMBER", "TRUE", "FALSE", "LSQB", "LBRACE"})),
    ("how it runs", _PLAIN | {"TOOL", "AGENT", "PLUMB"}),
    ("a process", _PLAIN | {"NAME", "LIFT"}),
    ("a type", frozenset({"NAME", "BANG", "LSQB", "LBRACE", "LPAR"})),
    ("a value", frozenset({"STRING", "NUMBER", "TRUE", "FALSE"})),
)  # fmt: skip
_WORDS: Final = {
    "NAME": "a name",
    "STRING": "a text",
    "NUMBER": "a number",
    "ANNOTATION": '"@…"',
    "EXPRESSION": 'an expression in "(…)"',
    END: "the end of the file",
    **{terminal: f'"{word}"' for word, terminal in {**KEYWORDS, **SIGNS}.items()},
}
# More than these are of no help.
MAX_EXPECTED: Final = 5


def expectation(terminals: Collection[str]) -> str:
    """What would be right, in words, where the parser would take one of `terminals`."""
    left = set(terminals)
    words = []
    for word, group in _GROUPS:
        if group <= left:
            words.append(word)
            left -= group
    words += sorted(_WORDS[terminal] for terminal in left if terminal in _WORDS)
    words = words[:MAX_EXPECTED]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


# --- tokens ---

# A file that a person writes has a few kilobytes.
MAX_TEXT: Final = MIB
MAX_DEPTH: Final = 64
# A number in a configuration is a 64-bit integer or a double; the longest way to write one that makes sense.
MAX_DIGITS: Final = 40

_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
_SPACE: Final = r"(?P<space>[ \t\r\n]+|\#[^\n]*|//[^\n]*)|(?P<comment>\(\*)"
_PART: Final = r"(?:[A-Za-z0-9_]|-(?!>))*"
_TOKEN: Final = re.compile(
    _SPACE + r'|(?P<long>""")|(?P<quote>")'
    r"|(?P<number>-?(?:\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![A-Za-z0-9_]))"
    rf"|(?P<name>[A-Za-z_]{_PART}(?:\.[A-Za-z_]{_PART})*)"
    rf"|(?P<annotation>@[A-Za-z_]{_PART})"
    r"|(?P<sign>->|[!\[\]{}(),|:?=;.])"
    r"|(?P<other>[\s\S])",
    re.ASCII,
)
_QUOTED: Final = re.compile(r'(?:[^"\\]|\\[\s\S])*"')
_LONG: Final = re.compile(r'(?:[^"\\]|\\[\s\S]|"(?!""))*"""')
_ESCAPE: Final = re.compile(r"\\(?:u[0-9A-Fa-f]{4}|[\s\S])")
_HALVES: Final = re.compile(r"[\ud800-\udfff]")
_ESCAPES: Final = frozenset('"\\/bfnrt')
_AROUND_COMMENT: Final = re.compile(r"\(\*|\*\)")
# CEL's own tokens, as far as their borders matter here.
_IN_EXPRESSION: Final = re.compile(
    _SPACE + r'|(?P<text>[rR][bB]?"""[\s\S]*?"""|[bB][rR]"""[\s\S]*?"""'
    r"|(?:[rR][bB]?|[bB][rR])'''[\s\S]*?'''"
    r'|(?:[rR][bB]?|[bB][rR])"[^"\n]*"|' + r"(?:[rR][bB]?|[bB][rR])'[^'\n]*'"
    r'|[bB]?"""(?:\\[\s\S]|[^\\])*?"""|' + r"[bB]?'''(?:\\[\s\S]|[^\\])*?'''"
    r'|[bB]?"(?:\\.|[^"\\\n])*"|' + r"[bB]?'(?:\\.|[^'\\\n])*')"
    r"|(?P<open>[\"'])"
    r"|(?P<number>0[xX][0-9A-Fa-f]+[uU]?|(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?[uU]?)"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>==|!=|<=|>=|&&|\|\||[\s\S])",
    re.ASCII,
)


def tokens_of(file: str, text: str) -> Iterator[Token]:
    """Every token, and the end. Raises `NotationError` with one problem where a text has none."""
    return _Tokens(file, text).all()


class _Tokens:
    def __init__(self, file: str, text: str) -> None:
        self._file = file
        self._text = text
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]
        # A mark that some editors put before the first character.
        self._at = 1 if text.startswith("\ufeff") else 0
        self._depth = 0
        if len(text) > MAX_TEXT:
            raise refusal(self._place(0), f"a file has at most {MAX_TEXT} characters, and this one has {len(text)}")

    def all(self) -> Iterator[Token]:
        end, earlier = self._at, ""
        while self._at < len(self._text):
            match = self._match(_TOKEN)
            if match is None:
                continue
            is_expression = match.group() == "(" and earlier in {"MAP", "FILTER"}
            token = self._expression(match.start()) if is_expression else self._token(match)
            end, earlier = self._at, token.type
            yield token
        # Where the last word ends, and not after the blank lines beneath it.
        yield Token(END, "", self._place(end))

    def _match(self, tokens: re.Pattern[str]) -> re.Match[str] | None:
        """The next match, gone past; None where it was blank or a comment."""
        match = tokens.match(self._text, self._at)
        assert match is not None, "the last alternative takes any character"
        self._at = match.end()
        if match.lastgroup == "comment":
            depth = 1
            while depth:
                around = _AROUND_COMMENT.search(self._text, self._at)
                if around is None:
                    raise refusal(self._place(match.start()), "a comment begins here, and no *) ends it")
                depth += 1 if around.group() == "(*" else -1
                self._at = around.end()
        return None if match.lastgroup in {"space", "comment"} else match

    def _token(self, match: re.Match[str]) -> Token:
        kind, text, place = match.lastgroup, match.group(), self._place(match.start())
        if kind == "name":
            return Token(KEYWORDS.get(text, "NAME"), text, place, {"true": True, "false": False}.get(text))
        if kind == "sign":
            # Which one a bracket closes is the parser's matter; that it is not too deep is not.
            if text in _CLOSING:
                if self._depth == MAX_DEPTH:
                    raise refusal(place, f"nested more than {MAX_DEPTH} deep")
                self._depth += 1
            elif text in _CLOSING.values() and self._depth:
                self._depth -= 1
            return Token(SIGNS[text], text, place)
        if kind == "number":
            return Token("NUMBER", text, place, _number(text, place))
        if kind == "annotation":
            return Token("ANNOTATION", text, place)
        if kind in {"quote", "long"}:
            return self._quoted(match, place)
        return Token(STRANGE, text, place)

    def _quoted(self, opening: re.Match[str], place: SourcePosition) -> Token:
        quote = opening.group()
        match = (_QUOTED if quote == '"' else _LONG).match(self._text, self._at)
        if match is None:
            raise refusal(place, f"a text begins here, and no {quote} ends it")
        inner = match.group().removesuffix(quote)
        if quote != '"':
            # The line break after the opening quotes is layout.
            inner = inner.removeprefix("\r").removeprefix("\n")
        value = _ESCAPE.sub(lambda escape: self._unescape(escape, match.end() - len(quote) - len(inner)), inner)
        if _HALVES.search(value):
            # A pair of escapes that are the halves of one character is that character.
            try:
                value = value.encode("utf-16", "surrogatepass").decode("utf-16")
            except UnicodeDecodeError:
                raise refusal(place, "half of a pair of \\u escapes stands alone in this text") from None
        self._at = match.end()
        return Token("STRING", quote + match.group(), place, value)

    def _unescape(self, escape: re.Match[str], start: int) -> str:
        text = escape.group()
        if len(text) == 6:
            return chr(int(text[2:], 16))
        if text[1] not in _ESCAPES:
            known = '\\", \\\\, \\/, \\b, \\f, \\n, \\r, \\t and \\uXXXX'
            shown = text if text.isprintable() else ascii(text)[1:-1]
            why = f"there is no such escape: {shown}; there are {known}"
            raise refusal(self._place(start + escape.start()), why)
        value: str = json.loads(f'"{text}"')
        return value

    def _expression(self, start: int) -> Token:
        """What stands between the parentheses of which the first, at `start`, has just been passed, as pieces."""
        pieces: list[Piece] = []
        stack = ["("]
        while stack:
            if self._at >= len(self._text):
                raise refusal(self._place(start), 'an expression begins here, and no ")" ends it')
            begin = self._at
            match = self._match(_IN_EXPRESSION)
            place = self._place(begin)
            if match is None:
                passed = self._text[begin : self._at]
                # Comments go, and lines stay where they are.
                blank = passed if passed.isspace() else "\n" * passed.count("\n") or " "
                pieces.append(Piece("space", blank, place))
                continue
            kind, sign = match.lastgroup or "", match.group()
            if kind == "open":
                raise refusal(place, f"a text begins here, and no {sign} ends it on its line")
            if kind == "sign" and sign in _CLOSING:
                if len(stack) == MAX_DEPTH:
                    raise refusal(place, f"nested more than {MAX_DEPTH} deep")
                stack.append(sign)
            elif kind == "sign" and sign in _CLOSING.values():
                right = _CLOSING[stack.pop()]
                if sign != right:
                    raise refusal(place, f'expected "{right}", found "{sign}"')
            pieces.append(Piece(kind, sign, place))
        return Token("EXPRESSION", "(", self._place(start), tuple(pieces[:-1]))

    def _place(self, offset: int) -> SourcePosition:
        line = bisect_right(self._starts, offset)
        return SourcePosition(self._file, line, offset - self._starts[line - 1] + 1)


def _number(text: str, place: SourcePosition) -> int | float:
    """The number. Raises `NotationError` where neither 64 bits nor a double hold it."""
    if len(text) <= MAX_DIGITS:
        if not re.search("[.eE]", text):
            whole = int(text)
            if -(2**63) <= whole < 2**63:
                return whole
        elif math.isfinite(value := float(text)):
            return value
    raise refusal(place, "a number that neither a 64-bit integer nor a double holds")
