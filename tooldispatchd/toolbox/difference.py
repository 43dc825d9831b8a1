"""The difference of two texts as a unified diff, the lines of which end with a line feed and with nothing else."""

import difflib
import re
from collections.abc import Iterator
from typing import Final

CONTEXT: Final = 3
MAX_SHOWN_LINES: Final = 200
# Of a line, so that minified code is no megabytes of a diff.
MAX_SHOWN_CHARS: Final = 500
# difflib compares as the square of what lies between the first change and the last.
_MAX_COMPARED_LINES: Final = 5_000
_START: Final = re.compile(r"(?<=[-+])\d+")
NO_NEWLINE: Final = "\\ No newline at end of file\n"


def lines_of(text: str) -> list[str]:
    """The lines with their ends; `str.splitlines` would also cut at characters that end no line of a file."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def shown(old: str, new: str, name: str) -> str:
    """The unified diff for a model: of at most MAX_SHOWN_LINES lines, with a word on the rest."""
    before, after = lines_of(old), lines_of(new)
    first, end = _changed(before, after)
    if max(len(before), len(after)) - first - end > _MAX_COMPARED_LINES:
        return f"(the changes reach from line {first + 1:,} to {len(after) - end:,}: too many lines for a diff)"
    diff = list(unified(before, after, name))
    rest = len(diff) - MAX_SHOWN_LINES
    cut = [f"… {rest:,} more lines of the diff left out …"] if rest > 0 else []
    return "".join([*map(_bounded, diff[:MAX_SHOWN_LINES]), *cut]).rstrip("\n")


def _bounded(line: str) -> str:
    more = len(line) - MAX_SHOWN_CHARS
    return line if more <= 0 else f"{line[:MAX_SHOWN_CHARS]}… {more:,} characters left out …\n"


def _changed(before: list[str], after: list[str]) -> tuple[int, int]:
    """How many lines are equal at the beginning, and how many of the others at the end."""
    most = min(len(before), len(after))
    first = next((index for index in range(most) if before[index] != after[index]), most)
    end = next((index for index in range(most - first) if before[-1 - index] != after[-1 - index]), most - first)
    return first, end


def unified(before: list[str], after: list[str], name: str) -> Iterator[str]:
    """The unified diff of two texts, given by their lines; nothing where they are equal.

    It is difflib's, which gets little more than what changed: it looks for equal lines far away, at length.
    """
    first, end = _changed(before, after)
    skipped, kept = max(0, first - CONTEXT), max(0, end - CONTEXT)
    old, new = (lines[skipped : len(lines) - kept] for lines in (before, after))
    for line in difflib.unified_diff(old, new, name, name, n=CONTEXT):
        if line.startswith("@@"):
            yield _START.sub(lambda number: str(int(number[0]) + skipped), line)
        else:
            yield line if line.endswith("\n") else f"{line}\n{NO_NEWLINE}"
