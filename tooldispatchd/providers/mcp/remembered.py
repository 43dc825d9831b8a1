"""What the daemon remembers of servers for its whole life: the era of the protocol, and the list of tools.

Eras, by origin (the command, or the origin of the URL), spare later agents the probe (MCP, "Versioning"). One may turn
out wrong, when a server was upgraded meanwhile; the negotiation finds that out. Lists, by a digest of the server, let a
lazy server be offered without being started.
"""

import hashlib
import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from enum import StrEnum
from typing import Final, Generic, TypeVar

import msgspec

from tooldispatchd.providers.mcp.server import Server, ServerOffer

# More servers than a daemon is told of; without a bound, URLs made up by agents could fill the memory.
MAX_SERVERS: Final = 1024

KeyT = TypeVar("KeyT", bound=Hashable)
ValueT = TypeVar("ValueT")

_encode: Final = msgspec.json.Encoder().encode


class Era(StrEnum):
    """How a server is spoken to."""

    LEGACY = "legacy"
    """With a handshake: 2024-11-05 to 2025-11-25."""
    SSE = "sse"
    """With a handshake, and only over the two endpoints of HTTP+SSE."""
    MODERN = "modern"
    """Without one: 2026-07-28."""


class Recent(Generic[KeyT, ValueT]):
    """What is known by key; of more than `MAX_SERVERS` the one that was not asked for longest leaves."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: OrderedDict[KeyT, ValueT] = OrderedDict()

    def get(self, key: KeyT) -> ValueT | None:
        """What is known under `key`, if anything."""
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
        return known

    def keep(self, key: KeyT, value: ValueT) -> None:
        """Remember `value`, in the place of what was known under `key` before."""
        self._known[key] = value
        self._known.move_to_end(key)
        if len(self._known) > MAX_SERVERS:
            self._known.popitem(last=False)

    def forget(self, key: KeyT) -> None:
        self._known.pop(key, None)

    def all(self) -> dict[KeyT, ValueT]:
        """All that is known, the latest last."""
        return dict(self._known)


# The era of each origin, where it is known.
Eras = Recent[Hashable, Era]


class Introductions:
    """The last introduction of each server: its name, instructions and capabilities, and no tools.

    By a digest of the server without its variables and credentials; `changed` is called when one says something else.
    """

    __slots__ = ("_known", "changed")

    def __init__(self) -> None:
        self._known: Recent[str, ServerOffer] = Recent()
        self.changed: Callable[[], None] = lambda: None

    def get(self, server: Server) -> ServerOffer | None:
        """Find the introduction of a server, as an offer without tools; None where it never answered."""
        return self._known.get(_digest(server))

    def keep(self, server: Server, offer: ServerOffer) -> None:
        """Remember what a server says of itself in an offer."""
        said = ServerOffer(said_name=offer.said_name, instructions=offer.instructions, capabilities=offer.capabilities)
        key = _digest(server)
        if self._known.get(key) != said:
            self._known.keep(key, said)
            self.changed()

    def written(self) -> dict[str, ServerOffer]:
        """List the introductions by digest, the latest last."""
        return self._known.all()

    def read(self, written: Mapping[str, ServerOffer]) -> None:
        """Remember what was written."""
        for key, offer in written.items():
            self._known.keep(key, offer)


def _digest(server: Server) -> str:
    url = None if server.reach is None else server.reach.url
    plain = msgspec.structs.replace(server, env={}, reach=None, held=None)
    return hashlib.blake2b(_encode((plain, url)), digest_size=16).hexdigest()


class ToolLists:
    """What servers offered last, by `key_of`; a list holds the server's schemas, compiled."""

    __slots__ = ("_lists", "introductions")

    def __init__(self) -> None:
        self.introductions = Introductions()
        # Each with the time until which it is good.
        self._lists: Recent[bytes, tuple[ServerOffer, float]] = Recent()

    def get(self, key: bytes, now: float) -> ServerOffer | None:
        """The offer of the server of that key; None where it is not known, or not any more at `now`."""
        offer, good_until = self._lists.get(key) or (None, 0.0)
        if good_until <= now:
            self._lists.forget(key)
            return None
        return offer

    def keep(self, key: bytes, offer: ServerOffer, now: float) -> None:
        """Remember what a server offers at `now`, in the place of an older offer."""
        self._lists.keep(key, (offer, now + offer.ttl_s if offer.ttl_s > 0 else math.inf))

    def forget(self, key: bytes) -> None:
        self._lists.forget(key)


def key_of(server: Server) -> bytes:
    """A digest of all that makes the server what it is, its credentials too: equal ones, and only they, have the same.

    Never to be shown: secrets can be tried against a digest.
    """
    return hashlib.blake2b(_encode(server), digest_size=32).digest()
