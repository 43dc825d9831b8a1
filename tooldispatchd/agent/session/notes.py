"""What one server says unasked, for an agent that hears it: at once, and not too much of it.

A server that says more in a second than `MAX_A_SECOND` is cut short: of its log the rest is left out, and of what has
changed each thing is told once, as soon as there is room. What is told of changes is told for as long as the agent
reads; an agent that does not read has to look by itself.
"""

from typing import Final

import trio
from msgspec import Raw

from tooldispatchd.agent.calls.sessionchannel import SessionChannel
from tooldispatchd.calls.deadlines import Entry
from tooldispatchd.front.timer import Expiring, Timer
from tooldispatchd.wire.session import SessionMachine

# More lines of a log than anybody reads, and as many files as a program changes at once.
MAX_A_SECOND: Final = 50
WINDOW_S: Final = 1.0
# Things that have changed and wait for their second: as many as the resources that one may be subscribed to.
MAX_LATE: Final = 256
# Longer ones are of the log, and a URI is shorter.
MAX_LATE_BYTES: Final = 4096
LOG: Final = "notifications/message"


class ServerNotes:
    """The notes of one server of one session; `server` is its name."""

    __slots__ = ("_channel", "_entry", "_late", "_left", "_machine", "_server", "_timer", "_window_ends")

    def __init__(self, timer: Timer, machine: SessionMachine, channel: SessionChannel, server: str) -> None:
        self._timer = timer
        self._machine = machine
        self._channel = channel
        self._server = server
        self._late: dict[tuple[str, bytes], None] = {}
        self._left = 0
        self._window_ends = 0.0
        self._entry: Entry[Expiring] | None = None

    def take(self, method: str, params: Raw) -> None:
        """The server says so."""
        now = trio.current_time()
        if now >= self._window_ends:
            self._window_ends, self._left = now + WINDOW_S, MAX_A_SECOND
        if self._left and not self._late:
            self._tell(method, params)
        elif method != LOG and len(params) <= MAX_LATE_BYTES and len(self._late) < MAX_LATE:
            self._late[method, bytes(params)] = None
            if self._entry is None:
                self._entry = self._timer.add(self._window_ends, self)

    def expire(self) -> None:
        """The second is over: tell what has waited for that."""
        self._entry = None
        self._window_ends, self._left = trio.current_time() + WINDOW_S, MAX_A_SECOND
        while self._late and self._left:
            method, params = change = next(iter(self._late))
            del self._late[change]
            self._tell(method, Raw(params))
        if self._late:
            self._entry = self._timer.add(self._window_ends, self)

    def close(self) -> None:
        """Tell nothing any more."""
        self._late.clear()
        if self._entry is not None:
            self._timer.drop(self._entry)
            self._entry = None

    def _tell(self, method: str, params: Raw) -> None:
        self._left -= 1
        # Its answers come first: what lies unread has no end otherwise.
        if not self._channel.is_behind and self._channel.crowding(len(params)) is None:
            self._machine.note(self._server, method, params)
            self._channel.flush()
