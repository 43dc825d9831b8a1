"""One TCP connection of a client: HTTP/1.1 as h11 has it, each step within its time.

    idle ─▶ head ─▶ (body) ─▶ answer, whole or as a stream of events ─▶ idle, or closed

While an answer is on its way the client's side is read too, so that its end is seen at once; what it sends ahead is
kept, within a bound. h11 gets few bytes at a time, and others have their turns between.
"""

import math
from contextlib import suppress
from email.utils import formatdate
from functools import lru_cache
from time import time
from typing import Final, NoReturn

import h11
import trio

from tooldispatchd.mcpface.web.budget import ByteBudget
from tooldispatchd.mcpface.web.guard import Head, Headers, RefusalError
from tooldispatchd.mcpface.web.peers import Endpoint, find_uid

# What Node's servers take, and twice what clients send with the longest token.
MAX_HEAD_BYTES: Final = 16 * 1024
# Each costs h11 some ten microseconds. Browsers and proxies together send some thirty.
MAX_HEAD_LINES: Final = 100
# A head is one packet or a few; one that takes longer is held back.
HEAD_S: Final = 10.0
# Between requests: longer than a model's turn, mostly, and clients that come later connect anew.
IDLE_S: Final = 75.0
# The longest line on a slow line, and the longest silence within it.
BODY_S: Final = 120.0
BODY_SILENCE_S: Final = 15.0
# A client that reads nothing for so long is gone, or does no good.
WRITE_S: Final = 30.0
CHUNK_BYTES: Final = 64 * 1024
# What h11 is given at once: hundreds of the smallest chunks, in some milliseconds.
PIECE_BYTES: Final = 2 * 1024
# A body may come in so many pieces, and one more for each 64 bytes: smaller ones cost more than they bring.
MAX_PIECES: Final = 1024
# Requests that are sent ahead: none needs to be, and a client that sends more is not read until it is answered.
AHEAD_BYTES: Final = 64 * 1024
# What a client may still say that has been refused: it has time to see the answer, and is not read for long.
PART_S: Final = 2.0
PART_READS: Final = 256
_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding"})


class ConnectionEndError(Exception):
    """The connection is of no more use; whoever catches this closes it."""


class ClientConnection:
    """See the module. `address` is the client's, "" on a Unix socket; `ends` are its endpoint and ours over TCP."""

    def __init__(self, stream: trio.abc.Stream, address: str, ends: tuple[Endpoint, Endpoint] | None = None) -> None:
        self.address = address
        self._ends = ends
        self._uid: int | None = None
        self.since = trio.current_time()
        # While a request that was admitted is served; the others make room first.
        self.is_serving = False
        # A client that has connected is owed an answer, should the listening end just then.
        self.has_served = False
        self.is_ending = False
        self._is_head = False
        self._stream = stream
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        # What came and h11 was not given yet.
        self._unread = memoryview(b"")

    async def peer_uid(self) -> int | None:
        """Find the user of a client on loopback, once; None where that is not known."""
        if self._ends is not None:
            ends, self._ends = self._ends, None
            self._uid = await trio.to_thread.run_sync(find_uid, *ends)
        return self._uid

    # --- requests ---

    async def next_head(self) -> Head | None:
        """The next request's head; None where there is none. Raises `RefusalError` for what is not HTTP."""
        limit_s = HEAD_S
        if self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE:
            self._h11.start_next_cycle()
            limit_s = IDLE_S
        elif self._h11.our_state is not h11.IDLE:
            return None
        with trio.move_on_after(limit_s):
            event = await self._next_event(MAX_HEAD_LINES)
            if not isinstance(event, h11.Request):
                return None
            self._is_head = event.method == b"HEAD"
            head = Head(event.method.decode("ascii"), event.target.decode("ascii"), tuple(event.headers))
            framing = [(name, value) for name, value in event.headers if name in _FRAMING]
            if len(framing) > 1:
                # RFC 9112, 6.1: what smuggles requests past a proxy has both.
                raise RefusalError(400, event="request refused")
            if framing in ([], [(b"content-length", b"0")]):
                # So that the connection can be used again whatever is answered.
                await self._next_event()
            return head
        return None

    async def body(self, limit: int, budget: ByteBudget, owner: str) -> bytes:
        """The request's body; raises `RefusalError` where it is too long, too slow, or there is no room."""
        gathered, pieces = bytearray(), 0
        if self._h11.their_state is not h11.SEND_BODY:
            return b""
        try:
            with trio.fail_after(BODY_S):
                while True:
                    with trio.fail_after(BODY_SILENCE_S):
                        if self._h11.they_are_waiting_for_100_continue:
                            await self._send(h11.InformationalResponse(status_code=100, headers=[]))
                        event = await self._next_event()
                    if not isinstance(event, h11.Data):
                        return bytes(gathered)
                    pieces += 1
                    if pieces > MAX_PIECES + len(gathered) // 64:
                        raise RefusalError(400, event="request refused")
                    if len(gathered) + len(event.data) > limit:
                        raise RefusalError(413)
                    if budget.is_full(owner):
                        raise RefusalError(503, [("Retry-After", "5")], event="too many bytes")
                    gathered += event.data
                    budget.change(owner, len(event.data))
        except trio.TooSlowError:
            raise RefusalError(408) from None
        finally:
            budget.change(owner, -len(gathered))

    async def gone(self) -> NoReturn:
        """Raise `ConnectionEndError` when the client has closed the connection."""
        while len(self._unread) <= AHEAD_BYTES:
            chunk = await self._receive()
            if not chunk:
                raise ConnectionEndError
            self._unread = memoryview(bytes(self._unread) + chunk)
        await trio.sleep_forever()

    # --- answers ---

    @property
    def can_answer(self) -> bool:
        """Whether no answer has begun."""
        return self._h11.our_state in {h11.IDLE, h11.SEND_RESPONSE}

    async def answer(self, status: int, headers: Headers, body: bytes = b"") -> None:
        """A whole answer. Raises `ConnectionEndError`."""
        length = [] if status == 204 else [("Content-Length", str(len(body)))]
        data = self._encoded(h11.Response(status_code=status, headers=self._headers([*headers, *length])))
        for start in range(0, 0 if self._is_head else len(body), CHUNK_BYTES):
            if start:
                await self._write(data)
                data = b""
            data += self._encoded(h11.Data(data=body[start : start + CHUNK_BYTES]))
        await self._write(data + self._encoded(h11.EndOfMessage()))

    async def begin(self, headers: Headers) -> None:
        """Begin a stream of events."""
        events = [("Content-Type", "text/event-stream"), ("Cache-Control", "no-store"), ("X-Accel-Buffering", "no")]
        await self._send(h11.Response(status_code=200, headers=self._headers([*headers, *events])))

    async def more(self, data: bytes) -> None:
        """Go on with the stream."""
        for start in range(0, len(data), CHUNK_BYTES):
            await self._send(h11.Data(data=data[start : start + CHUNK_BYTES]))

    async def finish(self) -> None:
        """End the stream."""
        await self._send(h11.EndOfMessage())

    async def part(self) -> None:
        """Let the client read the last answer: with bytes of its own unread, the kernel would take that back."""
        with trio.move_on_after(PART_S), suppress(ConnectionEndError, trio.BrokenResourceError):
            if isinstance(self._stream, trio.SocketStream):
                await self._stream.send_eof()
            for _ in range(PART_READS):
                if not await self._receive():
                    return

    async def close(self) -> None:
        """Close it at once; HTTP's own framing says where a message ends. Idempotent."""
        await trio.aclose_forcefully(self._stream)

    def _headers(self, headers: Headers) -> Headers:
        # A body that was not read would be taken for the next request.
        must_end = self.is_ending or self._h11.their_state in {h11.SEND_BODY, h11.ERROR, h11.MUST_CLOSE}
        return [("Date", _date(int(time()))), *headers, *([("Connection", "close")] if must_end else [])]

    # --- bytes ---

    async def _next_event(self, max_lines: float = math.inf) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """The next event, for which at most so many lines are read. Raises `RefusalError`."""
        lines = 0
        try:
            while (event := self._h11.next_event()) is h11.NEED_DATA:
                piece = await self._next_piece()
                # Of a body that has come with its head the lines are nobody's matter.
                lines += piece.partition(b"\r\n\r\n")[0].count(b"\n")
                if lines > max_lines:
                    raise RefusalError(431, event="request refused")
                self._h11.receive_data(piece)
        except h11.RemoteProtocolError as error:
            # 431 for a head that is too long; the rest is 400.
            raise RefusalError(error.error_status_hint, event="request refused") from None
        except RuntimeError:
            # After its end there is no more.
            raise ConnectionEndError from None
        return event

    async def _next_piece(self) -> bytes:
        if self._unread:
            await trio.lowlevel.checkpoint()
        else:
            self._unread = memoryview(await self._receive())
        piece, self._unread = bytes(self._unread[:PIECE_BYTES]), self._unread[PIECE_BYTES:]
        return piece

    async def _receive(self) -> bytes:
        try:
            return bytes(await self._stream.receive_some(CHUNK_BYTES))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise ConnectionEndError from None

    def _encoded(self, event: h11.Event) -> bytes:
        try:
            return self._h11.send(event) or b""
        except h11.LocalProtocolError:
            raise ConnectionEndError from None

    async def _send(self, event: h11.Event) -> None:
        await self._write(self._encoded(event))

    async def _write(self, data: bytes) -> None:
        if not data:
            return
        try:
            with trio.fail_after(WRITE_S):
                await self._stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
            raise ConnectionEndError from None


@lru_cache(1)
def _date(second: int) -> str:
    """A time as HTTP writes it; each answer of a second has the same."""
    return formatdate(second, usegmt=True)
