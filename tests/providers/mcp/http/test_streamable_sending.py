"""Sending over Streamable HTTP: what is given up, dropped, or has no answer."""

import pytest
import trio
import trio.testing

from tests.providers.mcp.linking import (
    LEGACY,
    MODERN,
    Handle,
    answer_to,
    answering,
    at,
    each,
    linked,
    method_of,
    number_of,
    streaming,
)
from tests.servers.raw_http import Asked, Peer, serving
from tooldispatchd.providers.mcp.http import posting
from tooldispatchd.providers.mcp.http.door import StreamableWay
from tooldispatchd.providers.mcp.link import MAX_NOTICES
from tooldispatchd.wire.faults import Code


def way(url: str, *, max_bytes: int = 1024 * 1024) -> StreamableWay:
    server = at(url, max_bytes=max_bytes)
    assert server.reach is not None
    return StreamableWay(server, server.reach)


async def json_answers(peer: Peer, asked: Asked) -> None:
    await peer.answer(answer_to(number_of(asked)))


async def _closed(peer: Peer, asked: Asked) -> None:
    raise EOFError


async def _reset(peer: Peer, asked: Asked) -> None:
    peer.reset()
    raise EOFError


# --- headers that repeat arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize("beside", [b"1", b"[%b1]" % (b"1," * 1_000_000)], ids=["small", "read by a checker"])
async def test_an_argument_stands_in_a_header_too(beside: bytes) -> None:
    arguments = b'{"beside":%b,"region":"eu"}' % beside
    async with serving(each(json_answers)) as server, linked(way(server.url), MODERN) as far:
        assert await far.inbox.result(far.call(arguments, region="Region")) == {"a": 1}
    assert server.asked[0].headers["region"] == "eu"


@pytest.mark.parametrize("beside", [b"1", b"[%b1]" % (b"1," * 1_000_000)], ids=["small", "read by a checker"])
async def test_what_is_too_long_for_a_header_is_not_sent(beside: bytes) -> None:
    arguments = b'{"beside":%b,"region":"%b"}' % (beside, b"x" * 65_536)
    async with serving(each(json_answers)) as server, linked(way(server.url), MODERN) as far:
        fault = await far.inbox.fault(far.call(arguments, region="Region"))
    assert (fault.code, fault.extras["ran"]) == (Code.INVALID_INPUT, "no")
    assert fault.detail == "/region: is longer than 65536 bytes, and the header Region repeats it"
    assert server.asked == []


# --- giving up -------------------------------------------------------------------------------------------------------


async def _silent(peer: Peer, asked: Asked) -> None:
    await peer.wait_for_close()
    raise EOFError


@pytest.mark.parametrize(("dialect", "is_told"), [(LEGACY, False), (MODERN, True)])
@pytest.mark.parametrize("handle", [_silent, streaming(is_ended=False)])
async def test_giving_up_closes_the_response(dialect: object, *, is_told: bool, handle: Handle) -> None:
    assert dialect in {LEGACY, MODERN}
    speaks = MODERN if is_told else LEGACY
    async with serving(each(handle)) as server, linked(way(server.url), speaks) as far:
        number = far.ask()
        with trio.fail_after(5):
            while not server.asked:
                await trio.sleep(0.001)
            assert far.link.give_up(number) is is_told
            while not server.closed:
                await trio.sleep(0.001)
        assert not far.inbox.faults


async def test_what_waits_for_its_turn_is_given_up_unsent() -> None:
    async with serving(each(_silent)) as server, linked(way(server.url)) as far:
        for _ in range(posting.MAX_AT_ONCE):
            far.ask()
        assert far.link.give_up(far.ask())
        with trio.fail_after(5):
            while len(server.asked) < posting.MAX_AT_ONCE:
                await trio.sleep(0.001)
        # An exchange whose request nobody waits for any more gives its place up.
        far.inbox.waiting.discard(1)
        last = far.ask()
        with trio.fail_after(5):
            while number_of(server.asked[-1]) != last:
                await trio.sleep(0.001)


async def test_dropping_ends_every_exchange_and_sends_nothing_more() -> None:
    async with serving(each(_silent)) as server, linked(way(server.url)) as far:
        far.ask()
        with trio.fail_after(5):
            while not server.asked:
                await trio.sleep(0.001)
        far.link.drop()
        far.ask()
        far.tell("notifications/cancelled")
        with trio.fail_after(5):
            while not server.closed:
                await trio.sleep(0.001)
    assert len(server.asked) == 1


async def test_turn_returns_when_it_is_woken_or_its_time_has_come() -> None:
    async with serving(each(json_answers)) as server, linked(way(server.url)) as far:
        far.link.wake()
        await far.turn()
        with trio.fail_after(5):
            await far.link.turn(trio.current_time() + 0.01)


async def test_a_link_that_was_never_opened_can_be_closed() -> None:
    async with linked(way("http://127.0.0.1:9/mcp"), is_opened=False):
        pass


async def test_the_owner_may_be_cancelled_at_any_time() -> None:
    async with serving(each(_silent)) as server:
        with trio.move_on_after(0.1) as limit:
            async with linked(way(server.url)) as far:
                far.ask()
                far.tell("notifications/whatever")
                await trio.sleep_forever()
        assert limit.cancelled_caught


# --- messages without an answer --------------------------------------------------------------------------------------


async def _accept(peer: Peer, asked: Asked) -> None:
    if b'"id"' in asked.body:
        await json_answers(peer, asked)
    else:
        await peer.send(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")


async def test_notifications_arrive_in_order() -> None:
    async with serving(each(_accept)) as server, linked(way(server.url)) as far:
        for number in range(20):
            far.tell(f"notifications/{number}")
        with trio.fail_after(5):
            while len(server.asked) < 20:
                await trio.sleep(0.001)
    assert [method_of(asked) for asked in server.asked] == [f"notifications/{number}" for number in range(20)]


async def test_a_request_waits_until_the_server_knows_that_the_handshake_is_over() -> None:
    release = trio.Event()

    async def handle(peer: Peer, asked: Asked) -> None:
        if method_of(asked) == "notifications/initialized":
            await release.wait()
        await _accept(peer, asked)

    async with serving(each(handle)) as server, linked(way(server.url)) as far:
        far.tell("notifications/initialized")
        number = far.ask()
        with trio.fail_after(5):
            while not server.asked:
                await trio.sleep(0.001)
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert [method_of(asked) for asked in server.asked] == ["notifications/initialized"]
        release.set()
        assert await far.inbox.result(number) == {"a": 1}


@pytest.mark.parametrize("handle", [answering(b"{}", "500 Internal Server Error"), _closed, _reset])
async def test_a_notification_that_is_refused_or_lost_is_counted_and_no_more(handle: Handle) -> None:
    async def deal(peer: Peer, asked: Asked) -> None:
        await (json_answers if b'"id"' in asked.body else handle)(peer, asked)

    async with serving(each(deal)) as server, linked(way(server.url)) as far:
        far.tell("notifications/initialized")
        assert await far.result() == {"a": 1}
        assert far.link.ended == {"undelivered": 1}


async def test_a_server_that_reads_no_notifications_holds_no_call_up() -> None:
    async def handle(peer: Peer, asked: Asked) -> None:
        await (json_answers if b'"id"' in asked.body else _silent)(peer, asked)

    async with serving(each(handle)) as server, linked(way(server.url)) as far:
        far.tell("notifications/progress")
        assert await far.result() == {"a": 1}


async def test_more_than_a_server_may_leave_unread_is_told_at_flush() -> None:
    async with serving(each(_silent)) as server, linked(way(server.url)) as far:
        for _ in range(MAX_NOTICES + 1):
            far.link.send(LEGACY.notification("notifications/x"))
        assert not far.link.flush()
