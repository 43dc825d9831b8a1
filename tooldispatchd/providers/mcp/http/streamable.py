"""Streamable HTTP, revisions 2025-03-26 to 2026-07-28: each message is a POST, each answer its response.

    send ─▶ Outbox ─┬─ request ─▶ HttpExchange: POST ─┬─ application/json ───▶ the answer
                    │                                 ├─ text/event-stream ──▶ messages … the answer
                    │                                 │          └─ ended before it, its events have numbers
                    │                                 │                 └──▶ GET with Last-Event-ID ──▶ …
                    │                                 └─ anything else ──────▶ a fault
                    └─ others ──▶ POST, 202
    greeted ──────────────────── Listening ─▶ messages        where there is a handshake

There is no connection that could break: one request that fails says nothing of the next. A failure is the fault of that
request, never an exception. What ends the link is the server's word that the session is over.
"""

import functools
from collections.abc import Callable
from typing import Final

import msgspec
import trio
from msgspec import Raw

from tooldispatchd.calls.memory import Holding
from tooldispatchd.calls.violations import fault_at
from tooldispatchd.catalog.schemas import ACCEPT, is_light
from tooldispatchd.catalog.violations import Violation
from tooldispatchd.checkers.pool import CheckerError
from tooldispatchd.http.errors import WireError, status_words
from tooldispatchd.http.eventstream import ServerSentEvent
from tooldispatchd.http.reply import HttpReply
from tooldispatchd.providers.mcp.headers import find_param_headers, param_headers
from tooldispatchd.providers.mcp.http.posting import (
    DISCOVER,
    DRAIN_S,
    EVENT_STREAM,
    INITIALIZE,
    JSON,
    POST_HEADERS,
    SESSION_HEADER,
    HttpPeer,
    PostingLink,
    Sent,
    wrong_transport,
)
from tooldispatchd.providers.mcp.http.serverstream import ServerStream, is_message, no_room
from tooldispatchd.providers.mcp.logmessages import beginning_of, printable
from tooldispatchd.providers.mcp.server import call_failed
from tooldispatchd.wire.faults import Code, Fault

# Tries in a row that bring nothing new, before an answer counts as lost.
MAX_FRUITLESS: Final = 3
# As often a stream is asked for again as soon as the server likes; then it is polled, and that has a rate. Hundreds of
# calls may be in flight at a server that always has another number to give.
QUICK_TRIES: Final = 10
POLL_S: Final = 0.5
# As much of a content type as a fault repeats.
MAX_KIND: Final = 100
# The one revision that had no such streams, so that a number in them cannot mean this.
_WITHOUT_RESUMING: Final = "2024-11-05"
# The first request in either era: a server that refuses it may speak by another transport.
_FIRST: Final = frozenset({INITIALIZE, DISCOVER})

# How a stream of events begins, also where its type says otherwise.
_FIELDS: Final = (b"event:", b"data:", b"id:", b"retry:", b":")

_decode_headers: Final = msgspec.msgpack.Decoder(list[tuple[str, str]] | Violation).decode


class HttpExchange:
    """The life of one request; `run` ends when it is answered, failed or given up."""

    def __init__(self, peer: HttpPeer, sent: Sent) -> None:
        assert sent.message.number is not None
        self._peer = peer
        self._sent = sent
        self._number = sent.message.number
        self._stream = ServerStream(peer.server.max_line_bytes, peer.inbox.share)
        self._broken: WireError | None = None

    async def run(self) -> None:
        """Send the request and read its answer. The caller bounds it, by cancelling."""
        try:
            await self._post()
            await self._resume()
        except WireError as error:
            self._peer.fail(self._number, error)
            return
        if self._is_waiting():
            broken = "" if self._broken is None else f": {self._broken.why}"
            self._fail(f"its event stream ended before the answer{broken}")

    async def _post(self) -> None:
        peer, message = self._peer, self._sent.message
        repeating = await self._param_headers()
        if isinstance(repeating, Fault):
            peer.inbox.fail(self._number, repeating, is_unbegun=True)
            return
        headers = [*POST_HEADERS, *self._sent.headers, *repeating]
        # The stateless revision has no session, and `initialize` none yet.
        if not self._sent.is_modern and message.method != INITIALIZE:
            headers += peer.session_headers()
        async with peer.wire.exchange("POST", headers, message.body) as reply:
            if not 200 <= reply.status < 300:
                hint = wrong_transport(peer.server, reply.status) if message.method in _FIRST else ""
                await peer.refuse(self._number, reply, headers, hint=hint)
            elif message.method == INITIALIZE and not peer.adopt(reply.headers.get(SESSION_HEADER.lower())):
                self._fail("its session id is not visible ASCII, or too long")
            elif reply.media_type == EVENT_STREAM:
                await self._follow(reply)
            else:
                beginning = await self._take_body(reply)
                if self._is_waiting():
                    what = f"is no answer to it: {beginning}" if beginning else "is empty"
                    if beginning and reply.media_type != JSON:
                        what = f"is {printable(reply.media_type, MAX_KIND) or 'of no content type'} and no JSON"
                    self._fail(f"its HTTP response {what}", {"http_status": reply.status})

    async def _param_headers(self) -> list[tuple[str, str]] | Fault:
        """The headers that repeat arguments, or why there can be none."""
        message, inbox = self._sent.message, self._peer.inbox
        if not message.params or not self._sent.is_modern:
            return []
        if is_light(Raw(message.arguments), ACCEPT):
            found = param_headers(message.params, message.arguments)
        else:
            params, arguments = msgspec.msgpack.encode(message.params), memoryview(message.arguments)
            try:
                reply, _, _ = await inbox.checkers.run(find_param_headers, params, arguments, turns=(inbox, inbox))
            except CheckerError as error:
                return call_failed(self._peer.server, f"its arguments cannot be read: {error.why}")
            found = _decode_headers(reply)
        return fault_at(Code.INVALID_INPUT, [found]) if isinstance(found, Violation) else found

    async def _take_body(self, reply: HttpReply) -> str:
        """Deal with a body, whatever its type says that it is; how it begins, "" where it is empty."""
        inbox = self._peer.inbox
        body, held = bytearray(), Holding(inbox.share)
        try:
            body = await reply.read_large(self._peer.server.max_line_bytes, held)
            if len(body) > held.held:
                raise no_room(inbox.share)
            if body.startswith(_FIELDS):
                await self._stream.take_whole(bytes(body), self._take)
            elif body:
                await inbox.take(Raw(body), self._number)
            return beginning_of(body)
        finally:
            inbox.share.let_go(body)
            held.resize(0)

    # --- streams -----------------------------------------------------------------------------------------------------

    async def _follow(self, reply: HttpReply) -> None:
        try:
            if await self._stream.follow(reply, self._take):
                await reply.drain(DRAIN_S)
        except WireError as error:
            if error.is_too_large:
                raise
            self._broken = error

    async def _take(self, event: ServerSentEvent) -> bool:
        if is_message(event):
            await self._peer.inbox.take(Raw(event.data), self._number)
        return not self._is_waiting()

    async def _resume(self) -> None:
        """Ask for the rest of a stream that ended too early, for as long as that brings something."""
        if self._sent.is_modern or self._sent.revision == _WITHOUT_RESUMING:
            return
        peer = self._peer
        fruitless = tries = 0
        while self._is_waiting() and self._stream.last_id and fruitless < MAX_FRUITLESS:
            await trio.sleep(max(self._stream.retry_s, 0.0 if tries < QUICK_TRIES else POLL_S))
            tries += 1
            if not self._is_waiting():
                return
            before = self._stream.last_id
            headers = [("Accept", EVENT_STREAM), ("Last-Event-ID", before)]
            headers += [*self._sent.headers, *peer.session_headers()]
            try:
                async with peer.wire.exchange("GET", headers, b"") as reply:
                    if reply.status == 200 and reply.media_type == EVENT_STREAM:
                        self._broken = None
                        await self._follow(reply)
                    elif await peer.refuses_session(reply, headers):
                        return
                    else:
                        self._broken = WireError(status_words(reply.status, peer.server.reach), was_sent=True)
                        if reply.status != 429 and reply.status < 500:
                            return
            except WireError as error:
                if error.is_too_large:
                    raise
                self._broken = error
            # By where it ended: a server may say the same again and again, and that is no progress.
            fruitless = 0 if self._stream.last_id != before else fruitless + 1

    # --- ends --------------------------------------------------------------------------------------------------------

    def _is_waiting(self) -> bool:
        return not self._peer.bell.is_lost and self._peer.inbox.is_waiting(self._number)

    def _fail(self, why: str, extras: dict[str, object] | None = None) -> None:
        self._peer.inbox.fail(self._number, call_failed(self._peer.server, why, extras))


# Waits between tries that bring nothing, doubling from the first to the last.
FIRST_WAIT_S: Final = 1.0
MAX_WAIT_S: Final = 30.0
# Even a server that asks for no wait at all and always has something to say must not be asked in a loop.
MIN_WAIT_S: Final = 0.1
# Statuses by which a server says that it has no such stream, whatever it had before.
_NONE: Final = frozenset({400, 404, 405, 406, 501})


class Listening:
    """The server's own stream; `settled` is set once it is open, or is known not to be."""

    def __init__(
        self, peer: HttpPeer, headers: Callable[[], list[tuple[str, str]]], *, first_wait_s: float = FIRST_WAIT_S
    ) -> None:
        self.settled = trio.Event()
        self._peer = peer
        self._headers = headers
        self._first_wait_s = first_wait_s
        self._stream = ServerStream(peer.server.max_line_bytes, peer.inbox.share)
        self._has_opened = False

    async def run(self) -> None:
        """Listen until cancelled, or until the server has no such stream."""
        try:
            wait_s = self._first_wait_s
            while True:
                before = self._stream.events
                if not await self._listen():
                    return
                if self._stream.events > before:
                    wait_s = self._first_wait_s
                    await trio.sleep(max(self._stream.retry_s, MIN_WAIT_S))
                else:
                    await trio.sleep(max(self._stream.retry_s, wait_s))
                    wait_s = min(wait_s * 2, MAX_WAIT_S)
        finally:
            self.settled.set()

    async def _listen(self) -> bool:
        """Open the stream and follow it to its end; whether to try again."""
        headers = [("Accept", EVENT_STREAM), *self._headers()]
        if self._stream.last_id:
            headers.append(("Last-Event-ID", self._stream.last_id))
        try:
            async with self._peer.wire.exchange("GET", headers, b"") as reply:
                if reply.status == 200 and reply.media_type == EVENT_STREAM:
                    self._has_opened = True
                    self.settled.set()
                    await self._stream.follow(reply, self._take)
                elif not self._has_opened:
                    # A server that has no GET may say so with any status, the 404 of a session included.
                    return False
                elif await self._peer.refuses_session(reply, headers):
                    # It had a stream for this session: to ask again is how the loss is noticed without a call.
                    return False
                else:
                    return reply.status not in _NONE
        except WireError:
            # Its requests will say more of it; what was open once is worth another try.
            return self._has_opened
        return True

    async def _take(self, event: ServerSentEvent) -> bool:
        if is_message(event):
            await self._peer.inbox.take(Raw(event.data))
        return False


class StreamableLink(PostingLink):
    """A server behind one URL, which takes each message as a POST."""

    # The first call waits for the stream, so that nothing is missed that it brings about; but not for ever.
    greeted_s = 5.0

    async def open(self) -> None:
        """Get ready; nothing is connected before the first message. Raises `LinkError`."""
        self._meet()
        await trio.lowlevel.checkpoint()

    async def greeted(self) -> None:
        """Open the server's own stream, where there may be one. Whether there is one is known on return, or late."""
        if self._peer is None or self.dialect is None or self.dialect.is_modern:
            return
        listening = Listening(self._peer, self._bare_headers)
        self._tasks.start(functools.partial(self._listen, listening))
        with trio.move_on_after(self.greeted_s):
            await listening.settled.wait()

    def give_up(self, number: int) -> bool:
        """End the exchange of request `number`; closing its response is how the stateless revision cancels."""
        is_told = self._outbox.give_up(number)
        if is_told is None:
            return self.dialect is not None and self.dialect.is_modern
        return is_told

    # --- exchanges ---------------------------------------------------------------------------------------------------

    async def _listen(self, listening: Listening) -> None:
        await self._outbox.initialized()
        await listening.run()

    async def _request(self, sent: Sent) -> None:
        assert self._peer is not None
        await HttpExchange(self._peer, sent).run()
