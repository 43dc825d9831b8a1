"""MCP over WebSocket, against servers that keep to RFC 6455 and others that do not."""

from pathlib import Path

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st
from wsproto.events import (
    BytesMessage,
    CloseConnection,
    Ping,
    Pong,
    TextMessage,
)

from tests.examples import examples
from tests.http.certificates import Authority
from tests.http.turns import TURN_S, Turns
from tests.http.wires import MIB
from tests.providers.mcp.linking import LEGACY, BusyInbox, Inbox, Linked, answer_to, at, linked
from tests.providers.mcp.websocket.websockets import Caller, Deal, answer_all, calling, way
from tests.servers.raw_http import Peer, serving
from tooldispatchd.providers.mcp import websocket
from tooldispatchd.providers.mcp.link import LinkError
from tooldispatchd.providers.mcp.websocket import WebSocketWay

# --- messages --------------------------------------------------------------------------------------------------------


async def test_a_large_message_is_let_go_of_uncopied_where_its_connection_ends_meanwhile() -> None:
    async def deal(caller: Caller) -> None:
        await caller.read()
        await caller.say(b"x" * 2 * MIB)

    inbox = BusyInbox()
    async with calling(deal) as server, linked(way(server, max_bytes=4 * MIB), inbox=inbox) as far:
        far.ask()
        await inbox.until(lambda: bool(inbox.views))
        assert inbox.let_go == []
    assert inbox.gave_what_was_taken()


async def test_requests_are_answered_in_any_order() -> None:
    async def deal(caller: Caller) -> None:
        one, two = await caller.read(), await caller.read()
        await caller.say(answer_to(int(str(two["id"])), {"which": 2}))
        await caller.say(answer_to(int(str(one["id"])), {"which": 1}))

    async with calling(deal) as server, linked(way(server)) as far:
        one, two = far.ask(), far.ask()
        assert await far.inbox.result(one) == {"which": 1}
        assert await far.inbox.result(two) == {"which": 2}


async def test_the_upgrade_asks_for_the_subprotocol_and_bears_the_configuration_s_headers() -> None:
    callers: list[Caller] = []

    async def deal(caller: Caller) -> None:
        callers.append(caller)
        await answer_all(caller)

    headers = (("X-Key", "k"), ("Sec-WebSocket-Protocol", "other"), ("Host", "elsewhere"))
    async with calling(deal) as server, linked(way(server, headers=headers)) as far:
        await far.result()
    request = callers[0].request
    assert request is not None
    assert request.subprotocols == ["mcp"]
    assert request.target == "/mcp"
    assert request.host == f"127.0.0.1:{server.port}"
    assert (b"x-key", b"k") in request.extra_headers


async def test_a_server_need_not_choose_a_subprotocol() -> None:
    async with calling(answer_all, subprotocol=None) as server, linked(way(server)) as far:
        assert await far.result() == {"a": 1}


async def test_what_follows_the_upgrade_in_the_same_segment_is_read() -> None:
    # A text frame of 15 bytes: {"method":"hi"}.
    async with (
        calling(answer_all, more=b'\x81\x0f{"method":"hi"}') as server,
        linked(way(server)) as far,
    ):
        await far.inbox.until(lambda: far.inbox.messages == [b'{"method":"hi"}'])


async def test_a_message_may_come_in_many_frames_and_in_binary_ones() -> None:
    async def deal(caller: Caller) -> None:
        await caller.read()
        whole = answer_to(1)
        await caller.send(
            TextMessage(data=whole[:5].decode(), message_finished=False),
            TextMessage(data="", message_finished=False),
            Ping(b"between"),
            TextMessage(data=whole[5:].decode(), message_finished=True),
        )
        await caller.next(Pong)
        await caller.send(BytesMessage(data=b'{"method":"x"}'))

    async with calling(deal) as server, linked(way(server)) as far:
        assert await far.result() == {"a": 1}
        await far.inbox.until(lambda: far.inbox.messages[-1] == b'{"method":"x"}')


async def test_a_large_message_passes_both_ways() -> None:
    async def deal(caller: Caller) -> None:
        message = await caller.read()
        params = message["params"]
        assert isinstance(params, dict)
        await caller.say(answer_to(1, {"length": len(params["text"]), "text": "é" * 200_000}))

    async with calling(deal) as server, linked(way(server)) as far:
        assert await far.result(text="x" * 3_000_000) == {"length": 3_000_000, "text": "é" * 200_000}


async def test_an_answer_over_the_bound_fails_that_call_and_no_other() -> None:
    async def deal(caller: Caller) -> None:
        await caller.read()
        await caller.send(
            TextMessage(data=answer_to(1, "x" * 2_000_000).decode(), message_finished=False),
            TextMessage(data="more", message_finished=True),
            # Of a message that shows no number nothing is told.
            TextMessage(data="y" * 2_000_000),
        )
        await answer_all(caller)

    async with calling(deal) as server, linked(way(server)) as far:
        assert (await far.fault()).extras["limit"] == "content_bytes"
        assert await far.result() == {"a": 1}


async def test_only_the_newest_of_many_pings_need_be_answered() -> None:
    pongs: list[bytes] = []
    last = trio.Event()

    async def deal(caller: Caller) -> None:
        await caller.send(*(Ping(b"%d" % number) for number in range(1000)))
        while pongs[-1:] != [b"999"]:
            pong = await caller.next(Pong)
            assert isinstance(pong, Pong)
            pongs.append(bytes(pong.payload))
        last.set()

    async with calling(deal) as server, linked(way(server)):
        with trio.fail_after(5):
            await last.wait()
    assert len(pongs) < 20


async def test_giving_up_is_not_told_by_the_connection() -> None:
    async with calling(answer_all) as server, linked(way(server)) as far:
        await far.link.greeted()
        assert not far.link.give_up(1)
        assert far.link.stderr_tail == ""


# --- ends ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "words"),
    [(1000, "it closed its connection"), (1011, "it closed its connection with status 1011")],
)
async def test_the_server_s_close_is_the_end_after_what_it_said(code: int, words: str) -> None:
    codes: list[int] = []

    async def deal(caller: Caller) -> None:
        await caller.send(TextMessage(data='{"method":"last"}'), CloseConnection(code=code))
        close = await caller.next(CloseConnection)
        assert isinstance(close, CloseConnection)
        codes.append(close.code)

    async with calling(deal) as server:
        async with linked(way(server)) as far:
            with pytest.raises(LinkError) as caught:
                await far.turn()
            assert caught.value.why == words
            assert far.inbox.messages == [b'{"method":"last"}']
        assert far.link.ended == {"close_code": code}
        with trio.fail_after(5):
            await server.wait_until_closed(1)
        # Ours is the answer to theirs.
        assert len(codes) == 1


async def _leaves(caller: Caller) -> None:
    raise EOFError


async def _breaks(caller: Caller) -> None:
    caller.peer.reset()
    raise EOFError


async def _sends_no_frames(caller: Caller) -> None:
    await caller.peer.send(b"\xff" * 100)


async def _sends_no_text(caller: Caller) -> None:
    await caller.peer.send(b"\x81\x02\xff\xff")


async def _masks(caller: Caller) -> None:
    await caller.peer.send(b"\x81\x81\x00\x00\x00\x00x")


@pytest.mark.parametrize(
    ("deal", "words"),
    [
        (_leaves, "it closed its connection"),
        (_breaks, "it broke its connection off"),
        (_sends_no_frames, "it closed its connection with status 1002"),
        (_sends_no_text, "it closed its connection with status 1007"),
        (_masks, "it closed its connection with status 1002"),
    ],
)
async def test_a_connection_that_breaks_is_the_end(deal: Deal, words: str) -> None:
    async with calling(deal) as server, linked(way(server)) as far:
        with pytest.raises(LinkError) as caught:
            await far.turn()
        assert caught.value.why == words
        far.tell("notifications/x")


async def test_the_link_takes_leave_and_waits_for_the_server_to_do_so() -> None:
    closes: list[int] = []

    async def deal(caller: Caller) -> None:
        await caller.say(b'{"method":"unread"}')
        close = await caller.next(CloseConnection)
        assert isinstance(close, CloseConnection)
        closes.append(close.code)
        await caller.send(close.response())

    async with calling(deal) as server:
        async with linked(way(server)):
            pass
        assert closes == [1000]


async def test_thousands_of_frames_at_the_leave_taking_hold_nobody_up() -> None:
    async def deal(caller: Caller) -> None:
        await caller.next(CloseConnection)
        await caller.peer.send(b"\x81\x00" * 200_000)

    turns = Turns()
    async with calling(deal) as server:
        async with linked(way(server)):
            trio.lowlevel.add_instrument(turns)
        trio.lowlevel.remove_instrument(turns)
    assert turns.longest_s < TURN_S


async def test_a_cancellation_is_said_also_where_the_call_ends_its_connection() -> None:
    said: list[object] = []

    async def deal(caller: Caller) -> None:
        while True:
            said.append((await caller.read())["method"])

    async with calling(deal) as server, linked(way(server)) as far:
        far.tell("notifications/progress")
        far.tell("notifications/cancelled")
        far.link.drop()
        await far.link.close()
        assert said == ["notifications/cancelled"]


async def test_a_server_that_takes_no_leave_is_left_after_two_seconds() -> None:
    async def deal(caller: Caller) -> None:
        await caller.peer.wait_for_close()

    async with calling(deal) as server:
        began = trio.current_time()
        async with linked(way(server)):
            pass
        assert 1.9 < trio.current_time() - began < websocket.CLOSE_S + 1


async def test_a_server_that_reads_nothing_is_told_at_flush_and_lost_in_time() -> None:
    stop = trio.Event()

    async def deal(caller: Caller) -> None:
        await stop.wait()

    async with calling(deal) as server, trio.open_nursery() as nursery:
        spec = at(server.url)
        link = websocket.WebSocketLink(spec, Inbox(), nursery, write_s=0.2)
        await link.open()
        link.dialect = LEGACY
        for _ in range(70):
            link.send(LEGACY.request(1, "tools/call", {"text": "x" * 1024 * 1024}))
        assert not link.flush()
        with pytest.raises(LinkError, match=r"^it did not read its input for 0\.2 s$"):
            await Linked(link, Inbox()).turn()
        # Half a frame has gone: no close frame may follow it, and none is waited for.
        with trio.fail_after(1.5):
            await link.close()
        stop.set()


async def test_it_may_be_encrypted_and_then_knows_the_server(tmp_path: Path) -> None:
    authority = Authority(tmp_path)

    async def script(peer: Peer) -> None:
        caller = Caller(peer)
        await caller.accept()
        await answer_all(caller)

    async with serving(script, context=authority.server_context("127.0.0.1")) as server:
        url = f"wss://127.0.0.1:{server.port}/mcp"
        trusting = at(url, ca=authority.ca)
        assert trusting.reach is not None
        async with linked(WebSocketWay(trusting, trusting.reach)) as far:
            assert await far.result() == {"a": 1}
        knowing_nobody = at(url)
        assert knowing_nobody.reach is not None
        async with linked(WebSocketWay(knowing_nobody, knowing_nobody.reach), is_opened=False) as far:
            with pytest.raises(LinkError, match="certificate"):
                await far.link.open()


async def test_the_owner_may_be_cancelled_at_any_time() -> None:
    async with calling(answer_all) as server:
        with trio.move_on_after(0.1) as limit:
            async with linked(way(server)) as far:
                await far.result()
                await trio.sleep_forever()
        assert limit.cancelled_caught


@given(st.lists(st.binary(max_size=40) | st.sampled_from([b'\x81\x0f{"method":"hi"}', b"\x89\x00", b"\x01\x01{"])))
@settings(max_examples=examples(50))
def test_whatever_a_server_sends_is_a_message_or_the_end(chunks: list[bytes]) -> None:
    async def deal(caller: Caller) -> None:
        await caller.peer.send(b"".join(chunks))
        raise EOFError

    async def run() -> None:
        async with calling(deal) as server, linked(way(server)) as far:
            with pytest.raises(LinkError):
                await far.turn()

    trio.run(run)
