"""Share a number of places fairly between owners; pure bookkeeping, no clock and no tasks.

Owners that wait are served in turn, each one's items in the order they came: an owner with a thousand items delays
another's first by one turn.
"""

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")


class Gate(Generic[ItemT]):
    """At most `places` items are inside. What waits outside is bounded by its owners' own queues."""

    __slots__ = ("_free", "_queues")

    def __init__(self, places: int) -> None:
        self._free = places
        # In the order of the next turn: the first owner is served and goes to the end.
        self._queues: dict[Hashable, deque[ItemT]] = {}

    def enter(self, owner: Hashable, item: ItemT) -> bool:
        """Whether `item` is inside now; else it waits for its turn."""
        if self._free > 0:
            self._free -= 1
            return True
        self._queues.setdefault(owner, deque()).append(item)
        return False

    def leave(self) -> ItemT | None:
        """One item has left; the item that is inside in its stead, which is to be started."""
        if not self._queues:
            self._free += 1
            return None
        owner = next(iter(self._queues))
        queue = self._queues.pop(owner)
        item = queue.popleft()
        if queue:
            self._queues[owner] = queue
        return item

    def withdraw(self, owner: Hashable, item: ItemT) -> None:
        """A waiting item leaves the queue; raises `KeyError` or `ValueError` if it does not wait."""
        queue = self._queues[owner]
        queue.remove(item)
        if not queue:
            del self._queues[owner]
