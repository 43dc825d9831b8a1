"""Tools' names as model providers take them: reversible, and never one spelling for two names.

A colon is spelt `__`. Any other character that the provider rejects is `__-` and the bytes of its UTF-8 in hexadecimal,
and so is what would be read as part of an escape: an underscore beside another or before an escape, a `_` or `-` after
a colon. A name that is too long then is cut and ends in `__-h` and a hash: such a spelling is read by the session's
table only, as is the empty name's.
"""

import base64
import hashlib
import re
from typing import Final, Literal

import msgspec

Provider = Literal["plain", "anthropic", "openai", "openai_responses", "google", "mcp"]

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
"""The rules of all providers but `plain`, which takes every name as it is."""

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


def spell(name: str, provider: Provider, hash_length: int = HASH_LENGTH) -> str:
    """The name as a provider takes it; it does not change where the provider takes it and it has no `__`.

    `hash_length` is for a table that has seen two long names of one hash.
    """
    if provider == "plain":
        return name
    limit = PROVIDER_RULES[provider].max_length
    # Each character makes one at least: what is cut off here would not find a place.
    spelt = _TO_ESCAPE[provider].sub(_escape, name[: limit + 1])
    if spelt and len(spelt) <= limit:
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


def unspell(text: str, provider: Provider) -> str | None:
    """The name of which `text` is the provider's spelling, or None: it is none, or has a hash in it."""
    if provider == "plain":
        return text
    if len(text) > PROVIDER_RULES[provider].max_length:
        return None
    pieces = _PIECE.findall(text)
    try:
        name = "".join(map(_unescape, pieces))
    except UnicodeDecodeError:
        return None
    # One spelling for a name: what reads as a name and is not its spelling is none.
    return name if spell(name, provider) == text else None


class Spelling:
    """One session's table of spellings, for one provider; it keeps every name that it was given."""

    def __init__(self, provider: Provider) -> None:
        self.provider: Final = provider
        self._shown: dict[str, str] = {}
        self._canonical: dict[str, str] = {}

    def add(self, name: str) -> str:
        """The spelling of a name, the same whenever it is asked for, and of no other name of this table."""
        if name in self._shown:
            return self._shown[name]
        spellings = (spell(name, self.provider, length) for length in range(HASH_LENGTH, _FULL_HASH + 1))
        shown = next((each for each in spellings if each not in self._canonical), None)
        assert shown is not None, "two names have one SHA-256"
        self._shown[name] = shown
        self._canonical[shown] = name
        return shown

    def canonical(self, shown: str) -> str | None:
        """The name that was added and is spelt so, or None."""
        return self._canonical.get(shown)


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    return _COLON if char == ":" else _HEX + char.encode("utf-8", "surrogatepass").hex()


def _unescape(piece: str) -> str:
    if piece == _COLON:
        return ":"
    if piece.startswith(_HEX):
        return bytes.fromhex(piece[len(_HEX) :]).decode("utf-8", "surrogatepass")
    return piece
