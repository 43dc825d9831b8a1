"""What lies below a directory: never more than is there, in a fixed order, and no link is followed.

Names come as they are; `shown` writes one so that it can neither begin a line nor reach a terminal.
"""

import contextlib
import itertools
import os
import re
import stat
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from tooldispatchd.forked.python.context import ToolContext, ToolFailedError
from tooldispatchd.toolbox.ignoring import IgnoreRules, rules_above
from tooldispatchd.toolbox.pathglobs import Stand, after, fits
from tooldispatchd.toolbox.places import cannot, check_inside, kind_of, opened

Parts = tuple[str, ...]
"""A path below the directory that is looked at, name by name; that directory itself is ()."""

GIT: Final = ".git"
# Of one call: it takes some 2 s and 100 MB.
MAX_NAMES: Final = 200_000
# What else than a name these could be taken for: a name in quotes, a link and its target, a word of our own.
_MISTAKABLE: Final = re.compile(r'^["… (]| -> |[ /]$')


class Directory(msgspec.Struct):
    """A directory of a walk: `entries` but those that are ignored, by name, and the names of these in `ignored`.

    `below` are its directories, which are walked later; taking some out keeps the walk from them. `error` is why it
    could not be read. It is open as `descriptor` until the walk goes on.
    """

    parts: Parts
    descriptor: int = -1
    entries: list[os.DirEntry[str]] = []
    ignored: list[str] = []
    below: list[str] = []
    error: OSError | None = None


class Walk:
    """The directories below `top`, breadth first: what is near is seen before a bound is met.

    After MAX_NAMES names `is_cut` is true, and nothing more is looked at. `unread` directories could not be read.
    """

    def __init__(self, top: Path, rules: IgnoreRules | None) -> None:
        """With `rules` None nothing is ignored but git's own directory; else `top` is without links, as they are."""
        self._top = top
        self._waiting: deque[tuple[Parts, IgnoreRules | None]] = deque([((), rules)])
        self._names_left = MAX_NAMES
        self.is_cut = False
        self.unread = 0

    def __iter__(self) -> Iterator[Directory]:
        while self._waiting and not self.is_cut:
            parts, rules = self._waiting.popleft()
            directory, place = Directory(parts), self._top.joinpath(*parts)
            with contextlib.ExitStack() as stack:
                try:
                    # Opened by itself, since `scandir` follows a link that has taken the directory's place.
                    directory.descriptor = opened("list", place, os.O_DIRECTORY | (os.O_NOFOLLOW if parts else 0))
                    stack.callback(os.close, directory.descriptor)
                    entries = self._read(directory.descriptor)
                except OSError as error:
                    directory.error = error
                    self.unread += 1
                else:
                    rules = rules and rules.within(place)
                    _sort(entries, directory, f"{place}/", rules)
                yield directory
            self._waiting.extend(((*parts, name), rules) for name in directory.below)

    def _read(self, descriptor: int) -> list[os.DirEntry[str]]:
        with os.scandir(descriptor) as names:
            entries = list(itertools.islice(names, self._names_left + 1))
        self.is_cut = len(entries) > self._names_left
        del entries[self._names_left :]
        self._names_left -= len(entries)
        return sorted(entries, key=lambda entry: entry.name)

    def notes(self) -> list[str]:
        """A line on what was not looked at, if that is so."""
        return [f"… only the first {MAX_NAMES:,} names were looked at: name a directory further down …"] * self.is_cut


def walk(ctx: ToolContext, top: Path, *, ignored: bool) -> Walk:
    """A walk below `top`, without what git ignores unless `ignored` is wanted too."""
    place = top.resolve()
    return Walk(place, None if ignored else rules_above(place, workspace_of(ctx)))


def workspace_of(ctx: ToolContext) -> Path:
    """The session's workspace without links; the working directory where there is none."""
    return Path(ctx.workspace or Path.cwd()).resolve()


def fitting(walked: Walk, pattern: Stand) -> Iterator[tuple[Parts, os.DirEntry[str]]]:
    """What fits a pattern; where nothing can, the walk does not go."""
    stands: dict[Parts, Stand] = {(): pattern}
    for directory in walked:
        here = stands.pop(directory.parts)
        below, directory.below = set(directory.below), []
        for entry in directory.entries:
            if not (stand := after(here, entry.name)):
                continue
            parts = (*directory.parts, entry.name)
            if fits(stand):
                yield parts, entry
            if entry.name in below:
                stands[parts] = stand
                directory.below.append(entry.name)


def directory_at(path: str) -> Path:
    """The directory that a tool is to look at; raises ToolFailedError where there is none that it may read."""
    check_inside("list", path)
    try:
        mode = Path(path).stat().st_mode
        if not stat.S_ISDIR(mode):
            raise ToolFailedError(f"cannot list {shown(path)}: it is {kind_of(mode)}")
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECTORY))
    except OSError as error:
        raise cannot("list", path, error) from error
    return Path(path)


def shown(name: str) -> str:
    r"""A name or path in one line: as it is, or in double quotes with `\n`, `\x1b`, and `\xff` for a byte of none."""
    if name.isprintable() and not _MISTAKABLE.search(name):
        return name
    return '"' + "".join(map(_escaped, name)) + '"'


def _escaped(character: str) -> str:
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02x}"
    if character in {'"', "\\"}:
        return "\\" + character
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")


def _sort(entries: list[os.DirEntry[str]], directory: Directory, above: str, rules: IgnoreRules | None) -> None:
    for entry in entries:
        is_directory = entry.is_dir(follow_symlinks=False)
        if entry.name == GIT:
            continue
        if rules and rules.ignores(above + entry.name, directory=is_directory):
            directory.ignored.append(entry.name + "/" * is_directory)
            continue
        directory.entries.append(entry)
        if is_directory:
            directory.below.append(entry.name)
