"""Patterns of paths: `**` is any number of directories, `*`, `?` and `[…]` stay within a name, `{a,b}` is either."""

import re
from collections.abc import Iterable
from fnmatch import translate
from typing import Final

Stand = frozenset[tuple[int, int]]
"""How far a path has come: of each pattern that may still fit it, the part that its next name has to fit."""

# Braces multiply: this many is far above what anybody writes, and far below what would be slow.
_MAX_PATTERNS: Final = 64
_BRACES: Final = re.compile(r"\{([^{}]*,[^{}]*)\}")


class PathGlob:
    """One pattern. It is compared name by name, so that a walk can stay out of where nothing can fit."""

    __slots__ = ("_patterns", "start")

    def __init__(self, text: str) -> None:
        """Raise ValueError, with the reason, for a pattern that can fit no path below a directory."""
        if text.startswith("/"):
            raise ValueError("a pattern is relative; give the directory in path")
        self._patterns = [_parts(each) for each in without_braces(text)]
        self.start: Final = self._open((number, 0) for number in range(len(self._patterns)))

    def after(self, stand: Stand, name: str) -> Stand:
        """Where `stand` comes to with one more name."""
        reached = []
        for number, position in stand:
            part = self._patterns[number][position : position + 1]
            if part == [None]:
                reached.append((number, position))
            elif part and part[0] and part[0].match(name):
                reached.append((number, position + 1))
        return self._open(reached)

    def fits(self, stand: Stand) -> bool:
        """Whether the names up to here fit the whole pattern."""
        return any(position == len(self._patterns[number]) for number, position in stand)

    def matches(self, path: str) -> bool:
        """Whether a relative path fits."""
        stand = self.start
        for name in path.split("/"):
            stand = self.after(stand, name)
        return self.fits(stand)

    def _open(self, reached: Iterable[tuple[int, int]]) -> Stand:
        """With what can be reached without a name: `**` may be no directory at all."""
        stand = set()
        for number, first in reached:
            position = first
            stand.add((number, position))
            while self._patterns[number][position : position + 1] == [None]:
                position += 1
                stand.add((number, position))
        return frozenset(stand)


def without_braces(pattern: str) -> list[str]:
    """The patterns that one with `{a,b}` stands for; raises ValueError where they are too many."""
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        text = waiting.pop()
        braces = _BRACES.search(text)
        if braces is None:
            done.append(text)
        else:
            waiting += [text[: braces.start()] + choice + text[braces.end() :] for choice in braces[1].split(",")]
        if len(done) + len(waiting) > _MAX_PATTERNS:
            raise ValueError(f"its braces stand for more than {_MAX_PATTERNS} patterns")
    return list(dict.fromkeys(done))


def _parts(pattern: str) -> list[re.Pattern[str] | None]:
    """What each name has to fit; None for `**`."""
    names = [name for name in pattern.split("/") if name not in {"", "."}]
    if ".." in names:
        raise ValueError("a pattern does not lead out of its directory: `..` cannot stand in it")
    if not names:
        raise ValueError("the pattern is empty")
    return [None if name == "**" else re.compile(translate(name)) for name in names]
