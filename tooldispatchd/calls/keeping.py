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


class KeeperMachine(StateMachine[KeeperState, KeeperEvent]):
    """The state of one keeper."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(TRANSITIONS, KeeperState.OPENING)
