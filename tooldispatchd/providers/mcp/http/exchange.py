"""One request to a server that speaks Streamable HTTP, and its answer in any of its forms.

    POST ─┬─ application/json ───▶ the answer
          ├─ text/event-stream ──▶ messages … the answer
          │          └─ ended before it ──▶ GET with Last-Event-ID, where events had numbers ──▶ …
          └─ anything else ──────▶ a fault

A failure is the fault of this one request, never an exception; only the end of the MCP session is more.
"""

from typing import Final

import trio

from tooldispatchd.calls.memory import Holding
from tooldispatchd.providers.mcp.http.errors import WireError
from tooldispatchd.providers.mcp.http.eventstream import ServerSentEvent, ServerStream, is_message, no_room
from tooldispatchd.providers.mcp.http.posting import (
    DISCOVER,
    DRAIN_S,
    EVENT_STREAM,
    INITIALIZE,
    JSON,
    POST_HEADERS,
    SESSION_HEADER,
    HttpPeer,
    Sent,
)
from tooldispatchd.providers.mcp.http.refusals import error_of, read_error_body, refused, status_words, wrong_transport
from tooldispatchd.providers.mcp.http.wire import HttpReply
from tooldispatchd.providers.mcp.logmessages import printable
from tooldispatchd.providers.mcp.messages import Incoming
from tooldispatchd.providers.mcp.server import call_failed, too_large, unavailable
from tooldispatchd.wire.faults import Fault

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
            self._fail(fault_of(self._peer, error))
            return
        if self._is_waiting():
            broken = "" if self._broken is None else f": {self._broken.why}"
            self._fail(call_failed(self._peer.server, f"its event stream ended before the answer{broken}"))

    async def _post(self) -> None:
        peer, message = self._peer, self._sent.message
        headers = [*POST_HEADERS, *self._sent.headers]
        # The stateless revision has no session, and `initialize` none yet.
        if not self._sent.is_modern and message.method != INITIALIZE:
            headers += peer.session_headers()
        async with peer.wire.exchange("POST", headers, message.body) as reply:
            if reply.status != 200:
                hint = wrong_transport(peer.server, reply.status) if message.method in _FIRST else ""
                await refuse(peer, self._number, reply, headers, hint=hint)
            elif message.method == INITIALIZE and not peer.adopt(reply.headers.get(SESSION_HEADER.lower())):
                self._fail(call_failed(peer.server, "its session id is not visible ASCII, or too long"))
            elif reply.media_type == EVENT_STREAM:
                await self._follow(reply)
            elif reply.media_type == JSON:
                await self._take_body(reply)
            else:
                kind = printable(reply.media_type, MAX_KIND) or "no content type"
                why = f"it answered with {kind} instead of JSON"
                self._fail(call_failed(peer.server, why, {"http_status": reply.status}))

    async def _take_body(self, reply: HttpReply) -> None:
        share = self._peer.inbox.share
        held = Holding(share)
        try:
            body = await reply.read(self._peer.server.max_line_bytes, held)
            if len(body) > held.held:
                raise no_room(share)
            if body.strip():
                await self._peer.inbox.take(body)
        finally:
            held.resize(0)
        if self._is_waiting():
            what = "its HTTP response is empty" if not body.strip() else "its HTTP response holds no answer to it"
            self._fail(call_failed(self._peer.server, what, {"http_status": reply.status}))

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
            await self._peer.inbox.take(event.data)
        return not self._is_waiting()

    async def _resume(self) -> None:
        """Ask for the rest of a stream that ended too early, for as long as that brings something."""
        if self._sent.is_modern or self._sent.revision == _WITHOUT_RESUMING:
            return
        fruitless = tries = 0
        while self._is_waiting() and self._stream.last_id and fruitless < MAX_FRUITLESS:
            await trio.sleep(max(self._stream.retry_s, 0.0 if tries < QUICK_TRIES else POLL_S))
            tries += 1
            if not self._is_waiting():
                return
            before = self._stream.last_id
            try:
                if not await self._get():
                    return
            except WireError as error:
                if error.is_too_large:
                    raise
                self._broken = error
            # By where it ended: a server may say the same again and again, and that is no progress.
            fruitless = 0 if self._stream.last_id != before else fruitless + 1

    async def _get(self) -> bool:
        """Go on with the stream; whether another try makes sense."""
        peer = self._peer
        headers = [
            ("Accept", EVENT_STREAM),
            ("Last-Event-ID", self._stream.last_id),
            *self._sent.headers,
            *peer.session_headers(),
        ]
        async with peer.wire.exchange("GET", headers, b"") as reply:
            if reply.status == 200 and reply.media_type == EVENT_STREAM:
                self._broken = None
                await self._follow(reply)
                return True
            if await peer.refuses_session(reply, headers):
                return False
            self._broken = WireError(status_words(reply.status, peer.server.reach), was_sent=True)
            return reply.status == 429 or reply.status >= 500

    # --- ends --------------------------------------------------------------------------------------------------------

    def _is_waiting(self) -> bool:
        return not self._peer.bell.is_lost and self._peer.inbox.is_waiting(self._number)

    def _fail(self, fault: Fault) -> None:
        self._peer.inbox.fail(self._number, fault)


async def refuse(
    peer: HttpPeer, number: int, reply: HttpReply, headers: list[tuple[str, str]], *, hint: str = ""
) -> None:
    """A request was answered with another status than 200: give its waiter the reason. `headers` are what was sent.

    `hint` follows the reason where the server itself gives none. Raises `WireError`.
    """
    if 200 <= reply.status < 300:
        peer.inbox.fail(number, call_failed(peer.server, status_words(reply.status), {"http_status": reply.status}))
        await reply.drain(DRAIN_S)
        return
    fault = refused(peer.server, reply.status, reply.retry_after_ms, hint)
    body = b""
    if reply.status not in {401, 403, 429} and "retry_after_ms" not in fault.extras:
        body = await read_error_body(reply)
    if peer.is_session_over(reply.status, headers, body, number):
        return
    error = error_of(body)
    if error is None:
        peer.inbox.fail(number, fault)
    else:
        peer.inbox.take_message(Incoming(id=number, error=error.error))


def fault_of(peer: HttpPeer, error: WireError) -> Fault:
    if error.is_too_large and "what" not in error.extras:
        return too_large(peer.server)
    of = call_failed if error.was_sent else unavailable
    return of(peer.server, error.why, error.extras)
