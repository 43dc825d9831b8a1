"""What a client is told under one request, or unasked: read as it comes, and again for a while where the line broke.

Each message has a number, counted from 1. What no reader has taken yet is kept for the one that there is; without one,
and of what has been taken, a bounded history is.
"""

from collections import deque
from typing import Final

import trio

# As many as a call's progress has in a minute, and enough of them for any client that comes back within that.
KEPT_MESSAGES: Final = 64
KEPT_BYTES: Final = 256 * 1024


class MessageFeed:
    """One stream of messages; `number` is its name in the ids of events."""

    __slots__ = (
        "_attached",
        "_changed",
        "_last",
        "_messages",
        "_reader",
        "held",
        "is_complete",
        "number",
        "read",
        "unread",
    )

    def __init__(self, number: int) -> None:
        self.number = number
        self.is_complete = False
        self.held = 0
        """Bytes that lie here."""
        self.unread = 0
        """Those of them that a reader has still to take."""
        self._messages: deque[tuple[int, bytes]] = deque()
        self._last = 0
        self.read = 0
        """The number of the last message that a reader has had."""
        self._attached = 0
        self._reader = 0  # none
        self._changed = trio.lowlevel.ParkingLot()

    @property
    def has_reader(self) -> bool:
        return self._reader > 0

    def put(self, message: bytes) -> None:
        """Add a message."""
        self._last += 1
        self._messages.append((self._last, message))
        self.held += len(message)
        self.unread += len(message)
        self._trim()
        self._changed.unpark_all()

    def close(self) -> None:
        """Nothing more comes. Idempotent."""
        self.is_complete = True
        self._changed.unpark_all()

    def attach(self) -> int:
        """Become the reader; the one before, whose line may be dead, has nothing more to read. Gives its number."""
        self._attached += 1
        self._reader = self._attached
        self._changed.unpark_all()
        return self._reader

    def detach(self, reader: int) -> None:
        """Read no more; what came meanwhile stays as long as any history does."""
        if reader == self._reader:
            self._reader = 0
            self._trim()

    async def take(self, reader: int, after: int) -> list[tuple[int, bytes]]:
        """The messages behind number `after`, at least one; none at the end, or where another reader has come."""
        while True:
            if reader != self._reader:
                return []
            found = [message for message in self._messages if message[0] > after]
            if found or self.is_complete:
                return found
            await self._changed.park()

    def taken(self, number: int) -> None:
        """A client has been sent the messages up to this one."""
        for at, message in self._messages:
            if self.read < at <= number:
                self.unread -= len(message)
        self.read = max(self.read, number)
        self._trim()

    def _trim(self) -> None:
        while len(self._messages) > KEPT_MESSAGES or self.held > KEPT_BYTES:
            number, message = self._messages[0]
            if number > self.read and (self.has_reader or (self.is_complete and number == self._last)):
                return
            self._messages.popleft()
            self.held -= len(message)
            if number > self.read:
                self.unread -= len(message)
