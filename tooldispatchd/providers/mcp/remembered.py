"""What the daemon remembers of servers for its whole life: the era of the protocol, and the list of tools.

Eras, by origin (the command, or the origin of the URL), spare later agents the probe (MCP, "Versioning"). One may turn
out wrong, when a server was upgraded meanwhile; the negotiation finds that out. Lists, by a digest of the server, let a
lazy server be offered without being started.
"""

import hashlib
import math
from collections import OrderedDict
from collections.abc import Hashable
from enum import StrEnum
from typing import Final

import msgspec

from tooldispatchd.providers.mcp.server import Server, ServerOffer

# More servers than a daemon is told of; without a bound, URLs made up by agents could fill the memory.
MAX_ORIGINS: Final = 1024


class Era(StrEnum):
    """How a server is spoken to."""

    LEGACY = "legacy"
    """With a handshake: 2024-11-05 to 2025-11-25."""
    SSE = "sse"
    """With a handshake, and only over the two endpoints of HTTP+SSE."""
    MODERN = "modern"
    """Without one: 2026-07-28."""


class Eras:
    """The era of each origin, where it is known; of more than `limit` the one that was not asked for longest leaves."""

    __slots__ = ("_eras", "_limit")

    def __init__(self, *, limit: int = MAX_ORIGINS) -> None:
        self._limit = limit
        self._eras: OrderedDict[Hashable, Era] = OrderedDict()

    def of(self, origin: Hashable) -> Era | None:
        """The era of `origin`; None where it is not known."""
        era = self._eras.get(origin)
        if era is not None:
            self._eras.move_to_end(origin)
        return era

    def learn(self, origin: Hashable, era: Era) -> None:
        """Remember what `origin` speaks, in the place of what was remembered before."""
        self._eras[origin] = era
        self._eras.move_to_end(origin)
        if len(self._eras) > self._limit:
            self._eras.popitem(last=False)

    def forget(self, origin: Hashable) -> None:
        """Remember nothing of `origin`."""
        self._eras.pop(origin, None)


# As many as servers whose era is remembered; a list holds the server's schemas, compiled.
MAX_LISTS: Final = 1024

_encode: Final = msgspec.json.Encoder().encode


class ToolLists:
    """What at most `limit` servers offered last; the one that was not asked for longest leaves."""

    __slots__ = ("_limit", "_lists")

    def __init__(self, *, limit: int = MAX_LISTS) -> None:
        self._limit = limit
        # Each with the time until which it is good.
        self._lists: OrderedDict[bytes, tuple[ServerOffer, float]] = OrderedDict()

    def get(self, key: bytes, now: float) -> ServerOffer | None:
        """The offer of the server of that key; None where it is not known, or not any more at `now`."""
        offer, good_until = self._lists.get(key, (None, 0.0))
        if offer is None:
            return None
        if good_until <= now:
            del self._lists[key]
            return None
        self._lists.move_to_end(key)
        return offer

    def keep(self, key: bytes, offer: ServerOffer, now: float) -> None:
        """Remember what a server offers at `now`, in the place of an older offer."""
        self._lists[key] = offer, now + offer.ttl_s if offer.ttl_s > 0 else math.inf
        self._lists.move_to_end(key)
        if len(self._lists) > self._limit:
            self._lists.popitem(last=False)

    def forget(self, key: bytes) -> None:
        """Remember no list of that server."""
        self._lists.pop(key, None)


def key_of(server: Server) -> bytes:
    """A digest of all that makes the server what it is, its credentials too: equal ones, and only they, have the same.

    Never to be shown: secrets can be tried against a digest.
    """
    return hashlib.blake2b(_encode(server), digest_size=32).digest()
