"""Which TCP connection an exchange uses, and what becomes of it."""

from pathlib import Path

import pytest
import trio

from tests.http.wires import post, wire_to
from tests.servers.raw_http import Peer, polite, serving
from tooldispatchd.http.errors import WireError


async def test_calls_one_after_another_share_a_tcp_connection() -> None:
    async with serving(polite) as server:
        async with wire_to(server.url) as wire:
            for _ in range(3):
                await post(wire)
            async with wire.exchange("DELETE"):
                pass
            await post(wire)
        assert server.connections == 1


async def test_calls_at_the_same_time_have_a_tcp_connection_each() -> None:
    together = trio.Event()

    async def script(peer: Peer) -> None:
        await peer.read_request()
        if len(peer.asked) == 3:
            together.set()
        await together.wait()
        await peer.answer()

    async with serving(script) as server:
        async with wire_to(server.url) as wire, trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(post, wire)
        assert server.connections == 3


async def test_an_answer_that_nobody_read_to_its_end_closes_its_tcp_connection() -> None:
    is_closed = trio.Event()

    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
        await peer.wait_for_close()
        is_closed.set()

    with trio.fail_after(5):
        async with serving(script) as server, wire_to(server.url) as wire:
            async with wire.exchange("POST"):
                pass
            await is_closed.wait()


async def test_an_answer_is_drained_for_the_sake_of_its_tcp_connection() -> None:
    async def script(peer: Peer) -> None:
        for _ in range(2):
            await peer.read_request()
            await peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
            await peer.send(b"1\r\ny\r\n0\r\n\r\n")

    async with serving(script) as server:
        async with wire_to(server.url) as wire:
            async with wire.exchange("POST") as reply:
                assert await reply.receive() == b"x"
                await reply.drain(5.0)
            async with wire.exchange("POST") as reply:
                assert await reply.read(10) == b"xy"
        assert server.connections == 1


async def test_an_answer_that_does_not_end_is_drained_no_longer_than_said() -> None:
    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
        await peer.wait_for_close()

    async with serving(script) as server, wire_to(server.url) as wire:
        with trio.fail_after(5):
            async with wire.exchange("POST") as reply:
                await reply.drain(0.02)


async def test_a_tcp_connection_that_the_server_closed_meanwhile_is_not_used_again() -> None:
    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.answer()

    async with serving(script) as server:
        async with wire_to(server.url) as wire:
            await post(wire)
            await server.wait_until_closed(1)
            assert await post(wire) == (200, b"{}")
        assert len(server.asked) == 2


async def ask_twice(method: str) -> tuple[list[str], WireError | None]:
    """A second request on a connection that the server closes once it has read it; what was asked, and how it ended."""

    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.answer()
        if len(peer.asked) == 1:
            await peer.read_request()
        else:
            await polite(peer)

    async with serving(script) as server, wire_to(server.url) as wire:
        await post(wire)
        try:
            async with wire.exchange(method):
                pass
        except WireError as error:
            return [asked.method for asked in server.asked], error
        return [asked.method for asked in server.asked], None


async def test_a_post_that_may_have_run_is_not_sent_twice() -> None:
    asked, error = await ask_twice("POST")
    assert asked == ["POST", "POST"]
    assert error is not None
    assert error.was_sent


async def test_a_patch_that_may_have_run_is_not_sent_twice() -> None:
    asked, error = await ask_twice("PATCH")
    assert asked == ["POST", "PATCH"]
    assert error is not None


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS"])
async def test_what_may_be_repeated_is_repeated_once(method: str) -> None:
    assert await ask_twice(method) == (["POST", method, method], None)


async def test_what_was_half_answered_is_not_repeated() -> None:
    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.answer()
        await peer.read_request()
        await peer.send(b"H")

    async with serving(script) as server, wire_to(server.url) as wire:
        await post(wire)
        with pytest.raises(WireError, match="within the headers"):
            async with wire.exchange("GET"):
                pass
        assert [asked.method for asked in server.asked] == ["POST", "GET"]


async def test_what_fails_on_a_new_connection_is_not_repeated() -> None:
    async def script(peer: Peer) -> None:
        await peer.read_request()

    async with serving(script) as server, wire_to(server.url) as wire:
        with pytest.raises(WireError, match="without an answer"):
            async with wire.exchange("GET"):
                pass
        assert [asked.method for asked in server.asked] == ["GET"]


async def test_what_a_server_says_unasked_ends_its_tcp_connection() -> None:
    async def script(peer: Peer) -> None:
        while True:
            await peer.read_request()
            await peer.answer(headers="")
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nsmuggle")

    async with serving(script) as server:
        async with wire_to(server.url) as wire:
            assert await post(wire) == (200, b"{}")
            assert await post(wire) == (200, b"{}")
        assert server.connections == 2


async def test_a_server_that_says_close_is_believed() -> None:
    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.answer(headers="Connection: close\r\n")
        await peer.wait_for_close()

    async with serving(script) as server:
        async with wire_to(server.url) as wire:
            await post(wire)
            await post(wire)
        assert server.connections == 2


async def test_what_is_cancelled_leaves_nothing_open() -> None:
    is_asked, is_closed = trio.Event(), trio.Event()

    async def script(peer: Peer) -> None:
        await peer.read_request()
        is_asked.set()
        await peer.wait_for_close()
        is_closed.set()

    with trio.fail_after(5):
        async with serving(script) as server, wire_to(server.url) as wire:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(post, wire)
                await is_asked.wait()
                nursery.cancel_scope.cancel()
            await is_closed.wait()


async def test_headers_that_never_end_are_the_callers_to_bound() -> None:
    has_begun = trio.Event()

    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.send(b"HTTP/1.1 200 OK\r\nX: ")
        has_begun.set()
        await peer.wait_for_close()

    with trio.fail_after(5):
        async with serving(script) as server, wire_to(server.url) as wire:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(post, wire)
                await has_begun.wait()
                nursery.cancel_scope.cancel()
            await server.wait_until_closed(1)


async def test_closing_the_wire_ends_what_is_under_way() -> None:
    is_asked = trio.Event()
    errors: list[WireError] = []

    async def script(peer: Peer) -> None:
        await peer.read_request()
        is_asked.set()
        await peer.wait_for_close()

    with trio.fail_after(5):
        async with serving(script) as server, trio.open_nursery() as nursery:
            wire = wire_to(server.url)

            async def ask() -> None:
                with pytest.raises(WireError) as caught:
                    await post(wire)
                errors.append(caught.value)

            nursery.start_soon(ask)
            await is_asked.wait()
            await wire.aclose()
    assert [error.was_sent for error in errors] == [True]


async def test_a_wire_that_is_closed_sends_nothing() -> None:
    async with serving(polite) as server:
        wire = wire_to(server.url)
        await post(wire)
        await wire.aclose()
        with pytest.raises(WireError, match="is closed"):
            await post(wire)
        assert server.connections == 1


async def test_many_exchanges_use_one_descriptor() -> None:
    async with serving(polite) as server, wire_to(server.url) as wire:
        await post(wire)
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(300):
            await post(wire)
        assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize(
    ("said", "connections"),
    [("timeout=60, max=100", 1), ("Timeout=5", 1), ("max=3", 1), ("timeout=0", 2), ("max=3, timeout=1", 2)],
)
async def test_a_tcp_connection_is_given_up_before_the_server_closes_it(said: str, connections: int) -> None:
    async def script(peer: Peer) -> None:
        while True:
            await peer.read_request()
            await peer.answer(headers=f"Keep-Alive: {said}\r\n")

    async with serving(script) as server:
        async with wire_to(server.url) as wire:
            await post(wire)
            await post(wire)
        assert server.connections == connections
