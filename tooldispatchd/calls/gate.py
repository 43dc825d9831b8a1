"""Share a number of places fairly: between channels, and on each channel between its agents. Pure bookkeeping.

Channels that wait are served in turn, of each one its agents in turn, of each agent its items in the order they came:
whoever has a thousand items, or a thousand agents, delays another channel's first by one turn.
"""

from collections import deque
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")


class Gate(Generic[ItemT]):
    """At most `places` items are inside. What waits outside is bounded by its owners' own queues.

    An item belongs to an `owner`, and that to a `channel`.
    """

    __slots__ = ("_channels", "_free")

    def __init__(self, places: int) -> None:
        self._free = places
        # Both in the order of the next turn: the first is served and goes to the end.
        self._channels: dict[object, dict[object, deque[ItemT]]] = {}

    def enter(self, channel: object, owner: object, item: ItemT) -> bool:
        """Whether `item` is inside now; else it waits for its turn."""
        if self._free > 0:
            self._free -= 1
            return True
        self._channels.setdefault(channel, {}).setdefault(owner, deque()).append(item)
        return False

    def leave(self) -> ItemT | None:
        """One item has left; the item that is inside in its stead, which is to be started."""
        if not self._channels:
            self._free += 1
            return None
        channel = next(iter(self._channels))
        owners = self._channels.pop(channel)
        owner = next(iter(owners))
        items = owners.pop(owner)
        item = items.popleft()
        if items:
            owners[owner] = items
        if owners:
            self._channels[channel] = owners
        return item

    def withdraw(self, channel: object, owner: object, item: ItemT) -> None:
        """A waiting item leaves the queue; raises `KeyError` or `ValueError` if it does not wait."""
        owners = self._channels[channel]
        items = owners[owner]
        items.remove(item)
        if not items:
            del owners[owner]
        if not owners:
            del self._channels[channel]
