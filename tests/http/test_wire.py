import gzip
from importlib.metadata import version

import pytest
import trio

from tests.http.wires import MIB, post, wire_to
from tests.servers.raw_http import Peer, polite, serving
from tooldispatchd.http.errors import WireError
from tooldispatchd.http.places import HttpTarget, Origin


async def failing(answer: bytes, *, method: str = "POST") -> WireError:
    """What becomes of an exchange that is answered with these bytes and the end of the connection."""

    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.send(answer)

    with trio.fail_after(5):
        async with serving(script) as server, wire_to(server.url) as wire:
            with pytest.raises(WireError) as caught:
                async with wire.exchange(method) as reply:
                    await reply.read(MIB)
            return caught.value


async def answered(answer: bytes) -> tuple[int, bytes]:
    """The answer that these bytes and the end of the connection are."""

    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.send(answer)

    with trio.fail_after(5):
        async with serving(script) as server, wire_to(server.url) as wire:
            return await post(wire)


# What is sent


async def test_a_request_says_what_it_must_and_no_more() -> None:
    async with serving(polite) as server:
        async with wire_to(server.url + "?a=b", headers=(("Authorization", "Bearer t"),)) as wire:
            assert await post(wire, b'{"id":1}') == (200, b"{}")
        [asked] = server.asked
        assert (asked.method, asked.target, asked.body) == ("POST", "/mcp?a=b", b'{"id":1}')
        assert asked.headers == {
            "host": f"127.0.0.1:{server.port}",
            "accept-encoding": "identity",
            "content-type": "application/json",
            "authorization": "Bearer t",
            "user-agent": f"tooldispatchd/{version('tooldispatchd')}",
            "content-length": "8",
        }


async def test_the_configuration_may_name_the_client() -> None:
    async with serving(polite) as server:
        async with wire_to(server.url, headers=(("user-agent", "me/1"),)) as wire:
            await post(wire)
        assert server.asked[0].headers["user-agent"] == "me/1"


async def test_a_header_of_the_request_stands_in_the_place_of_the_configured_one() -> None:
    async with serving(polite) as server:
        wire = wire_to(server.url, headers=(("X-Kind", "configured"),))
        async with wire, wire.exchange("GET", [("x-kind", "asked")]):
            pass
        assert server.asked[0].headers["x-kind"] == "asked"


async def test_a_get_has_no_length() -> None:
    async with serving(polite) as server:
        async with wire_to(server.url) as wire, wire.exchange("GET"):
            pass
        assert "content-length" not in server.asked[0].headers


@pytest.mark.parametrize(
    "echo",
    [
        b"POST /mcp?key=hunter2 HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nAuthorization hunter2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhunter2\r\n",
    ],
)
async def test_what_echoes_the_request_has_nothing_of_it_shown(echo: bytes) -> None:
    error = await failing(echo)
    assert "is not HTTP: illegal" in error.why
    assert "hunter2" not in error.why


@pytest.mark.parametrize("value", ["hunter2\r\nX: y", "hunter2 ä", "hunter2\x00"])
async def test_a_header_that_is_none_is_refused_and_not_shown(value: str) -> None:
    async with wire_to("http://127.0.0.1:9/", headers=(("Authorization", value),)) as wire:
        with pytest.raises(WireError, match="a header of it is not HTTP") as caught:
            await post(wire)
    assert not caught.value.was_sent
    assert "hunter2" not in repr(caught.value)


async def test_another_url_of_the_same_origin_may_be_asked() -> None:
    async with serving(polite) as server:
        async with wire_to(server.url) as wire:
            async with wire.exchange("POST", (), b"{}", url=f"http://127.0.0.1:{server.port}/messages?s=1"):
                pass
            with pytest.raises(WireError, match="is not among its `hosts`"):
                async with wire.exchange("POST", (), b"{}", url="http://other.example/messages"):
                    pass
        assert [asked.target for asked in server.asked] == ["/messages?s=1"]


async def test_a_target_goes_out_as_it_is() -> None:
    target = "/a%2Fb/%7e;x=[1]//c?q=%20+a|b&q&"
    async with serving(polite) as server:
        own = Origin("http", "127.0.0.1", server.port)
        async with wire_to(server.url) as wire:
            async with wire.exchange("GET", url=HttpTarget(own, target)):
                pass
            with pytest.raises(WireError, match="which is not its own origin"):
                async with wire.exchange("GET", url=HttpTarget(Origin("http", "other.example", 80), "/")):
                    pass
        assert [asked.target for asked in server.asked] == [target]


@pytest.mark.parametrize("target", ["/a b", "/a\r\nX: y", "/ä", ""])
async def test_a_target_that_would_break_the_request_is_not_sent(target: str) -> None:
    async with serving(polite) as server:
        async with wire_to(server.url) as wire:
            with pytest.raises(WireError, match="cannot write the request"):
                async with wire.exchange("GET", url=HttpTarget(Origin("http", "127.0.0.1", server.port), target)):
                    pass
        assert server.asked == []


@pytest.mark.parametrize(
    ("method", "length"),
    [("POST", "0"), ("PUT", "0"), ("PATCH", "0"), ("GET", None), ("HEAD", None), ("DELETE", None), ("OPTIONS", None)],
)
async def test_without_a_body_its_length_is_told_where_one_is_expected(method: str, length: str | None) -> None:
    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.send(b"HTTP/1.1 204 No Content\r\n\r\n")

    async with serving(script) as server:
        async with wire_to(server.url) as wire, wire.exchange(method):
            pass
        assert server.asked[0].headers.get("content-length") == length


# What comes back


async def test_a_reply_tells_its_head_before_its_body() -> None:
    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream; charset=utf-8\r\nX-A: 1\r\nx-a: 2\r\n")
        await peer.send(b"Transfer-Encoding: chunked\r\n\r\n")
        await peer.wait_for_close()

    async with serving(script) as server, wire_to(server.url) as wire, wire.exchange("POST") as reply:
        assert (reply.status, reply.media_type, reply.headers["x-a"]) == (200, "text/event-stream", "1, 2")


async def test_chunks_come_as_they_are_sent() -> None:
    more = trio.Event()

    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        await more.wait()
        await peer.send(b"3\r\ntwo\r\n0\r\n\r\n")

    async with serving(script) as server, wire_to(server.url) as wire, wire.exchange("POST") as reply:
        assert await reply.receive() == b"one"
        more.set()
        assert await reply.receive() == b"two"
        assert await reply.receive() == b""


@pytest.mark.parametrize("coding", ["gzip", "x-gzip"])
async def test_a_compressed_answer_is_read_although_nobody_asked_for_it(coding: str) -> None:
    body = gzip.compress(b'{"x": 1}' * 1000)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {len(body)}\r\n\r\n"
    assert await answered(head.encode() + body) == (200, b'{"x": 1}' * 1000)


async def test_a_bomb_ends_at_the_bound() -> None:
    body = gzip.compress(bytes(20 * MIB))
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
    error = await failing(head.encode() + body)
    assert error.is_too_large
    assert error.was_sent


async def test_an_answer_in_the_smallest_chunks_is_read_between_others_turns() -> None:
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_turns)
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert await answered(head + b"1\r\nx\r\n" * 10_000 + b"0\r\n\r\n") == (200, b"x" * 10_000)
        nursery.cancel_scope.cancel()
    assert turns > 100


async def test_an_answer_of_http_1_0_ends_with_its_connection() -> None:
    assert await answered(b"HTTP/1.0 200 OK\r\n\r\n{}") == (200, b"{}")


async def test_interim_answers_are_passed_over() -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    assert await answered(interim + b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") == (200, b"{}")


async def test_an_answer_without_a_body_is_read_at_once() -> None:
    assert await answered(b"HTTP/1.1 204 No Content\r\n\r\n") == (204, b"")


@pytest.mark.parametrize(("method", "status"), [("HEAD", "200 OK"), ("GET", "304 Not Modified"), ("PUT", "204 Done")])
async def test_what_is_said_of_a_body_that_does_not_come_is_passed_over(method: str, status: str) -> None:
    async def script(peer: Peer) -> None:
        while True:
            await peer.read_request()
            await peer.send(f"HTTP/1.1 {status}\r\nContent-Length: {10**12}\r\nContent-Encoding: br\r\n\r\n".encode())

    with trio.fail_after(5):
        async with serving(script) as server:
            async with wire_to(server.url) as wire:
                for _ in range(2):
                    async with wire.exchange(method) as reply:
                        assert await reply.read(MIB) == b""
            assert server.connections == 1


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("2", 2000),
        ("0", 0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 86_400_000),
        ("9" * 400, 86_400_000),
        ("soon", None),
        ("-1", None),
        ("", None),
        ("Thu, 99 Jan 1970 00:00:00 GMT", None),
    ],
)
async def test_a_server_says_when_to_try_again(said: str, expected: int | None) -> None:
    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.answer(status="503 Busy", headers=f"Retry-After: {said}\r\n")

    async with serving(script) as server, wire_to(server.url) as wire, wire.exchange("POST") as reply:
        assert reply.retry_after_ms == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("text/plain; charset=UTF-8", "utf-8"),
        ('text/html;level=1;Charset="ISO-8859-1"', "iso-8859-1"),
        ("application/json", None),
        ("text/plain; charset=", None),
        ("text/plain; xcharset=utf-8", None),
        ("text/plain; charset=" + "x" * 41, None),
        ("text/plain; charset=utf-8'x", None),
    ],
)
async def test_a_server_says_how_its_text_is_encoded(said: str, expected: str | None) -> None:
    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.send(f"HTTP/1.1 200 OK\r\nContent-Type: {said}\r\nContent-Length: 0\r\n\r\n".encode())

    async with serving(script) as server, wire_to(server.url) as wire, wire.exchange("GET") as reply:
        assert reply.charset == expected


# What is wrong with it


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "without an answer"),
        (b"HTTP/1.1 200 OK\r\nX: y\r\n", "within the headers"),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "is not HTTP"),
        (b"HTTP/1.1 abc\r\n\r\n", "is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n", "is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", "is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", "is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "is not HTTP"),
        (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", "is not HTTP"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 100, "interim answers"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000, "is not HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000, "is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", "closed the connection within its answer"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", "closed the connection within its answer"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n", "is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 100_000, "is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 1\r\n\r\nx", "content encoding 'br'"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx",
            "cannot read the answer|cut short",
        ),
    ],
)
async def test_a_broken_answer_is_an_error_in_plain_words(answer: bytes, why: str) -> None:
    error = await failing(answer)
    assert why.partition("|")[0] in error.why or why.partition("|")[2] in error.why
    assert error.was_sent
    assert not error.is_too_large
    assert len(error.why) < 300


async def test_a_length_over_the_bound_fails_before_the_body() -> None:
    error = await failing(b"HTTP/1.1 200 OK\r\nContent-Length: 1048577\r\n\r\n")
    assert error.is_too_large
    assert error.extras == {"http_status": 200}
    assert error.why == "its answer is over 1048576 bytes: it says 1048577 bytes"


async def test_a_body_over_the_bound_fails_where_it_crosses_it() -> None:
    head = b"HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\n"
    error = await failing(head + b"10000\r\n" + bytes(65_536) + b"\r\n" + b"100000\r\n" + bytes(MIB) + b"\r\n0\r\n\r\n")
    assert error.is_too_large
    assert error.extras == {"http_status": 500}


async def test_a_reset_is_an_error() -> None:
    async def script(peer: Peer) -> None:
        await peer.read_request()
        peer.reset()

    async with serving(script) as server, wire_to(server.url) as wire:
        with pytest.raises(WireError, match="without an answer") as caught:
            await post(wire)
    assert caught.value.was_sent


async def test_a_server_that_refuses_half_a_request_is_heard() -> None:
    async def script(peer: Peer) -> None:
        await peer.stream.receive_some(1000)
        # To close with bytes unread is a reset: the rest of the request cannot be written.
        await peer.answer(b"too large", status="413 Content Too Large")

    async with serving(script) as server:
        async with wire_to(server.url) as wire:
            assert await post(wire, bytes(16 * MIB)) == (413, b"too large")
            assert await post(wire, b"") == (413, b"too large")
        assert server.connections == 2


async def test_where_nobody_listens_nothing_was_sent() -> None:
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    await listener.aclose()
    async with wire_to(f"http://127.0.0.1:{port}/") as wire:
        with pytest.raises(WireError, match=f"cannot connect to 127.0.0.1 port {port}: Connection refused") as caught:
            await post(wire)
    assert not caught.value.was_sent
