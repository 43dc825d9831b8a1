"""What servers speak, remembered for the daemon's life, so that later agents pay for no probe (MCP, "Versioning").

A server is known by its origin: the command, or the origin of the URL. What is remembered may turn out wrong, when a
server was upgraded meanwhile; who negotiates finds that out.
"""

from collections import OrderedDict
from collections.abc import Hashable
from enum import StrEnum
from typing import Final

# More servers than a daemon is told of; without a bound, URLs made up by agents could fill the memory.
MAX_ORIGINS: Final = 1024


class Era(StrEnum):
    """How one talks to a server."""

    LEGACY = "legacy"
    """With a handshake: 2024-11-05 to 2025-11-25."""
    SSE = "sse"
    """The same, and only over the two endpoints of HTTP+SSE."""
    MODERN = "modern"
    """Without one: 2026-07-28."""


class Eras:
    """The era of each origin, where it is known; of more than `limit` the one that was not asked for longest leaves."""

    __slots__ = ("_eras", "_limit")

    def __init__(self, *, limit: int = MAX_ORIGINS) -> None:
        self._limit = limit
        self._eras: OrderedDict[Hashable, Era] = OrderedDict()

    def of(self, origin: Hashable) -> Era | None:
        """What `origin` was found to speak; None where nobody knows."""
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
