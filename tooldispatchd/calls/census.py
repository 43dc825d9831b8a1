"""How many sessions each user has open, or processes each channel; pure bookkeeping."""

from collections.abc import Hashable, Iterable


class Census:
    """Sessions by the uid of who opened them, or processes by channel; owners at `home` are not bounded one by one."""

    __slots__ = ("_by_owner", "_home", "total")

    def __init__(self, home: Iterable[Hashable] = ()) -> None:
        self._home = frozenset(home)
        self._by_owner: dict[Hashable, int] = {}
        self.total = 0

    def is_at_home(self, owner: Hashable) -> bool:
        """Whether this user is not bounded."""
        return owner in self._home

    def is_full_for(self, owner: Hashable, limit: int) -> bool:
        """Whether this user may open no more than there are."""
        return owner not in self._home and self._by_owner.get(owner, 0) >= limit

    @property
    def most(self) -> int:
        """How many the user has who has most of those that are bounded."""
        return max((number for owner, number in self._by_owner.items() if owner not in self._home), default=0)

    def enter(self, owner: Hashable) -> None:
        """Count a session of the user."""
        self._by_owner[owner] = self._by_owner.get(owner, 0) + 1
        self.total += 1

    def leave(self, owner: Hashable) -> None:
        """A session of the user has closed; raises `KeyError` where there is none."""
        left = self._by_owner[owner] - 1
        self.total -= 1
        if left:
            self._by_owner[owner] = left
        else:
            del self._by_owner[owner]
