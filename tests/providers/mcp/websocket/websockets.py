"""WebSocket servers for the tests: each deals with its callers as a script says."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import msgspec
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    CloseConnection,
    Event,
    Request,
    TextMessage,
)

from tests.providers.mcp.linking import answer_to, at
from tests.servers.raw_http import Peer, RawServer, serving
from tooldispatchd.http.reach import OAuth
from tooldispatchd.providers.mcp.websocket import WebSocketWay


def way(
    server: RawServer,
    *,
    headers: tuple[tuple[str, str], ...] = (),
    oauth: OAuth | None = None,
    max_bytes: int = 1024 * 1024,
) -> WebSocketWay:
    spec = at(server.url.replace("http:", "ws:"), max_bytes=max_bytes, headers=headers, oauth=oauth)
    assert spec.reach is not None
    return WebSocketWay(spec, spec.reach)


class Caller:
    """The server's side of one connection."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.connection = WSConnection(ConnectionType.SERVER)
        self.request: Request | None = None
        self.seen: list[Event] = []

    async def accept(self, subprotocol: str | None = "mcp", *, more: bytes = b"") -> None:
        request = await self.next(Request)
        assert isinstance(request, Request)
        self.request = request
        await self.peer.send(self.connection.send(AcceptConnection(subprotocol=subprotocol)) + more)

    async def next(self, kind: type[Event]) -> Event:
        """The next event of this kind; raises `EOFError` where the client left before."""
        while True:
            while self.seen:
                event = self.seen.pop(0)
                if isinstance(event, kind):
                    return event
                if isinstance(event, CloseConnection):
                    await self.send(event.response())
                    raise EOFError  # noqa: TRY004 - the client has left, as its close says
            received = await self.peer.stream.receive_some(65_536)
            if not received:
                raise EOFError
            self.connection.receive_data(bytes(received))
            self.seen += self.connection.events()

    async def read(self) -> dict[str, object]:
        parts = []
        while True:
            event = await self.next(TextMessage)
            assert isinstance(event, TextMessage)
            parts.append(event.data)
            if event.message_finished:
                found = msgspec.json.decode("".join(parts))
                assert isinstance(found, dict)
                return found

    async def send(self, *events: Event) -> None:
        await self.peer.send(b"".join(self.connection.send(event) for event in events))

    async def say(self, text: bytes) -> None:
        await self.send(TextMessage(data=text.decode()))


Deal = Callable[[Caller], Awaitable[None]]


async def answer_all(caller: Caller) -> None:
    while True:
        message = await caller.read()
        if "id" in message:
            await caller.say(answer_to(int(str(message["id"]))))


@asynccontextmanager
async def calling(deal: Deal, *, subprotocol: str | None = "mcp", more: bytes = b"") -> AsyncIterator[RawServer]:
    """A server that accepts each connection, deals with it, and then waits until the client has gone."""

    async def script(peer: Peer) -> None:
        caller = Caller(peer)
        await caller.accept(subprotocol, more=more)
        await deal(caller)
        with suppress(EOFError):
            await caller.next(CloseConnection)

    async with serving(script) as server:
        yield server
