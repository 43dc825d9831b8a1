"""Lists of names in which `*` stands for any characters, none too, and `?` for any one; upper and lower case differ.

A server's tool that has one of these two in its name, or another odd character, has its escapes (`spelling`) as names
too. A pattern is of what it is matched against alone: of declared names, or of
what stands after a prefix and its colon.
"""

import re
from collections.abc import Callable, Collection, Iterable
from fnmatch import translate
from typing import Final

from tooldispatchd.catalog.names import is_plain
from tooldispatchd.catalog.spelling import escapes

_ANY: Final = frozenset("*?")


def is_glob(entry: str) -> bool:
    """Whether an entry is a pattern."""
    return not _ANY.isdisjoint(entry)


class NameList:
    """The names that the entries of a list stand for. Matching takes time linear in each pattern and name."""

    __slots__ = ("_entries", "_globs", "_literal")

    def __init__(self, entries: Iterable[str]) -> None:
        self._entries = tuple(entries)
        self._literal = frozenset(self._entries)
        globs = [_pattern(entry) for entry in self._entries if is_glob(entry)]
        self._globs = re.compile("|".join(globs)) if globs else None

    def admits(self, name: str) -> bool:
        """Whether an entry stands for this name."""
        if name in self._literal or (self._globs is not None and self._globs.match(name) is not None):
            return True
        return not is_plain(name) and not self._literal.isdisjoint(escapes(name))

    def of(self, names: Iterable[str]) -> list[str]:
        """Those of the names that an entry stands for, in their order."""
        return [name for name in names if self.admits(name)]

    def missing(self, names: Collection[str]) -> list[str]:
        """The entries that stand for none of the names."""
        return [entry for entry in self._entries if not _stands_for_any(entry, names)]


def insisted(
    entries: Iterable[str], *, usable: Collection[str], listed: Collection[str], keeps: Callable[[str], bool]
) -> list[str]:
    """The entries that a server should have a tool for and has none: a pattern of what it lists, a name to be used.

    A name that no list `keeps` is not asked for.
    """
    return [
        entry
        for entry in entries
        if (
            not _stands_for_any(entry, listed)
            if is_glob(entry)
            else not _stands_for_any(entry, usable) and keeps(entry)
        )
    ]


def _stands_for_any(entry: str, names: Collection[str]) -> bool:
    if is_glob(entry):
        return any(map(re.compile(_pattern(entry)).match, names))
    return entry in names or named_by(entry, names) is not None


def named_by(entry: str, names: Iterable[str]) -> str | None:
    """Find the name that an entry is an escape of; None for none."""
    # Each escape that is no name itself has these.
    found = (name for name in names if not is_plain(name) and entry in escapes(name)) if "__" in entry else ()
    return next(iter(found), None)


def _pattern(entry: str) -> str:
    # A bracket is no more than itself.
    return translate(entry.replace("[", "[[]"))
