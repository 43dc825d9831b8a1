"""Streamable HTTP: going on with a stream that broke before the answer."""

import msgspec
import pytest
import trio
import trio.testing

from tests.providers.mcp.http.sites import OPENING, Site, closed, way
from tests.providers.mcp.linking import (
    LEGACY,
    SHARE,
    STREAM_HEAD,
    Handle,
    Speaks,
    answer_to,
    answering,
    chunk,
    each,
    event,
    in_turn,
    linked,
    streaming,
)
from tests.servers.raw_http import Asked, Peer, serving
from tooldispatchd.http.reach import Reach
from tooldispatchd.http.wire import HttpWire
from tooldispatchd.providers.mcp.http import serverstream
from tooldispatchd.providers.mcp.link import LinkError


def _breaking(*chunks: bytes) -> Handle:
    async def handle(peer: Peer, asked: Asked) -> None:
        await peer.send(STREAM_HEAD + b"".join(chunks))
        raise EOFError

    return handle


@pytest.mark.parametrize("end", [streaming, _breaking])
async def test_a_numbered_stream_goes_on_where_it_broke(end: type) -> None:
    begun = end(event(id_="p-1", retry=1))
    more = end(event(b'{"method":"progress"}', id_="p-2", retry=1))
    rest = streaming(event(answer_to(1)))
    site = Site(tools_call=begun, GET=in_turn(more, rest))
    async with serving(each(site)) as server, linked(way(server.url), OPENING) as far:
        far.link.dialect = LEGACY
        assert await far.result() == {"a": 1}
    assert [asked.headers.get("last-event-id") for asked in server.asked] == [None, "p-1", "p-2"]
    assert server.asked[1].headers["mcp-protocol-version"] == "2025-11-25"


async def test_a_server_may_be_polled_many_times_as_long_as_its_numbers_move() -> None:
    polls = [streaming(event(id_=f"p-{number}", retry=1)) for number in range(2, 10)]
    site = Site(tools_call=streaming(event(id_="p-1", retry=1)), GET=in_turn(*polls, streaming(event(answer_to(1)))))
    async with serving(each(site)) as server, linked(way(server.url)) as far:
        assert await far.result() == {"a": 1}
    assert len(server.asked) == 10


@pytest.mark.parametrize(
    "resume",
    [
        closed,
        streaming(),
        streaming(event(id_="p-1", retry=1)),
        streaming(event(b'{"method":"again"}', id_="p-0"), event(b'{"method":"again"}', id_="p-1")),
        answering(b"", "503 Service Unavailable"),
    ],
)
async def test_three_tries_in_a_row_that_bring_nothing_are_the_end(resume: Handle) -> None:
    site = Site(tools_call=streaming(event(id_="p-1", retry=1)), GET=resume)
    async with serving(each(site)) as server, linked(way(server.url)) as far:
        fault = await far.fault()
    assert str(fault.extras["reason"]).startswith("its event stream ended before the answer")
    assert len({asked.method for asked in server.asked}) == 2
    # A GET on a kept connection that closes may be sent once more by the wire.
    assert 3 <= len([asked for asked in server.asked if asked.method == "GET"]) <= 4


async def test_a_server_that_cannot_resume_is_asked_once() -> None:
    site = Site(tools_call=streaming(event(id_="p-1", retry=1)))
    async with serving(each(site)) as server, linked(way(server.url)) as far:
        fault = await far.fault()
    why = "its event stream ended before the answer: its URL takes no such request (HTTP 405)"
    assert fault.extras["reason"] == why
    assert [asked.method for asked in server.asked] == ["POST", "GET"]


async def test_a_404_while_resuming_ends_the_session() -> None:
    site = Site(tools_call=streaming(event(id_="p-1", retry=1)), GET=answering(b"", "404 Not Found"))
    async with serving(each(site)) as server, linked(way(server.url), OPENING) as far:
        await far.result("initialize")
        far.link.dialect = LEGACY
        far.ask()
        with pytest.raises(LinkError, match="ended the session"):
            await far.turn()


@pytest.mark.parametrize(("revision", "id_"), [("2024-11-05", "p-1"), ("2026-07-28", "p-1"), ("2025-11-25", "caf\xe9")])
async def test_nothing_is_resumed_where_there_is_no_such_thing(revision: str, id_: str) -> None:
    site = Site(tools_call=streaming(event(id_=id_, retry=1)))
    async with serving(each(site)) as server, linked(way(server.url), Speaks(revision)) as far:
        assert (await far.fault()).extras["reason"] == "its event stream ended before the answer"
    assert [asked.method for asked in server.asked] == ["POST"]


async def test_nothing_is_resumed_for_a_request_that_nobody_waits_for() -> None:
    site = Site(tools_call=streaming(event(id_="p-1", retry=200)))
    async with serving(each(site)) as server, linked(way(server.url)) as far:
        number = far.ask()
        with trio.fail_after(5):
            while not server.asked:
                await trio.sleep(0.001)
        far.inbox.waiting.discard(number)
        # Longer than the server wants to be left alone.
        await trio.sleep(0.3)
        assert [asked.method for asked in server.asked] == ["POST"]


async def test_an_answer_over_the_bound_while_resuming_is_a_failed_call() -> None:
    site = Site(tools_call=streaming(event(id_="p-1", retry=1)), GET=streaming(event(b"x" * 2_000_000)))
    async with serving(each(site)) as server, linked(way(server.url)) as far:
        assert (await far.fault()).extras["limit"] == "content_bytes"


@pytest.mark.parametrize(
    ("retry", "expected_s"), [(None, 1.0), (0, 0.0), (250, 0.25), (10**9, serverstream.MAX_RETRY_S)]
)
async def test_the_wait_before_a_try_is_the_server_s_within_bounds(retry: int | None, expected_s: float) -> None:
    async def taken(event_: object) -> bool:
        return False

    said = msgspec.json.encode("x")
    async with serving(each(streaming(event(said, retry=retry)))) as server:
        followed = serverstream.ServerStream(1024, SHARE)
        async with HttpWire(Reach(url=server.url), max_bytes=1024) as wire, wire.exchange("GET") as reply:
            assert not await followed.follow(reply, taken)
        assert followed.retry_s == expected_s


async def test_thousands_of_small_events_leave_turns_to_others() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    noise = chunk(b"data: {}\n\n" * 5000)
    async with (
        serving(each(streaming(noise, event(answer_to(1))))) as server,
        linked(way(server.url)) as far,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(count)
        assert await far.result() == {"a": 1}
        nursery.cancel_scope.cancel()
    assert turns > 15


async def test_a_server_that_always_has_another_number_is_polled_at_a_bounded_rate() -> None:
    numbers = iter(range(1_000_000))

    async def another(peer: Peer, asked: Asked) -> None:
        await streaming(event(id_=f"p-{next(numbers)}", retry=0))(peer, asked)

    site = Site(tools_call=another, GET=another)
    async with serving(each(site)) as server, linked(way(server.url)) as far:
        far.ask()
        await trio.sleep(0.4)
    assert len([asked for asked in server.asked if asked.method == "GET"]) <= 10
