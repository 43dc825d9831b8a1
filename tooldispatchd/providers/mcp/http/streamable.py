"""Streamable HTTP, revisions 2025-03-26 to 2026-07-28: each message is a POST, each answer its response.

    send ─▶ Outbox ─┬─ request ─▶ Exchange ─▶ Inbox
                    └─ others ──▶ POST, 202
    greeted ───────────────────── Listening ─▶ Inbox        where there is a handshake

There is no connection that could break: one request that fails says nothing of the next. What ends the link is the
server's word that the session is over.
"""

import functools
from collections.abc import Callable
from typing import Final

import trio

from tooldispatchd.providers.mcp.bell import Bell
from tooldispatchd.providers.mcp.dialect import Dialect
from tooldispatchd.providers.mcp.http.errors import WireError
from tooldispatchd.providers.mcp.http.exchange import Exchange
from tooldispatchd.providers.mcp.http.listening import Listening
from tooldispatchd.providers.mcp.http.outbox import NOTICE_S, Outbox, Sent
from tooldispatchd.providers.mcp.http.peer import DRAIN_S, EVENT_STREAM, JSON, Peer
from tooldispatchd.providers.mcp.http.wire import Authorizer, Wire
from tooldispatchd.providers.mcp.link import Inbox, LinkError
from tooldispatchd.providers.mcp.messages import Outgoing
from tooldispatchd.providers.mcp.server import Server
from tooldispatchd.providers.mcp.tasks import Tasks

# The first call waits for the stream, so that nothing is missed that it brings about; but not for ever.
GREETED_S: Final = 5.0
# The steps of closing. A server that hangs gets as long as one that is asked to end politely.
TASKS_S: Final = 1.0
LAST_S: Final = 1.0
DELETE_S: Final = 2.0
WIRE_S: Final = 1.0
CLOSE_S: Final = TASKS_S + LAST_S + DELETE_S + WIRE_S

# Stands for requests that bear no message, where headers are asked for.
_NO_MESSAGE: Final = Outgoing(b"")


class StreamableLink:
    """A server behind one URL, which takes each message as a POST."""

    def __init__(
        self,
        server: Server,
        inbox: Inbox,
        nursery: trio.Nursery,
        *,
        authorize: Callable[[], Authorizer] | None = None,
        notice_s: float = NOTICE_S,
        greeted_s: float = GREETED_S,
    ) -> None:
        assert server.reach is not None
        self.dialect: Dialect | None = None
        self._reach = server.reach
        self._server = server
        self._authorize = authorize
        self._greeted_s = greeted_s
        self._inbox = inbox
        self._bell = Bell()
        self._tasks = Tasks(nursery)
        self._outbox = Outbox(
            self._tasks,
            post_request=self._request,
            post_notice=self._notify,
            is_waiting=inbox.is_waiting,
            notice_s=notice_s,
        )
        self._peer: Peer | None = None
        self._undelivered = 0

    async def open(self) -> None:
        """Get ready; nothing is connected before the first message. Raises `LinkError`."""
        authorizer = None if self._authorize is None else self._authorize()
        try:
            wire = Wire(self._reach, max_bytes=self._server.max_line_bytes, authorizer=authorizer)
        except WireError as error:
            raise LinkError(error.why, error.extras) from error
        self._peer = Peer(self._server, wire, self._inbox, self._bell)
        await trio.lowlevel.checkpoint()

    async def greeted(self) -> None:
        """Open the server's own stream, where there may be one. Whether there is one is known on return, or late."""
        if self._peer is None or self.dialect is None or self.dialect.is_modern:
            return
        listening = Listening(self._peer, self._bare_headers)
        self._tasks.start(functools.partial(self._listen, listening))
        with trio.move_on_after(self._greeted_s):
            await listening.settled.wait()

    def send(self, message: Outgoing) -> None:
        """Queue a message."""
        self._outbox.add(message, self.dialect)

    def flush(self) -> bool:
        """Begin to send what is queued; whether what waits is within the bounds."""
        return self._outbox.flush()

    async def turn(self, until: float) -> None:
        """Wait for `wake`, for the end of the session or for the time; what comes in is taken by other tasks."""
        await self._bell.wait(until)

    def wake(self) -> None:
        """Let `turn` return soon."""
        self._bell.ring()

    def give_up(self, number: int) -> bool:
        """End the exchange of request `number`; closing its response is how the stateless revision cancels."""
        is_told = self._outbox.give_up(number)
        if is_told is None:
            return self.dialect is not None and self.dialect.is_modern
        return is_told

    def drop(self) -> None:
        """End all exchanges, and begin none any more."""
        self._outbox.drop()
        self._tasks.cancel()

    async def close(self) -> None:
        """End all exchanges and the MCP session, where there is one, and close what is connected."""
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
            with trio.move_on_after(DELETE_S, shield=True):
                await self._delete(peer)
        with trio.move_on_after(WIRE_S, shield=True):
            await peer.wire.aclose()
        self._peer = None

    @property
    def stderr_tail(self) -> str:
        """It has none."""
        return ""

    @property
    def ended(self) -> dict[str, object]:
        """How many notifications and answers the server did not take."""
        return {"undelivered": self._undelivered}

    # --- exchanges ---------------------------------------------------------------------------------------------------

    async def _listen(self, listening: Listening) -> None:
        await self._outbox.initialized()
        await listening.run()

    async def _request(self, sent: Sent) -> None:
        assert self._peer is not None
        await Exchange(self._peer, sent).run()

    async def _notify(self, sent: Sent) -> None:
        """POST what has no answer. That it does not arrive is nobody's failure yet."""
        peer = self._peer
        assert peer is not None
        headers = [("Accept", f"{JSON}, {EVENT_STREAM}"), ("Content-Type", JSON), *sent.headers]
        if not sent.is_modern:
            headers += peer.session_headers()
        self._undelivered += 1
        try:
            async with peer.wire.exchange("POST", headers, sent.message.line[:-1]) as reply:
                if 200 <= reply.status < 300:
                    self._undelivered -= 1
                elif await peer.refuses_session(reply, headers):
                    return
                await reply.drain(DRAIN_S)
        except WireError:
            return

    async def _delete(self, peer: Peer) -> None:
        """Say that the session is over; a server that does not let clients say so answers 405."""
        try:
            async with peer.wire.exchange("DELETE", self._bare_headers(peer), b"") as reply:
                await reply.drain(DRAIN_S)
        except WireError:
            # It ends its sessions by itself.
            return

    def _bare_headers(self, peer: Peer | None = None) -> list[tuple[str, str]]:
        """What a request without a message shows: the revision and the session."""
        peer = peer or self._peer
        headers = [] if self.dialect is None else self.dialect.headers(_NO_MESSAGE)
        return headers + ([] if peer is None else peer.session_headers())
