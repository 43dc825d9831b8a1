"""Every deadline of the daemon in one heap; pure bookkeeping, the caller brings the time.

A call that ends early only marks its entry, and marked entries are thrown away when they reach the top or outnumber
the others: adding and dropping stay cheap however many calls end in time.
"""

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

    def due(self, now: float) -> list[ItemT]:
        """The items whose time has come, earliest first; they are in the heap no more."""
        items: list[ItemT] = []
        while self._heap and self._heap[0].when <= now:
            entry = heappop(self._heap)
            if entry.item is None:
                self._dropped -= 1
            else:
                items.append(entry.item)
                entry.item = None
        self._sweep()
        return items

    def _sweep(self) -> None:
        heap = self._heap
        while heap and heap[0].item is None:
            heappop(heap)
            self._dropped -= 1
        if self._dropped > _SMALL and self._dropped > len(heap) // 2:
            self._heap = [entry for entry in heap if entry.item is not None]
            heapify(self._heap)
            self._dropped = 0
