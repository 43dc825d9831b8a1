"""The line of a plumb file that a problem is about, with a caret beneath, and without what may be a secret.

What stands between quotes or in a comment is masked, letter by letter so that columns stay: a token ends up in a
server's environment, its arguments or its URL, and all of these are strings. Where a string begins and ends is what the
notation's own tokens say, for as far as they go: a quote in a comment, or one within triple quotes, begins none.
"""

import re
from typing import Final

from tooldispatchd.catalog.notation.places import caret

MASK: Final = "·"

# Of what the tokens do not reach. One that does not end goes on to the end of the file; what CEL writes between single
# quotes ends with its line.
_STRING: Final = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*(?:"""|\\?\Z|"{1,2}\Z)'
    r'|"(?:[^"\\]|\\.)*(?:"|\\?\Z)' + r"|'(?:[^'\\\n]|\\.)*'?",
    re.DOTALL,
)
_BEGIN: Final = re.compile(r"""\(\*|(?P<line>\#[^\n]*|//[^\n]*)|["']""")
_COMMENT_MARK: Final = re.compile(r"\(\*|\*\)")
_NUMBER: Final = re.compile(r'(?:[\w-]+\s*:\s*|"[^"]*"\s*:\s*)?(?P<number>-?\d[\w.+-]*)')
_LETTER: Final = re.compile(r"[^\n]")
_PARTS: Final = re.compile(r"""([rRbB]{0,2}(?P<quote>\"{3}|'{3}|["']))(.*?)((?P=quote)?)\Z""", re.DOTALL)


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

    def excerpt_without_value(self, line: int, column: int) -> str:
        """The same where a number, too, may be a secret: one that begins there, or after the key there, is masked."""
        text = self._masked
        found = _NUMBER.match(text, _offset(text, line, column))
        if found is not None:
            start, end = found.span("number")
            text = text[:start] + MASK * (end - start) + text[end:]
        return caret(text, line, column)


def masked(text: str) -> str:
    """`text` with a mask for every letter inside quotes and blanks for comments; each line is as long as it was."""
    # Who shows no excerpt needs no tokens.
    from tooldispatchd.catalog.notation.reader import words_of  # noqa: PLC0415  # see above

    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    parts: list[str] = []
    end = 0
    for place, word, is_text in words_of(text):
        start = starts[place.line - 1] + place.column - 1
        parts += [_masked_rest(text[end:start]), _masked_text(word) if is_text else word]
        end = start + len(word)
    return "".join([*parts, _masked_rest(text[end:])])


def _masked_text(text: str) -> str:
    """A string with its quotes."""
    parts = _PARTS.match(text)
    assert parts is not None, "a quote begins a string, after what says of which kind it is"
    opening, _, inner, closing = parts.groups()
    return f"{opening}{_LETTER.sub(MASK, inner)}{closing}"


def _masked_rest(text: str) -> str:
    """What lies between tokens or behind the last of them: comments, and what can be none."""
    parts: list[str] = []
    place = 0
    while (begin := _BEGIN.search(text, place)) is not None:
        parts.append(text[place : begin.start()])
        if begin["line"] is not None:
            place = begin.end()
            parts.append(" " * len(begin["line"]))
        elif begin.group() == "(*":
            place = _end_of_comment(text, begin.end())
            # The sign of a comment that does not end is the mistake.
            shown = begin.end() if place == len(text) and not text.endswith("*)") else begin.start()
            parts.append(text[begin.start() : shown] + _LETTER.sub(" ", text[shown:place]))
        else:
            string = _STRING.match(text, begin.start())
            assert string is not None, "a quote begins a string, which may have no end"
            place = string.end()
            parts.append(_masked_text(string.group()))
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
