"""What goes to a server that takes each message as a POST of its own: requests at once, everything else in order.

    add ─┬─ request ──────▶ waits for a place ──▶ a task of its own
         └─ anything else ─▶ queue ─────────────▶ one task, one after the other

A request that is queued behind `notifications/initialized` waits until that was delivered: a server may turn away what
comes before it (MCP, "Lifecycle").
"""

import functools
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
import trio

from tooldispatchd.calls.memory import Holding, Share
from tooldispatchd.providers.mcp.dialect import Dialect
from tooldispatchd.providers.mcp.link import MAX_NOTICES, MAX_QUEUED_BYTES
from tooldispatchd.providers.mcp.messages import Outgoing
from tooldispatchd.providers.mcp.tasks import Tasks

# Requests to one server at once, each with a task and a TCP connection: about as many as one agent may have in flight,
# and fewer than the wire's exchanges (256), of which cancellations and the server's own stream need some.
MAX_AT_ONCE: Final = 250
# A notification is taken in milliseconds; a server that takes longer must not hold up those behind it for ever.
NOTICE_S: Final = 10.0

INITIALIZED: Final = "notifications/initialized"
CANCELLED: Final = "notifications/cancelled"
# Said after all: what a call that ended its connection is to the server. There is mostly one.
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
        """Queue a message; `flush` sends it."""
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
        """Let go of who posts, after the end: who holds this is freed at once."""
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
                self._taken(sent)
        finally:
            self._is_posting = False

    def _taken(self, sent: Sent) -> None:
        if self._is_over:
            # It was delivered in the very turn in which all was dropped.
            if self._notices and self._notices[0] is sent:
                self._notices.popleft()
            return
        self._notices.popleft()
        self._queued -= len(sent.message.line)
        self._waiting.resize(min(self._queued, self._waiting.held))
        if sent.message.method == INITIALIZED:
            self._held -= 1
            if not self._held:
                self._is_free.set()
                self._start_requests()
