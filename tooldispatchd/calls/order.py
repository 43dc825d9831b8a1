"""The order of one agent's calls, where they have one: whose turn it is, in groups. Pure."""

from enum import Enum
from typing import Generic, TypeVar

CallT = TypeVar("CallT")


class OrderVerdict(Enum):
    START = "start"
    WAIT = "wait"
    FULL = "full"


def group_size(order: str | None) -> int | None:
    """How many calls `order` lets run at once: "sequential", "batched:N"; None for "parallel", and where it is None."""
    if order == "sequential":
        return 1
    kind, _, size = (order or "").partition(":")
    return int(size) if kind == "batched" else None


class CallGroups(Generic[CallT]):
    """Calls that have their turns in groups of `size`, in the order they came; at most `waiting` wait for theirs.

    The next group begins when the whole group before it has ended. A group that is not full takes calls that come
    meanwhile; with one in a group the calls run one at a time.
    """

    __slots__ = ("_max_waiting", "_size", "_taken", "group", "waiting")

    def __init__(self, size: int, waiting: int) -> None:
        self._size = size
        self._max_waiting = waiting
        # How many have joined the group, of which `group` are left.
        self._taken = 0
        self.group: set[CallT] = set()
        self.waiting: dict[CallT, None] = {}

    @property
    def is_idle(self) -> bool:
        """Whether a call that ends in the moment it comes may do so now."""
        return not self.group

    def ask(self, call: CallT) -> OrderVerdict:
        """Have the call's turn now, or wait for it, or neither."""
        if self._taken < self._size and not self.waiting:
            self._taken += 1
            self.group.add(call)
            return OrderVerdict.START
        if len(self.waiting) < self._max_waiting:
            self.waiting[call] = None
            return OrderVerdict.WAIT
        return OrderVerdict.FULL

    def leave(self, call: CallT) -> list[CallT]:
        """A call has ended, in its turn or before; those whose turn has come, which are to be begun."""
        self.waiting.pop(call, None)
        if call not in self.group:
            return []
        self.group.remove(call)
        if self.group:
            return []
        following = list(self.waiting)[: self._size]
        for each in following:
            del self.waiting[each]
        self.group.update(following)
        self._taken = len(following)
        return following
