"""What an administrator is shown: sessions and calls, without what calls are given and give."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from trio.testing import MockClock

from tests.agent.fakes import Agent, HeldPlan, open_runtime
from tooldispatchd.admin.administration import MAX_OPEN, Administration
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.specs import Config, LimitsSpec, ProfileSpec
from tooldispatchd.wire.messages import AdminReq


class Running:
    """A daemon that runs, as it is shown."""

    started_at = 0.0
    listening: tuple[str, ...] = ("unix:/run/dispatch.sock",)
    channels = 1
    is_stopping = False
    longest_turn = (0.0021, "front")
    turned_away = lost_lines = turns_taken = 0

    def stop(self) -> None:
        self.is_stopping = True


@asynccontextmanager
async def administered(limits: LimitsSpec | None = None, *plans: HeldPlan) -> AsyncIterator[tuple[Runtime, Agent]]:
    """A runtime whose default profile administers it, and an agent that has said hello."""
    built = build_catalog(Config(limits=limits or LimitsSpec(), agents={"default": ProfileSpec(admin=True)}))
    assert isinstance(built, Catalog)
    async with open_runtime(built, *plans) as runtime:
        runtime.services.admin = Administration(Running(), lambda: runtime)
        agent = Agent(runtime)
        await agent.say({"__port": "hello"})
        await agent.hear()
        yield runtime, agent


async def ask(agent: Agent, ask: str, **fields: object) -> dict[str, object]:
    """The value that is answered."""
    await agent.say({"__port": "admin_req", "id": "a", "ask": ask, **fields})
    answer = await agent.hear()
    assert isinstance(answer, dict)
    assert answer["__port"] == "admin_resp", answer
    value = answer["value"]
    assert isinstance(value, dict)
    return value


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
    assert seen["longest_turn"] == {"ms": 2.1, "task": "front"}
    assert after["calls"] == {"in_flight": 0, "waiting": 0, "answered": 1, "faults": 0}


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
    assert none == {"calls": []}


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
