"""Keepers of lazy servers, which start with their first call, under a clock that jumps."""

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.providers.mcp.keeping import keeping, known_list
from tests.providers.mcp.scripted import ScriptedServer
from tooldispatchd.calls.outcome import Answer
from tooldispatchd.providers.mcp.link import LinkError
from tooldispatchd.wire.faults import Code
from tooldispatchd.wire.messages import ContentKind


async def test_a_lazy_server_of_which_nothing_is_known_opens_with_the_session(autojump_clock: MockClock) -> None:
    way = ScriptedServer("echo")
    async with keeping(way, lazy=True) as session:
        assert (len(way.links), list(session.keeper.offer.tools)) == (1, ["echo"])


async def test_a_lazy_server_that_is_known_opens_with_its_first_call(autojump_clock: MockClock) -> None:
    lists = await known_list("echo")
    way = ScriptedServer("echo")
    way.takes_s = 1.0
    async with keeping(way, lazy=True, lists=lists) as session:
        assert (session.settled, list(session.keeper.offer.tools), session.keeper.offer.said_name) == (1, ["echo"], "s")
        assert (way.links, session.keeper.fault) == ([], None)
        await trio.sleep(100)
        session.made("1")
        session.made("2")
        await trio.sleep(0.5)
        session.made("3")
        await trio.sleep(1)
        assert [call["id"] for call in way.link_now.calls] == sorted(call["id"] for call in way.link_now.calls)
        assert len(way.link_now.calls) == 3
        way.link_now.answer("first", 0)
        await wait_all_tasks_blocked()
        assert (session.outcomes, session.changes) == ({"1": Answer("first", kind=ContentKind.TEXT)}, [])


async def test_held_calls_get_the_fault_of_a_lazy_server_that_does_not_open(autojump_clock: MockClock) -> None:
    lists = await known_list("echo")
    way = ScriptedServer("echo")
    way.takes_s = 1.0
    way.refusals = [LinkError("no such file")]
    async with keeping(way, lazy=True, lists=lists) as session:
        session.made("1")
        session.made("2")
        await trio.sleep(2)
        assert [session.fault(name).extras["reason"] for name in ("1", "2")] == ["no such file"] * 2
        assert session.batches > 0
        assert session.refused().code is Code.SERVER_UNAVAILABLE


async def test_a_lazy_server_that_did_not_open_is_tried_again_where_it_restarts(autojump_clock: MockClock) -> None:
    lists = await known_list("echo")
    way = ScriptedServer("echo")
    way.refusals = [LinkError("no such file")] * 2
    async with keeping(way, lazy=True, restart="backoff", lists=lists) as session:
        session.made("1")
        await trio.sleep(0.5)
        assert session.fault("1").code is Code.SERVER_UNAVAILABLE
        assert "retry_after_ms" in session.refused().extras
        await trio.sleep(5)
        session.made("2")
        way.link_now.answer("there")
        await wait_all_tasks_blocked()
        assert session.outcomes["2"] == Answer("there", kind=ContentKind.TEXT)


async def test_a_held_call_that_is_given_up_is_never_sent(autojump_clock: MockClock) -> None:
    lists = await known_list("echo")
    way = ScriptedServer("echo")
    way.takes_s = 1.0
    async with keeping(way, lazy=True, lists=lists) as session:
        cancelled, expired = session.made("1"), session.made("2")
        session.made("3")
        session.keeper.cancel(cancelled, "cancelled")
        session.keeper.expire(expired)
        await trio.sleep(2)
        assert len(way.link_now.calls) == 1
        assert session.keeper.fault is None


async def test_a_lazy_server_with_other_tools_than_were_known_is_a_change(autojump_clock: MockClock) -> None:
    lists = await known_list("echo")
    way = ScriptedServer("echo", "sum")
    async with keeping(way, lazy=True, lists=lists) as session:
        session.made("1")
        await wait_all_tasks_blocked()
        assert session.changes == [["echo", "sum"]]
    async with keeping(ScriptedServer(), lazy=True, lists=lists) as session:
        assert list(session.keeper.offer.tools) == ["echo", "sum"]


async def test_a_lazy_server_that_nobody_called_is_closed_without_having_been_there(
    autojump_clock: MockClock,
) -> None:
    lists = await known_list("echo")
    way = ScriptedServer("echo")
    async with keeping(way, lazy=True, lists=lists) as session:
        pass
    assert way.links == []
    assert session.refused().extras["reason"] == "its session is over"


async def test_calls_that_are_held_at_the_end_are_told(autojump_clock: MockClock) -> None:
    lists = await known_list("echo")
    way = ScriptedServer("echo")
    way.takes_s = 1.0
    async with keeping(way, lazy=True, lists=lists) as session:
        session.made("1")
        await trio.sleep(0.5)
    assert session.fault("1").extras["reason"] == "its session is over"
