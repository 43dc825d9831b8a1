"""The line of a plumb file that a problem is about, with a caret beneath, and without what may be a secret.

What stands between quotes or in a comment is masked, letter by letter so that columns stay: a token ends up in a
server's environment, its arguments or its URL, and all of these are strings.
"""

import re
from typing import Final

from tooldispatchd.catalog.notation.places import caret

MASK: Final = "·"

# One that does not end goes on to the end of the file; what CEL writes between single quotes ends with its line.
_STRING: Final = re.compile(r'"(?P<text>(?:[^"\\]|\\.)*)(?:"|\\?\Z)' + r"|'(?P<single>(?:[^'\\\n]|\\.)*)'?", re.DOTALL)
_BEGIN: Final = re.compile(r"""\(\*|["']""")
_COMMENT_MARK: Final = re.compile(r"\(\*|\*\)")
_LETTER: Final = re.compile(r"[^\n]")


class MaskedText:
    """One file as it may be shown."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._masked = masked(text)

    def excerpt(self, line: int, column: int, *, shows_value: bool) -> str:
        """The line with a caret under the column, both from 1; a string that begins there stays if `shows_value`."""
        text = self._masked
        start = _offset(text, line, column)
        found = _STRING.match(self._text, start) if shows_value else None
        if found is not None:
            text = text[:start] + found.group() + text[found.end() :]
        return caret(text, line, column)


def masked(text: str) -> str:
    """`text` with a mask for every letter inside quotes and blanks for comments; each line is as long as it was."""
    parts: list[str] = []
    place = 0
    while (begin := _BEGIN.search(text, place)) is not None:
        parts.append(text[place : begin.start()])
        if begin.group() == "(*":
            place = _end_of_comment(text, begin.end())
            parts.append(_LETTER.sub(" ", text[begin.start() : place]))
            continue
        string = _STRING.match(text, begin.start())
        assert string is not None, "a quote begins a string, which may have no end"
        inner = string["text"] if string["single"] is None else string["single"]
        place = string.end()
        parts.append(begin.group() + _LETTER.sub(MASK, inner) + text[begin.end() + len(inner) : place])
    return "".join([*parts, text[place:]])


def _end_of_comment(text: str, place: int) -> int:
    """Where a comment ends whose inside begins at `place`; comments nest."""
    depth = 1
    while depth:
        mark = _COMMENT_MARK.search(text, place)
        if mark is None:
            return len(text)
        depth += 1 if mark.group() == "(*" else -1
        place = mark.end()
    return place


def _offset(text: str, line: int, column: int) -> int:
    place = 0
    for _ in range(line - 1):
        place = text.find("\n", place) + 1
    return place + column - 1
