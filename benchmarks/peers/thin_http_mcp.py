"""An MCP server over HTTP that does next to nothing, so that what is measured is its client.

    python -m benchmarks.peers.thin_http_mcp    prints its port; ends with its input

It answers a POST to `/json` with JSON, to any other path with a stream of one event, and keeps TCP connections. Its
tools, and what it answers, are those of `thin_mcp`; it has no sessions.
"""

import asyncio
import sys
from typing import Final

from benchmarks.peers.thin_mcp import answer

JSON: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
EVENTS: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"%x\r\nevent: message\ndata: %b\n\n\r\n0\r\n\r\n"
)
EVENT_FRAME: Final = len(b"event: message\ndata: \n\n")
ACCEPTED: Final = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
NO_STREAM: Final = b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n"


class Exchanges(asyncio.Protocol):
    """One TCP connection: requests in, answers out, in their order."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep where the answers go."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer all requests that are whole."""
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head, rest = self._buffer[:end].lower(), self._buffer[end + 4 :]
            length = int(head.partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0] or 0)
            if len(rest) < length:
                return
            self._buffer = rest[length:]
            assert self._transport is not None
            self._transport.write(answered(head, rest[:length]))


def answered(head: bytes, body: bytes) -> bytes:
    """The whole answer to one request."""
    if not head.startswith(b"post "):
        return NO_STREAM
    line = answer(body)[:-1]
    if not line:
        return ACCEPTED
    if head.startswith(b"post /json "):
        return JSON % (len(line), line)
    return EVENTS % (EVENT_FRAME + len(line), line)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Exchanges, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
