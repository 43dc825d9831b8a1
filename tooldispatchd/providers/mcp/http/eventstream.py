"""Server-sent events: the decoder of `text/event-stream`, and one stream over as many responses as it takes.

A server that numbers its events lets a stream that broke go on from the last of them (WHATWG HTML, 9.2). The decoder is
our own because others work on text: every byte would be decoded, encoded again to be counted and once more to be parsed
as JSON. Here data stay bytes, and each of them is looked at once.
"""

import codecs
import re
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import trio

from tooldispatchd.calls.memory import Holding, Share
from tooldispatchd.providers.mcp.http.errors import WireError
from tooldispatchd.providers.mcp.http.reply import HttpReply
from tooldispatchd.providers.mcp.link import NO_ROOM

# Beyond it a reconnection time says "never"; a connection asks earlier than that.
MAX_RETRY_MS: Final = 86_400_000
_MAX_RETRY_DIGITS: Final = 8


class ServerSentEvent(NamedTuple):
    """One event: its type (`message` where it names none), and its lines of data joined by newlines.

    `id` is the last one that the stream gave, None where it gave none and "" where it took it back; `retry_ms` is only
    what this event says.
    """

    event: str
    data: bytes
    id: str | None
    retry_ms: int | None


class EventTooLargeError(WireError):
    """An event is over the bound; `before` are the events that the same chunk completed."""

    def __init__(self, max_event_bytes: int, before: list[ServerSentEvent]) -> None:
        super().__init__(f"an event of its stream is over {max_event_bytes} bytes", was_sent=True, is_too_large=True)
        self.before = before


class EventStream:
    """The decoder of one stream, which begins with its first byte. What it holds is bounded by `max_event_bytes`.

    Unlike in a browser, an event without data is an event if it gives an id or a time to reconnect: MCP servers prime a
    stream with one.
    """

    def __init__(self, max_event_bytes: int) -> None:
        self._max_bytes = max_event_bytes
        # The beginning of the stream while it may be a byte order mark; None once that is known.
        self._head: bytes | None = b""
        self._partial = bytearray()
        self._ended_in_cr = False
        self._size = 0
        self._event = ""
        # Beyond the first line one array, and not a list of them: a line of one byte would take forty.
        self._data: bytes | bytearray | None = None
        self._id: str | None = None
        self._retry_ms: int | None = None
        self._is_pending = False

    @property
    def held(self) -> int:
        """The number of bytes held of an event whose end has not come."""
        return self._size + len(self._partial)

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """The events that this chunk completes. Raises `EventTooLargeError`, after which it must not be fed."""
        if self._head is not None:
            chunk = self._head + chunk
            if len(chunk) < len(codecs.BOM_UTF8) and codecs.BOM_UTF8.startswith(chunk):
                self._head = chunk
                return []
            self._head = None
            chunk = chunk.removeprefix(codecs.BOM_UTF8)
        if self._ended_in_cr and chunk:
            # CR and LF are one end of a line, also where a chunk ends between them.
            chunk = chunk.removeprefix(b"\n")
            self._ended_in_cr = False
        events: list[ServerSentEvent] = []
        if not chunk:
            return events
        # For bytes, unlike for str, these are exactly the three ends of a line that the standard knows.
        lines = chunk.splitlines()
        last = b"" if chunk[-1] in b"\r\n" else lines.pop()
        self._ended_in_cr = chunk[-1:] == b"\r"
        for line in lines:
            if self._partial:
                self._partial += line
                line = bytes(self._partial)  # noqa: PLW2901 - it is this line, now whole
                self._partial.clear()
            self._take_line(line, events)
        self._partial += last
        if self._size + len(self._partial) > self._max_bytes:
            raise EventTooLargeError(self._max_bytes, events)
        return events

    def _take_line(self, line: bytes, events: list[ServerSentEvent]) -> None:
        if not line:
            if self._is_pending:
                data = bytes(self._data) if self._data is not None else b""
                events.append(ServerSentEvent(self._event or "message", data, self._id, self._retry_ms))
            self._event = ""
            self._data = None
            self._retry_ms = None
            self._size = 0
            self._is_pending = False
            return
        colon = line.find(b":")
        if colon == 0:
            return  # a comment: servers keep idle streams alive with them
        self._size += len(line)
        if self._size > self._max_bytes:
            raise EventTooLargeError(self._max_bytes, events)
        if colon < 0:
            self._take_field(line, b"")
            return
        # Copied once, also where it is most of 50 MiB.
        self._take_field(line[:colon], line[colon + (2 if line[colon + 1 : colon + 2] == b" " else 1) :])

    def _take_field(self, name: bytes, value: bytes) -> None:
        if name == b"data":
            if self._data is None:
                self._data = value
            else:
                if isinstance(self._data, bytes):
                    self._data = bytearray(self._data)
                self._data += b"\n"
                self._data += value
            self._is_pending = True
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
            self._is_pending = True
        elif name == b"retry" and value.isdigit():
            # The digits are cut before they are read: Python refuses to read thousands of them.
            digits = value.lstrip(b"0")
            self._retry_ms = (
                min(int(digits or b"0"), MAX_RETRY_MS) if len(digits) <= _MAX_RETRY_DIGITS else MAX_RETRY_MS
            )
            self._is_pending = True


# Between two tries where the server does not say; and the most that it may say.
RETRY_S: Final = 1.0
MAX_RETRY_S: Final = 30.0
# It is sent back in a header. Visible ASCII and blanks cannot break one; other ids count as none.
_ID: Final = re.compile(r"[\x20-\x7e]{1,1024}")
# Events and pieces of the body between two turns of the loop for others: thousands of small ones fit into one read.
STEPS_PER_TURN: Final = 256
# Where a read has more lines than that, it is looked at in pieces, with a turn for others after each. A line takes a
# microsecond and has one byte at least.
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
        try:
            while chunk := await reply.receive():
                if chunk.count(b"\n") + chunk.count(b"\r") <= DENSE_LINES:
                    if await self._feed(parser, chunk, take):
                        return True
                    # Only now: an event was held until it had been dealt with.
                    if not half.resize(parser.held):
                        raise no_room(self._share)
                    continue
                for start in range(0, len(chunk), PIECE_BYTES):
                    if await self._feed(parser, chunk[start : start + PIECE_BYTES], take):
                        return True
                    await trio.lowlevel.checkpoint()
        finally:
            half.resize(0)
        return False

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
            if await take(event):
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
