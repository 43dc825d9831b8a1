"""The stream on which a server says what belongs to no request (MCP, "Listening for Messages from the Server").

Having none is no failure: most servers refuse the GET. One that was open is opened anew for as long as the link lives.
"""

from collections.abc import Callable
from typing import Final

import trio

from tooldispatchd.providers.mcp.http.errors import WireError
from tooldispatchd.providers.mcp.http.eventstream import ServerSentEvent
from tooldispatchd.providers.mcp.http.peer import EVENT_STREAM, HttpPeer
from tooldispatchd.providers.mcp.http.stream import ServerStream, is_message

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
