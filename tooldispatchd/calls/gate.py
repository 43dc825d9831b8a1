"""Share a number of places fairly: between channels, and on each channel between its agents. Pure bookkeeping.

Nobody holds the last places: some are kept for agents that hold none, half of those for channels that hold none, so
that a newcomer need not wait until others are done. A place that is given back goes to them first, else to the channel
that holds the fewest and there to the agent that holds the fewest, of several to the one that was served longest ago;
each agent's items come in their order.
"""

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")

# The channel and the owner in whose turns an item waits.
Turns = tuple[Hashable, Hashable]


class _Holder(Generic[ItemT]):
    """One agent at the gate: how many places it holds, and what waits."""

    __slots__ = ("held", "waiting")

    def __init__(self) -> None:
        self.held = 0
        self.waiting: deque[ItemT] = deque()


class _Group(Generic[ItemT]):
    """One channel at the gate: how many places its agents hold, and these in the order of their next turn."""

    __slots__ = ("held", "holders")

    def __init__(self) -> None:
        self.held = 0
        self.holders: dict[object, _Holder[ItemT]] = {}

    def next(self) -> tuple[object, _Holder[ItemT]] | None:
        """The agent whose turn it is among those that wait."""
        chosen: tuple[object, _Holder[ItemT]] | None = None
        for owner, holder in self.holders.items():
            if holder.waiting and (chosen is None or holder.held < chosen[1].held):
                chosen = owner, holder
            if not holder.held:
                break
        return chosen


class Gate(Generic[ItemT]):
    """At most `places` items are inside. What waits outside is bounded by its owners' own queues.

    An item belongs to an `owner`, and that to a `channel`.
    """

    __slots__ = ("_free", "_groups", "_kept")

    def __init__(self, places: int) -> None:
        self._free = places
        # A quarter is hardly missed by an agent alone; of few places two: one for an agent, one for a channel.
        self._kept = max(places // 4, min(places - 1, 2))
        # Channels that hold or wait for places, in the order of their next turn.
        self._groups: dict[object, _Group[ItemT]] = {}

    def enter(self, channel: object, owner: object, item: ItemT) -> bool:
        """Whether `item` is inside now; else it waits for its turn."""
        group = self._groups.setdefault(channel, _Group())
        holder = group.holders.setdefault(owner, _Holder())
        if self._free > self._kept_from(group, holder):
            self._take(channel, owner)
            return True
        holder.waiting.append(item)
        return False

    def leave(self, channel: object, owner: object) -> ItemT | None:
        """Take one item of `owner` out; returns the item that gets the place, which is to be started."""
        group = self._groups[channel]
        group.held -= 1
        group.holders[owner].held -= 1
        self._free += 1
        self._forget(channel, owner)
        # At most one: no waiting item could have taken a place before this one became free.
        following = self._next()
        return None if following is None else self._take(*following).waiting.popleft()

    def withdraw(self, channel: object, owner: object, item: ItemT) -> None:
        """A waiting item leaves the queue; raises `KeyError` or `ValueError` if it does not wait."""
        self._groups[channel].holders[owner].waiting.remove(item)
        self._forget(channel, owner)

    def _kept_from(self, group: _Group[ItemT], holder: _Holder[ItemT]) -> int:
        """How many free places are not for this agent, but for those that hold none."""
        if not group.held:
            return 0
        return self._kept if holder.held else self._kept // 2

    def _next(self) -> tuple[object, object] | None:
        """The channel and the agent whose turn it is, if any that waits may take a place."""
        # Quick, however many wait: no more can hold some than there are places, and the first that holds none ends it.
        chosen: tuple[object, object] | None = None
        best = (self._free, 0)
        for channel, group in self._groups.items():
            following = group.next()
            if following is None:
                continue
            claim = (self._kept_from(group, following[1]), group.held)
            if claim < best:
                chosen, best = (channel, following[0]), claim
            if not group.held:
                break
        return chosen

    def _take(self, channel: object, owner: object) -> _Holder[ItemT]:
        """Give an owner a place; its next turn comes after everybody's."""
        group = self._groups[channel] = self._groups.pop(channel)
        holder = group.holders[owner] = group.holders.pop(owner)
        group.held += 1
        holder.held += 1
        self._free -= 1
        return holder

    def _forget(self, channel: object, owner: object) -> None:
        """Drop who neither holds a place nor waits for one."""
        group = self._groups[channel]
        holder = group.holders[owner]
        if not holder.held and not holder.waiting:
            del group.holders[owner]
        if not group.holders:
            del self._groups[channel]
