"""How many sessions each user has open; pure bookkeeping."""

from collections.abc import Iterable


class Census:
    """Sessions by the uid of who opened them; users at `home` are not bounded one by one."""

    __slots__ = ("_by_uid", "_home", "total")

    def __init__(self, home: Iterable[int]) -> None:
        self._home = frozenset(home)
        self._by_uid: dict[int, int] = {}
        self.total = 0

    def is_at_home(self, uid: int) -> bool:
        """Whether this user is not bounded."""
        return uid in self._home

    def is_full_for(self, uid: int, limit: int) -> bool:
        """Whether this user may open no more than there are."""
        return uid not in self._home and self._by_uid.get(uid, 0) >= limit

    @property
    def most(self) -> int:
        """How many the user has who has most of those that are bounded."""
        return max((number for uid, number in self._by_uid.items() if uid not in self._home), default=0)

    def enter(self, uid: int) -> None:
        """Count a session of the user."""
        self._by_uid[uid] = self._by_uid.get(uid, 0) + 1
        self.total += 1

    def leave(self, uid: int) -> None:
        """A session of the user has closed; raises `KeyError` where there is none."""
        left = self._by_uid[uid] - 1
        self.total -= 1
        if left:
            self._by_uid[uid] = left
        else:
            del self._by_uid[uid]
