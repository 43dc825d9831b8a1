import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import h11
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MemoryReceiveStream, MemorySendStream, MockClock

from tooldispatchd.http.errors import UnansweredError, WireError
from tooldispatchd.http.http1 import WRITE_S, Http1, Socket

Ours = trio.StapledStream[MemorySendStream, MemoryReceiveStream]


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Http1, Ours, Ours]]:
    """A connection over memory, its own end, and the server's."""
    ours, theirs = trio.testing.memory_stream_pair()
    connection = Http1(Socket(trio.socket.socket()), ours)
    yield connection, ours, theirs
    connection.close()


def request(method: str = "GET") -> h11.Request:
    return h11.Request(method=method, target="/", headers=[("Host", "mcp.test")])


async def test_a_request_of_which_nothing_left_was_not_sent() -> None:
    async with connected() as (connection, _, theirs):
        await theirs.aclose()
        with pytest.raises(UnansweredError, match="cannot write the request") as caught:
            await connection.ask(request(), b"")
        assert not caught.value.was_sent


async def test_a_server_that_reads_nothing_is_given_up(autojump_clock: MockClock) -> None:
    async with connected() as (connection, ours, _):

        async def never() -> None:
            await trio.sleep_forever()

        ours.send_stream.send_all_hook = never
        started = trio.current_time()
        with pytest.raises(WireError, match="did not read the request within 30 s") as caught:
            await connection.ask(request(), b"")
        assert caught.value.was_sent
        assert trio.current_time() - started == WRITE_S


async def test_a_connection_that_failed_serves_no_other_exchange() -> None:
    async with connected() as (connection, _, theirs):
        await theirs.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        await connection.ask(request(), b"")
        connection.close()
        assert not connection.skip()
        assert not connection.rewind()


async def test_what_lies_there_of_a_body_is_passed_over() -> None:
    async with connected() as (connection, _, theirs):
        await theirs.send_all(b"HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\n{}")
        await connection.ask(request(), b"")
        assert connection.skip()
        assert connection.rewind()
        await theirs.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{")
        await connection.ask(request(), b"")
        assert not connection.skip()


async def test_a_body_may_be_waited_for_in_turns() -> None:
    async with connected() as (connection, _, theirs):
        await theirs.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
        await connection.ask(request(), b"")
        with trio.move_on_after(0):
            await connection.receive()
        await theirs.send_all(b"{}")
        assert await connection.receive() == b"{}"


async def test_what_tls_says_about_the_end_is_told() -> None:
    async with connected() as (connection, ours, _):

        async def refuse() -> None:
            await trio.lowlevel.checkpoint()
            refusal = ssl.SSLError()
            refusal.reason = "TLSV13_ALERT_CERTIFICATE_REQUIRED"
            raise trio.BrokenResourceError from refusal

        ours.receive_stream.receive_some_hook = refuse
        with pytest.raises(UnansweredError, match="without an answer: it wants a client certificate"):
            await connection.ask(request(), b"")


HEAD = st.sampled_from(
    [
        b"",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 204 No\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n",
    ]
)
PIECE = st.one_of(
    HEAD, st.binary(max_size=20), st.sampled_from([b"4\r\n", b"abcd", b"\r\n", b"0\r\n\r\n", b"X: y\r\n"])
)


@given(pieces=st.lists(PIECE, max_size=8))
def test_any_bytes_are_an_answer_or_an_error(pieces: list[bytes]) -> None:
    errors: list[WireError] = []

    async def read() -> None:
        async with connected() as (connection, _, theirs):
            for piece in pieces:
                await theirs.send_all(piece)
            await theirs.send_eof()
            try:
                await connection.ask(request(), b"")
                while await connection.receive():
                    pass
            except WireError as error:
                errors.append(error)

    trio.run(read)
    # What answers in TLS has not read it.
    assert all((error.was_sent or "TLS" in error.why) and len(error.why) < 300 for error in errors)


@pytest.mark.parametrize(("headers", "is_read"), [(990, True), (1_001, False)])
async def test_an_answer_with_more_headers_than_any_has_is_refused(headers: int, *, is_read: bool) -> None:
    async with connected() as (connection, _, theirs):
        await theirs.send_all(b"HTTP/1.1 204 x\r\n" + b"a:\r\n" * headers + b"\r\n")
        if is_read:
            assert (await connection.ask(request(), b"")).status_code == 204
            return
        with pytest.raises(WireError, match="more than 1000 headers"):
            await connection.ask(request(), b"")
