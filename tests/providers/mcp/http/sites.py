"""Servers with a session, for the tests of Streamable HTTP."""

from tests.providers.mcp.linking import (
    Handle,
    Speaks,
    answer_to,
    at,
    method_of,
    number_of,
)
from tests.servers.raw_http import Asked, Peer
from tooldispatchd.providers.mcp.http.door import StreamableWay

OPENING = Speaks("")


def way(url: str) -> StreamableWay:
    server = at(url)
    assert server.reach is not None
    return StreamableWay(server, server.reach)


class Site:
    """A server with a session: how it deals with each method, HTTP's `GET` and `DELETE` among them."""

    def __init__(self, session_id: str | None = "s-1", **handles: Handle) -> None:
        self.session_id = session_id
        self.handles = handles

    async def __call__(self, peer: Peer, asked: Asked) -> None:
        method = method_of(asked)
        handle = self.handles.get(method.replace("/", "_"))
        if handle is not None:
            await handle(peer, asked)
        elif method == "GET":
            await peer.answer(b"", "405 Method Not Allowed")
        elif method == "initialize" and self.session_id is not None:
            await peer.answer(answer_to(number_of(asked)), headers=f"Mcp-Session-Id: {self.session_id}\r\n")
        elif b'"id"' in asked.body:
            await peer.answer(answer_to(number_of(asked)), headers="Mcp-Session-Id: another\r\n")
        else:
            await peer.send(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")


async def silent(peer: Peer, asked: Asked) -> None:
    await peer.wait_for_close()
    raise EOFError


async def closed(peer: Peer, asked: Asked) -> None:
    raise EOFError
