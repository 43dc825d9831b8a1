"""One stream of a server's events over as many responses as it takes.

A server that numbers its events lets a stream that broke go on from the last of them (WHATWG HTML, 9.2).
"""

import re
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from tooldispatchd.calls.memory import Holding, Share
from tooldispatchd.http.errors import WireError
from tooldispatchd.http.eventstream import EventStream, EventTooLargeError, ServerSentEvent
from tooldispatchd.http.reply import HttpReply
from tooldispatchd.providers.mcp.link import NO_ROOM

# Between two tries where the server does not say; and the most that it may say.
RETRY_S: Final = 1.0
MAX_RETRY_S: Final = 30.0
# It is sent back in a header. Visible ASCII and blanks cannot break one; other ids count as none.
_ID: Final = re.compile(r"[\x20-\x7e]{1,1024}")
# Events and pieces of the body between two turns of the loop for others: thousands of small ones fit into one read.
STEPS_PER_TURN: Final = 64
# After more lines than that what was read is looked at in pieces, with a turn for others after each. A line takes a
# microsecond and has one byte at least; where it ends no event, nothing else gives others a turn.
DENSE_LINES: Final = 512
PIECE_BYTES: Final = 1024

Take = Callable[[ServerSentEvent], Awaitable[bool]]


class ServerStream:
    """One stream. `events` counts those that held a message or moved `last_id`."""

    __slots__ = ("_max_event_bytes", "_retry_ms", "_share", "_steps", "events", "last_id")

    def __init__(self, max_event_bytes: int, share: Share) -> None:
        self._share = share
        self.last_id = ""
        self.events = 0
        self._max_event_bytes = max_event_bytes
        self._retry_ms: int | None = None
        self._steps = 0

    @property
    def retry_s(self) -> float:
        return RETRY_S if self._retry_ms is None else min(self._retry_ms / 1000, MAX_RETRY_S)

    async def follow(self, reply: HttpReply, take: Take) -> bool:
        """Give each event of a response to `take` until it returns true; whether it did before the response ended.

        Raises `WireError`: the response broke, or an event was over the bound, or there is no room for more of it.
        """
        parser = EventStream(self._max_event_bytes)
        half = Holding(self._share)
        lines = 0
        try:
            while chunk := await reply.receive():
                lines += chunk.count(b"\n") + chunk.count(b"\r")
                is_turn_over = lines > DENSE_LINES
                piece_bytes = PIECE_BYTES if is_turn_over else len(chunk)
                for start in range(0, len(chunk), piece_bytes):
                    if await self._feed(parser, chunk[start : start + piece_bytes], take):
                        return True
                    if is_turn_over:
                        lines = 0
                        await trio.lowlevel.checkpoint()
                # Only now: an event was held until it had been dealt with.
                if not half.resize(parser.held):
                    raise no_room(self._share)
        finally:
            half.resize(0)
        return False

    async def take_whole(self, body: bytes, take: Take) -> bool:
        """Take the events of a response that has been read, as `follow` does."""
        return await self._feed(EventStream(self._max_event_bytes), body, take)

    async def _feed(self, parser: EventStream, chunk: bytes, take: Take) -> bool:
        overrun = None
        try:
            events = parser.feed(chunk)
        except EventTooLargeError as error:
            events, overrun = error.before, error
        for event in events:
            if event.retry_ms is not None:
                self._retry_ms = event.retry_ms
            has_moved = False
            if event.id is not None:
                new_id = event.id if _ID.fullmatch(event.id) else ""
                has_moved = new_id not in {"", self.last_id}
                self.last_id = new_id
            self.events += bool(event.data) or has_moved
            try:
                is_last = await take(event)
            finally:
                self._share.let_go(event.data)
            if is_last:
                return True
            self._steps += 1
            if self._steps % STEPS_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
        if overrun is not None:
            raise overrun
        return False


def no_room(share: Share) -> WireError:
    """The error for a response for which `share` has no more room."""
    return WireError(NO_ROOM, was_sent=True, is_too_large=True, extras=share.fault.extras)


def is_message(event: ServerSentEvent) -> bool:
    """Whether the event holds a message; one without data only tells its number (MCP 2025-11-25, "polling")."""
    return bool(event.data) and event.event in {"", "message"}
