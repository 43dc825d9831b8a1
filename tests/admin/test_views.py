"""What an administrator is shown: sessions and calls, without what calls are given and give."""

from pathlib import Path
from time import sleep

import msgspec
import pytest
import trio
from trio.testing import MockClock

from tests.admin.running import administered, ask
from tests.agent.fakes import Agent, HeldPlan, open_runtime, small_catalog
from tooldispatchd.admin.pieces import TURN_S, EntryList
from tooldispatchd.admin.sessions import CallView, call_view, calls_in_flight
from tooldispatchd.agent.calls.agentcall import AgentCall
from tooldispatchd.agent.session.session import Session
from tooldispatchd.catalog.masker import NO_SECRETS, Masker
from tooldispatchd.catalog.specs import LimitsSpec
from tooldispatchd.daemon.adminside import MAX_OPEN
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import AdminReq

EXTENSION = Path(__file__).parents[2] / "protocol" / "extensions" / "admin.md"


async def test_the_daemon_as_a_whole_is_shown(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with administered(LimitsSpec(sessions=1), held) as (_, agent):
        await agent.call("1", "held")
        seen = await ask(agent, "status")
        held.finish("1")
        await agent.hear()
        after = await ask(agent, "status")
        await agent.end_input()
    assert seen["state"] == "serving"
    assert seen["calls"] == {"in_flight": 1, "waiting": 0, "answered": 0, "faults": 0}
    assert seen["near"] == [{"limit": "sessions", "used": 1, "of": 1}]
    assert seen["servers"] == {"asleep": 0, "opening": 0, "up": 0, "dead": 0, "kept": 0, "spare": 0}
    assert seen["processes"]["launchers"] == seen["processes"]["warm_parents"] == 0  # type: ignore[index]  # an object
    assert seen["log"] == {"level": "info", "lost": 0}
    # Nothing is recorded.
    assert seen["audit"] is None
    assert seen["longest_turn"] == {"ms": 2.1, "task": "front"}
    assert after["calls"] == {"in_flight": 0, "waiting": 0, "answered": 1, "faults": 0}


@pytest.mark.parametrize("asked", ["status", "sessions", "calls", "servers", "tools", "config", "metrics"])
async def test_the_protocol_names_each_member_of_an_answer(autojump_clock: MockClock, asked: str) -> None:
    (row,) = [line for line in EXTENSION.read_text().splitlines() if line.startswith(f"| `{asked}`")]
    held = HeldPlan()
    async with administered(LimitsSpec(sessions=1), held) as (_, agent):
        await agent.call("1", "held")
        await agent.pause(1)
        seen = await ask(agent, asked)
        held.finish("1")
        await agent.end_input()
    assert [name for name in _members(seen) if f"`{name}`" not in row] == []


def _members(value: object) -> set[str]:
    """The names of members of an object, and of the objects in it and in its lists; keys that are data are left out."""
    if isinstance(value, list):
        return set().union(*map(_members, value))
    if not isinstance(value, dict):
        return set()
    return {*value}.union(*(_members(each) for name, each in value.items() if name != "faults"))


async def test_calls_in_flight_are_shown_by_where_they_are_and_never_by_their_input(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with administered(LimitsSpec(in_flight=1), held) as (_, agent):
        await agent.call("1", "held", input="a payload")
        await agent.call("2", "held", input="a payload")
        seen = await ask(agent, "calls")
        none = await ask(agent, "calls", session=99)
        held.finish("1")
        held.finish("2")
        await agent.end_input()
    assert "a payload" not in str(seen)
    calls = seen["calls"]
    assert isinstance(calls, list)
    assert [(call["id"], call["state"], call.get("stage")) for call in calls] == [
        ("1", "running", None),
        ("2", "waiting", "own_place"),
    ]
    assert none == {"calls": [], "ended": []}


async def test_sessions_are_shown_with_what_they_do(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with administered(LimitsSpec(), held) as (_, agent):
        await agent.say({"__port": "hello", "agent": "ada", "profile": "default"})
        await agent.hear()
        await agent.call("1", "held", agent="ada")
        seen = await ask(agent, "sessions")
        held.finish("1")
        await agent.end_input()
    sessions = seen["sessions"]
    assert isinstance(sessions, list)
    assert [(each["number"], each.get("agent"), each["in_flight"]) for each in sessions] == [
        (1, None, 0),
        (2, "ada", 1),
    ]
    assert [each.keys() >= {"uid", "state", "opened_at", "answered", "faults"} for each in sessions] == [True, True]


@pytest.mark.parametrize(("count", "refusals"), [(1, []), (2, ["duplicate_id"])])
async def test_an_id_is_answered_once(autojump_clock: MockClock, count: int, refusals: list[str]) -> None:
    async with administered() as (_, agent):
        await agent.say(*[{"__port": "admin_req", "id": "a", "ask": "status"}] * count)
        await agent.end_input()
        lines = await agent.hear_all()
    assert [line["error"] for line in lines if isinstance(line, dict) and line["__port"] == "fault"] == refusals
    assert sum(isinstance(line, dict) and line["__port"] == "admin_resp" for line in lines) == 1


async def test_a_channel_asks_for_so_much_at_once(autojump_clock: MockClock) -> None:
    async with administered() as (runtime, agent):
        side = runtime.services.admin
        assert side is not None
        for number in range(MAX_OPEN + 1):
            side.take(AdminReq(str(number), "sessions"), agent.host, line=number)
        await agent.end_input()
        lines = await agent.hear_all()
    faults = [line for line in lines if isinstance(line, dict) and line["__port"] == "fault"]
    assert [(line["error"], line["queue"], line["id"]) for line in faults] == [("queue_full", "admin", str(MAX_OPEN))]
    assert len(lines) == MAX_OPEN + 1


async def test_what_was_asked_for_before_the_end_of_the_input_is_answered(autojump_clock: MockClock) -> None:
    async with administered() as (_, agent):
        await agent.say({"__port": "admin_req", "id": "a", "ask": "status"}, {"__port": "bye"})
        await agent.end_input()
        lines = await agent.hear_all()
    assert [line["__port"] for line in lines if isinstance(line, dict)] in (
        ["admin_resp", "bye"],
        ["bye", "admin_resp"],
    )


async def test_a_tool_is_shown_while_its_first_call_runs(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with administered(LimitsSpec(), held) as (_, agent):
        await agent.call("1", "held")
        seen = await ask(agent, "tools")
        held.finish("1")
        await agent.end_input()
    tools = seen["tools"]
    assert isinstance(tools, list)
    assert [(tool["name"], tool["calls"], tool["in_flight"]) for tool in tools] == [("held", 0, 1), ("", 0, 0)]


async def test_calls_that_ended_are_shown_by_how_and_tools_by_how_often(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with administered(LimitsSpec(), held) as (_, agent):
        await agent.call("1", "held")
        await agent.pause(0.5)
        held.finish("1")
        await agent.hear()
        await agent.call("2", "no such tool, and a name that is far too long: " + "x" * 1000)
        await agent.hear()
        await agent.call("3", "held")
        calls, tools = await ask(agent, "calls"), await ask(agent, "tools")
        status = await ask(agent, "status")
        held.finish("3")
        await agent.end_input()
    ended, counts = calls["ended"], tools["tools"]
    assert isinstance(ended, list)
    assert isinstance(counts, list)
    assert [(each["id"], each["outcome"], each["took_s"]) for each in ended] == [
        ("1", "ok", 0.5),
        ("2", "unknown_tool", 0),
    ]
    assert len(ended[1]["tool"]) == 128
    last = status["last_fault"]
    assert isinstance(last, dict)
    assert (last["tool"], last["code"], last["session"]) == (ended[1]["tool"], "unknown_tool", 1)
    # The sentence is the same wherever it is shown.
    assert last["detail"].startswith("no such tool, and")
    assert ended[1]["detail"] == last["detail"]
    shown = [(each["name"], each["calls"], each["faults"], each["in_flight"], each.get("p50_ms")) for each in counts]
    assert shown == [("held", 1, {}, 1, 500.0), ("", 1, {"unknown_tool": 1}, 0, 0.0)]


async def test_the_sentence_of_a_fault_has_a_bound_and_no_secret(autojump_clock: MockClock) -> None:
    held, masker = HeldPlan(), Masker(["s3cret-token"])
    async with open_runtime(msgspec.structs.replace(small_catalog(), masker=masker), held) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "held")
        await agent.pause(0.5)
        held.finish("1", Fault(Code.TOOL_FAILED, f"refused s3cret-token{'x' * 1000}"))
        await agent.end_input()
        await agent.hear_all()
        fault = runtime.state.tallies.last_fault
    assert fault is not None
    assert (fault.detail[:10], len(fault.detail)) == ("refused …x", 256)


async def test_a_list_that_is_too_long_says_how_much_is_left_out_and_does_not_make_it(
    autojump_clock: MockClock,
) -> None:
    entries, made = EntryList(NO_SECRETS), []

    def show(number: int) -> AdminReq:
        made.append(number)
        return AdminReq("x" * 1_000_000, "sessions")

    await entries.fill([1, None, 2, 3, 4, 5, 6, None, 7], show)
    assert (entries.left_out, made) == (2, [1, 2, 3, 4, 5])
    assert len(msgspec.json.decode(entries.json)) == 5


async def test_the_loop_has_its_turns_between_the_calls_of_one_session(autojump_clock: MockClock) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    held = HeldPlan()
    async with administered(LimitsSpec(in_flight=200), held) as (runtime, agent):
        for number in range(100):
            await agent.call(str(number), "held")
        await agent.pause(1)
        session = runtime.state.opened[1]
        assert isinstance(session, Session)
        entries = EntryList(NO_SECRETS)

        def show(each: tuple[Session, AgentCall]) -> CallView:
            sleep(TURN_S / 10)
            return call_view(*each, 0.0)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(count)
            await entries.fill(calls_in_flight([session]), show)
            nursery.cancel_scope.cancel()
        for number in range(100):
            held.finish(str(number))
        await agent.end_input()
    assert turns >= 5
