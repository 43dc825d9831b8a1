"""The life of one connection to an MCP server, and its requests that wait for an answer.

    OPENING ──OPENED──▶ OPEN ──DIED──▶ DEAD ──GONE──▶ CLOSED
       ├─────FAILED──────┼──────────────▲               ▲
       └─────CLOSE───────┴───CLOSE──▶ CLOSING ──GONE────┘

DEAD and CLOSING both mean that the server is being stopped: DEAD because of what it did, CLOSING because nobody needs
it any more. Only an OPEN connection takes calls, and there is no way back to OPEN: what reconnects is its keeper, with
a new one (`keeping`).
"""

from collections.abc import ItemsView
from enum import Enum
from typing import Final, Generic, TypeVar

from tooldispatchd.calls.machine import StateMachine


class ConnectionState(Enum):
    """Where a connection stands; `TRANSITIONS` says how it moves."""

    OPENING = "opening"
    OPEN = "open"
    DEAD = "dead"
    CLOSING = "closing"
    CLOSED = "closed"


class ConnectionEvent(Enum):
    """What can happen to a connection."""

    OPENED = "opened"
    """The handshake is done and the tools are known."""
    FAILED = "failed"
    """The server did not come up, or lacks a tool that it must have."""
    DIED = "died"
    """An open connection ended from the other side, or was given up for what the server did not do."""
    CLOSE = "close"
    """Nobody needs it any more."""
    GONE = "gone"
    """The server's processes are ended and reaped."""


TRANSITIONS: Final[dict[ConnectionState, dict[ConnectionEvent, ConnectionState]]] = {
    ConnectionState.OPENING: {
        ConnectionEvent.OPENED: ConnectionState.OPEN,
        ConnectionEvent.FAILED: ConnectionState.DEAD,
        ConnectionEvent.CLOSE: ConnectionState.CLOSING,
    },
    ConnectionState.OPEN: {
        ConnectionEvent.DIED: ConnectionState.DEAD,
        ConnectionEvent.CLOSE: ConnectionState.CLOSING,
    },
    # Closing what is dead already changes nothing: the reason to be told stays the server's.
    ConnectionState.DEAD: {
        ConnectionEvent.CLOSE: ConnectionState.DEAD,
        ConnectionEvent.GONE: ConnectionState.CLOSED,
    },
    ConnectionState.CLOSING: {
        ConnectionEvent.CLOSE: ConnectionState.CLOSING,
        ConnectionEvent.GONE: ConnectionState.CLOSED,
    },
    ConnectionState.CLOSED: {
        ConnectionEvent.CLOSE: ConnectionState.CLOSED,
    },
}


class ConnectionMachine(StateMachine[ConnectionState, ConnectionEvent]):
    """The state of one connection."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(TRANSITIONS, ConnectionState.OPENING)


EntryT = TypeVar("EntryT")


class Pending(Generic[EntryT]):
    """Requests that wait for an answer: each number is given out once, and each entry leaves exactly once.

    A number is never used again, so that a late answer to a request that was given up cannot reach another one. The
    bound on entries is the caller's: a session has at most `limits.in_flight` calls running.
    """

    __slots__ = ("_entries", "_next")

    def __init__(self) -> None:
        self._entries: dict[int, EntryT] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, request: int) -> bool:
        return request in self._entries

    def add(self, entry: EntryT) -> int:
        """Hold `entry`; the number under which its answer will come."""
        self._next += 1
        self._entries[self._next] = entry
        return self._next

    def get(self, request: int) -> EntryT | None:
        """The entry that waits under `request`, which goes on waiting; None for a number that is not waiting."""
        return self._entries.get(request)

    def entries(self) -> ItemsView[int, EntryT]:
        """All entries with their numbers."""
        return self._entries.items()

    def take(self, request: int) -> EntryT | None:
        """The entry that waits under `request`, which waits no more; None for a number that is not waiting."""
        return self._entries.pop(request, None)

    def drain(self) -> list[EntryT]:
        """All entries in the order in which they came; none waits any more."""
        entries = list(self._entries.values())
        self._entries.clear()
        return entries
