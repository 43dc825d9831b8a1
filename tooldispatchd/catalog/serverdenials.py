"""Which tools a name or pattern takes away, by every spelling under which a tool can be called. Pure."""

import re
from collections.abc import Collection, Iterable, Sequence
from fnmatch import translate
from functools import lru_cache
from typing import Final

from tooldispatchd.catalog.globs import NameList, is_glob
from tooldispatchd.catalog.names import prefixed, split_name
from tooldispatchd.catalog.spelling import DISTINCT, SEPARATORS, escapes, legible

_SIGNS: Final = re.compile(r"[^A-Za-z0-9]+")
# Names of which no spelling has other letters than the name itself.
_PLAIN: Final = re.compile(r"[A-Za-z0-9]+(?:[_./:-][A-Za-z0-9]+)*")
_PLAIN_CHARS: Final = 60
_ESCAPED: Final = "__-"


@lru_cache(maxsize=4096)
def spellings_of(name: str) -> frozenset[str]:
    """List a name, and how each provider and separator shows it."""
    ways = ((provider, separator) for provider in (*DISTINCT, "plain") for separator in (":", *SEPARATORS))
    looks = (legible(name, provider, separator) for provider, separator in ways)
    prefix, tool = split_name(name)
    behind = (f"{prefix}:{escaped}" for escaped in escapes(tool)) if prefix else ()
    return frozenset({name, *escapes(name), *behind, *(look for look in looks if look is not None)})


def is_spelled(name: str, entries: Iterable[str]) -> bool:
    """Tell whether names or patterns stand for any spelling of the name."""
    # Of a thousand tools nearly none is meant, and to spell one takes 30 us in the loop: only escapes add letters.
    letters = _SIGNS.sub("", name)
    is_plain = len(name) <= _PLAIN_CHARS and _PLAIN.fullmatch(name) is not None
    likely = [entry for entry in entries if _may_stand_for(entry, letters, is_plain=is_plain)]
    return bool(likely) and any(map(NameList(likely).admits, spellings_of(name)))


def _may_stand_for(entry: str, letters: str, *, is_plain: bool) -> bool:
    if is_glob(entry):
        return not is_plain or _ESCAPED in entry or _in_letters(entry).match(letters) is not None
    return _ESCAPED in entry or _SIGNS.sub("", entry) == letters


@lru_cache(maxsize=1024)
def _in_letters(pattern: str) -> re.Pattern[str]:
    """Compile a pattern for letters alone: each of its wildcards may stand for signs."""
    parts = (_SIGNS.sub("", part) for part in re.split(r"[*?]+", pattern))
    return re.compile(translate("*".join(parts)))


class ServerDenials:
    """The names and patterns that take tools away from their own server; `prefixes` may stand before their names."""

    __slots__ = ("_entries", "_prefixes")

    def __init__(self, entries: Iterable[str], prefixes: Iterable[str]) -> None:
        self._entries = tuple(entries)
        self._prefixes = ("", *prefixes)

    def admits(self, tool: str) -> bool:
        """Tell whether an entry stands for any name under which the tool can be called."""
        return self._is_of(tool, self._entries)

    def missing(self, tools: Collection[str]) -> list[str]:
        """List the entries that stand for none of the tools."""
        return [entry for entry in self._entries if not any(self._is_of(tool, (entry,)) for tool in tools)]

    def _is_of(self, tool: str, entries: Sequence[str]) -> bool:
        return bool(entries) and any(is_spelled(prefixed(prefix, tool), entries) for prefix in self._prefixes)
