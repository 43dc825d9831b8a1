"""How the keeper of a server moves from one connection to the next.

    OPENING ──KNOWN──▶ ASLEEP ──CALLED──▶ WAKING
       │ ▲                                  │
       │ └──RETRY── AWAY ◀──────LOST────────┤
       │              ▲                     │
       ├─────LOST─────┤                  OPENED
       │              LOST                  │
       └────OPENED──▶ OPEN ◀────────────────┘          CLOSE ──▶ ENDED, from everywhere

A keeper begins in OPENING. One that is lazy and knows the server's tools goes to sleep before it opens anything. Calls
are held in ASLEEP and WAKING, taken in OPEN, and refused elsewhere.
"""

from enum import Enum
from typing import Final

from tooldispatchd.calls.machine import StateMachine

# Servers are named by configurations, of which a daemon may have many, one after the other.
MAX_SERVERS: Final = 1_000
OTHER: Final = "other"


class KeeperState(Enum):
    """Where a keeper stands; `TRANSITIONS` says how it moves."""

    ASLEEP = "asleep"
    WAKING = "waking"
    """The first connection opens because of a call, which waits for it."""
    OPENING = "opening"
    OPEN = "open"
    """The connection opened. It may have ended since, which it tells by its own state until it is gone."""
    AWAY = "away"
    """There is no connection: it ends, is gone, or failed to open."""
    ENDED = "ended"


class KeeperEvent(Enum):
    """What can happen to a keeper."""

    KNOWN = "known"
    """The tools of a lazy server are known from before."""
    CALLED = "called"
    OPENED = "opened"
    LOST = "lost"
    """The connection failed to open, or is gone. One that failed is told of twice."""
    RETRY = "retry"
    """It is time for the next connection."""
    CLOSE = "close"
    """Nobody needs the server any more, or it is not opened anew."""


TRANSITIONS: Final[dict[KeeperState, dict[KeeperEvent, KeeperState]]] = {
    KeeperState.ASLEEP: {
        KeeperEvent.CALLED: KeeperState.WAKING,
        KeeperEvent.CLOSE: KeeperState.ENDED,
    },
    KeeperState.WAKING: {
        KeeperEvent.CALLED: KeeperState.WAKING,
        KeeperEvent.OPENED: KeeperState.OPEN,
        KeeperEvent.LOST: KeeperState.AWAY,
        KeeperEvent.CLOSE: KeeperState.ENDED,
    },
    KeeperState.OPENING: {
        KeeperEvent.KNOWN: KeeperState.ASLEEP,
        KeeperEvent.OPENED: KeeperState.OPEN,
        KeeperEvent.LOST: KeeperState.AWAY,
        KeeperEvent.CLOSE: KeeperState.ENDED,
    },
    KeeperState.OPEN: {
        KeeperEvent.LOST: KeeperState.AWAY,
        KeeperEvent.CLOSE: KeeperState.ENDED,
    },
    KeeperState.AWAY: {
        KeeperEvent.LOST: KeeperState.AWAY,
        KeeperEvent.RETRY: KeeperState.OPENING,
        KeeperEvent.CLOSE: KeeperState.ENDED,
    },
    # Its connection may still have to end.
    KeeperState.ENDED: {
        KeeperEvent.LOST: KeeperState.ENDED,
        KeeperEvent.CLOSE: KeeperState.ENDED,
    },
}


class ServerCounts:
    """What became of the connections to one server, of all sessions. `now` has the keepers that are in each state.

    A connection that `failed` never opened; one that `died` ended by itself; and another was opened in the place of
    one, or of the other, after a `retry`.
    """

    __slots__ = ("died", "failed", "now", "opened", "retries")

    def __init__(self) -> None:
        self.now = dict.fromkeys(KeeperState, 0)
        self.opened = self.failed = self.died = self.retries = 0

    def note(self, before: KeeperState, event: KeeperEvent, after: KeeperState) -> None:
        """A keeper has moved."""
        self.now[before] -= 1
        self.now[after] += 1
        self.opened += event is KeeperEvent.OPENED
        self.retries += event is KeeperEvent.RETRY
        if event is KeeperEvent.LOST and after is KeeperState.AWAY:
            self.died += before is KeeperState.OPEN
            self.failed += before in (KeeperState.OPENING, KeeperState.WAKING)


class AllServerCounts:
    """Those of all servers by their names; beyond `MAX_SERVERS` of these one for all others."""

    __slots__ = ("_of",)

    def __init__(self) -> None:
        self._of: dict[str, ServerCounts] = {}

    def of(self, name: str) -> ServerCounts:
        """Those of the server."""
        if name not in self._of and len(self._of) >= MAX_SERVERS:
            name = OTHER
        return self._of.setdefault(name, ServerCounts())

    def servers(self) -> list[tuple[str, ServerCounts]]:
        """All that there are."""
        return list(self._of.items())


class KeeperMachine(StateMachine[KeeperState, KeeperEvent]):
    """The state of one keeper."""

    __slots__ = ("_counts",)

    def __init__(self, counts: ServerCounts) -> None:
        super().__init__(TRANSITIONS, KeeperState.OPENING)
        self._counts = counts
        counts.now[self.state] += 1

    def apply(self, event: KeeperEvent) -> KeeperState:
        before, after = self.state, super().apply(event)
        if after is not before:
            self._counts.note(before, event, after)
        return after
