"""The grammar, for lark's LALR parser, and the words by which its terminals are called in errors.

Terminals are declared only: `tokens` makes them, because comments nest and an expression is taken as a whole. One with
an underscore in front leaves no trace in what is built.
"""

from collections.abc import Collection
from typing import Final

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
# More than these tell nobody anything.
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
