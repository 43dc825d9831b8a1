"""MCP over WebSocket (RFC 6455), a wing of one module: a JSON message in each text frame, both ways.

    open ── TCP, TLS, upgrade ──▶ reader ─▶ Inbox            the other side's close is the link's end
                                  send ─▶ queue ─▶ writer    there is one only while something is queued

The subprotocol is `mcp`, the protocol itself wsproto's. The connection goes to the URL's own origin and is never led
elsewhere. `http` opens it.
"""

import functools
import ssl
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Hashable, Iterator
from typing import Final

import h11
import trio
from msgspec import Raw
from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    RejectConnection,
    Request,
    TextMessage,
)
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from tooldispatchd.calls.memory import Holding
from tooldispatchd.http.errors import ALERT, WireError, meaning, question, status_words
from tooldispatchd.http.http1 import USER_AGENT, Socket
from tooldispatchd.http.network import files_of, open_connection, proxy_for
from tooldispatchd.http.places import HttpTarget, place
from tooldispatchd.http.reach import Reach
from tooldispatchd.providers.mcp.http.tasks import TaskLink
from tooldispatchd.providers.mcp.link import MAX_NOTICES, MAX_QUEUED_BYTES, NO_ROOM, Inbox, Link, LinkError, origin_of
from tooldispatchd.providers.mcp.messages import Outgoing, peek_number
from tooldispatchd.providers.mcp.server import Server, too_large
from tooldispatchd.wire.lines import HEAD_BYTES

SUBPROTOCOL: Final = "mcp"
# Frames may have two bytes, and each takes some ten microseconds.
CHUNK_BYTES: Final = 16 * 1024
# An answer's head is read in one go, at 3 µs a header, and its bound only looked at while it is not whole.
UPGRADE_CHUNK_BYTES: Final = 4 * 1024
# What is framed and written at once; more would be copied for nothing when the server stalls.
MAX_WRITE_BYTES: Final = 128 * 1024
# A request of the largest size on a slow line; a server that reads nothing for so long will not answer either.
WRITE_S: Final = 30.0
UPGRADE_S: Final = 10.0
# Frames between two turns of the loop for others: thousands of small ones fit into one read. One that asks takes 50 us.
EVENTS_PER_TURN: Final = 64
TASKS_S: Final = 1.0
FAREWELL_S: Final = 2.0
CLOSE_S: Final = TASKS_S + FAREWELL_S
# Cancellations that are still sent when the connection ends: of the call that ended it, mostly.
CANCELLED: Final = "notifications/cancelled"
MAX_LAST: Final = 16
# wsproto writes these by itself, and twice they would be another request.
_OWN_HEADERS: Final = frozenset({"host", "connection", "upgrade"})
_OWN_PREFIX: Final = "sec-websocket-"


class WebSocketWay:
    """The way to a server behind a ws(s) URL, of which each link is a connection of its own."""

    needs_tasks = True
    is_http = False
    may_probe = True
    close_s = CLOSE_S

    def __init__(self, server: Server, reach: Reach) -> None:
        self.origin: Hashable = origin_of(reach.url)
        self._server = server

    def link(self, inbox: Inbox, nursery: trio.Nursery | None) -> Link:
        assert nursery is not None
        return WebSocketLink(self._server, inbox, nursery)

    def older(self) -> None:
        return


class WebSocketLink(TaskLink):
    """One WebSocket connection to a server."""

    def __init__(
        self,
        server: Server,
        inbox: Inbox,
        nursery: trio.Nursery,
        *,
        upgrade_s: float = UPGRADE_S,
        write_s: float = WRITE_S,
    ) -> None:
        super().__init__(server, inbox, nursery)
        self._upgrade_s = upgrade_s
        self._write_s = write_s
        self._connection = WSConnection(ConnectionType.CLIENT)
        self._stream: trio.abc.Stream | None = None
        self._socket: Socket | None = None
        self._messages: deque[Outgoing] = deque()
        self._queued = 0
        # Those of the messages that no agent has asked for.
        self._notices = 0
        self._pong: Event | None = None
        self._is_writing = False
        # Whether a frame may have been cut short, after which no other can follow.
        self._is_broken = False
        # Of the message that is being written.
        self._parts: Iterator[TextMessage] | None = None
        self._close_code: int | None = None
        self._assembly = _Assembly(server.max_line_bytes)
        self._half = Holding(inbox.share)
        self._waiting = Holding(inbox.share)

    async def open(self) -> None:
        """Connect and upgrade. Raises `LinkError`."""
        if self._reach.oauth is not None:
            raise LinkError("OAuth is for http(s) URLs only; a WebSocket server takes a token or headers")
        try:
            # The scheme whose default port and TLS are the same: ws is http's, and wss https's.
            scheme, colon, rest = self._reach.url.partition(":")
            where = place({"ws": "http", "wss": "https"}.get(scheme.lower(), scheme) + colon + rest)
            proxy = proxy_for(where.origin)
            if proxy is not None and where.origin.scheme == "http":
                raise LinkError(f"cannot go through the proxy {proxy.origin} with ws://: only wss:// is tunnelled")
            self._socket, self._stream = await open_connection(
                where.origin, files=files_of(self._reach), proxy=proxy, must_be_public=False
            )
            with trio.move_on_after(self._upgrade_s) as limit:
                await self._upgrade(self._stream, where)
        except WireError as error:
            raise LinkError(error.why, error.extras) from error
        except trio.BrokenResourceError as error:
            # What TLS says about the end, or else what may be wrong.
            cause = error.__cause__
            said = meaning(cause) if isinstance(cause, ssl.SSLError) else ""
            doubt = f": {said}" if said else question(self._reach)
            raise LinkError(f"it broke the connection off instead of upgrading it{doubt}") from error
        except (RemoteProtocolError, UnicodeDecodeError):
            # wsproto reads headers as ASCII, whatever is in them; and it quotes what it does not like.
            raise LinkError("its answer to the upgrade request is not WebSocket's") from None
        except (LocalProtocolError, h11.LocalProtocolError, UnicodeEncodeError):
            # Its text may quote a header.
            raise LinkError("cannot write the upgrade request: a header of it is not HTTP") from None
        if limit.cancelled_caught:
            raise LinkError(f"it did not answer the upgrade request within {self._upgrade_s:g} s")
        self._tasks.start(functools.partial(self._read, self._stream))

    async def greeted(self) -> None:
        """Everything goes over the one connection."""

    def send(self, message: Outgoing) -> None:
        if self._tasks.is_over:
            return
        self._messages.append(message)
        self._queued += len(message.line)
        self._notices += _is_notice(message)

    def flush(self) -> bool:
        if self._stream is not None and not self._is_writing and (self._messages or self._pong is not None):
            self._is_writing = True
            self._tasks.start(functools.partial(self._write, self._stream))
        is_within = self._queued <= MAX_QUEUED_BYTES and self._notices <= MAX_NOTICES
        return is_within and (self._queued == self._waiting.held or self._waiting.resize(self._queued))

    def give_up(self, number: int) -> bool:  # noqa: ARG002  # one connection carries all requests
        """Nothing here belongs to one request alone."""
        return False

    def drop(self) -> None:
        """Forget what is queued, but for cancellations, and neither read nor write any more."""
        cancelled = [message for message in self._messages if message.method == CANCELLED]
        self._messages = deque(cancelled[-MAX_LAST:])
        self._queued = self._notices = 0
        self._waiting.resize(0)
        self._pong = None
        self._tasks.cancel()

    async def close(self) -> None:
        """Take leave, if the other side still listens, and close the connection."""
        self.drop()
        with trio.move_on_after(TASKS_S, shield=True):
            await self._tasks.ended()
        self._half.resize(0)
        stream, self._stream = self._stream, None
        if stream is not None and not self._is_broken:
            with trio.move_on_after(FAREWELL_S, shield=True):
                await self._take_leave(stream)
        if self._socket is not None:
            # No TLS farewell: the close frames have said where the stream ends.
            self._socket.close()

    @property
    def ended(self) -> dict[str, object]:
        """The status with which the server closed the connection, if it did (RFC 6455, 7.4)."""
        return {"close_code": self._close_code}

    # --- opening -----------------------------------------------------------------------------------------------------

    async def _upgrade(self, stream: trio.abc.Stream, where: HttpTarget) -> None:
        connection = self._connection
        lines = [
            (name, value)
            for name, value in self._reach.headers
            if name.lower() not in _OWN_HEADERS and not name.lower().startswith(_OWN_PREFIX)
        ]
        if not any(name.lower() == "user-agent" for name, _ in lines):
            lines.append(USER_AGENT)
        headers = [(name.encode("ascii"), value.encode("ascii")) for name, value in lines]
        request = Request(
            host=where.origin.authority, target=where.target, subprotocols=[SUBPROTOCOL], extra_headers=headers
        )
        await stream.send_all(connection.send(request))
        while True:
            chunk = await stream.receive_some(UPGRADE_CHUNK_BYTES)
            if not chunk:
                raise trio.BrokenResourceError
            if chunk.startswith(ALERT):
                raise LinkError("it answered in TLS: is it wss?")
            connection.receive_data(bytes(chunk))
            for event in connection.events():
                if isinstance(event, AcceptConnection):
                    return
                if isinstance(event, RejectConnection):
                    raise LinkError(status_words(event.status_code, self._reach), {"http_status": event.status_code})

    # --- reading -----------------------------------------------------------------------------------------------------

    async def _read(self, stream: trio.abc.Stream) -> None:
        why = "it closed its connection"
        try:
            # What followed the upgrade's answer in the same segment lies there already.
            while await self._take_events():
                chunk = await stream.receive_some(CHUNK_BYTES)
                if not chunk:
                    self._is_broken = True
                    break
                self._connection.receive_data(bytes(chunk))
        except trio.BrokenResourceError:
            self._is_broken = True
            why = "it broke its connection off"
        if self._close_code not in {None, 1000, 1001}:
            why = f"it closed its connection with status {self._close_code}"
        self._bell.lose(why)

    async def _take_events(self) -> bool:
        """Deal with what came in; false once the server has closed the connection."""
        for count, event in enumerate(self._connection.events(), 1):
            if isinstance(event, Ping):
                # Only the newest counts (RFC 6455, 5.5.3): a flood of them makes no queue.
                self._pong = event.response()
                self.flush()
            elif isinstance(event, CloseConnection):
                # Also what wsproto makes of bytes that are no frames.
                self._close_code = event.code
                return False
            elif isinstance(event, TextMessage | BytesMessage):
                part = event.data.encode() if isinstance(event.data, str) else bytes(event.data)
                if not self._assembly.add(part):
                    number = peek_number(self._assembly.head)
                    if number is not None:
                        self._inbox.fail(number, too_large(self._server))
                if event.message_finished:
                    await self._take(self._assembly.finish())
                if not self._half.resize(self._assembly.held):
                    self._bell.lose(NO_ROOM, self._inbox.share.fault.extras)
                    return False
            if count % EVENTS_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
        return True

    async def _take(self, message: bytearray | None) -> None:
        """Deal with a whole message; None is one that was too long."""
        if message is not None:
            try:
                await self._inbox.take(Raw(message))
            finally:
                self._inbox.share.let_go(message)

    # --- writing -----------------------------------------------------------------------------------------------------

    async def _write(self, stream: trio.abc.Stream) -> None:
        """Write until nothing is queued."""
        with trio.move_on_after(self._write_s) as limit:
            while True:
                # A task that is ended before it has written anything must leave the queue as it is.
                await trio.lowlevel.checkpoint_if_cancelled()
                frames = self._next_frames()
                if not frames:
                    self._waiting.resize(0)
                    self._is_writing = False
                    return
                limit.deadline = trio.current_time() + self._write_s
                self._is_broken = True
                try:
                    await stream.send_all(frames)
                except trio.BrokenResourceError:
                    # The reader finds out too, and why.
                    return
                self._is_broken = self._parts is not None
        if limit.cancelled_caught:
            self._bell.lose(f"it did not read its input for {self._write_s:g} s")

    def _next_frames(self) -> bytes:
        frames = []
        size = 0
        if self._connection.state is not ConnectionState.OPEN:
            return b""
        if self._pong is not None:
            frames.append(self._connection.send(self._pong))
            self._pong = None
        while size < MAX_WRITE_BYTES:
            if self._parts is None:
                if not self._messages:
                    break
                message = self._messages.popleft()
                self._queued -= len(message.line)
                self._notices -= _is_notice(message)
                self._parts = _parts_of(message.body)
            part = next(self._parts)
            if part.message_finished:
                self._parts = None
            size += len(part.data)
            frames.append(self._connection.send(part))
        return b"".join(frames)

    async def _take_leave(self, stream: trio.abc.Stream) -> None:
        """The closing handshake (RFC 6455, 7.1.2): our close frame, and the wait for theirs, if it has not come yet."""
        connection = self._connection
        if connection.state not in {ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING}:
            return
        try:
            await stream.send_all(self._next_frames() + connection.send(CloseConnection(code=1000)))
            # Theirs came first where the reader has seen it.
            while self._close_code is None:
                chunk = await stream.receive_some(CHUNK_BYTES)
                if not chunk:
                    return
                connection.receive_data(bytes(chunk))
                for count, event in enumerate(connection.events(), 1):
                    if isinstance(event, CloseConnection):
                        return
                    if count % EVENTS_PER_TURN == 0:
                        await trio.lowlevel.checkpoint()
        except trio.BrokenResourceError:
            # It has gone already.
            return


def _parts_of(body: memoryview) -> Iterator[TextMessage]:
    """A message in fragments: masking takes 10 ms for each MiB."""
    decode = getincrementaldecoder("utf-8")().decode
    for start in range(0, len(body), MAX_WRITE_BYTES):
        is_last = start + MAX_WRITE_BYTES >= len(body)
        yield TextMessage(decode(body[start : start + MAX_WRITE_BYTES], is_last), message_finished=is_last)


class _Assembly:
    """The parts of one message; `head` is its beginning, for one that is too long."""

    __slots__ = ("_max_bytes", "_parts", "_size", "head")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        # One array and not a list: a frame may hold a single byte, which in a list takes forty.
        self._parts = bytearray()
        self._size = 0
        self.head = b""

    @property
    def held(self) -> int:
        return len(self._parts)

    def add(self, part: bytes) -> bool:
        """Add a part; false for the one that makes the message too long. What comes after that is skipped."""
        if self._size > self._max_bytes:
            return True
        self._size += len(part)
        self._parts += part
        if self._size <= self._max_bytes:
            return True
        self.head = bytes(self._parts[:HEAD_BYTES])
        self._parts = bytearray()
        return False

    def finish(self) -> bytearray | None:
        """The whole message, and begin a new one; None for one that was too long."""
        message = self._parts if self._size <= self._max_bytes else None
        self._parts = bytearray()
        self._size = 0
        return message


def _is_notice(message: Outgoing) -> bool:
    """Whether it is a notification or an answer."""
    return message.number is None or message.method is None
