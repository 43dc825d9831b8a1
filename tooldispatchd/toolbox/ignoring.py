"""What git ignores below a directory: the `.gitignore` of each directory, the deepest that knows a name decides.

`.git/info/exclude` and the user's own lists are not read: a tree says the same to everybody.
"""

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from tooldispatchd.forked.python.context import ToolFailedError
from tooldispatchd.toolbox.places import opened

FILE: Final = ".gitignore"
# Of one file: the longest list of patterns on GitHub has 20 KB.
_MAX_BYTES: Final = 256 * 1024
# Of one line, as in `packages/**/*.gen.*`. pathspec tries what each may stand for: with four a hostile name takes up to
# 0.2 s, with each more fifty times as long.
_MAX_STARS: Final = 4
_STAR: Final = re.compile(r"\*\*(?=/|$)|\*")
# What is in a directory and not that itself, as git reads it; pathspec takes the directory with it.
_ALL_WITHIN: Final = re.compile(r"/\*\*(?=/? *$)")


class IgnoreRules:
    """The rules that hold in one directory. They are never changed: `within` gives those of a directory below."""

    __slots__ = ("_lists",)

    def __init__(self, lists: tuple[tuple[str, GitIgnoreSpec], ...] = ()) -> None:
        # Each with the path of its directory, and a slash.
        self._lists = lists

    def within(self, directory: Path) -> Self:
        """With the list of `directory`."""
        spec = _spec(directory / FILE)
        return self if spec is None else type(self)((*self._lists, (f"{directory}/", spec)))

    def ignores(self, path: str, *, directory: bool) -> bool:
        """Whether git ignores what is at `path`. Below an ignored directory it does not look, and nobody may ask."""
        for top, spec in reversed(self._lists):
            verdict = spec.check_file(path[len(top) :] + "/" * directory).include
            if verdict is not None:
                return verdict
        return False


def rules_above(directory: Path, workspace: Path) -> IgnoreRules:
    """The rules for `directory` that stand above it in the workspace; none if they ignore it: it was asked for."""
    rules, at = IgnoreRules(), workspace
    if directory.is_relative_to(at):
        for name in directory.relative_to(at).parts:
            rules = rules.within(at)
            at /= name
            if rules.ignores(str(at), directory=True):
                return IgnoreRules()
    return rules


def ignored_below(top: Path, workspace: Path) -> Callable[[tuple[str, ...]], bool]:
    """Asks whether git ignores the file at a path below `top`, given name by name."""
    known: dict[tuple[str, ...], IgnoreRules] = {(): rules_above(top, workspace).within(top)}

    def is_ignored(parts: tuple[str, ...]) -> bool:
        for depth in range(1, len(parts) + 1):
            above, here, is_directory = parts[: depth - 1], parts[:depth], depth < len(parts)
            at = top.joinpath(*here)
            if known[above].ignores(str(at), directory=is_directory):
                return True
            if is_directory and here not in known:
                known[here] = known[above].within(at)
        return False

    return is_ignored


def _spec(path: Path) -> GitIgnoreSpec | None:
    try:
        # Never waits for a FIFO, and a link may lead anywhere.
        descriptor = opened("read", path)
    except (OSError, ToolFailedError):
        return None
    with open(descriptor, "rb") as file:  # noqa: PTH123  # a descriptor
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        lines = os.fsdecode(file.read(_MAX_BYTES)).split("\n")
    patterns = [pattern for line in lines if (pattern := _pattern(line.removesuffix("\r"))) is not None]
    # Its other backends take no names that are not UTF-8.
    return GitIgnoreSpec(patterns, backend="simple")


def _pattern(line: str) -> GitIgnoreSpecPattern | None:
    if len(_STAR.findall(line)) > _MAX_STARS:
        return None
    try:
        return GitIgnoreSpecPattern(_ALL_WITHIN.sub("/**/*", line))
    except (ValueError, re.error):  # as in git, one bad line is passed over
        return None
