"""Every deadline of the daemon in one heap; pure bookkeeping, the caller brings the time.

A call that ends early only marks its entry, and marked entries are thrown away when they reach the top or outnumber
the others: adding and dropping stay cheap however many calls end in time.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

ItemT = TypeVar("ItemT")

# Below this a heap of marked entries is too small to be worth rebuilding.
_SMALL: Final = 1024


class Entry(Generic[ItemT]):
    """A deadline: `when` in seconds of the caller's clock, and what it is for until it is dropped or due."""

    __slots__ = ("item", "when")

    def __init__(self, when: float, item: ItemT) -> None:
        self.when = when
        self.item: ItemT | None = item

    def __lt__(self, other: "Entry[ItemT]") -> bool:
        return self.when < other.when


class Deadlines(Generic[ItemT]):
    """A heap of entries of which some are marked as dropped."""

    __slots__ = ("_dropped", "_heap")

    def __init__(self) -> None:
        self._heap: list[Entry[ItemT]] = []
        self._dropped = 0

    def __len__(self) -> int:
        return len(self._heap) - self._dropped

    @property
    def next(self) -> float | None:
        """When the next entry is due; None where there is none."""
        return self._heap[0].when if self._heap else None

    def add(self, when: float, item: ItemT) -> Entry[ItemT]:
        """`item` will be due at `when`."""
        entry = Entry(when, item)
        heappush(self._heap, entry)
        return entry

    def drop(self, entry: Entry[ItemT]) -> None:
        """The entry's item will never be due; dropping twice, or after it was due, is nothing."""
        if entry.item is None:
            return
        entry.item = None
        self._dropped += 1
        self._sweep()

    def due(self, now: float) -> Iterator[ItemT]:
        """The items whose time has come, earliest first; each leaves the heap when it is taken.

        One at a time: what is done about one item may drop another that is due as well.
        """
        while self._heap and self._heap[0].when <= now:
            entry = heappop(self._heap)
            item, entry.item = entry.item, None
            if item is None:
                self._dropped -= 1
            else:
                yield item
        self._sweep()

    def _sweep(self) -> None:
        heap = self._heap
        while heap and heap[0].item is None:
            heappop(heap)
            self._dropped -= 1
        if self._dropped > _SMALL and self._dropped > len(heap) // 2:
            self._heap = [entry for entry in heap if entry.item is not None]
            heapify(self._heap)
            self._dropped = 0
