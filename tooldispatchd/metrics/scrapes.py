"""One scrape over HTTP: a request, its answer, and the end of the connection.

    head, within bounds ──▶ 200 with the text, rendered in turns | 400 | 403 | 404 | 405 ──▶ closed

A monitor comes every few seconds, so that a connection of its own costs nothing, and there is no second request to
bound. Whatever the peer does, it has `SCRAPE_S`, and the loop only for pieces.
"""

import socket
from collections.abc import AsyncIterator, Iterable
from typing import Final

import h11
import trio

from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.session.administration import CountedDaemon
from tooldispatchd.metrics.exposition import CONTENT_TYPE
from tooldispatchd.metrics.rendering import pieces

# Prometheus sends half a kilobyte.
MAX_HEAD_BYTES: Final = 8 * 1024
# What h11 is given of it at once.
CHUNK_BYTES: Final = 2 * 1024
# Prometheus itself gives up after ten seconds by default.
SCRAPE_S: Final = 15.0
PATH: Final = b"/metrics"
# After a piece, which takes about as long: however often it is scraped, agents have half of the loop.
PAUSE_S: Final = 0.001


async def serve_scrape(
    connection: socket.socket,
    daemon: CountedDaemon,
    runtime: Runtime,
    *,
    hosts: Iterable[str] | None,
    rendering: trio.Lock,
) -> None:
    """Answer one request, and close the connection; `hosts` may be asked for, None for any.

    Texts are made one after the other, each by who holds `rendering`.
    """
    with trio.socket.from_stdlib_socket(connection) as peer, trio.move_on_after(SCRAPE_S):
        machine = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        try:
            request = await _request(peer, machine)
            if request is not None:
                async with rendering:
                    status = _status(request, hosts)
                    body = [piece async for piece in _paused(pieces(daemon, runtime))] if status == 200 else []
                await _answer(peer, machine, request, status, body)
        except h11.RemoteProtocolError as error:
            if machine.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
                await _send(peer, machine, [_head(error.error_status_hint, 0), h11.EndOfMessage()])
        except (h11.LocalProtocolError, OSError):
            # It is gone, or has sent what no answer belongs to.
            return
        await _part(peer)


async def _request(peer: trio.socket.SocketType, machine: h11.Connection) -> h11.Request | None:
    """Its head; None where the peer has left. What it says after that is not read."""
    while (event := machine.next_event()) is h11.NEED_DATA:
        machine.receive_data(await peer.recv(CHUNK_BYTES))
    return event if isinstance(event, h11.Request) else None


def _status(request: h11.Request, hosts: Iterable[str] | None) -> int:
    host = next((value for name, value in request.headers if name == b"host"), b"").decode("latin-1").lower()
    if hosts is not None and host not in hosts:
        # A web page whose name was made to lead to this machine shows that name.
        return 403
    if request.target.partition(b"?")[0] != PATH:
        return 404
    return 200 if request.method in {b"GET", b"HEAD"} else 405


async def _answer(
    peer: trio.socket.SocketType, machine: h11.Connection, request: h11.Request, status: int, body: list[bytes]
) -> None:
    shown = body if request.method != b"HEAD" else []
    size = sum(map(len, body))
    await _send(peer, machine, [_head(status, size), *(h11.Data(data=each) for each in shown), h11.EndOfMessage()])


async def _paused(text: Iterable[str]) -> AsyncIterator[bytes]:
    for piece in text:
        yield piece.encode()
        await trio.sleep(PAUSE_S)


def _head(status: int, size: int) -> h11.Response:
    allowed = [("Allow", "GET, HEAD")] if status == 405 else []
    typed = [("Content-Type", CONTENT_TYPE)] if status == 200 else []
    headers = [*typed, *allowed, ("Content-Length", str(size)), ("Connection", "close")]
    return h11.Response(status_code=status, headers=headers)


async def _send(peer: trio.socket.SocketType, machine: h11.Connection, events: Iterable[h11.Event]) -> None:
    for event in events:
        data = memoryview(machine.send(event) or b"")
        while data:
            data = data[await peer.send(data) :]


async def _part(peer: trio.socket.SocketType) -> None:
    """Read to the peer's end: with bytes of its own unread, the kernel would take the answer back."""
    try:
        peer.shutdown(socket.SHUT_WR)
        while await peer.recv(CHUNK_BYTES):
            pass
    except OSError:
        return
