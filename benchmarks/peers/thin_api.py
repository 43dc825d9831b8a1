"""An HTTP API that does next to nothing, so that what is measured is its client.

    python -m benchmarks.peers.thin_api    prints its port; ends with its input

Whatever it is asked without a body, it answers with the same JSON, and it keeps TCP connections.
"""

import asyncio
import sys
from typing import Final

BODY: Final = b'{"city":"Paris","degrees":21.5,"wind":{"from":"west","speed":3},"rain":[0,0,1.5]}'
ANSWER: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)


class Gets(asyncio.Protocol):
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
        *whole, self._buffer = (self._buffer + data).split(b"\r\n\r\n")
        assert self._transport is not None
        self._transport.write(ANSWER * len(whole))


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Gets, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
