"""What git ignores below a directory: the `.gitignore` of each directory, the deepest that knows a name decides.

`.git/info/exclude` and the user's own lists are not read: a tree says the same to everybody.
"""

import os
import re
import stat
from pathlib import Path
from typing import Final, Self

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

FILE: Final = ".gitignore"
# Of one file: the longest list of patterns on GitHub has 20 KB.
_MAX_BYTES: Final = 256 * 1024

Parts = tuple[str, ...]
"""A path below the directory that is looked at, name by name; that directory itself is ()."""


class IgnoreRules:
    """The rules that hold in one directory. They are never changed: `within` gives those of a directory below."""

    __slots__ = ("_chain", "_way")

    def __init__(self, way: Parts = (), chain: tuple[tuple[int, GitIgnoreSpec], ...] = ()) -> None:
        # The way leads to the directory that is looked at from the workspace; each list lies so deep below that.
        self._way = way
        self._chain = chain

    def within(self, directory: Path, parts: Parts) -> Self:
        """With the list of `directory`, which lies at `parts`."""
        spec = _spec(directory / FILE)
        return self if spec is None else type(self)(self._way, (*self._chain, (len(self._way) + len(parts), spec)))

    def ignores(self, parts: Parts, *, directory: bool) -> bool:
        """Whether git ignores what is at `parts`. Below an ignored directory it does not look, and nobody may ask."""
        names = (*self._way, *parts)
        for depth, spec in reversed(self._chain):
            verdict = spec.check_file("/".join(names[depth:]) + "/" * directory).include
            if verdict is not None:
                return verdict
        return False

    def seen_from(self, way: Parts) -> Self:
        """The same rules, for what lies below `way`."""
        return type(self)(way, self._chain)


def rules_above(directory: Path, workspace: Path) -> IgnoreRules:
    """The rules for `directory` that stand above it in the workspace; none if they ignore it: it was asked for."""
    if not directory.is_relative_to(workspace):
        return IgnoreRules()
    rules, way = IgnoreRules(), directory.relative_to(workspace).parts
    for depth in range(len(way)):
        rules = rules.within(workspace.joinpath(*way[:depth]), way[:depth])
        if rules.ignores(way[: depth + 1], directory=True):
            return IgnoreRules()
    return rules.seen_from(way)


def _spec(path: Path) -> GitIgnoreSpec | None:
    try:
        # Never waits for a FIFO, and a link may lead anywhere.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(descriptor, "rb") as file:  # noqa: PTH123  # a descriptor
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        lines = os.fsdecode(file.read(_MAX_BYTES)).split("\n")
    patterns = [pattern for line in lines if (pattern := _pattern(line.removesuffix("\r"))) is not None]
    # Its other backends take no names that are not UTF-8.
    return GitIgnoreSpec(patterns, backend="simple")


def _pattern(line: str) -> GitIgnoreSpecPattern | None:
    try:
        return GitIgnoreSpecPattern(line)
    except (ValueError, re.error):  # as git does, one bad line is passed over
        return None
