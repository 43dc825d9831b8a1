"""Tools' names as agents are shown them: never one spelling for two names of a session.

A name is shown *legibly* where no other name of the session would look the same: its first colon as the separator,
another colon, a dot or a slash that the provider rejects as `_`. Where two would meet, or a name has no such spelling
(it has other characters: no other tool may change what it is called then), it is *escaped*, which can be read back: a
colon is `__`; any other character that the provider rejects is `__-` and the bytes of its UTF-8 in hexadecimal, and so
is what would be read as part of an escape: an underscore beside another or before an escape, a `_` or `-` after a
colon. A name that is too long then is cut and ends in `__-h` and a hash: such a spelling is read by the session's table
only, as is the empty name's.

Of the names that look alike at most one is escaped to that very look, since escapes are told apart by `__-`, which no
legible spelling has: so both kinds together still have one name for each spelling.
"""

import base64
import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, Literal

import msgspec

Provider = Literal["plain", "text", "anthropic", "openai", "openai_responses", "google", "mcp"]
Separator = Literal[":", "_", "__"]

# 50 bits: among 10,000 long names of a session two agree once in 20 million sessions; the table parts them then.
HASH_LENGTH: Final = 10
_FULL_HASH: Final = 52
_COLON: Final = "__"
_HEX: Final = "__-"
_HASHED: Final = "__-h"


class Rule(msgspec.Struct, frozen=True):
    """Which names a provider takes: character classes of the first character and of all, and the most characters."""

    first: str
    allowed: str
    max_length: int

    def admits(self, name: str) -> bool:
        return re.fullmatch(f"[{self.first}][{self.allowed}]{{0,{self.max_length - 1}}}", name) is not None


_WORD: Final = Rule("A-Za-z0-9_-", "A-Za-z0-9_-", 64)

# As each provider's reference of its API has it. Google's differ from one another: what all of them take stands here.
PROVIDER_RULES: Final[dict[Provider, Rule]] = {
    "anthropic": _WORD,
    "openai": _WORD,
    "openai_responses": _WORD,
    "google": Rule("A-Za-z_", "A-Za-z0-9_-", 63),
    "mcp": Rule("A-Za-z0-9_.-", "A-Za-z0-9_.-", 128),
}
"""The rules of all providers but `plain` and `text`, which take every name as it is."""

# One for each rule: the others spell as one of these.
DISTINCT: Final[tuple[Provider, ...]] = ("anthropic", "google", "mcp")
SEPARATORS: Final[tuple[Separator, ...]] = ("_", "__")
"""What may stand in the place of the colon."""

_REJECTED: Final = {provider: re.compile(f"[^{rule.allowed}]") for provider, rule in PROVIDER_RULES.items()}
_LEGIBLE: Final = re.compile(r"[A-Za-z0-9_./:-]*")

_TO_ESCAPE: Final = {
    provider: re.compile(
        rf"(?<=:)[_-]|_(?=_|[^{rule.allowed}])|[^{rule.allowed}]|\A[^{rule.first}]",
        re.DOTALL,
    )
    for provider, rule in PROVIDER_RULES.items()
}
# What a spelling is made of: an escaped character (its first byte tells how many it has), a colon, any other one.
_PIECE: Final = re.compile(
    r"__-(?:[0-7][0-9a-f]|[cd][0-9a-f]{3}|e[0-9a-f]{5}|f[0-9a-f]{7})|__(?!-)|[^_]|_(?!_)", re.DOTALL
)


def legible(name: str, provider: Provider, separator: Separator = ":") -> str | None:
    """The name as a person would write it for the provider, or None where that is none or looks like an escape.

    `separator` stands for the first colon; where it is a colon, providers that take none have `__`.
    """
    if provider not in PROVIDER_RULES:
        return name.replace(":", separator, 1)
    shown = name.replace(":", _COLON if separator == ":" else separator, 1)
    shown = _REJECTED[provider].sub("_", shown)
    is_one = _LEGIBLE.fullmatch(name) is not None and _HEX not in shown and PROVIDER_RULES[provider].admits(shown)
    return shown if is_one else None


def spell(name: str, provider: Provider, separator: Separator = ":") -> str:
    """The name as a session shows it that has no other name which looks the same."""
    return legible(name, provider, separator) or escape(name, provider)


def escape(name: str, provider: Provider, hash_length: int = HASH_LENGTH, *, is_cut: bool = False) -> str:
    """The name as a provider takes it; it does not change where the provider takes it and it has no `__`.

    `hash_length` is for a table that has seen two long names of one hash. `is_cut` gives one with a hash in any case.
    """
    if provider not in PROVIDER_RULES and not is_cut:
        return name
    rule = provider if provider in PROVIDER_RULES else "mcp"
    limit = PROVIDER_RULES[rule].max_length
    # Each character makes one at least: what is cut off here would not find a place.
    spelt = _TO_ESCAPE[rule].sub(_escaped, name[: limit + 1])
    if spelt and len(spelt) <= limit and not is_cut:
        return spelt
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    # The letters a to z and the digits 2 to 7, 52 of them.
    suffix = _HASHED + base64.b32encode(digest).decode().lower()[:hash_length]
    # Cut between its pieces.
    room = limit - len(suffix)
    stem = spelt[: max((piece.end() for piece in _PIECE.finditer(spelt) if piece.end() <= room), default=0)]
    if stem.endswith("_") and not stem.endswith("__"):
        # An underscore before the hash would be read as part of its escape.
        stem = stem[:-1]
    return stem + suffix


@lru_cache(maxsize=4096)
def escapes(name: str) -> frozenset[str]:
    """List the escapes of a name, of all providers."""
    return frozenset(escape(name, provider) for provider in DISTINCT)


def unescape(text: str, provider: Provider) -> str | None:
    """The name that is escaped to `text` for the provider, or None: it is none, or has a hash in it."""
    if provider not in PROVIDER_RULES:
        return text
    if len(text) > PROVIDER_RULES[provider].max_length:
        return None
    pieces = _PIECE.findall(text)
    try:
        name = "".join(map(_unescaped, pieces))
    except UnicodeDecodeError:
        return None
    # One escape for a name: what reads as a name and is not its escape is none.
    return name if escape(name, provider) == text else None


class Spelling:
    """One session's table of spellings, for one provider; it keeps every name that it was given.

    What was shown for a name stays its spelling, whatever names come later.
    """

    def __init__(self, provider: Provider, separator: Separator = ":") -> None:
        self.provider: Final = provider
        self.separator: Final = separator
        self._shown: dict[str, str] = {}
        self._canonical: dict[str, str] = {}
        # How many names look so: a spelling that two want is nobody's, whoever came first.
        self._looks: dict[str, int] = {}

    def add(self, names: Iterable[str]) -> None:
        """Spell all names that are new, each as no other of this table; it does not depend on their order."""
        new = {name for name in names if name not in self._shown}
        spelled = ((name, legible(name, self.provider, self.separator)) for name in new)
        looks = {name: look for name, look in spelled if look is not None}
        for look in looks.values():
            self._looks[look] = self._looks.get(look, 0) + 1
        for name, look in looks.items():
            if self._looks[look] == 1 and look not in self._canonical:
                self._place(name, look)
        for name in sorted(new - self._shown.keys()):
            self._place(name, self._escape(name))

    def shown(self, name: str) -> str:
        """The spelling of a name that was added, or what it would be alone."""
        return self._shown[name] if name in self._shown else spell(name, self.provider, self.separator)

    def _escape(self, name: str) -> str:
        """The first of a name's escapes that no other has: a longer hash than usual, one where none is needed."""
        lengths = range(HASH_LENGTH, _FULL_HASH + 1)
        spellings = (
            escape(name, self.provider, length, is_cut=is_cut) for is_cut in (False, True) for length in lengths
        )
        shown = next((each for each in spellings if each not in self._canonical), None)
        assert shown is not None, "two names have one SHA-256"
        return shown

    def _place(self, name: str, shown: str) -> None:
        self._shown[name] = shown
        self._canonical[shown] = name

    def canonical(self, shown: str) -> str | None:
        """The name that was added and is spelt so, or None."""
        return self._canonical.get(shown)


def _escaped(match: re.Match[str]) -> str:
    char = match.group()
    return _COLON if char == ":" else _HEX + char.encode("utf-8", "surrogatepass").hex()


def _unescaped(piece: str) -> str:
    if piece == _COLON:
        return ":"
    if piece.startswith(_HEX):
        return bytes.fromhex(piece[len(_HEX) :]).decode("utf-8", "surrogatepass")
    return piece
