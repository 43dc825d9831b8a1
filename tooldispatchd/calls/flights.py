"""Equal calls in flight, of which only the first runs: what came of it is the outcome of all that joined. Pure.

    first: enter ─▶ (its tool) ─▶ land(outcome) ─▶ leave ─▶ those that joined
    others: enter ─▶ wait ────────────────────────────────▶ take

Where the first leaves without having landed (it was cancelled, or its own deadline came) the others take nothing: they
enter anew, and the first of them goes in its place. One that may not join begins another flight, which later ones join.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT", bound=Hashable)
LandedT = TypeVar("LandedT")


class _Flight(Generic[ItemT, LandedT]):
    __slots__ = ("first", "joined", "key", "landed")

    def __init__(self, key: bytes, first: ItemT) -> None:
        self.key = key
        self.first = first
        self.joined: dict[ItemT, None] = {}
        self.landed: LandedT | None = None


class Flights(Generic[ItemT, LandedT]):
    """Those that are under way, by the key of their calls."""

    __slots__ = ("_by_item", "_by_key", "_landed")

    def __init__(self) -> None:
        self._by_key: dict[bytes, _Flight[ItemT, LandedT]] = {}
        self._by_item: dict[ItemT, _Flight[ItemT, LandedT]] = {}
        # What those have to take that joined one which has ended.
        self._landed: dict[ItemT, LandedT] = {}

    def __len__(self) -> int:
        """How many calls are in flights, or have yet to take what came of one."""
        return len(self._by_item) + len(self._landed)

    def __contains__(self, key: bytes) -> bool:
        return key in self._by_key

    def enter(self, key: bytes, item: ItemT, may_join: Callable[[ItemT], bool]) -> bool:
        """Join the first item where `may_join` admits that, else go first; whether it goes first."""
        flight = self._by_key.get(key)
        if flight is None or not may_join(flight.first):
            flight = self._by_key[key] = _Flight(key, item)
        else:
            flight.joined[item] = None
        self._by_item[item] = flight
        return flight.first == item

    def land(self, item: ItemT, landed: LandedT) -> None:
        """What came of the call that went first, the first time; of another nothing is expected."""
        flight = self._by_item.get(item)
        if flight is not None and flight.first == item and flight.landed is None:
            flight.landed = landed

    def take(self, item: ItemT) -> LandedT | None:
        """What came of the flight that it had joined; None where there is nothing."""
        return self._landed.pop(item, None)

    def leave(self, item: ItemT) -> list[ItemT]:
        """It has ended, however it did: those that had joined it, each of which has to take what came of it."""
        self._landed.pop(item, None)
        flight = self._by_item.pop(item, None)
        if flight is None:
            return []
        if flight.first != item:
            del flight.joined[item]
            return []
        if self._by_key.get(flight.key) is flight:
            del self._by_key[flight.key]
        joined = list(flight.joined)
        for each in joined:
            del self._by_item[each]
            if flight.landed is not None:
                self._landed[each] = flight.landed
        return joined
