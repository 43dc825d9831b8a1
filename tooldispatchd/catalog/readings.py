"""Which tool of a session is meant by a name that none of them has: in another form's spelling, bare, or mistyped.

For names that were not found as they are written, so that its tables are made for sessions that send such ones alone.
"""

from collections.abc import Iterable
from typing import Final

from tooldispatchd.catalog.spelling import DISTINCT, SEPARATORS, escape, legible, unescape

# Characters that a spelling puts in the place of others, or leaves out.
_DROPPED: Final = str.maketrans("", "", ":./_-")
_HASHED: Final = "__-h"


class Readings:
    """The names of one session's tools, by how else they may be written."""

    __slots__ = ("_bare", "_folded", "_hashed", "_names")

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._folded: dict[str, list[str]] = {}
        self._bare: dict[str, list[str]] = {}
        # Made when one is asked for.
        self._hashed: dict[str, str] | None = None
        # In one order, for what is proposed must not depend on which server was quick.
        for name in sorted(self._names):
            self._folded.setdefault(fold(name), []).append(name)
            self._bare.setdefault(name.partition(":")[2] or name.rpartition(".")[2], []).append(name)

    def spelled(self, text: str) -> str | None:
        """The one tool that some form, or a separator, would show as `text`; None where there is none, or several."""
        if text in self._names:
            return text
        for provider in DISTINCT:
            escaped = unescape(text, provider)
            if escaped in self._names:
                return escaped
        if _HASHED in text:
            return self._by_hash().get(text)
        alike = [name for name in self._folded.get(fold(text), ()) if text in _spellings(name)]
        return alike[0] if len(alike) == 1 else None

    def bare(self, text: str) -> str | None:
        """The one tool whose name ends in `text`, after its prefix or its module; None where it is none, or several."""
        found = self._bare.get(text, [])
        return found[0] if len(found) == 1 else None

    def near(self, text: str) -> str | None:
        """A tool of which `text` differs by case and separators alone, or by what stands before; None where none is."""
        found = self._folded.get(fold(text)) or self._bare.get(text)
        return found[0] if found else None

    def _by_hash(self) -> dict[str, str]:
        if self._hashed is None:
            cut = {escape(name, provider): name for name in sorted(self._names) for provider in DISTINCT}
            self._hashed = {text: name for text, name in cut.items() if _HASHED in text}
        return self._hashed


def _spellings(name: str) -> set[str | None]:
    return {legible(name, provider, separator) for provider in (*DISTINCT, "plain") for separator in (":", *SEPARATORS)}


def fold(name: str) -> str:
    """What is left of a name without separators and case."""
    return name.translate(_DROPPED).lower()
