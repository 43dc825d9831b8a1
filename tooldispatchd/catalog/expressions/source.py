"""A CEL expression as text: which names it mentions, where its errors are, and the engine's messages in our words."""

import re
from collections.abc import Iterator
from typing import Final

from tooldispatchd.catalog.expressions.door import ExpressionError

_PATH: Final = r"[A-Za-z_]\w*(?:\s*\.\s*[A-Za-z_]\w*)*"
# Strings and comments come first, so that no name is found inside of one; a raw string has no escapes.
_SKIPPED: Final = (
    r"//[^\n]*"
    r'|[bB]?[rR][bB]?(?:"""(?s:.*?)"""' + r"|'''(?s:.*?)'''" + r'|"[^"\n]*"' + r"|'[^'\n]*')"
    r'|[bB]?(?:"""(?s:(?:\\.|.)*?)"""' + r"|'''(?s:(?:\\.|.)*?)'''" + r'|"(?:\\.|[^"\\\n])*"' + r"|'(?:\\.|[^'\\\n])*')"
    r"|\d[\w.]*"
)
_TOKEN: Final = re.compile(
    rf"(?P<skipped>{_SKIPPED})|(?P<has>has\s*\(\s*(?P<selected>{_PATH})\s*\))|(?P<path>{_PATH})", re.ASCII
)
_ERROR: Final = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*)")
_UNDECLARED: Final = re.compile(r"undeclared reference to '([^']*)'")
_OVERLOAD: Final = re.compile(r"found no matching overload for '([^']*)' applied to '(.*)'")
# Fifteen kinds of token follow, which help nobody.
_WANTED: Final = re.compile(r" expecting \{.*")
_NAMES: Final = {"double": "number", "null_type": "unit", "dyn": "json"}
_MIXED: Final = re.compile(r"\b(?:int, double|double, int)\b")


def paths_in(source: str) -> Iterator[tuple[str, ...]]:
    """Every dotted path that is mentioned outside strings and comments, as its parts: `input.pos.lat`, `xs.map`."""
    for match in _TOKEN.finditer(source):
        path = match.group("path") or match.group("selected")
        # A path after a dot is a method or a field of what stands before: `f(x).size()`.
        if path and not source[: match.start()].rstrip().endswith("."):
            yield tuple(part.strip() for part in path.split("."))


def without_has(source: str) -> str:
    """The same text with `true` in the place of every `has(a.b)`; lines and columns stay where they are.

    `has` takes a field of a map. While types are checked, nested fields are variables of their own, which it refuses.
    """

    def replaced(match: re.Match[str]) -> str:
        text = match.group()
        if match.group("has") is None:
            return text
        return "true" + re.sub(r"[^\n]", " ", text[4:])

    return _TOKEN.sub(replaced, source)


def position_in(source: str, offset: int) -> tuple[int, int]:
    """Line and column, from 1, of an offset in characters."""
    before = source[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def undeclared_in(message: str) -> list[str]:
    """The parts of the first undeclared path in a compile error; none where there is no such path."""
    match = _UNDECLARED.search(message)
    return match.group(1).split(".") if match else []


def free_names_in(message: str) -> list[str]:
    """The names that a compile error calls undeclared, each once, without what follows a dot."""
    return list(dict.fromkeys(name.partition(".")[0] for name in _UNDECLARED.findall(message)))


def missing_function_in(message: str, source: str) -> tuple[str, int, int] | None:
    """The first function that a compile error calls undeclared, with its line and column; None where there is none."""
    lines = source.split("\n")
    for match in _ERROR.finditer(message):
        line, column = int(match.group(1)), int(match.group(2))
        name = _UNDECLARED.match(match.group(3))
        # The place of a call is its parenthesis.
        if name and line <= len(lines) and lines[line - 1][column - 1 : column] == "(":
            before = lines[line - 1][: column - 1].rstrip()
            return name.group(1), line, len(before) - len(name.group(1)) + 1
    return None


def explain(message: str, hint: str = "") -> ExpressionError:
    """The engine's first complaint in our words; `hint` follows where a name is undeclared."""
    match = _ERROR.search(message)
    if match is None:
        return ExpressionError(_without_status(message.partition("\n")[0]))
    line, column, why = int(match.group(1)), int(match.group(2)), match.group(3).removesuffix(" [INVALID_ARGUMENT]")
    undeclared, overload = _UNDECLARED.match(why), _OVERLOAD.match(why)
    if undeclared:
        why = f'nothing is named "{undeclared.group(1)}"{hint}'
    elif why == "has() argument must be a field selection":
        why = 'has() takes a field of a record: write "has(input.x)"'
    elif why.startswith("Syntax error: "):
        why = _WANTED.sub("", why)
    elif overload:
        operator, operands = overload.groups()
        shown = re.sub(r"\w+", lambda word: _NAMES.get(word.group(), word.group()), operands)
        mixed = "; int and number do not mix: write 2.0 for 2, or double(x) for x" if _MIXED.search(operands) else ""
        why = f"{operator.strip('_').replace('_', ' ')} does not take {shown}{mixed}"
    return ExpressionError(why[:300], line, column)


_STATUS: Final = re.compile(r"^[A-Z_]+: ")
_NO_VALUE: Final = re.compile(r'No value with name "(.*)" found in Activation')
_NO_KEY: Final = re.compile(r"Key not found in map : (.*)")
_NO_ITEM: Final = re.compile(r"Index error: index=(-?\d+) size=(\d+)")
_NO_OVERLOAD: Final = re.compile(r"No matching overloads found : ([^(]*)\((.*)\)")
_RUN_NAMES: Final = {"int64": "int", "uint64": "uint", "double": "number", "null_type": "unit"}
_RUN_WORDS: Final = {
    "Applying SELECT to non-message type": "a field was asked of a value that is no record",
    "No matching overloads found : <jump_condition>": "a condition made no bool",
}


def explain_run(message: str) -> str:
    """Why a run failed, from the text of the engine's error value; at most 200 characters."""
    why = _without_status(message)
    missing = _NO_VALUE.match(why)
    if missing:
        return f'the input has no "{missing.group(1)}"'[:200]
    key = _NO_KEY.match(why)
    if key:
        return f"there is no field {key.group(1)}"[:200]
    item = _NO_ITEM.match(why)
    if item:
        return f"there is no item {item.group(1)}: the list has {item.group(2)}"
    overload = _NO_OVERLOAD.match(why)
    if overload:
        shown = re.sub(r"\w+", lambda word: _RUN_NAMES.get(word.group(), word.group()), overload.group(2))
        return f"{overload.group(1).strip('_').replace('_', ' ')} does not take ({shown})"[:200]
    return _RUN_WORDS.get(why, why)[:200]


def _without_status(message: str) -> str:
    return re.sub(r" \[[A-Z_]+\]$", "", _STATUS.sub("", message))
