"""Whether what fails again and again is still called: not while it rests, then one call to try it. Pure.

    CLOSED ──TRIPPED──▶ OPEN ──TRIED──▶ TRYING ──MENDED──▶ CLOSED
                          ▲                └──UNMENDED, UNTRIED──▶ OPEN

It is OPEN for its rest, and then until a call comes: that one goes through, and every other one is refused until it has
ended. One that ends and says nothing of what it called (it was cancelled) leaves that to the next.
"""

from collections import deque
from collections.abc import Hashable
from enum import Enum
from typing import Final, Generic, TypeVar

from tooldispatchd.calls.machine import StateMachine

ItemT = TypeVar("ItemT", bound=Hashable)


class BreakerState(Enum):
    """Where a breaker is."""

    CLOSED = "closed"
    OPEN = "open"
    TRYING = "trying"


class BreakerEvent(Enum):
    """What moves it."""

    TRIPPED = "tripped"  # as many failures as it takes
    TRIED = "tried"
    MENDED = "mended"
    UNMENDED = "unmended"
    UNTRIED = "untried"


_S, _E = BreakerState, BreakerEvent
TRANSITIONS: Final[dict[BreakerState, dict[BreakerEvent, BreakerState]]] = {
    _S.CLOSED: {_E.TRIPPED: _S.OPEN},
    _S.OPEN: {_E.TRIED: _S.TRYING},
    _S.TRYING: {_E.MENDED: _S.CLOSED, _E.UNMENDED: _S.OPEN, _E.UNTRIED: _S.OPEN},
}
# A call that is refused while another tries has to ask again.
SOON_S: Final = 1.0


class Breaker(Generic[ItemT]):
    """It opens after `failures` within `within_s` seconds, for `rest_s`. Times are in seconds of the caller's clock."""

    __slots__ = ("_failed_at", "_failures", "_machine", "_opens_until", "_rest_s", "_trying", "_within_s")

    def __init__(self, failures: int, within_s: float, rest_s: float) -> None:
        self._failures = failures
        self._within_s = within_s
        self._rest_s = rest_s
        self._machine: StateMachine[BreakerState, BreakerEvent] = StateMachine(TRANSITIONS, BreakerState.CLOSED)
        # The latest ones, no more than it takes.
        self._failed_at: deque[float] = deque(maxlen=failures)
        self._opens_until = 0.0
        self._trying: ItemT | None = None

    @property
    def state(self) -> BreakerState:
        return self._machine.state

    def refuses_for_s(self, now: float) -> float | None:
        """How long a call should wait that would be refused now; None where it would not."""
        if self.state is BreakerState.CLOSED:
            return None
        left_s = max(self._opens_until - now, SOON_S if self.state is BreakerState.TRYING else 0.0)
        return left_s or None

    def enter(self, item: ItemT, now: float) -> bool:
        """Whether the call goes through."""
        if self.refuses_for_s(now) is not None:
            return False
        if self.state is BreakerState.OPEN:
            self._machine.apply(BreakerEvent.TRIED)
            self._trying = item
        return True

    def leave(self, item: ItemT, now: float, *, has_failed: bool | None) -> BreakerState | None:
        """A call that went through has ended; None where that says nothing. The state that it brought, if that is news.

        What else went through before it opened changes nothing any more.
        """
        if item is self._trying:
            self._trying = None
            return self._tried(now, has_failed=has_failed)
        if self.state is BreakerState.CLOSED and has_failed:
            self._failed_at.append(now)
            if len(self._failed_at) == self._failures and now - self._failed_at[0] <= self._within_s:
                return self._open(BreakerEvent.TRIPPED, now)
        return None

    def _tried(self, now: float, *, has_failed: bool | None) -> BreakerState | None:
        if has_failed is None:
            self._machine.apply(BreakerEvent.UNTRIED)
            return None
        if has_failed:
            return self._open(BreakerEvent.UNMENDED, now)
        return self._machine.apply(BreakerEvent.MENDED)

    def _open(self, event: BreakerEvent, now: float) -> BreakerState:
        self._failed_at.clear()
        self._opens_until = now + self._rest_s
        return self._machine.apply(event)
