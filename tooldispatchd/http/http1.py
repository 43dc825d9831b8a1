"""One TCP connection that speaks HTTP/1.1, one exchange at a time; the protocol itself is h11's.

h11 and a socket instead of a whole client: a call costs a third of the CPU, and it is known what was sent when
something fails.
"""

import math
import re
import ssl
from typing import Final

import h11
import trio

from tooldispatchd.http.errors import ALERT, UnansweredError, WireError, meaning
from tooldispatchd.wire.lines import Text
from tooldispatchd.wire.version import VERSION

# The daemon's name in each request that has no other (RFC 9110, 10.1.5).
USER_AGENT: Final = ("User-Agent", f"tooldispatchd/{VERSION}")
# A request of the largest size on a slow line; a server that reads nothing for so long will not answer either.
WRITE_S: Final = 30.0
# Status line and headers, and each of the lines around chunks. Servers send 1 KiB; cookies and policies, 8. It is what
# Node's client takes, too.
MAX_HEADER_BYTES: Final = 16 * 1024
# h11 reads a head in one go, at 3 to 5 µs a header: a flood of them would hold others up. Servers send some dozens.
MAX_HEADER_LINES: Final = 1_000
_HEAD_END: Final = re.compile(rb"\r?\n\r?\n")
# 100 Continue and 103 Early Hints come once or twice.
MAX_INTERIM: Final = 16
_CHUNK_BYTES: Final = 64 * 1024
# So many events of one read are dealt with before others get their turn: at 6 µs each, half a millisecond. A read of
# one-byte chunks holds 10,000.
_EVENTS_IN_A_TURN: Final = 64
# h11 looks at the bound of a head only while that is not whole. What may hold thousands of headers is given to it in
# pieces: no sensible head has so many lines in one read, and in a body each costs 1 µs this way.
_DENSE_LINES: Final = 1024
_PIECE_BYTES: Final = 4 * 1024


class Socket(trio.abc.Stream):
    """A connected TCP socket; `sent` is how many bytes the kernel took.

    trio's own stream does not say that, and whether a request may be repeated hangs on it. Closed in another task, it
    is a broken resource: what is closed under an exchange is gone for it as if the server had closed it.
    """

    def __init__(self, connected: trio.socket.SocketType) -> None:
        self._socket = connected
        self.sent = 0

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        with memoryview(data) as view:
            done = 0
            try:
                while done < len(view):
                    with view[done:] as rest:
                        taken = await self._socket.send(rest)
                    done += taken
                    self.sent += taken
            except (OSError, trio.ClosedResourceError) as error:
                raise trio.BrokenResourceError(str(error)) from error

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.wait_writable(self._socket)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        try:
            return await self._socket.recv(max_bytes or _CHUNK_BYTES)
        except (OSError, trio.ClosedResourceError) as error:
            raise trio.BrokenResourceError(str(error)) from error

    def is_readable(self) -> bool:
        return self._socket.is_readable()

    def close(self) -> None:
        """Close it at once; closing it twice does nothing."""
        self._socket.close()

    async def aclose(self) -> None:
        self.close()
        await trio.lowlevel.checkpoint()


class Http1:
    """A connection to an origin or to a proxy. What fails closes it. An idle one is used up to `idle_until`."""

    def __init__(self, socket: Socket, stream: trio.abc.Stream) -> None:
        self._socket = socket
        self._stream = stream
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEADER_BYTES)
        # Whether the next exchange can be had here: nothing failed, nothing was closed, nothing was sent in part.
        self._is_sound = True
        self._in_turn = 0
        self._head_lines = 0
        self._is_at_end = False
        # What was read and is not h11's yet.
        self._unfed = memoryview(b"")
        self.idle_until = -math.inf

    async def ask(self, request: h11.Request, body: Text) -> h11.Response:
        """Send a request and read the answer's head. Raises `WireError`; the body is `receive`d."""
        before = self._socket.sent
        self._head_lines = 0
        try:
            try:
                await self._write(request, body)
            except trio.BrokenResourceError:
                if self._socket.sent == before:
                    raise UnansweredError("cannot write the request: the server closed the connection") from None
                # A server may refuse what it has only half read, and close; its answer lies here then.
                self._is_sound = False
            return await self._read_head()
        except BaseException:
            self.close()
            raise

    async def receive(self) -> bytes:
        """More of the body; nothing at its end. Raises `WireError`. May be cancelled and called again."""
        try:
            event = await self._next_event()
            # A chunk may be empty of data, and is not the end.
            while type(event) is h11.Data and not event.data:
                event = await self._next_event()
        except WireError:
            self.close()
            raise
        return bytes(event.data) if type(event) is h11.Data else b""

    def skip(self) -> bool:
        """Pass over what little of the body lies here already; whether that was all, as where there is no body."""
        if not self._is_sound:
            return False
        try:
            for _ in range(_EVENTS_IN_A_TURN):
                if type(self._h11.next_event()) is not h11.Data:
                    break
        except h11.RemoteProtocolError:
            return False
        return self._h11.their_state is h11.DONE

    def rewind(self) -> bool:
        """Make it ready for another exchange; whether it can have one. Where not, it is closed."""
        is_over = self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE
        # What comes after an answer belongs to no request.
        if self._is_sound and is_over and not self._unfed and not self._h11.trailing_data[0]:
            self._h11.start_next_cycle()
            return True
        self.close()
        return False

    def is_alive(self) -> bool:
        """Whether an idle connection is still open: one that has something to say unasked says that it closes."""
        return not self._socket.is_readable()

    def close(self) -> None:
        """Close the TCP connection at once. No TLS farewell is sent: HTTP's own framing says where a message ends."""
        self._is_sound = False
        self._socket.close()

    async def _write(self, request: h11.Request, body: Text) -> None:
        head = self._h11.send(request) or b""
        # Its length has been told, so that it goes out as it is.
        if body:
            self._h11.send_with_data_passthrough(h11.Data(data=body))  # type: ignore[arg-type]  # by h11, any buffer
        self._h11.send(h11.EndOfMessage())
        with trio.move_on_after(WRITE_S) as limit:
            # One segment where it fits; a large body is neither copied nor encrypted in one turn.
            if len(body) < _CHUNK_BYTES:
                await self._stream.send_all(head + body)
                return
            await self._stream.send_all(head)
            for start in range(0, len(body), _CHUNK_BYTES):
                await self._stream.send_all(body[start : start + _CHUNK_BYTES])
        if limit.cancelled_caught:
            raise WireError(f"the server did not read the request within {WRITE_S:.0f} s", was_sent=True)

    async def _read_head(self) -> h11.Response:
        for _ in range(MAX_INTERIM):
            event = await self._next_event()
            if type(event) is h11.Response:
                return event
            if type(event) is not h11.InformationalResponse:
                raise UnansweredError("the server closed the connection without an answer", was_sent=True)
        raise WireError(f"the server sent {MAX_INTERIM} interim answers and no answer", was_sent=True)

    async def _next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        self._in_turn += 1
        if self._in_turn >= _EVENTS_IN_A_TURN:
            self._in_turn = 0
            await trio.lowlevel.checkpoint()
        try:
            while (event := self._h11.next_event()) is h11.NEED_DATA:
                if self._unfed:
                    self._h11.receive_data(bytes(self._unfed[:_PIECE_BYTES]))
                    self._unfed = self._unfed[_PIECE_BYTES:]
                    continue
                chunk = bytes(await self._stream.receive_some(_CHUNK_BYTES))
                self._in_turn = 0
                self._count_head(chunk)
                if chunk.count(b"\n") > _DENSE_LINES:
                    self._unfed = memoryview(chunk)
                    continue
                if chunk.startswith(ALERT) and self._h11.their_state is h11.SEND_RESPONSE:
                    raise WireError("it answered in TLS: is it https?")
                self._is_at_end = not chunk
                if self._is_at_end and self._h11.their_state is h11.SEND_RESPONSE:
                    raise self._unanswered()
                self._h11.receive_data(chunk)
        except h11.RemoteProtocolError as error:
            if self._is_at_end:
                raise WireError("the server closed the connection within its answer", was_sent=True) from None
            # Without the bytes that h11 shows after a colon: a server for something else may echo the request, and our
            # credentials with it.
            named = str(error).partition(":")[0]
            raise WireError(f"the server's answer is not HTTP: {named}", was_sent=True) from None
        except trio.BrokenResourceError as error:
            if self._h11.their_state is h11.SEND_RESPONSE:
                # A server that wants a client certificate says so after the handshake.
                cause = error.__cause__
                said = f": {meaning(cause)}" if isinstance(cause, ssl.SSLError) and cause.reason else ""
                raise self._unanswered(said) from error
            raise WireError("the server broke the connection off within its answer", was_sent=True) from error
        return event

    def _count_head(self, chunk: bytes) -> None:
        """Raise `WireError` where an answer has more headers than any has."""
        if self._h11.their_state is h11.SEND_RESPONSE:
            self._head_lines += _HEAD_END.split(chunk, maxsplit=1)[0].count(b"\n")
            if self._head_lines > MAX_HEADER_LINES:
                raise WireError(f"its answer has more than {MAX_HEADER_LINES} headers", was_sent=True)

    def _unanswered(self, said: str = "") -> WireError:
        if self._h11.trailing_data[0]:
            return WireError("the server closed the connection within the headers of its answer", was_sent=True)
        error = UnansweredError(f"the server closed the connection without an answer{said}", was_sent=True)
        error.is_explained = bool(said)
        return error
