"""What is in directories: `list` for one, `tree` for what lies below it, `glob` for names that fit a pattern."""

import itertools
import os
import stat
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta

from tooldispatchd.forked.python.context import InvalidInputError, ToolContext
from tooldispatchd.toolbox.ignoring import FILE
from tooldispatchd.toolbox.pathglobs import literal_where_there, start_of
from tooldispatchd.toolbox.places import PathText, cannot, held
from tooldispatchd.toolbox.walking import MAX_NAMES, Directory, Parts, Walk, directory_at, fitting, shown, walk

Ignored = Annotated[bool, Meta(description="also what .gitignore leaves out")]
Pattern = Annotated[str, Meta(min_length=1, max_length=1000, description="such as **/*.py or src/**/*.{ts,tsx}")]

# About 60 KB of names: more is no answer that anybody reads.
MAX_LISTED: Final = 1_000
# Of the ignored names of one directory: which ones they are is seen by the first.
_MAX_IGNORED: Final = 10
_KINDS: Final = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link", stat.S_IFIFO: "FIFO"}


def list_directory(path: PathText = ".") -> str:
    """List the names in a directory with their kinds, sizes and times. Hidden and ignored ones are listed too."""
    directory_at(path)
    try:
        with held("list", path, os.O_DIRECTORY) as at:
            with os.scandir(at) as entries:
                # To sort them all are needed; of a directory with more than that nobody wants the first.
                names = sorted(entry.name for entry in itertools.islice(entries, MAX_NAMES + 1))
            lines = [_row(name, at) for name in names[:MAX_LISTED]]
    except OSError as error:
        raise cannot("list", path, error) from error
    left_out = max(0, len(names) - MAX_LISTED)
    if left_out:
        lines.append(f"… {'at least ' * (len(names) > MAX_NAMES)}{left_out:,} more names left out …")
    heading = f"{len(names):,} names in {shown(path)} (kind, bytes, changed in UTC, name):"
    return "\n".join([heading, *lines]) if names else f"{shown(path)} is empty."


def tree(
    ctx: ToolContext,
    path: PathText = ".",
    *,
    depth: Annotated[int, Meta(ge=1, le=20, description="how many levels")] = 3,
    entries: Annotated[int, Meta(ge=1, le=5000, description="how many names")] = 500,
    ignored: Ignored = False,
) -> str:
    """Show the structure below a directory, without what .gitignore leaves out, and say what is not shown."""
    outline = Outline(depth=depth, entries=entries)
    return outline.of(walk(ctx, directory_at(path), ignored=ignored), shown(path))


def glob(
    ctx: ToolContext,
    pattern: Pattern,
    path: PathText = ".",
    *,
    limit: Annotated[int, Meta(ge=1, le=5000, description="how many paths")] = 200,
    ignored: Ignored = False,
) -> str:
    """Find files and directories by a pattern of their paths, the last changed first. Leaves out what git ignores."""
    top = directory_at(path)
    try:
        wanted = start_of(literal_where_there(path, pattern))
    except ValueError as error:
        raise InvalidInputError("pattern", str(error)) from error
    walked = walk(ctx, top, ignored=ignored)
    found = [
        (-_changed_ns(entry), parts, "/" * entry.is_dir(follow_symlinks=False))
        for parts, entry in fitting(walked, wanted)
    ]
    lines = [shown(str(Path(path, *parts))) + slash for _, parts, slash in sorted(found)[:limit]]
    if not found:
        lines.append(f"Nothing below {shown(path)} fits {shown(pattern)}.")
    if len(found) > limit:
        lines.append(f"… {len(found) - limit:,} older ones left out …")
    if walked.unread:
        lines.append(f"… {walked.unread:,} directories could not be read …")
    return "\n".join([*lines, *walked.notes()])


class Outline:
    """The names below a directory, each under its directory, and in round brackets what is not shown there."""

    __slots__ = ("_depth", "_entries_left", "_lines", "_read")

    def __init__(self, *, depth: int, entries: int) -> None:
        self._depth = depth
        self._entries_left = entries
        self._lines: list[tuple[Parts, str]] = []
        self._read: set[Parts] = set()

    def of(self, walked: Walk, heading: str) -> str:
        """The whole text."""
        for directory in walked:
            self.add(directory)
            if self._entries_left <= 0:
                break
        return "\n".join([f"{heading.rstrip('/')}/", *self._text(), *walked.notes()])

    def add(self, directory: Directory) -> None:
        """One more directory, which lies in those that were added before."""
        names, notes = directory.entries[: self._entries_left], []
        self._entries_left -= len(names)
        self._read.add(directory.parts)
        for entry in names:
            parts = (*directory.parts, entry.name)
            self._lines.append((parts, _named(entry, directory.descriptor)))
        if directory.error is not None:
            notes.append(f"cannot be read: {(directory.error.strerror or 'unknown').lower()}")
        if directory.ignored:
            notes.append(f"left out by {FILE}: {some_of(directory.ignored)}")
        if len(names) < len(directory.entries):
            notes.append(f"{len(directory.entries) - len(names):,} more left out")
        # The last name that there can be: below a directory its notes come last.
        self._lines += [((*directory.parts, "\U0010ffff"), f"({note})") for note in notes]
        if len(directory.parts) + 1 >= self._depth:
            directory.below.clear()
        directory.below = [entry.name for entry in names if entry.name in set(directory.below)]

    def _text(self) -> Iterable[str]:
        for parts, line in sorted(self._lines, key=lambda each: each[0]):
            unread = line.endswith("/") and parts not in self._read
            yield "  " * len(parts) + line + " (not looked into)" * unread


def some_of(names: list[str]) -> str:
    """The first of the names, and how many there are besides."""
    text = ", ".join(shown(name.removesuffix("/")) + "/" * name.endswith("/") for name in names[:_MAX_IGNORED])
    return text + (f" and {len(names) - _MAX_IGNORED:,} more" if len(names) > _MAX_IGNORED else "")


def _changed_ns(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_mtime_ns
    except OSError:  # it has gone meanwhile
        return 0


def _named(entry: os.DirEntry[str], at: int) -> str:
    if entry.is_symlink():
        return shown(entry.name) + _target(entry.name, at)
    return shown(entry.name) + "/" * entry.is_dir(follow_symlinks=False)


def _target(link: str, at: int) -> str:
    try:
        return f" -> {shown(os.readlink(link, dir_fd=at))}"
    except OSError:
        return " -> ?"


def _row(name: str, at: int) -> str:
    try:
        status = os.stat(name, dir_fd=at, follow_symlinks=False)
    except OSError:
        return f"{'gone':9} {'-':>13} {'-':19}  {shown(name)}"
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), "special")
    size = f"{status.st_size:,}" if kind == "file" else "-"
    rest = {"directory": "/", "link": _target(name, at) if kind == "link" else ""}.get(kind, "")
    return f"{kind:9} {size:>13} {_when(status.st_mtime)}  {shown(name)}{rest}"


def _when(changed_s: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(changed_s))
    except (OverflowError, ValueError, OSError):  # a file system holds years that no calendar has
        return f"{'-':19}"
