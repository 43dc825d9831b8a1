"""The link that both forms of HTTP have in common: each message is a POST, sent by the outbox in tasks of its own.

    Outbox.add ─┬─ request ──────▶ waits for a place ──▶ a task of its own ──┬─▶ HttpPeer.wire
                └─ anything else ─▶ queue ─────────────▶ one task for all ───┘

A request that is queued behind `notifications/initialized` waits until that was delivered: a server may turn away what
comes before it (MCP, "Lifecycle").

A request that never reached the server, or was turned away for now, is `server_unavailable` and worth another try. One
that failed once it was there is `tool_failed`, since it may have had its effect.
"""

import functools
import re
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import msgspec
import trio

from tooldispatchd.calls.memory import Holding, Share
from tooldispatchd.http.errors import WireError, status_words
from tooldispatchd.http.reply import HttpReply
from tooldispatchd.http.wire import Authorizer, HttpWire
from tooldispatchd.providers.mcp.dialects import Dialect
from tooldispatchd.providers.mcp.http.tasks import TaskLink, Tasks
from tooldispatchd.providers.mcp.link import MAX_NOTICES, MAX_QUEUED_BYTES, Bell, Inbox, LinkError
from tooldispatchd.providers.mcp.messages import Incoming, Outgoing, error_in, error_words, read_message
from tooldispatchd.providers.mcp.server import Server, call_failed, too_large, unavailable

# Requests to one server at once, each with a task and a TCP connection: about as many as one agent may have in flight,
# and fewer than the wire's exchanges (256), of which cancellations and the server's own stream need some.
MAX_AT_ONCE: Final = 250
# A notification is taken in milliseconds; a server that takes longer must not hold up those behind it for ever.
NOTICE_S: Final = 10.0
# The steps of closing that both forms have.
TASKS_S: Final = 1.0
LAST_S: Final = 1.0
WIRE_S: Final = 1.0
CLOSE_S: Final = TASKS_S + LAST_S + WIRE_S
# And to end the session of Streamable HTTP: a server that hangs gets as long as one that is asked to end politely.
DELETE_S: Final = 2.0

INITIALIZED: Final = "notifications/initialized"
CANCELLED: Final = "notifications/cancelled"
# Cancellations that are still sent when the connection ends: of the call that ended it, mostly.
MAX_LAST: Final = 16


class Sent(msgspec.Struct, frozen=True, gc=False):
    """A message on its way: `headers` are the protocol's own, as it was spoken when the message was queued."""

    message: Outgoing
    headers: list[tuple[str, str]]
    revision: str
    is_modern: bool


Post = Callable[[Sent], Awaitable[None]]


class Outbox:
    """Messages to one server. `post_request` and `post_notice` deliver one, and raise nothing that the world does."""

    def __init__(
        self,
        tasks: Tasks,
        share: Share,
        *,
        post_request: Post,
        post_notice: Post,
        is_waiting: Callable[[int], bool],
        notice_s: float = NOTICE_S,
    ) -> None:
        self._tasks = tasks
        self._post_request = post_request
        self._post_notice = post_notice
        self._is_waiting = is_waiting
        self._notice_s = notice_s
        self._requests: dict[int, Sent] = {}
        self._running: dict[int, tuple[trio.CancelScope, bool]] = {}
        self._notices: deque[Sent] = deque()
        self._queued = 0
        self._waiting = Holding(share)
        self._is_posting = False
        self._held = 0
        self._is_over = False
        self._is_free = trio.Event()
        self._is_free.set()

    def add(self, message: Outgoing, dialect: Dialect | None) -> None:
        if self._is_over:
            return
        headers = dialect.headers(message) if dialect is not None else []
        sent = Sent(
            message,
            headers,
            dialect.revision if dialect is not None else "",
            dialect is not None and dialect.is_modern,
        )
        self._queued += len(message.line)
        if message.number is not None and message.method is not None:
            self._requests[message.number] = sent
            return
        self._notices.append(sent)
        if message.method == INITIALIZED:
            self._held += 1
            self._is_free = trio.Event()

    def flush(self) -> bool:
        """Send what may go now; whether what is left is within the bounds."""
        if self._notices and not self._is_posting and not self._is_over:
            self._is_posting = True
            self._tasks.start(self._post_notices)
        self._start_requests()
        is_within = self._queued <= MAX_QUEUED_BYTES and len(self._notices) <= MAX_NOTICES
        return is_within and (self._queued == self._waiting.held or self._waiting.resize(self._queued))

    def give_up(self, number: int) -> bool | None:
        """End the exchange of request `number`, or never begin it.

        Whether the server needs no word of it: where nothing was sent, and in the stateless revision, where a closed
        response says it. None where there is no such request.
        """
        sent = self._requests.pop(number, None)
        if sent is not None:
            self._queued -= len(sent.message.line)
            return True
        # Its place is free at once: else each of a thousand that are given up would look through all others again.
        running = self._running.pop(number, None)
        if running is None:
            return None
        scope, is_modern = running
        scope.cancel()
        return is_modern

    async def initialized(self) -> None:
        """Wait until no `notifications/initialized` is on its way."""
        await self._is_free.wait()

    def drop(self) -> None:
        """Take nothing more and forget what is queued but cancellations; what is on its way ends with the tasks."""
        self._is_over = True
        self._requests.clear()
        cancelled = [sent for sent in self._notices if sent.message.method == CANCELLED]
        self._notices = deque(cancelled[-MAX_LAST:])
        self._queued = 0
        self._waiting.resize(0)

    async def say_last(self) -> None:
        """Deliver the cancellations that `drop` found, after the tasks have ended; the caller bounds it."""
        while self._notices:
            await self._post_notice(self._notices.popleft())

    def forget(self) -> None:
        """Drop the references to the link, after the end: a cycle would keep it until the garbage collector runs."""
        del self._post_request, self._post_notice, self._is_waiting

    def _start_requests(self) -> None:
        if self._requests and len(self._running) >= MAX_AT_ONCE:
            # An answer may have come by another stream, so that its own exchange waits for nothing.
            for number in [number for number in self._running if not self._is_waiting(number)]:
                scope, _ = self._running.pop(number)
                scope.cancel()
        while self._requests and not self._held and len(self._running) < MAX_AT_ONCE:
            number = next(iter(self._requests))
            sent = self._requests.pop(number)
            self._queued -= len(sent.message.line)
            scope = trio.CancelScope()
            self._running[number] = scope, sent.is_modern
            self._tasks.start(functools.partial(self._run_request, number, sent), scope)

    async def _run_request(self, number: int, sent: Sent) -> None:
        try:
            await self._post_request(sent)
        finally:
            self._running.pop(number, None)
            self._start_requests()

    async def _post_notices(self) -> None:
        try:
            while self._notices:
                # It stays in the queue until it is delivered: a task that is cancelled leaves it to `say_last`.
                sent = self._notices[0]
                with trio.move_on_after(self._notice_s):
                    await self._post_notice(sent)
                if self._is_over:
                    # It was delivered in the very turn in which all was dropped.
                    if self._notices and self._notices[0] is sent:
                        self._notices.popleft()
                    continue
                self._notices.popleft()
                self._queued -= len(sent.message.line)
                self._waiting.resize(min(self._queued, self._waiting.held))
                if sent.message.method == INITIALIZED:
                    self._held -= 1
                    if not self._held:
                        self._is_free.set()
                        self._start_requests()
        finally:
            self._is_posting = False


INITIALIZE: Final = "initialize"
DISCOVER: Final = "server/discover"
SESSION_HEADER: Final = "Mcp-Session-Id"
# Visible ASCII is all that the specification allows; real ones are 32 to 64 characters, signed tokens some hundred.
_SESSION_ID: Final = re.compile(r"[\x21-\x7e]{1,2048}")
EVENT_STREAM: Final = "text/event-stream"
JSON: Final = "application/json"
# The headers of every POST (MCP, "Streamable HTTP"); the older pair takes them too.
POST_HEADERS: Final = (("Accept", f"{JSON}, {EVENT_STREAM}"), ("Content-Type", JSON))

# After the answer a stream is at its end within the same segment, or never: what it waits longer for costs more than a
# new TCP connection.
DRAIN_S: Final = 0.25

# By the transport that the configuration names: the other one, and what a server of that may say to the first request
# of this one. A GET without a session is wrong at Streamable HTTP in several ways.
_OTHERS: Final = {"http": ("sse", frozenset({404, 405})), "sse": ("http", frozenset({200, 400, 404, 405, 406}))}
# The error in a refusal is a sentence or two; a page of HTML is not looked at.
MAX_ERROR_BYTES: Final = 64 * 1024
ERROR_BODY_S: Final = 2.0
# A sentence that is no JSON-RPC. Beyond it stand pages and objects, which may repeat what was asked.
MAX_SENTENCE_BYTES: Final = 200
# "Not initialized" is what a server with one session at a time says after a restart.
_OF_SESSIONS: Final = re.compile(r"session|not initiali[sz]ed", re.IGNORECASE)
# JSON-RPC 2.0, 5.1 (what cannot be parsed, no such method, wrong parameters) and MCP 2026-07-28 (headers that differ
# from the body): these are about one request, whatever their words repeat of it.
_OF_REQUESTS: Final = frozenset({-32700, -32601, -32602, -32020})


class HttpPeer:
    """A server, the wire to it, and the inbox for its messages; `session_id` is the one that it gave, if any."""

    __slots__ = ("bell", "inbox", "server", "session_id", "wire")

    def __init__(self, server: Server, wire: HttpWire, inbox: Inbox, bell: Bell) -> None:
        self.server = server
        self.wire = wire
        self.inbox = inbox
        self.bell = bell
        self.session_id: str | None = None

    def adopt(self, session_id: str | None) -> bool:
        """Show `session_id`, if any, from now on; false where it is malformed (MCP, "Session Management")."""
        if session_id is not None and _SESSION_ID.fullmatch(session_id) is None:
            return False
        self.session_id = session_id
        return True

    def session_headers(self) -> list[tuple[str, str]]:
        return [] if self.session_id is None else [(SESSION_HEADER, self.session_id)]

    def fail(self, number: int, error: WireError) -> None:
        """End request `number`, whose exchange failed."""
        if error.is_too_large and "what" not in error.extras:
            fault = too_large(self.server)
        else:
            fault = (call_failed if error.was_sent else unavailable)(self.server, error.why, error.extras)
        self.inbox.fail(number, fault, is_unbegun=not error.was_sent)

    async def refuse(self, number: int, reply: HttpReply, sent: list[tuple[str, str]], *, hint: str = "") -> None:
        """End request `number`, which went out with the headers `sent` and got no status of success.

        `hint` follows the reason where the server itself gives none. Raises `WireError`.
        """
        status = reply.status
        extras: dict[str, object] = {"http_status": status}
        after_ms = reply.retry_after_ms if status in {429, 503} else None
        body = b""
        if status not in {401, 403, 429} and after_ms is None:
            body = await _read_error(reply)
        if self._is_session_over(status, sent, body, number):
            return
        error = error_of(body)
        if error is not None:
            self.inbox.take_message(Incoming(id=number, error=error.error))
            return
        if after_ms is not None:
            extras["retry_after_ms"] = after_ms
        of = unavailable if status in {429, 503} else call_failed
        self.inbox.fail(number, of(self.server, status_words(status, self.server.reach) + hint, extras))

    async def refuses_session(self, reply: HttpReply, sent: list[tuple[str, str]]) -> bool:
        """Whether the answer to anything but a request ends the connection; if so, its owner is told."""
        body = await _read_error(reply) if reply.status == 400 and _shows_session(sent) else b""
        return self._is_session_over(reply.status, sent, body, None)

    def _is_session_over(self, status: int, sent: list[tuple[str, str]], body: bytes, number: int | None) -> bool:
        if not _shows_session(sent):
            return False
        if status == 404:
            why = "the server ended the session (HTTP 404)"
        elif status == 400 and is_of_session(body, number):
            why = "the server does not know the session any more (HTTP 400)"
        else:
            return False
        self.bell.lose(why, {"http_status": status})
        return True


def wrong_transport(server: Server, status: int) -> str:
    """Which transport to try, as the end of a sentence, where the configuration names the other one; else ""."""
    other, statuses = _OTHERS.get(server.transport, ("", frozenset()))
    return f'; it may need transport = "{other}"' if status in statuses else ""


def _shows_session(headers: list[tuple[str, str]]) -> bool:
    return any(name == SESSION_HEADER for name, _ in headers)


async def _read_error(reply: HttpReply) -> bytes:
    """The body of a refusal; nothing where it is too long, or too slow in coming."""
    with trio.move_on_after(ERROR_BODY_S), suppress(WireError):
        return await reply.read(MAX_ERROR_BYTES)
    return b""


def error_of(body: bytes) -> Incoming | None:
    message = read_message(body)
    error = None if message is None else error_in(message)
    # A web framework's own refusal may also be an object with the member `error`: a JSON-RPC one has a code.
    return message if error is not None and isinstance(error_words(error)[1], int) else None


def is_of_session(body: bytes, number: int | None) -> bool:
    """Whether a body with status 400 is about the session that was shown, and not an answer to request `number`.

    Not every server says 404 to a session that it does not know (MCP, "Session Management"). Official SDKs and their
    examples have said 400 for long, as JSON-RPC without a number or as plain text.
    """
    message = error_of(body)
    if message is None:
        text = body.strip()
        is_sentence = 0 < len(text) <= MAX_SENTENCE_BYTES and text[:1] not in b"{[<"
        return is_sentence and _OF_SESSIONS.search(text.decode(errors="replace")) is not None
    error = error_in(message)
    assert error is not None
    words, code = error_words(error)
    is_ours = number is not None and message.id == number
    return not is_ours and code not in _OF_REQUESTS and _OF_SESSIONS.search(words) is not None


# Stands for requests without a message, where headers are asked for.
_NO_MESSAGE: Final = Outgoing(b"")


class PostingLink(TaskLink):
    """A link that POSTs, to the server's URL or to `_endpoint`; how requests are answered, its form of HTTP says."""

    def __init__(
        self,
        server: Server,
        inbox: Inbox,
        nursery: trio.Nursery,
        *,
        authorize: Callable[[], Authorizer] | None = None,
        notice_s: float = NOTICE_S,
    ) -> None:
        super().__init__(server, inbox, nursery)
        self._authorize = authorize
        self._outbox = Outbox(
            self._tasks,
            inbox.share,
            post_request=self._request,
            post_notice=self._notify,
            is_waiting=inbox.is_waiting,
            notice_s=notice_s,
        )
        self._peer: HttpPeer | None = None
        self._endpoint: str | None = None
        self._undelivered = 0

    def send(self, message: Outgoing) -> None:
        self._outbox.add(message, self.dialect)

    def flush(self) -> bool:
        return self._outbox.flush()

    def drop(self) -> None:
        self._outbox.drop()
        self._tasks.cancel()

    @property
    def ended(self) -> dict[str, object]:
        return {"undelivered": self._undelivered}

    def _meet(self) -> None:
        """Make ready what requests go through; nothing is connected yet. Raises `LinkError`."""
        authorizer = None if self._authorize is None else self._authorize()
        try:
            wire = HttpWire(
                self._reach, max_bytes=self._server.max_line_bytes, authorizer=authorizer, debug=self._inbox.debug
            )
        except WireError as error:
            raise LinkError(error.why, error.extras) from error
        self._peer = HttpPeer(self._server, wire, self._inbox, self._bell)

    async def _request(self, sent: Sent) -> None:
        """POST a request, and see to it that it is answered or failed."""
        raise NotImplementedError

    async def _notify(self, sent: Sent) -> None:
        """POST what has no answer. No request fails where it does not arrive."""
        peer = self._peer
        assert peer is not None
        # The stateless revision has no session, and the older pair none that it shows.
        headers = [*POST_HEADERS, *sent.headers, *([] if sent.is_modern else peer.session_headers())]
        self._undelivered += 1
        with suppress(WireError):
            async with peer.wire.exchange("POST", headers, sent.message.body, url=self._endpoint) as reply:
                if 200 <= reply.status < 300:
                    self._undelivered -= 1
                elif await peer.refuses_session(reply, headers):
                    return
                await reply.drain(DRAIN_S)

    async def close(self) -> None:
        self.drop()
        with trio.move_on_after(TASKS_S, shield=True):
            await self._tasks.ended()
        peer = self._peer
        if peer is None:
            return
        if not self._bell.is_lost:
            with trio.move_on_after(LAST_S, shield=True):
                await self._outbox.say_last()
            if peer.session_id is not None and not self._bell.is_lost:
                # A server that does not let clients end sessions answers 405, and ends them by itself.
                with trio.move_on_after(DELETE_S, shield=True), suppress(WireError):
                    async with peer.wire.exchange("DELETE", self._bare_headers(), b"") as reply:
                        await reply.drain(DRAIN_S)
        with trio.move_on_after(WIRE_S, shield=True):
            await peer.wire.aclose()
        self._peer = None
        self._outbox.forget()

    def _bare_headers(self) -> list[tuple[str, str]]:
        """The headers of a request without a message: the revision and the session."""
        headers = [] if self.dialect is None else self.dialect.headers(_NO_MESSAGE)
        return headers + ([] if self._peer is None else self._peer.session_headers())
