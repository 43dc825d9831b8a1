"""Long lists in turns: thousands of entries are made and encoded a millisecond's worth at a time."""

from collections.abc import AsyncIterator, Callable, Iterable
from time import perf_counter
from typing import Final, TypeVar

import msgspec
import trio

from tooldispatchd.catalog.masker import Masker

ThingT = TypeVar("ThingT")

# Between two turns of the loop; an entry takes some microseconds.
TURN_S: Final = 0.001
# What one answer may have of them. More is nobody's screen, and fits into the share of a small daemon's channel.
MAX_LIST_BYTES: Final = 4 * 1024 * 1024

_encode: Final = msgspec.json.Encoder(enc_hook=str).encode


async def in_turns(things: Iterable[ThingT]) -> AsyncIterator[ThingT]:
    """Each of the things, the loop having its turn between them where they take long."""
    until = perf_counter() + TURN_S
    for thing in things:
        yield thing
        if perf_counter() > until:
            await trio.lowlevel.checkpoint()
            until = perf_counter() + TURN_S


class EntryList:
    """The entries of one list, encoded; `left_out` are those for which there was no room."""

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        self._entries: list[bytes] = []
        self._bytes = 0
        self.left_out = 0

    async def fill(self, things: Iterable[ThingT | None], show: Callable[[ThingT], msgspec.Struct]) -> None:
        """Add an entry for each thing, in turns; None has no entry, and is a moment at which the turn may end."""
        async for thing in in_turns(things):
            if thing is None:
                continue
            if self._bytes > MAX_LIST_BYTES:
                # It need not be made.
                self.left_out += 1
                continue
            encoded = self._masker.mask_bytes(_encode(show(thing)))
            self._entries.append(encoded)
            self._bytes += len(encoded)

    @property
    def json(self) -> bytes:
        """The list."""
        return b"[" + b",".join(self._entries) + b"]"
