"""The tools `edit` and `multi_edit`: texts in a file are replaced, each wherever it stands exactly."""

import difflib
import itertools
import re
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from tooldispatchd.forked.python.context import InvalidInputError, ToolContext, ToolFailedError
from tooldispatchd.toolbox.encodings import Text, shown
from tooldispatchd.toolbox.places import PathText
from tooldispatchd.toolbox.rewriting import at_lines, rewrite, utf8

Old = Annotated[str, Meta(min_length=1, description="exactly as in the file, without line numbers")]
New = Annotated[str, Meta(description="what shall stand there")]
All = Annotated[bool, Meta(description="replace it wherever it stands; else it has to stand there once")]

# Comparing takes up to 30 µs a line.
_MAX_COMPARED_LINES: Final = 5_000
_MAX_LINE_CHARS: Final = 200
_NUMBERED: Final = re.compile(r"\d+\t")


class Edit(msgspec.Struct, frozen=True):
    """One replacement."""

    old: Old
    new: New
    replace_all: All = False


def edit(ctx: ToolContext, path: PathText, old: Old, new: New, *, replace_all: All = False) -> str:
    """Replace a text in a file by another. It has to stand there exactly once, unless `replace_all` is true."""
    one = Edit(old, new, replace_all)
    _check("old", "new", one)
    lines: list[int] = []

    def change(text: Text) -> str:
        after, lines[:] = replaced(path, text, one)
        return after

    return rewrite(ctx, "edit", path, change).told(f"Edited {path}: {_told(lines)}.")


def multi_edit(
    ctx: ToolContext,
    path: PathText,
    edits: Annotated[list[Edit], Meta(min_length=1, max_length=100, description="each sees what those before it did")],
    *,
    partial: Annotated[bool, Meta(description="make those that can be made; else all or none")] = False,
) -> str:
    """Make several replacements in one file, in their order: all of them or, unless `partial` is true, none."""
    for number, each in enumerate(edits, 1):
        _check("edits", "edits", each, f"in edit {number} ")
    statuses: list[str] = []

    def change(text: Text) -> str:
        failed = 0
        for number, each in enumerate(edits, 1):
            try:
                after, lines = replaced(path, text, each)
            except ToolFailedError as error:
                statuses.append(f"edit {number}: {error}")
                failed += 1
                if failed == len(edits) or not partial:
                    statuses.extend(f"edit {later}: not tried" for later in range(number + 1, len(edits) + 1))
                    raise ToolFailedError("\n".join([f"nothing was changed in {path}", *statuses])) from error
                continue
            statuses.append(f"edit {number}: {_told(lines)}")
            text = msgspec.structs.replace(text, text=after)
        return text.text

    done = rewrite(ctx, "edit", path, change)
    return done.told("\n".join([f"Edited {path}:", *statuses]))


def replaced(path: str, text: Text, edit: Edit) -> tuple[str, list[int]]:
    """The text after `edit`, and the lines in which what was replaced began. Raises ToolFailedError where it cannot."""
    old, new = edit.old, edit.new
    if text.newline == "\r\n" or old not in text.text:
        old, new = (part.replace("\r\n", "\n") for part in (old, new))
    if old not in text.text and "\r\n" in text.text:
        # The file has both line ends, and here the other one.
        old, new = (part.replace("\n", "\r\n") for part in (old, new))
    # Of places that overlap any may be the one that is meant.
    lines = _lines_with(old, text.text, step=len(old) if edit.replace_all else 1)
    if not lines:
        raise ToolFailedError(f"cannot edit {path}: old does not stand in it; {_nearest(old, text.text)}")
    if len(lines) > 1 and not edit.replace_all:
        raise ToolFailedError(
            f"cannot edit {path}: old stands in it {at_lines(lines)}; give more of what stands around the one you "
            "mean, or replace_all = true"
        )
    return text.text.replace(old, new), lines


def _check(old: str, new: str, edit: Edit, where: str = "") -> None:
    utf8(old, edit.old)
    utf8(new, edit.new)
    if not edit.old:
        raise InvalidInputError(old, f"{where}old is empty; write makes a file")
    if edit.old == edit.new:
        raise InvalidInputError(new, f"{where}old and new are the same")


def _told(lines: list[int]) -> str:
    return f"replaced at line {lines[0]}" if len(lines) == 1 else f"replaced {at_lines(lines)}"


def _lines_with(part: str, text: str, *, step: int) -> list[int]:
    """The numbers of the lines in which `part` begins; `step` characters behind one the next is looked for."""
    lines: list[int] = []
    line, counted, at = 1, 0, text.find(part)
    while at >= 0:
        line += text.count("\n", counted, at)
        lines.append(line)
        counted, at = at, text.find(part, at + step)
    return lines


def _nearest(old: str, text: str) -> str:
    """Where something like `old` stands: with other white space, or lines that resemble its first one."""
    if _NUMBERED.match(old):
        return "it begins with a line number of read, which is not in the file"
    # Not by a pattern, which would try each word of the text with each of `old`.
    words, sought = " ".join(text.split()), " ".join(old.split())
    at = words.find(sought) if sought else -1
    if at >= 0:
        return f"with other white space it stands at line {_line_of_word(words.count(' ', 0, at), text)}"
    first = next((line.strip() for line in old.splitlines() if line.strip()), "")[:_MAX_LINE_CHARS]
    numbers: dict[str, int] = {}
    for number, line in enumerate(text.split("\n")[:_MAX_COMPARED_LINES], 1):
        numbers.setdefault(line.strip()[:_MAX_LINE_CHARS], number)
    near = difflib.get_close_matches(first, numbers)
    if not near:
        return "no line of it resembles the first one of old"
    return "similar lines:\n" + "\n".join(f"{numbers[line]}: {shown(line)}" for line in near)


def _line_of_word(number: int, text: str) -> int:
    lines = text.split("\n")
    ends = itertools.accumulate(len(line.split()) for line in lines)
    return next(line for line, end in enumerate(ends, 1) if end > number)
