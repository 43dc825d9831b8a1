"""The server's own stream by itself: when it is opened anew, and when no more."""

import pytest
import trio

from tests.providers.mcp.linking import Handle, Inbox, answering, at, chunk, each, event, in_turn, streaming
from tests.servers.raw_http import Asked, Peer, serving
from tooldispatchd.http.reach import Reach
from tooldispatchd.http.wire import HttpWire
from tooldispatchd.providers.mcp.http.posting import HttpPeer
from tooldispatchd.providers.mcp.http.streamable import Listening
from tooldispatchd.providers.mcp.link import Bell


async def listen(*handles: Handle) -> tuple[Inbox, Bell, list[Asked]]:
    """Listen to a server that deals so with one GET after the other, until it says that it has no stream."""
    inbox, bell = Inbox(), Bell()
    async with (
        serving(each(in_turn(*handles, answering(b"", "405 Method Not Allowed")))) as server,
        HttpWire(Reach(url=server.url), max_bytes=1024) as wire,
    ):
        peer = HttpPeer(at(server.url), wire, inbox, bell)
        peer.adopt("s-1")
        listening = Listening(peer, peer.session_headers, first_wait_s=0.01)
        with trio.fail_after(5):
            await listening.run()
        assert listening.settled.is_set()
        return inbox, bell, server.asked


async def _closed(peer: Peer, asked: Asked) -> None:
    raise EOFError


async def test_a_stream_that_brings_nothing_is_opened_anew_after_growing_waits() -> None:
    began = trio.current_time()
    _, _, asked = await listen(*[streaming(chunk(b"retry: 1\n\n"))] * 4)
    assert len(asked) == 5
    assert trio.current_time() - began >= 0.01 + 0.02 + 0.04 + 0.08


@pytest.mark.parametrize(
    "trouble", [answering(b"", "503 Service Unavailable"), answering(b"", "401 Unauthorized"), answering(b"{}")]
)
async def test_trouble_after_it_was_open_once_is_waited_out(trouble: Handle) -> None:
    last = streaming(event(b'{"method":"last"}', retry=1))
    inbox, bell, asked = await listen(streaming(event(b"{}", id_="e-1", retry=1)), trouble, trouble, last)
    assert inbox.messages[-1] == b'{"method":"last"}'
    assert len(asked) == 5
    assert asked[3].headers["last-event-id"] == "e-1"
    assert not bell.is_lost


async def test_a_server_that_closes_before_it_answers_is_asked_again_once_it_had_a_stream() -> None:
    # The wire repeats a GET by itself where a kept connection closes.
    inbox, _, _ = await listen(
        streaming(event(b"{}", retry=1)), _closed, _closed, streaming(event(b'{"a":1}', retry=1))
    )
    assert inbox.messages[-1] == b'{"a":1}'


async def test_the_end_of_the_session_is_the_end_of_the_link() -> None:
    _, bell, _ = await listen(streaming(event(b"{}", retry=1)), answering(b"", "404 Not Found"))
    assert bell.is_lost


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}',
        b"Invalid or missing session ID",
    ],
)
async def test_a_server_that_has_forgotten_the_session_is_noticed_without_a_call(body: bytes) -> None:
    _, bell, _ = await listen(streaming(event(b"{}", retry=1)), answering(body, "400 Bad Request"))
    assert bell.is_lost


async def test_a_server_that_cannot_go_on_from_an_event_still_has_the_session() -> None:
    _, bell, asked = await listen(
        streaming(event(b"{}", id_="e-1", retry=1)), answering(b"Invalid event ID format", "400 Bad Request")
    )
    assert len(asked) == 2
    assert not bell.is_lost


@pytest.mark.parametrize("status", ["404 Not Found", "500 Internal Server Error"])
async def test_a_server_that_never_had_a_stream_is_asked_once(status: str) -> None:
    _, bell, asked = await listen(answering(b"", status))
    assert len(asked) == 1
    assert not bell.is_lost
