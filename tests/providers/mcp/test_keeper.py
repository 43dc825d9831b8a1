"""Keepers: one server with one list of tools, whichever connection serves it, under a clock that jumps."""

import msgspec
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.providers.mcp.keeping import SERVER, Session, keeping
from tests.providers.mcp.scripted import ScriptedServer
from tooldispatchd.calls.outcome import Answer
from tooldispatchd.providers.mcp.link import LinkError
from tooldispatchd.providers.mcp.remembered import ToolLists
from tooldispatchd.wire.faults import Code
from tooldispatchd.wire.messages import ContentKind

# --- one connection ---


async def test_a_plain_server_opens_at_once_and_is_called(autojump_clock: MockClock) -> None:
    way = ScriptedServer("echo")
    async with keeping(way) as session:
        assert (session.settled, list(session.keeper.offer.tools), session.keeper.offer.said_name) == (1, ["echo"], "s")
        session.made("1")
        way.link_now.answer("hi")
        await wait_all_tasks_blocked()
        assert session.outcomes == {"1": Answer("hi", kind=ContentKind.TEXT)}


async def test_a_plain_server_that_died_stays_dead(autojump_clock: MockClock) -> None:
    way = ScriptedServer("echo")
    async with keeping(way) as session:
        session.made("1")
        way.link_now.die()
        await wait_all_tasks_blocked()
        assert session.fault("1").code is Code.CONNECTION_DEAD
        await trio.sleep(1000)
        assert session.refused().code is Code.CONNECTION_DEAD
        assert "retry_after_ms" not in session.refused().extras
        assert len(way.links) == 1
        assert session.keeper.has_ended


async def test_a_plain_server_that_does_not_open_settles_with_its_fault(autojump_clock: MockClock) -> None:
    way = ScriptedServer("echo")
    way.refusals = [LinkError("no such file")]
    async with keeping(way) as session:
        assert session.settled == 1
        assert session.refused().code is Code.SERVER_UNAVAILABLE
        assert session.refused().extras == {"server": "kit", "reason": "no such file"}


async def test_a_call_before_the_server_is_open_is_told_so(autojump_clock: MockClock) -> None:
    way = ScriptedServer("echo")
    way.takes_s = 1.0
    async with keeping(way) as session:
        assert session.keeper.fault is None
        assert session.refused().extras["reason"] == "it is still starting"


# --- when an administrator restarts it ---


async def test_a_server_that_is_restarted_has_another_connection_at_once(autojump_clock: MockClock) -> None:
    for restart in ("never", "backoff"):
        way = ScriptedServer("echo")
        async with keeping(way, restart=restart) as session:
            session.made("1")
            began = trio.current_time()
            assert session.keeper.restart()
            assert session.fault("1").extras["reason"] == "an administrator restarts it"
            assert not session.keeper.has_ended
            await wait_all_tasks_blocked()
            assert trio.current_time() == began
            session.made("2")
            way.link_now.answer("hi")
            await wait_all_tasks_blocked()
            assert session.outcomes["2"] == Answer("hi", kind=ContentKind.TEXT)
            assert (len(way.links), session.keeper.connections) == (2, 2)


async def test_a_restart_ends_the_wait_for_the_next_connection_and_the_schedule_goes_on(
    autojump_clock: MockClock,
) -> None:
    way = ScriptedServer("echo")
    way.refusals = [LinkError("no")] * 5
    async with keeping(way, restart="backoff") as session:
        began, links = trio.current_time(), len(way.links)
        assert session.keeper.restart()
        await wait_all_tasks_blocked()
        # One at once; it was refused too, and the next has its time.
        assert (len(way.links), trio.current_time()) == (links + 1, began)
        await trio.sleep(1000)
        assert session.keeper.fault is None


async def test_a_server_that_has_ended_for_good_is_not_restarted(autojump_clock: MockClock) -> None:
    way = ScriptedServer("echo")
    async with keeping(way) as session:
        way.link_now.die()
        await wait_all_tasks_blocked()
        assert not session.keeper.restart()


# --- restart ---


async def test_a_server_is_opened_anew_by_the_schedule(autojump_clock: MockClock) -> None:
    way = ScriptedServer("echo")
    async with keeping(way, restart="backoff") as session:
        way.refusals = [LinkError("refused")] * 8
        began = trio.current_time()
        way.link_now.die()
        await trio.sleep(400)
        waits = [round(later - began, 1) for later in way.opened_at[1:]]
        steps = [after - before for before, after in zip([0.0, *waits], waits, strict=False)]
        for step, plain in zip(steps, [0, 1, 2, 5, 10, 30, 60, 60], strict=False):
            assert plain * 0.79 <= step <= plain * 1.21 + 0.1
        assert session.keeper.fault is None


async def test_calls_meanwhile_are_told_when_to_try_again_and_why(autojump_clock: MockClock) -> None:
    way = ScriptedServer("echo")
    async with keeping(way, restart="backoff") as session:
        way.refusals = [LinkError("refused", {"http_status": 503})] * 2
        way.link_now.die()
        await trio.sleep(0.5)
        fault = session.refused()
        assert (fault.code, fault.extras["reason"], fault.extras["http_status"]) == (
            Code.SERVER_UNAVAILABLE,
            "refused",
            503,
        )
        retry_after_ms = fault.extras["retry_after_ms"]
        assert isinstance(retry_after_ms, int)
        assert 250 < retry_after_ms <= 750
        assert list(session.keeper.offer.tools) == ["echo"]


async def test_a_call_in_flight_fails_at_once_and_is_never_tried_again(autojump_clock: MockClock) -> None:
    way = ScriptedServer("echo")
    async with keeping(way, restart="backoff") as session:
        session.made("1")
        way.link_now.die("it crashed")
        await wait_all_tasks_blocked()
        assert session.fault("1").code is Code.CONNECTION_DEAD
        assert session.fault("1").extras["reason"] == "it crashed"
        await trio.sleep(5)
        assert (len(way.links), way.link_now.calls) == (2, [])
        session.made("2")
        way.link_now.answer("again")
        await wait_all_tasks_blocked()
        assert session.outcomes["2"] == Answer("again", kind=ContentKind.TEXT)


async def test_a_server_that_never_opened_settles_as_failed_and_shows_its_tools_later(
    autojump_clock: MockClock,
) -> None:
    way = ScriptedServer("echo")
    way.refusals = [LinkError("refused")] * 3
    async with keeping(way, restart="backoff") as session:
        assert session.settled == 1
        fault = session.keeper.fault
        assert fault is not None
        assert fault.code is Code.SERVER_UNAVAILABLE
        await trio.sleep(20)
        assert session.changes == [["echo"]]
        assert session.keeper.fault is None


async def test_a_server_that_comes_back_with_the_same_tools_is_no_change(autojump_clock: MockClock) -> None:
    way = ScriptedServer("echo", "sum")
    async with keeping(way, restart="backoff") as session:
        way.link_now.die()
        await trio.sleep(5)
        assert (len(way.links), session.changes) == (2, [])
        way.tools = ["sum", "echo", "more"]
        way.link_now.die()
        await trio.sleep(5)
        assert session.changes == [["sum", "echo", "more"]]


async def test_a_connection_that_lived_long_starts_the_schedule_over(autojump_clock: MockClock) -> None:
    way = ScriptedServer("echo")
    async with keeping(way, restart="backoff"):
        for _ in range(3):
            await trio.sleep(61)
            way.link_now.die()
            await wait_all_tasks_blocked()
            assert way.opened_at[-1] == trio.current_time()


async def test_a_server_that_asks_for_time_gets_it(autojump_clock: MockClock) -> None:
    way = ScriptedServer("echo")
    way.refusals = [LinkError("HTTP 503", {"retry_after_ms": 7000})]
    async with keeping(way, restart="backoff"):
        await trio.sleep(6.9)
        assert len(way.opened_at) == 1
        await trio.sleep(0.2)
        assert len(way.opened_at) == 2


async def test_a_whitelisted_tool_that_is_missing_is_told_as_that(autojump_clock: MockClock) -> None:
    way = ScriptedServer("echo")
    server = msgspec.structs.replace(SERVER, whitelist=("sum",))
    async with keeping(way, server=server, restart="backoff") as session:
        assert session.keeper.fault is not None
        assert session.keeper.fault.code is Code.MISSING_TOOL


async def test_closing_ends_the_wait_for_the_next_opening(autojump_clock: MockClock) -> None:
    way = ScriptedServer("echo")
    way.refusals = [LinkError("refused")] * 9
    async with keeping(way, restart="backoff") as session:
        await trio.sleep(100)
        opened = len(way.opened_at)
        session.keeper.close()
        before = trio.current_time()
        await wait_all_tasks_blocked()
        assert session.ended.is_set()
        assert (trio.current_time(), len(way.opened_at)) == (before, opened)


@pytest.mark.parametrize("when_s", [0.0, 0.5, 1.5, 40.0])
async def test_a_cancelled_keeper_leaves_nothing(when_s: float, autojump_clock: MockClock) -> None:
    way = ScriptedServer("echo")
    way.takes_s = 1.0
    session = Session(way, ToolLists())
    session.keeper = session.make(SERVER, lazy=False, restart="backoff")
    with trio.move_on_after(when_s):
        await session.own()
    assert session.settled == 1
    assert all(link.is_closed for link in way.links)
    assert session.refused().code in {Code.SERVER_UNAVAILABLE, Code.CONNECTION_DEAD}


# --- other tools ---


async def test_a_server_that_says_so_has_other_tools(autojump_clock: MockClock) -> None:
    way = ScriptedServer("echo")
    async with keeping(way) as session:
        way.link_now.change_tools("echo", "sum")
        await trio.sleep(3)
        assert session.changes == [["echo", "sum"]]
        assert session.keeper.offer.listed == ("echo", "sum")


# --- calls ---


async def test_a_call_that_expires_ends_the_connection_and_it_is_opened_anew(autojump_clock: MockClock) -> None:
    way = ScriptedServer("echo")
    async with keeping(way, restart="backoff") as session:
        call = session.made("1")
        session.made("2")
        session.keeper.expire(call)
        assert way.links[0].said[-1] == "notifications/cancelled"
        await wait_all_tasks_blocked()
        assert session.fault("2").code is Code.CONNECTION_DEAD
        assert "1" not in session.outcomes
        await trio.sleep(1)
        assert len(way.links) == 2
        # It is no call of this connection.
        session.keeper.cancel(call, "cancelled")
        assert way.link_now.said[-1] == "tools/list"


async def test_a_late_answer_reaches_nobody(autojump_clock: MockClock) -> None:
    way = ScriptedServer("echo")
    async with keeping(way) as session:
        session.keeper.cancel(session.made("1"), "cancelled")
        session.made("2")
        way.link_now.answer("late", 0)
        way.link_now.answer("own", 1)
        await wait_all_tasks_blocked()
        assert session.outcomes == {"2": Answer("own", kind=ContentKind.TEXT)}
