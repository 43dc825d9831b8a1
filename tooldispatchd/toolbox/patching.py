"""The tool `diff`: a unified diff is applied to a file, whole or not at all.

A hunk is looked for where it says, then everywhere: models count lines badly, and files change. So the counts in its
head are not believed either, but for finding where the diff of a further file begins.
"""

import itertools
import re
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from tooldispatchd.forked.python.context import InvalidInputError, ToolContext, ToolFailedError
from tooldispatchd.toolbox.difference import lines_of
from tooldispatchd.toolbox.encodings import Text, shown
from tooldispatchd.toolbox.places import PathText
from tooldispatchd.toolbox.rewriting import at_lines, rewrite, utf8

_HEAD: Final = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@")
_NOWHERE: Final = "/dev/null"
# Enough to see what the context has become.
_MAX_SHOWN_LINES: Final = 10


class Hunk(msgspec.Struct, frozen=True):
    """Lines with their signs and ends; those to replace stand after `after` lines of the file, if it is right."""

    head: str
    after: int
    lines: list[tuple[str, str]]

    @property
    def old(self) -> list[str]:
        """What has to stand in the file."""
        return [line for sign, line in self.lines if sign != "+"]


class Diff(msgspec.Struct, frozen=True):
    """The hunks for one file; `path` as the diff has it, `makes` where there was no such file before."""

    path: str | None
    makes: bool
    hunks: list[Hunk]


def diff(
    ctx: ToolContext,
    diff: Annotated[str, Meta(description="a unified diff of one file; line numbers may be somewhat wrong")],
    path: Annotated[PathText | None, Meta(description="the file; else the one that the diff names")] = None,
) -> str:
    """Apply a unified diff to a file. Without `path` it is the one that the diff names."""
    utf8("diff", diff)
    parsed = parse(diff)
    name = path or parsed.path
    if name is None:
        raise InvalidInputError("path", "the diff names no file; give its path")
    notes: list[str] = []

    def change(text: Text) -> str:
        if parsed.makes and text.text:
            raise ToolFailedError(f"cannot change {name}: it exists already, and the diff is of a new file")
        after, notes[:] = applied(name, text.text, parsed.hunks)
        return after

    done = rewrite(ctx, "change", name, change, make=parsed.makes)
    count = len(parsed.hunks)
    return done.told("\n".join([f"Changed {name}: {count:,} hunk{'s' * (count != 1)} applied.", *notes]))


def parse(diff: str) -> Diff:
    """Raises InvalidInputError for what is no unified diff, or one of several files, or of one that is deleted."""
    lines = lines_of(diff)
    heads = [index for index, line in enumerate(lines) if _HEAD.match(line)]
    if not heads:
        raise InvalidInputError("diff", "there is no hunk in it, which begins with a line such as @@ -1,3 +1,4 @@")
    old, new = (_named(sign, lines[: heads[0]]) for sign in ("--- ", "+++ "))
    if new == _NOWHERE:
        raise InvalidInputError("diff", "it deletes the file; use delete")
    hunks = [_hunk(lines[start:end]) for start, end in zip(heads, [*heads[1:], len(lines)], strict=True)]
    makes = old == _NOWHERE
    # As git writes names.
    is_prefixed = new is not None and new.startswith("b/") and (makes or (old or "").startswith("a/"))
    return Diff(new[2:] if new and is_prefixed else new, makes, hunks)


def applied(path: str, text: str, hunks: list[Hunk]) -> tuple[str, list[str]]:
    """The text after all hunks, and what is to be said of some. Raises ToolFailedError for one that does not match."""
    lines = lines_of(text)
    done: list[str] = []
    notes: list[str] = []
    position = offset = 0
    for number, hunk in enumerate(hunks, 1):
        wanted = hunk.after + offset
        places = _places(lines, hunk.old, position, wanted)
        if not places:
            raise ToolFailedError(
                f"cannot change {path}: hunk {number} ({hunk.head}) does not match, and nothing was changed; "
                f"{_standing(lines, max(position, wanted), len(hunk.old))}"
            )
        if len(places) > 1:
            where = at_lines([at + 1 for at in places])
            raise ToolFailedError(
                f"cannot change {path}: hunk {number} ({hunk.head}) stands in it {where}, and not where it says; "
                "nothing was changed: correct its line, or give more of what stands around it"
            )
        [at] = places
        if at != wanted:
            notes.append(f"Hunk {number} stood {abs(at - wanted):,} lines {'below' if at > wanted else 'above'}.")
        done += [*lines[position:at], *_new_lines(hunk, lines[at : at + len(hunk.old)])]
        position, offset = at + len(hunk.old), at - hunk.after
    done += lines[position:]
    # What was the last line of the file may not be any more.
    return "".join([*(line if line.endswith("\n") else line + "\n" for line in done[:-1]), *done[-1:]]), notes


def _named(sign: str, header: list[str]) -> str | None:
    names = [line.removeprefix(sign).partition("\t")[0].strip() for line in header if line.startswith(sign)]
    return names[-1] if names else None


def _hunk(lines: list[str]) -> Hunk:
    head = _HEAD.match(lines[0])
    assert head is not None
    start, old_left, new_left = (int(number or "1") for number in head.groups())
    found: list[tuple[str, str]] = []
    for line, following in itertools.zip_longest(lines[1:], lines[2:], fillvalue=""):
        sign, is_over = line[0], old_left <= 0 and new_left <= 0
        if is_over and line.startswith("--- ") and following.startswith("+++ "):
            raise InvalidInputError("diff", "it is of several files; give each a call of its own")
        if sign == "\\" and found:
            found[-1] = (found[-1][0], found[-1][1].removesuffix("\n"))
        elif sign in " +-":
            found.append((sign, line[1:]))
            old_left, new_left = old_left - (sign != "+"), new_left - (sign != "-")
        elif line.strip():
            raise InvalidInputError("diff", f"a line begins with neither a space, + nor -: {line.strip()[:80]}")
        elif not is_over:
            # Many leave out the space of an empty line.
            found.append((" ", line))
            old_left, new_left = old_left - 1, new_left - 1
    has_old = any(sign != "+" for sign, _ in found)
    return Hunk(head.group(), max(0, start - has_old), found)


def _places(lines: list[str], old: list[str], first: int, wanted: int) -> list[int]:
    """Where `old` stands, not before `first`: at `wanted` alone, else anywhere; exactly, else but for line ends."""
    last = len(lines) - len(old)
    if not old:
        return [wanted] if first <= wanted <= last else []
    for alike in (str, _without_end):
        sought = list(map(alike, old))
        searched = lines if alike is str else list(map(alike, lines))
        places = [
            at for at in range(first, last + 1) if searched[at] == sought[0] and searched[at : at + len(old)] == sought
        ]
        if places:
            return [wanted] if wanted in places else places
    return []


def _new_lines(hunk: Hunk, standing: list[str]) -> list[str]:
    """The hunk's result; where `standing` has other line ends than its lines, they stay and are those of new lines."""
    if standing == hunk.old:
        return [line for sign, line in hunk.lines if sign != "-"]
    end = "\r\n" if any(line.endswith("\r\n") for line in standing) else "\n"
    rest, new = iter(standing), []
    for sign, line in hunk.lines:
        kept = next(rest) if sign != "+" else _without_end(line) + end
        if sign != "-":
            new.append(kept)
    return new


def _without_end(line: str) -> str:
    return line.rstrip("\r\n")


def _standing(lines: list[str], at: int, count: int) -> str:
    if at >= len(lines):
        return f"the file has only {len(lines):,} lines"
    shown_lines = lines[at : at + min(max(count, 1), _MAX_SHOWN_LINES)]
    numbered = "\n".join(f"{number}: {shown(_without_end(line))}" for number, line in enumerate(shown_lines, at + 1))
    return f"there stands:\n{numbered}"
