"""Server-sent events: the decoder of `text/event-stream` (WHATWG HTML, 9.2); no I/O.

It is our own because others work on text: every byte would be decoded, encoded again to be counted and once more to be
parsed as JSON. Here data stay bytes, and each of them is looked at once.
"""

import codecs
from typing import Final, NamedTuple

from tooldispatchd.http.errors import WireError

# Beyond it a reconnection time says "never"; a connection asks earlier than that.
MAX_RETRY_MS: Final = 86_400_000
_MAX_RETRY_DIGITS: Final = 8
# No field that means something has a longer name.
_MAX_NAME_BYTES: Final = len(b"event")
# As much of a type, an id or a time is looked at: nobody takes a longer one, and one of 60 MB would hold the loop.
_MAX_WORD_BYTES: Final = 8 * 1024


class ServerSentEvent(NamedTuple):
    """One event: its type (`message` where it names none), and its lines of data joined by newlines.

    `id` is the last one that the stream gave, None where it gave none and "" where it took it back; `retry_ms` is only
    what this event says.
    """

    event: str
    data: bytes | bytearray
    id: str | None
    retry_ms: int | None


class EventTooLargeError(WireError):
    """An event is over the bound; `before` are the events that the same chunk completed."""

    def __init__(self, max_event_bytes: int, before: list[ServerSentEvent]) -> None:
        super().__init__(f"an event of its stream is over {max_event_bytes} bytes", was_sent=True, is_too_large=True)
        self.before = before


class EventStream:
    """The decoder of one stream, which begins with its first byte. What it holds is bounded by `max_event_bytes`.

    Unlike in a browser, an event without data is an event if it gives an id or a time to reconnect: some servers begin
    a stream with one.
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
                whole, self._partial = self._partial, bytearray()
                whole += line
                self._take_line(whole, events)
            else:
                self._take_line(line, events)
        self._partial += last
        if self._size + len(self._partial) > self._max_bytes:
            raise EventTooLargeError(self._max_bytes, events)
        return events

    def _take_line(self, line: bytes | bytearray, events: list[ServerSentEvent]) -> None:
        if not line:
            if self._is_pending:
                events.append(ServerSentEvent(self._event or "message", self._data or b"", self._id, self._retry_ms))
            self._event = ""
            self._data = None
            self._retry_ms = None
            self._size = 0
            self._is_pending = False
            return
        # Not behind the longest name: a line may be 50 MiB, and with a longer name it means nothing as a whole.
        colon = line.find(b":", 0, _MAX_NAME_BYTES + 1)
        if colon == 0:
            return  # a comment: servers keep idle streams alive with them
        self._size += len(line)
        if self._size > self._max_bytes:
            raise EventTooLargeError(self._max_bytes, events)
        if colon < 0:
            self._take_field(line, b"")
            return
        name, begin = bytes(line[:colon]), colon + (2 if line[colon + 1 : colon + 2] == b" " else 1)
        if isinstance(line, bytes):
            self._take_field(name, line[begin:])
            return
        # Of a bytearray the beginning is cut off without a copy: it may be 50 MiB.
        del line[:begin]
        self._take_field(name, line)

    def _take_field(self, name: bytes | bytearray, value: bytes | bytearray) -> None:
        if name == b"data":
            if self._data is None:
                self._data = value
            else:
                if isinstance(self._data, bytes):
                    self._data = bytearray(self._data)
                self._data += b"\n"
                self._data += value
            self._is_pending = True
            return
        value = value[:_MAX_WORD_BYTES]
        if name == b"event":
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
