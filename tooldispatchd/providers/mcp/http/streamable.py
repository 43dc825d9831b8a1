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

from tooldispatchd.providers.mcp.http.errors import WireError
from tooldispatchd.providers.mcp.http.exchange import HttpExchange
from tooldispatchd.providers.mcp.http.listening import Listening
from tooldispatchd.providers.mcp.http.outbox import NOTICE_S, Sent
from tooldispatchd.providers.mcp.http.peer import DRAIN_S, POST_HEADERS, HttpPeer
from tooldispatchd.providers.mcp.http.posting import PostingLink
from tooldispatchd.providers.mcp.http.wire import Authorizer
from tooldispatchd.providers.mcp.link import Inbox
from tooldispatchd.providers.mcp.messages import Outgoing
from tooldispatchd.providers.mcp.server import Server

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
        self._outbox.forget()

    # --- exchanges ---------------------------------------------------------------------------------------------------

    async def _listen(self, listening: Listening) -> None:
        await self._outbox.initialized()
        await listening.run()

    async def _request(self, sent: Sent) -> None:
        assert self._peer is not None
        await HttpExchange(self._peer, sent).run()

    async def _notify(self, sent: Sent) -> None:
        peer = self._peer
        assert peer is not None
        headers = [*POST_HEADERS, *sent.headers]
        if not sent.is_modern:
            headers += peer.session_headers()
        self._undelivered += 1
        try:
            async with peer.wire.exchange("POST", headers, sent.message.body) as reply:
                if 200 <= reply.status < 300:
                    self._undelivered -= 1
                elif await peer.refuses_session(reply, headers):
                    return
                await reply.drain(DRAIN_S)
        except WireError:
            return

    async def _delete(self, peer: HttpPeer) -> None:
        """Say that the session is over; a server that does not let clients say so answers 405."""
        try:
            async with peer.wire.exchange("DELETE", self._bare_headers(peer), b"") as reply:
                await reply.drain(DRAIN_S)
        except WireError:
            # It ends its sessions by itself.
            return

    def _bare_headers(self, peer: HttpPeer | None = None) -> list[tuple[str, str]]:
        """What a request without a message shows: the revision and the session."""
        peer = peer or self._peer
        headers = [] if self.dialect is None else self.dialect.headers(_NO_MESSAGE)
        return headers + ([] if peer is None else peer.session_headers())
