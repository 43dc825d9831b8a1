"""Streamable HTTP, revisions 2025-03-26 to 2026-07-28: each message is a POST, each answer its response.

    send ─▶ Outbox ─┬─ request ─▶ Exchange ─▶ Inbox
                    └─ others ──▶ POST, 202
    greeted ───────────────────── Listening ─▶ Inbox        where there is a handshake

There is no connection that could break: one request that fails says nothing of the next. What ends the link is the
server's word that the session is over.
"""

import functools
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import trio

from tooldispatchd.providers.mcp.http import posting
from tooldispatchd.providers.mcp.http.errors import WireError
from tooldispatchd.providers.mcp.http.eventstream import ServerSentEvent, ServerStream, is_message
from tooldispatchd.providers.mcp.http.exchange import HttpExchange
from tooldispatchd.providers.mcp.http.posting import (
    DRAIN_S,
    EVENT_STREAM,
    NOTICE_S,
    HttpPeer,
    PostingLink,
    Sent,
)
from tooldispatchd.providers.mcp.http.wire import Authorizer
from tooldispatchd.providers.mcp.link import Inbox
from tooldispatchd.providers.mcp.messages import Outgoing
from tooldispatchd.providers.mcp.server import Server

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
            await self._peer.inbox.take(event.data)
        return False


# The first call waits for the stream, so that nothing is missed that it brings about; but not for ever.
GREETED_S: Final = 5.0
# To end the MCP session: a server that hangs gets as long as one that is asked to end politely.
DELETE_S: Final = 2.0
CLOSE_S: Final = posting.CLOSE_S + DELETE_S

# Stands for requests without a message, where headers are asked for.
_NO_MESSAGE: Final = Outgoing(b"")


class StreamableLink(PostingLink):
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
        super().__init__(server, inbox, nursery, authorize=authorize, notice_s=notice_s)
        self._greeted_s = greeted_s

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
        with trio.move_on_after(self._greeted_s):
            await listening.settled.wait()

    def give_up(self, number: int) -> bool:
        """End the exchange of request `number`; closing its response is how the stateless revision cancels."""
        is_told = self._outbox.give_up(number)
        if is_told is None:
            return self.dialect is not None and self.dialect.is_modern
        return is_told

    async def _take_leave(self, peer: HttpPeer) -> None:
        await super()._take_leave(peer)
        if peer.session_id is not None and not self._bell.is_lost:
            # A server that does not let clients end sessions answers 405, and ends them by itself.
            with trio.move_on_after(DELETE_S, shield=True), suppress(WireError):
                async with peer.wire.exchange("DELETE", self._bare_headers(peer), b"") as reply:
                    await reply.drain(DRAIN_S)

    # --- exchanges ---------------------------------------------------------------------------------------------------

    async def _listen(self, listening: Listening) -> None:
        await self._outbox.initialized()
        await listening.run()

    async def _request(self, sent: Sent) -> None:
        assert self._peer is not None
        await HttpExchange(self._peer, sent).run()

    def _bare_headers(self, peer: HttpPeer | None = None) -> list[tuple[str, str]]:
        """The headers of a request without a message: the revision and the session."""
        peer = peer or self._peer
        headers = [] if self.dialect is None else self.dialect.headers(_NO_MESSAGE)
        return headers + ([] if peer is None else peer.session_headers())
