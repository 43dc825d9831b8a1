"""HTTP+SSE, revision 2024-11-05: one stream for all that the server says, and an endpoint that takes POSTs.

    open ─▶ GET, `endpoint` event ─▶ send ─▶ POST to the endpoint, 202
                    └─ `message` events ─▶ Inbox … the stream's end is the link's end

The stream is the connection: it cannot be resumed, as the server forgets its client with it.
"""

from typing import Final
from urllib.parse import urljoin

import trio
from msgspec import Raw

from tooldispatchd.http.errors import WireError, status_words
from tooldispatchd.http.eventstream import ServerSentEvent
from tooldispatchd.http.places import place
from tooldispatchd.providers.mcp.http.posting import (
    DRAIN_S,
    EVENT_STREAM,
    POST_HEADERS,
    PostingLink,
    Sent,
    wrong_transport,
)
from tooldispatchd.providers.mcp.http.serverstream import ServerStream, is_message
from tooldispatchd.providers.mcp.link import LinkError

# A path and a session's id.
MAX_ENDPOINT_BYTES: Final = 8 * 1024


class PairLink(PostingLink):
    """A server that speaks through one stream and listens at an endpoint."""

    # The endpoint comes with the head of the stream.
    endpoint_s = 10.0

    async def open(self) -> None:
        """Open the stream and wait for the endpoint. Raises `LinkError`."""
        self._meet()
        self._tasks.start(self._listen)
        until = trio.current_time() + self.endpoint_s
        while self._endpoint is None:
            if trio.current_time() >= until:
                hint = wrong_transport(self._server, 200)
                raise LinkError(f"it named no endpoint within {self.endpoint_s:g} s{hint}")
            await self._bell.wait(until)

    async def greeted(self) -> None:
        """Everything is open already."""

    def give_up(self, number: int) -> bool:
        """End the POST of request `number`, if it still runs; whether it was never sent."""
        return self._outbox.give_up(number) or False

    # --- the stream --------------------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        peer = self._peer
        assert peer is not None
        why = "it closed its event stream"
        extras: dict[str, object] = {}
        try:
            async with peer.wire.exchange("GET", [("Accept", EVENT_STREAM)], b"") as reply:
                if reply.status == 200 and reply.media_type == EVENT_STREAM:
                    await ServerStream(self._server.max_line_bytes, self._inbox.share).follow(reply, self._take)
                else:
                    why = "it answered GET with something else than events"
                    if reply.status != 200:
                        why = status_words(reply.status, self._reach)
                    why += wrong_transport(self._server, reply.status)
                    extras = {"http_status": reply.status}
        except WireError as error:
            why, extras = error.why, error.extras
        if not self._bell.is_lost:
            self._bell.lose(why, extras)

    async def _take(self, event: ServerSentEvent) -> bool:
        if is_message(event):
            await self._inbox.take(Raw(event.data))
        elif event.event == "endpoint" and self._endpoint is None:
            try:
                self._endpoint = _resolve(self._reach.url, bytes(event.data))
            except WireError as error:
                self._bell.lose(error.why)
                return True
            self._bell.ring()
        return False

    # --- exchanges ---------------------------------------------------------------------------------------------------

    async def _request(self, sent: Sent) -> None:
        """POST a request; its answer comes by the stream, and only what shows that none will come is told here."""
        peer, number = self._peer, sent.message.number
        assert peer is not None
        assert number is not None
        headers = [*POST_HEADERS, *sent.headers]
        try:
            async with peer.wire.exchange("POST", headers, sent.message.body, url=self._endpoint) as reply:
                if 200 <= reply.status < 300:
                    await reply.drain(DRAIN_S)
                else:
                    await peer.refuse(number, reply, headers)
        except WireError as error:
            peer.fail(number, error)


def _resolve(url: str, said: bytes) -> str:
    """The endpoint that the server named, which must be of our own origin. Raises `WireError`."""
    if len(said) > MAX_ENDPOINT_BYTES:
        raise WireError(f"its endpoint is longer than {MAX_ENDPOINT_BYTES} bytes")
    try:
        found = urljoin(url, said.decode().strip())
    except ValueError:
        raise WireError("its endpoint is not a URL") from None
    there, own = place(found), place(url)
    if there.origin != own.origin:
        # Credentials of this origin go with every message.
        raise WireError(f"its endpoint is at another origin, {there.origin}")
    return there.url
