"""However small the pieces are in which a server says something, other tasks get their turn."""

import math
from typing import Final

import pytest
import trio

from tests.providers.mcp.http.turns import TRIES, TURN_S, Turns
from tests.providers.mcp.http.wires import MIB, wire_to
from tests.providers.mcp.linking import SHARE
from tests.servers.raw_http import Peer, serving
from tooldispatchd.providers.mcp.http.errors import WireError
from tooldispatchd.providers.mcp.http.eventstream import ServerSentEvent, ServerStream

CHUNKED: Final = b"Transfer-Encoding: chunked\r\n\r\n"
EVENTS: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


async def measured(answer: bytes, *, is_read: bool = True) -> float:
    """The longest turn while this answer is taken, as a stream of events if it is one; in the best of some tries."""
    longest_s = math.inf
    for _ in range(TRIES):
        longest_s = min(longest_s, await measured_once(answer, is_read=is_read))
        if longest_s < TURN_S:
            break
    return longest_s


async def measured_once(answer: bytes, *, is_read: bool) -> float:

    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.send(answer)

    async def take(_: ServerSentEvent) -> bool:
        return False

    turns = Turns()
    async with serving(script) as server, wire_to(server.url) as wire:
        trio.lowlevel.add_instrument(turns)
        try:
            async with wire.exchange("POST", [], b"{}") as reply:
                if is_read and reply.media_type:
                    await ServerStream(MIB, SHARE).follow(reply, take)
                elif is_read:
                    await reply.read(MIB)
                else:
                    # Until all of it lies here.
                    await trio.sleep(0.1)
        except WireError:
            pass
        finally:
            trio.lowlevel.remove_instrument(turns)
    return turns.longest_s


LINES: Final = {
    "empty lines": b"\n" * 500_000,
    "ends of lines of the other kind": b"\r" * 500_000,
    "comments": b":\n" * 250_000,
    "fields without a meaning": b"a\n" * 250_000,
    "lines of data": b"data\n" * 100_000,
    "events": b"data:1\n\n" * 60_000,
    "numbers of events": b"id\n\n" * 60_000,
}


@pytest.mark.parametrize("lines", LINES.values(), ids=LINES.keys())
async def test_a_stream_of_short_lines_holds_nobody_up(lines: bytes) -> None:
    assert await measured(EVENTS + lines) < TURN_S


async def test_a_body_of_tiny_chunks_holds_nobody_up() -> None:
    answer = b"HTTP/1.1 200 OK\r\n" + CHUNKED + b"1\r\nx\r\n" * 60_000 + b"0\r\n\r\n"
    assert await measured(answer) < TURN_S


async def test_a_body_of_tiny_chunks_that_nobody_reads_holds_nobody_up() -> None:
    answer = b"HTTP/1.1 401 Unauthorized\r\n" + CHUNKED + b"1\r\nx\r\n" * 60_000
    assert await measured(answer, is_read=False) < TURN_S


FIELDS: Final = {"each its own": b"".join(b"%x:\n" % number for number in range(13_000)), "all equal": b"a:\n" * 21_000}


@pytest.mark.parametrize("fields", FIELDS.values(), ids=FIELDS.keys())
@pytest.mark.parametrize("status", [200, 103])
async def test_a_flood_of_headers_holds_nobody_up(fields: bytes, status: int) -> None:
    head = b"HTTP/1.1 %d Told\r\n" % status + fields
    assert await measured((head + b"\r\n") * 3) < TURN_S


async def test_a_flood_of_trailers_holds_nobody_up() -> None:
    answer = b"HTTP/1.1 200 OK\r\n" + CHUNKED + b"2\r\n{}\r\n0\r\n" + b"a:\n" * 21_000 + b"\r\n"
    assert await measured(answer) < TURN_S
