"""Where something stands in a file of the notation, what is wrong there, and how both are shown to a person."""

import unicodedata
from collections.abc import Sequence
from typing import Final

import msgspec

# A terminal's usual width less some room for what is printed before it.
MAX_SHOWN: Final = 100
TAB: Final = "    "
UNPRINTABLE: Final = "\N{REPLACEMENT CHARACTER}"
CUT: Final = "…"


class SourcePosition(msgspec.Struct, frozen=True):
    """A character of a file; `line` and `column` are 1-based, and a column is one code point."""

    file: str
    line: int
    column: int


class NotationProblem(msgspec.Struct, frozen=True):
    """One mistake; `nearest` is the known name or key that was probably meant."""

    file: str
    line: int
    column: int
    why: str
    nearest: str | None = None


class NotationError(ValueError):
    """Texts that cannot be read; `problems` says why, in the order of the files and of their lines."""

    def __init__(self, problems: Sequence[NotationProblem]) -> None:
        super().__init__("; ".join(f"{each.file}:{each.line}:{each.column}: {each.why}" for each in problems))
        self.problems = tuple(problems)


def problem_at(place: SourcePosition, why: str, nearest: str | None = None) -> NotationProblem:
    return NotationProblem(place.file, place.line, place.column, why, nearest)


def refusal(place: SourcePosition, why: str) -> NotationError:
    """The error with this one problem, for what cannot go on after it."""
    return NotationError([problem_at(place, why)])


def caret(text: str, line: int, column: int) -> str:
    """The source line and, beneath it, a caret under `column` (both 1-based; past the end means the end).

    Tabs are four blanks, what cannot be printed is shown as one replacement character, a wide character takes two
    cells, and a line longer than 100 cells is cut around the column.
    """
    lines = text.split("\n")
    source = lines[min(max(line, 1), len(lines)) - 1].removesuffix("\r")
    place = min(max(column, 1), len(source) + 1) - 1
    # A cell or two each: a window of so many characters holds all that can be shown.
    first = max(place - MAX_SHOWN, 0)
    before = [_shown(character) for character in source[first:place]]
    after = [_shown(character) for character in source[place : place + MAX_SHOWN]]
    before, is_cut = _fitting(before, MAX_SHOWN * 2 // 3)
    is_cut = is_cut or first > 0
    room = MAX_SHOWN - _cells("".join(before))
    after, is_cut_behind = _fitting(after[::-1], room)
    is_cut_behind = is_cut_behind or place + MAX_SHOWN < len(source)
    left = (CUT if is_cut else "") + "".join(before)
    return f"{left}{''.join(after[::-1])}{CUT if is_cut_behind else ''}\n{' ' * _cells(left)}^"


def _shown(character: str) -> str:
    if character == "\t":
        return TAB
    return character if character.isprintable() else UNPRINTABLE


def _cells(text: str) -> int:
    """How many columns of a terminal a printable text takes."""
    wide = sum(unicodedata.east_asian_width(character) in {"W", "F"} for character in text)
    return len(text) + wide - sum(bool(unicodedata.combining(character)) for character in text)


def _fitting(shown: list[str], room: int) -> tuple[list[str], bool]:
    """The last ones that fit into so many cells, and whether any were left out."""
    start = len(shown)
    while start and (room := room - _cells(shown[start - 1])) >= 0:
        start -= 1
    return shown[start:], start > 0
