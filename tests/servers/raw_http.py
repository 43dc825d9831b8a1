"""An HTTP/1.1 server that does what a script says, byte by byte: what is wrong with it is written down in the test."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import trio


@dataclass
class Asked:
    """A request as it came in; header names in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Peer:
    """One TCP connection of a client, on the server's side."""

    stream: trio.abc.Stream
    asked: list[Asked]
    buffered: bytes = b""

    async def read_request(self) -> Asked:
        """The next request with its whole body; raises `EOFError` where the client closed."""
        head = await self._until(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(headers.get("content-length", "0"))
        while len(self.buffered) < length:
            await self._more()
        body, self.buffered = self.buffered[:length], self.buffered[length:]
        found = Asked(first.split()[0], first.split()[1], headers, body)
        self.asked.append(found)
        return found

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def answer(self, body: bytes = b"{}", status: str = "200 OK", headers: str = "") -> None:
        """A well-formed answer; `headers` are whole lines, each with its end."""
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
        await self.send(head.encode() + body)

    async def wait_for_close(self) -> None:
        """Until the client closes its side."""
        with suppress(trio.BrokenResourceError):
            while await self.stream.receive_some(65_536):
                pass

    def reset(self) -> None:
        """Break the TCP connection off with a reset instead of an orderly end."""
        assert isinstance(self.stream, trio.SocketStream)
        self.stream.socket.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.stream.socket.close()

    async def _until(self, mark: bytes) -> bytes:
        while mark not in self.buffered:
            await self._more()
        found, _, self.buffered = self.buffered.partition(mark)
        return found

    async def _more(self) -> None:
        chunk = await self.stream.receive_some(65_536)
        if not chunk:
            raise EOFError
        self.buffered += chunk


Script = Callable[[Peer], Awaitable[None]]


@dataclass
class RawServer:
    """A server that runs; what it was asked, over all its connections, and how many connections it took."""

    port: int
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    closed: int = 0
    _changed: trio.lowlevel.ParkingLot = field(default_factory=trio.lowlevel.ParkingLot)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def note_closed(self) -> None:
        self.closed += 1
        self._changed.unpark_all()

    async def wait_until_closed(self, count: int) -> None:
        """Until so many connections are over and closed on the server's side."""
        while self.closed < count:
            await self._changed.park()


@asynccontextmanager
async def serving(script: Script, *, context: ssl.SSLContext | None = None) -> AsyncIterator[RawServer]:
    """Run `script` for each connection on a free loopback port, inside TLS if there is a context."""
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    server = RawServer(listener.socket.getsockname()[1])

    async def handle(stream: trio.SocketStream) -> None:
        server.connections += 1
        above: trio.abc.Stream = stream
        if context is not None:
            above = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
        with suppress(EOFError, trio.BrokenResourceError, trio.ClosedResourceError, ssl.SSLError):
            await script(Peer(above, server.asked))
        stream.socket.close()
        server.note_closed()

    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, handle, [listener])
        try:
            yield server
        finally:
            nursery.cancel_scope.cancel()


async def polite(peer: Peer) -> None:
    """Answer each request with `{}`, for as long as the client asks."""
    while True:
        await peer.read_request()
        await peer.answer()
