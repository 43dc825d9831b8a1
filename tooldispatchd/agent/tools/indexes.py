"""The indexes of tools that searches need, made when they are first needed, without holding the loop."""

from collections import OrderedDict
from collections.abc import Generator, Iterable
from hashlib import blake2b
from time import perf_counter
from typing import Final, TypeVar

import msgspec
import trio

from tooldispatchd.catalog.offered import Offered
from tooldispatchd.catalog.searching import SearchIndex, build_index, searched_text

# Nobody else is served for so long.
SLICE_S: Final = 0.001
# Of different catalogs that are searched by turns; each takes some megabytes for thousands of tools.
KEPT_INDEXES: Final = 16

T = TypeVar("T")
_encode: Final = msgspec.json.Encoder().encode


async def in_turns(steps: Generator[None, None, T]) -> T:
    """What the steps come to, with turns of the loop between them."""
    began = perf_counter()
    while True:
        try:
            next(steps)
        except StopIteration as done:
            made: T = done.value
            return made
        if perf_counter() - began > SLICE_S:
            await trio.lowlevel.checkpoint()
            began = perf_counter()


def digest_of_tools(tools: Iterable[Offered]) -> Generator[None, None, bytes]:
    """A digest of what of the tools is searched, in steps: with the same one an index serves both."""
    digest = blake2b(digest_size=32)
    for number, tool in enumerate(tools, 1):
        digest.update(_encode(searched_text(tool)))
        if number % 16 == 0:
            yield
    return digest.digest()


class Indexes:
    """The indexes that searches have needed lately; sessions whose tools are the same share one."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, SearchIndex] = OrderedDict()

    async def of(self, digest: bytes, tools: Iterable[Offered]) -> SearchIndex:
        """The index of these tools, made where there is none. One at a time: two would make the same."""
        index = self._kept.get(digest)
        if index is None:
            index = self._kept[digest] = await in_turns(build_index(map(searched_text, tools)))
            if len(self._kept) > KEPT_INDEXES:
                self._kept.popitem(last=False)
        self._kept.move_to_end(digest)
        return index
