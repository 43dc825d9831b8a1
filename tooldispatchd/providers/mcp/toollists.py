"""The lists of tools of servers that were seen, by what the server is: so that a lazy one need not run to be offered.

A list is good for the daemon's life, or for as long as the server said (MCP 2026-07-28, `ttlMs`).
"""

import hashlib
import math
from collections import OrderedDict
from typing import Final

import msgspec

from tooldispatchd.providers.mcp.server import McpTool, Server

# As many as servers whose era is remembered; a list holds the server's schemas, compiled.
MAX_LISTS: Final = 1024

_encode: Final = msgspec.json.Encoder().encode


class ToolList(msgspec.Struct, frozen=True):
    """What a connection knew of its server once it was open; as there. `good_until` is in the caller's seconds."""

    tools: dict[str, McpTool]
    listed: tuple[str, ...]
    said_name: str | None
    instructions: str | None
    warnings: tuple[str, ...]
    good_until: float = math.inf


class ToolLists:
    """At most `limit` lists; the one that was not asked for longest leaves."""

    __slots__ = ("_limit", "_lists")

    def __init__(self, *, limit: int = MAX_LISTS) -> None:
        self._limit = limit
        self._lists: OrderedDict[bytes, ToolList] = OrderedDict()

    def get(self, key: bytes, now: float) -> ToolList | None:
        """The list of the server of that key; None where nobody knows it, or not any more."""
        known = self._lists.get(key)
        if known is None:
            return None
        if known.good_until <= now:
            del self._lists[key]
            return None
        self._lists.move_to_end(key)
        return known

    def keep(self, key: bytes, known: ToolList) -> None:
        """Remember a list, in the place of an older one."""
        self._lists[key] = known
        self._lists.move_to_end(key)
        if len(self._lists) > self._limit:
            self._lists.popitem(last=False)

    def forget(self, key: bytes) -> None:
        """Remember no list of that server."""
        self._lists.pop(key, None)


def key_of(server: Server) -> bytes:
    """A digest of all that makes the server what it is, its credentials too: equal ones, and only they, have the same.

    Never to be shown: who has a digest can try secrets on it.
    """
    return hashlib.blake2b(_encode(server), digest_size=32).digest()
