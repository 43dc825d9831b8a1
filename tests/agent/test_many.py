"""Many agents on one channel: each has its own session, its own ids, its own end."""

import json

from trio.testing import MockClock

from tests.agent.fakes import Agent, HeldPlan, code_of, open_runtime, small_catalog
from tooldispatchd.catalog.specs import LimitsSpec


def said(agent: str, call_id: str, content: str) -> dict[str, object]:
    return {"__port": "tool_resp", "id": call_id, "content": content, "is_error": False, "agent": agent}


async def open_named(agent: Agent, *names: str, **fields: object) -> None:
    for name in names:
        await agent.say({"__port": "hello", "agent": name, **fields})
        ready = await agent.hear()
        assert isinstance(ready, dict)
        assert (ready["__port"], ready["agent"]) == ("ready", name)


def echo(agent: str, call_id: str, value: object) -> dict[str, object]:
    return {"__port": "tool_req", "agent": agent, "id": call_id, "name": "echo", "input": value}


async def test_two_agents_use_the_same_id_at_the_same_time(autojump_clock: MockClock) -> None:
    plan = HeldPlan()
    async with open_runtime(small_catalog(), plan) as runtime:
        agent = Agent(runtime)
        await open_named(agent, "a")
        await agent.say({"__port": "tool_req", "agent": "a", "id": "1", "name": "held"})
        await open_named(agent, "b")
        await agent.say(echo("b", "1", 7))
        assert await agent.hear() == said("b", "1", "7")
        plan.finish("1")
        assert await agent.hear() == said("a", "1", "done")
        await agent.end_input()
        assert await agent.hear() == "the end"


async def test_an_id_in_flight_is_refused_to_its_own_agent_alone(autojump_clock: MockClock) -> None:
    plan = HeldPlan()
    async with open_runtime(small_catalog(), plan) as runtime:
        agent = Agent(runtime)
        await open_named(agent, "a", "b")
        await agent.say({"__port": "tool_req", "agent": "a", "id": "1", "name": "held"}, echo("a", "1", 1))
        fault = await agent.hear()
        assert isinstance(fault, dict)
        assert (code_of(fault), fault["agent"], fault["id"]) == ("duplicate_id", "a", "1")
        plan.finish("1")
        assert await agent.hear() == said("a", "1", "done")
        await agent.end_input()
        assert await agent.hear() == "the end"


async def test_a_line_for_an_agent_that_is_not_open_is_told_so(autojump_clock: MockClock) -> None:
    async with open_runtime(small_catalog()) as runtime:
        agent = Agent(runtime)
        lines: list[dict[str, object]] = [
            echo("a", "1", 1),
            {"__port": "tools", "agent": "a"},
            {"__port": "tool_cancel", "agent": "a", "id": "1"},
            {"__port": "bye", "agent": "a"},
            {"__port": "ask_resp", "agent": "a", "id": "1", "refuse": True},
        ]
        for line in lines:
            await agent.say(line)
            heard = await agent.hear()
            assert isinstance(heard, dict)
            assert (code_of(heard), heard["agent"]) == ("unknown_agent", "a")
        await agent.end_input()
        assert await agent.hear() == "the end"


async def test_bye_ends_one_agent_and_its_name_is_free_again(autojump_clock: MockClock) -> None:
    plan = HeldPlan()
    async with open_runtime(small_catalog(), plan) as runtime:
        agent = Agent(runtime)
        await open_named(agent, "a", "b")
        await agent.say(
            {"__port": "tool_req", "agent": "a", "id": "1", "name": "held"}, {"__port": "bye", "agent": "a"}
        )
        await agent.say(echo("a", "2", 2), {"__port": "hello", "agent": "a"}, echo("b", "1", 1))
        refused, draining = await agent.hear(), await agent.hear()
        assert (code_of(refused), code_of(draining)) == ("draining", "draining")
        assert await agent.hear() == said("b", "1", "1")
        plan.finish("1")
        assert await agent.hear() == said("a", "1", "done")
        assert await agent.hear() == {"__port": "bye", "agent": "a"}
        await open_named(agent, "a")
        await agent.say(echo("a", "1", 3))
        assert await agent.hear() == said("a", "1", "3")
        await agent.end_input()
        assert await agent.hear() == "the end"


async def test_a_second_hello_of_a_named_agent_changes_nothing(autojump_clock: MockClock) -> None:
    async with open_runtime(small_catalog()) as runtime:
        agent = Agent(runtime)
        await open_named(agent, "a")
        await agent.say({"__port": "hello", "agent": "a", "profile": "empty"}, echo("a", "1", 1))
        assert code_of(await agent.hear()) == "invalid_request"
        assert await agent.hear() == said("a", "1", "1")
        await agent.end_input()
        assert await agent.hear() == "the end"


async def test_the_end_of_input_waits_for_every_agent_s_call(autojump_clock: MockClock) -> None:
    plan = HeldPlan()
    async with open_runtime(small_catalog(), plan) as runtime:
        agent = Agent(runtime)
        await open_named(agent, "a", "b")
        for name in ("a", "b"):
            await agent.say({"__port": "tool_req", "agent": name, "id": name, "name": "held"})
        await agent.end_input()
        while len(plan.running) < 2:
            await agent.pause()
        plan.finish("b")
        plan.finish("a")
        assert await agent.hear_all() == [said("b", "b", "done"), said("a", "a", "done")]


async def test_an_agent_over_its_bounds_leaves_the_others_theirs(autojump_clock: MockClock) -> None:
    plan = HeldPlan()
    async with open_runtime(small_catalog(LimitsSpec(in_flight=1, waiting=1)), plan) as runtime:
        agent = Agent(runtime)
        await open_named(agent, "a", "b")
        for call_id in ("1", "2", "3"):
            await agent.say({"__port": "tool_req", "agent": "a", "id": call_id, "name": "held"})
        assert code_of(await agent.hear()) == "queue_full"
        await agent.say({"__port": "tool_req", "agent": "b", "id": "x", "name": "held"})
        while "x" not in plan.running:
            await agent.pause()
        for call_id in ("x", "1", "2"):
            plan.finish(call_id)
        assert [line["id"] for line in [await agent.hear() for _ in range(3)] if isinstance(line, dict)] == [
            "x",
            "1",
            "2",
        ]
        await agent.end_input()
        assert await agent.hear() == "the end"


async def test_the_own_session_ends_and_the_channel_lives_on_for_a_named_one(autojump_clock: MockClock) -> None:
    async with open_runtime(small_catalog()) as runtime:
        agent = Agent(runtime)
        await open_named(agent, "a")
        await agent.say(
            {"__port": "hello"}, {"__port": "bye"}, {"id": "1", "name": "echo", "input": 1}, echo("a", "1", 1)
        )
        assert isinstance(ready := await agent.hear(), dict)
        assert ready["__port"] == "ready"
        assert await agent.hear() == {"__port": "bye"}
        assert code_of(await agent.hear()) == "draining"
        assert await agent.hear() == said("a", "1", "1")
        await agent.say({"__port": "bye", "agent": "a"})
        assert await agent.hear() == {"__port": "bye", "agent": "a"}
        assert await agent.hear() == "the end"


async def test_sessions_are_bounded_in_the_daemon_and_for_each_foreign_user(autojump_clock: MockClock) -> None:
    limits = LimitsSpec(sessions=3, sessions_per_uid=2)
    async with open_runtime(small_catalog(limits)) as runtime:
        stranger = Agent(runtime, visitor=Agent.stranger())
        await open_named(stranger, "a", "b")
        await stranger.say({"__port": "hello", "agent": "c"})
        fault = await stranger.hear()
        assert isinstance(fault, dict)
        assert (fault["error"], fault["what"], fault["limit"]) == ("too_many", "sessions_per_uid", 2)
        own = Agent(runtime)
        await open_named(own, "a")
        await own.say({"__port": "hello", "agent": "b"})
        fault = await own.hear()
        assert isinstance(fault, dict)
        assert (fault["error"], fault["what"], fault["limit"]) == ("too_many", "sessions", 3)
        await stranger.say({"__port": "bye", "agent": "a"})
        assert await stranger.hear() == {"__port": "bye", "agent": "a"}
        await open_named(own, "b")
        for each in (own, stranger):
            await each.end_input()
            assert await each.hear() == "the end"
        assert runtime.state.open_sessions.total == 0


async def test_inputs_in_flight_are_bounded_for_one_agent(autojump_clock: MockClock) -> None:
    plan = HeldPlan()
    async with open_runtime(small_catalog(LimitsSpec(in_flight_bytes=4096)), plan) as runtime:
        agent = Agent(runtime)
        await open_named(agent, "a", "b")
        for call_id in ("1", "2"):
            await agent.say({"__port": "tool_req", "agent": "a", "id": call_id, "name": "held", "input": "x" * 3000})
        fault = await agent.hear()
        assert isinstance(fault, dict)
        assert (fault["id"], code_of(fault), json.loads(fault["content"])["what"]) == (
            "2",
            "too_many",
            "in_flight_bytes",
        )
        await agent.say({"__port": "tool_req", "agent": "b", "id": "3", "name": "held", "input": "x" * 3000})
        while len(plan.running) < 2:
            await agent.pause()
        assert runtime.state.memory.held == 2 * 3002
        plan.finish("1")
        plan.finish("3")
        await agent.end_input()
        await agent.hear_all()
        assert runtime.state.memory.held == 0


async def test_lines_over_the_rate_are_told_so_and_the_channel_recovers(autojump_clock: MockClock) -> None:
    async with open_runtime(small_catalog(LimitsSpec(lines_per_s=1))) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "echo", input=1)
        assert await agent.hear() == {"id": "1", "content": "1", "is_error": False}
        await agent.call("2", "echo", input=2)
        await agent.say({"__port": "ping"})
        answer, fault = await agent.hear(), await agent.hear()
        assert (code_of(answer), code_of(fault)) == ("too_many", "too_many")
        await agent.pause(5)
        await agent.call("3", "echo", input=3)
        assert await agent.hear() == {"id": "3", "content": "3", "is_error": False}
        await agent.end_input()
        assert await agent.hear() == "the end"
