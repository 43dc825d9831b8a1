"""Streamable HTTP with a session: its id, the server's own stream, going on with a stream that broke, and the end."""

import time

import pytest
import trio
import trio.testing

from tests.providers.mcp.http.sites import OPENING, Site, closed, silent, way
from tests.providers.mcp.linking import (
    LEGACY,
    MODERN,
    Handle,
    Inbox,
    Linked,
    answer_to,
    answering,
    at,
    each,
    event,
    in_turn,
    linked,
    method_of,
    number_of,
    streaming,
)
from tests.servers.raw_http import Asked, Peer, serving
from tooldispatchd.providers.mcp.http.streamable import StreamableLink
from tooldispatchd.providers.mcp.link import LinkError


def rpc(code: int, message: str, number: str = "null") -> bytes:
    """A JSON-RPC error."""
    return b'{"jsonrpc":"2.0","error":{"code":%d,"message":"%s"},"id":%s}' % (code, message.encode(), number.encode())


# As servers that are in use say it.
UNKNOWN = [
    rpc(-32000, "Bad Request: No valid session ID provided"),
    rpc(-32600, "Session not found", '"server-error"'),
    rpc(-32000, "Bad Request: Server not initialized"),
    b'{"jsonrpc":"2.0","error":{"code":-32000,"message":"unknown SESSION"}}',
    b"Bad Request: No valid session ID provided",
    b"Invalid session ID\n",
]

# --- the session's id ------------------------------------------------------------------------------------------------


async def test_the_session_is_shown_from_its_first_answer_to_the_delete_at_the_end() -> None:
    async with serving(each(Site())) as server, linked(way(server.url), OPENING) as far:
        await far.result("initialize")
        far.link.dialect = LEGACY
        far.tell("notifications/initialized")
        await far.link.greeted()
        await far.result()
        await far.result()
    shown = [(method_of(asked), asked.headers.get("mcp-session-id")) for asked in server.asked]
    assert shown == [
        ("initialize", None),
        ("notifications/initialized", "s-1"),
        ("GET", "s-1"),
        ("tools/call", "s-1"),
        ("tools/call", "s-1"),
        ("DELETE", "s-1"),
    ]
    assert server.asked[-1].headers["mcp-protocol-version"] == "2025-11-25"


@pytest.mark.parametrize("session_id", ["a b", "x" * 3000, "caf\xe9", ""])
async def test_a_session_id_that_is_none_fails_the_handshake(session_id: str) -> None:
    async def handle(peer: Peer, asked: Asked) -> None:
        body = answer_to(number_of(asked))
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nMcp-Session-Id: %s\r\n\r\n"
        await peer.send(head % (len(body), session_id.encode("latin-1")) + body)

    async with serving(each(handle)) as server, linked(way(server.url), OPENING) as far:
        assert (await far.fault("initialize")).extras["reason"] == "its session id is not visible ASCII, or too long"


async def test_the_stateless_revision_has_no_session_no_stream_and_no_delete() -> None:
    async with serving(each(Site())) as server, linked(way(server.url), OPENING) as far:
        await far.result("initialize")
        far.link.dialect = MODERN
        await far.link.greeted()
        await far.result()
        assert "mcp-session-id" not in server.asked[-1].headers
        assert [method_of(asked) for asked in server.asked] == ["initialize", "tools/call"]


@pytest.mark.parametrize("method", ["tools/call", "notifications/cancelled"])
async def test_a_404_to_what_bore_the_session_ends_the_link_and_nothing_is_deleted(method: str) -> None:
    gone = answering(b"{}", "404 Not Found")
    site = Site(tools_call=gone, notifications_cancelled=gone)
    async with serving(each(site)) as server, linked(way(server.url), OPENING) as far:
        await far.result("initialize")
        far.link.dialect = LEGACY
        if method == "tools/call":
            far.ask(method)
        else:
            far.tell(method)
        with pytest.raises(LinkError, match=r"^the server ended the session \(HTTP 404\)$"):
            await far.turn()
        # It stays so.
        with pytest.raises(LinkError):
            await far.turn()
        assert not far.inbox.faults
    assert "DELETE" not in [asked.method for asked in server.asked]


@pytest.mark.parametrize("method", ["tools/call", "notifications/cancelled"])
@pytest.mark.parametrize("body", UNKNOWN)
async def test_a_400_that_is_about_the_session_ends_the_link(method: str, body: bytes) -> None:
    lost = answering(body, "400 Bad Request")
    site = Site(tools_call=lost, notifications_cancelled=lost)
    async with serving(each(site)) as server, linked(way(server.url), OPENING) as far:
        await far.result("initialize")
        far.link.dialect = LEGACY
        if method == "tools/call":
            far.ask(method)
        else:
            far.tell(method)
        with pytest.raises(LinkError, match=r"^the server does not know the session any more \(HTTP 400\)$") as caught:
            await far.turn()
        assert caught.value.extras == {"http_status": 400}
        assert not far.inbox.faults
    assert "DELETE" not in [asked.method for asked in server.asked]


@pytest.mark.parametrize(
    "body",
    [
        # The second request's own number.
        rpc(-32000, "Bad Request: No valid session ID provided", "2"),
        rpc(-32000, "Bad Request: this is too much"),
        rpc(-32602, "Invalid params: session must be a string"),
        rpc(-32700, "Parse error: {session"),
        rpc(-32020, "Header mismatch: Mcp-Session-Id"),
        b'{"error":"session"}',
        b"<html>session</html>",
        b"session" * 100,
        b"Bad Request",
        b"",
    ],
)
async def test_a_400_to_one_bad_request_is_that_request_s_failure(body: bytes) -> None:
    async with (
        serving(each(Site(tools_call=answering(body, "400 Bad Request")))) as server,
        linked(way(server.url), OPENING) as far,
    ):
        await far.result("initialize")
        far.link.dialect = LEGACY
        number = far.ask()
        await far.inbox.until(lambda: not far.inbox.is_waiting(number))
        far.link.wake()
        await far.turn()


async def test_a_400_about_a_session_that_was_not_shown_is_one_request_s_failure() -> None:
    async with (
        serving(each(answering(UNKNOWN[0], "400 Bad Request"))) as server,
        linked(way(server.url)) as far,
    ):
        number = far.ask()
        await far.inbox.until(lambda: not far.inbox.is_waiting(number))
        far.link.wake()
        await far.turn()


async def test_a_400_about_the_session_where_an_answer_is_fetched_ends_the_link() -> None:
    # A stream with a number, cut before its answer; then nobody knows it.
    cut = streaming(event(id_="e-1", retry=1))
    site = Site(tools_call=cut, GET=in_turn(answering(b"", "405 No"), answering(UNKNOWN[0], "400 Bad Request")))
    async with serving(each(site)) as server, linked(way(server.url), OPENING) as far:
        await far.result("initialize")
        far.link.dialect = LEGACY
        await far.link.greeted()
        far.ask()
        with pytest.raises(LinkError, match="does not know the session"):
            await far.turn()


async def test_a_404_without_a_session_is_one_request_s_fault() -> None:
    async with serving(each(answering(b"{}", "404 Not Found"))) as server, linked(way(server.url)) as far:
        assert (await far.fault()).extras["http_status"] == 404
        far.link.wake()
        await far.turn()


@pytest.mark.parametrize("delete", [silent, closed, answering(b"", "405 Method Not Allowed")])
async def test_closing_is_bounded_whatever_the_server_does_with_the_delete(delete: Handle) -> None:
    async with serving(each(Site(DELETE=delete))) as server:
        async with linked(way(server.url), OPENING) as far:
            await far.result("initialize")
            far.link.dialect = LEGACY
            began = time.monotonic()
        assert time.monotonic() - began < 4


async def test_a_cancellation_is_said_also_where_the_call_ends_its_connection() -> None:
    async with serving(each(Site(tools_call=silent))) as server:
        async with linked(way(server.url), OPENING) as far:
            await far.result("initialize")
            far.link.dialect = LEGACY
            number = far.ask()
            with trio.fail_after(5):
                while len(server.asked) < 2:
                    await trio.sleep(0.001)
            assert not far.link.give_up(number)
            far.tell("notifications/progress")
            far.tell("notifications/cancelled", requestId=number)
            far.link.drop()
        said = [method_of(asked) for asked in server.asked]
        assert said == ["initialize", "tools/call", "notifications/cancelled", "DELETE"]


# --- the server's own stream -----------------------------------------------------------------------------------------


async def test_the_server_s_own_stream_is_there_before_the_first_call() -> None:
    opened: list[Peer] = []

    async def listen(peer: Peer, asked: Asked) -> None:
        await trio.sleep(0.05)
        opened.append(peer)
        await streaming(event(b'{"method":"notifications/tools/list_changed"}'), is_ended=False)(peer, asked)

    async with serving(each(Site(GET=listen))) as server, linked(way(server.url)) as far:
        far.tell("notifications/initialized")
        await far.link.greeted()
        assert opened
        await far.inbox.until(lambda: bool(far.inbox.messages))
        assert server.asked[-1].headers["accept"] == "text/event-stream"


@pytest.mark.parametrize(
    "listen",
    [
        answering(b"", "405 Method Not Allowed"),
        answering(b"", "404 Not Found"),
        answering(b"", "501 Not Implemented"),
        answering(b"", "500 Internal Server Error"),
        answering(b"{}"),
        closed,
    ],
)
async def test_having_no_stream_of_its_own_is_no_failure(listen: Handle) -> None:
    async with serving(each(Site(GET=listen))) as server, linked(way(server.url), OPENING) as far:
        await far.result("initialize")
        far.link.dialect = LEGACY
        await far.link.greeted()
        assert await far.result() == {"a": 1}
        assert [asked.method for asked in server.asked].count("GET") <= 2


async def test_the_server_s_own_stream_is_opened_anew_from_where_it_ended() -> None:
    first = streaming(event(b'{"method":"one"}', id_="e-1", retry=1))
    then = streaming(event(b'{"method":"two"}', id_="e-2"), is_ended=False)
    async with serving(each(Site(GET=in_turn(first, then)))) as server, linked(way(server.url)) as far:
        await far.link.greeted()
        await far.inbox.until(lambda: len(far.inbox.messages) == 2)
    first_ask, second_ask = (asked for asked in server.asked if asked.method == "GET")
    assert "last-event-id" not in first_ask.headers
    assert second_ask.headers["last-event-id"] == "e-1"


async def test_a_404_to_the_reopened_stream_of_a_session_ends_the_link() -> None:
    listen = in_turn(streaming(event(b'{"method":"one"}', retry=1)), answering(b"", "404 Not Found"))
    async with serving(each(Site(GET=listen))) as server, linked(way(server.url), OPENING) as far:
        await far.result("initialize")
        far.link.dialect = LEGACY
        await far.link.greeted()
        with pytest.raises(LinkError, match="ended the session"):
            await far.turn()


async def test_an_event_over_the_bound_on_the_server_s_own_stream_harms_nobody() -> None:
    async def listen(peer: Peer, asked: Asked) -> None:
        if len([each_ for each_ in peer.asked if each_.method == "GET"]) == 1:
            await streaming(event(b"{}", retry=1), event(b"x" * 2_000_000))(peer, asked)
        await streaming(event(b'{"method":"two"}'), is_ended=False)(peer, asked)

    async with serving(each(Site(GET=listen))) as server, linked(way(server.url)) as far:
        await far.link.greeted()
        await far.inbox.until(lambda: far.inbox.messages[-1:] == [b'{"method":"two"}'])


async def test_a_server_that_does_not_say_whether_it_has_a_stream_is_not_waited_for_long() -> None:
    async with serving(each(Site(GET=silent))) as server, trio.open_nursery() as nursery:
        inbox = Inbox()
        link = StreamableLink(at(server.url), inbox, nursery)
        link.greeted_s = 0.1
        link.dialect = LEGACY
        await link.open()
        with trio.fail_after(2):
            await link.greeted()
        assert await Linked(link, inbox).result() == {"a": 1}
        await link.close()


async def test_a_server_that_hangs_at_the_end_of_the_handshake_is_asked_all_the_same() -> None:
    async with serving(each(Site(notifications_initialized=silent))) as server, trio.open_nursery() as nursery:
        inbox = Inbox()
        link = StreamableLink(at(server.url), inbox, nursery, notice_s=0.1)
        link.greeted_s = 0.05
        link.dialect = LEGACY
        await link.open()
        far = Linked(link, inbox)
        far.tell("notifications/initialized")
        await link.greeted()
        assert await far.result() == {"a": 1}
        assert link.ended == {"undelivered": 1}
        await link.close()
