"""Patterns of paths: `**` is any number of directories, `*`, `?` and `[…]` stay within a name, `{a,b}` is either.

They are compared name by name, so that a walk can stay out of where nothing can fit.
"""

import glob
import os
import re
from collections.abc import Iterable
from fnmatch import translate
from typing import Final

Pattern = tuple[re.Pattern[str] | None, ...]
"""What each name has to fit; None for `**`."""
Stand = frozenset[Pattern]
"""What the rest of a path may have to fit."""

# Braces multiply: this many is far above what anybody writes, and far below what would be slow.
_MAX_PATTERNS: Final = 64
_BRACES: Final = re.compile(r"\{([^{},]*+,[^{}]*+)\}")


def start_of(pattern: str) -> Stand:
    """Where a path begins; raises ValueError, with the reason, for a pattern that can fit none below a directory."""
    if pattern.startswith("/"):
        raise ValueError("a pattern is relative; give the directory in path")
    return _open(_compiled(each) for each in _without_braces(pattern))


def literal_where_there(top: str, pattern: str) -> str:
    """The pattern with its leading names escaped, as far as they stand so below `top`: `[slug]` may be a directory."""
    names = pattern.split("/")
    for index, name in enumerate(names):
        top = os.path.join(top, name)  # noqa: PTH118  # a pattern need be no path
        if name == "**" or not os.path.lexists(top):  # as above
            break
        names[index] = glob.escape(name)
    return "/".join(names)


def after(stand: Stand, name: str) -> Stand:
    """Where `stand` comes to with one more name; empty where nothing can fit any more."""
    kept = (rest for rest in stand if rest and rest[0] is None)
    passed = (rest[1:] for rest in stand if rest and rest[0] and rest[0].match(name))
    return _open([*kept, *passed])


def fits(stand: Stand) -> bool:
    """Whether the names up to here fit a whole pattern."""
    return () in stand


def last_names(pattern: str) -> set[str]:
    """What the last name of a path has to fit, as one of these; raises ValueError where they are too many."""
    return {each.rstrip("/").rpartition("/")[2] for each in _without_braces(pattern)}


def _open(reached: Iterable[Pattern]) -> Stand:
    """With what can be reached without a name: `**` may be no directory at all."""
    stand = set()
    for rest in reached:
        stand.add(rest)
        while rest and rest[0] is None:
            rest = rest[1:]  # noqa: PLW2901  # what is added is each of them
            stand.add(rest)
    return frozenset(stand)


def _without_braces(pattern: str) -> set[str]:
    done: set[str] = set()
    waiting = [pattern]
    while waiting:
        text = waiting.pop()
        braces = _BRACES.search(text)
        if braces is None:
            done.add(text)
        else:
            waiting += [text[: braces.start()] + choice + text[braces.end() :] for choice in braces[1].split(",")]
        if len(done) + len(waiting) > _MAX_PATTERNS:
            raise ValueError(f"its braces stand for more than {_MAX_PATTERNS} patterns")
    return done


def _compiled(pattern: str) -> Pattern:
    names = [name for name in pattern.split("/") if name not in {"", "."}]
    if ".." in names:
        raise ValueError("a pattern does not lead out of its directory: `..` cannot stand in it")
    if not names:
        raise ValueError("the pattern is empty")
    # Several `**` in a row say no more than one.
    single = [name for name, before in zip(names, ["", *names], strict=False) if name != "**" or before != "**"]
    return tuple(None if name == "**" else re.compile(translate(name)) for name in single)
