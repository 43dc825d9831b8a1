"""The plans of declared tools, before there is a session for them."""

from typing import Final

import msgspec

from tests.agent.fakes import Agent, open_runtime
from tooldispatchd.agent.tools.declaredplans import TOOLS_A_TURN, compile_plans, plan_some
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.specs import Config, ToolSpec

TURNS: Final = 5
HELLO: Final[dict[str, object]] = {"__port": "hello", "profile": "default"}
CALL: Final[dict[str, object]] = {"__port": "tool_req", "id": "1", "name": "t0", "input": 7}


def many_tools() -> Catalog:
    """As many as are planned in so many turns."""
    tools = {f"t{number}": ToolSpec(inline="id") for number in range(TURNS * TOOLS_A_TURN)}
    catalog = build_catalog(Config(tools=tools))
    assert isinstance(catalog, Catalog)
    return catalog


async def test_many_tools_are_planned_in_turns() -> None:
    async with open_runtime(many_tools()) as runtime:
        assert [plan_some(runtime, "default") for _ in range(TURNS)] == [False] * (TURNS - 1) + [True]
        assert (runtime.planned, runtime.planning) == (("default",), {})
        planned = runtime.plans("default", lambda _runtime, _key: {})
        assert list(planned) == list(compile_plans(runtime, "default"))


async def test_the_first_session_of_a_profile_opens_when_its_tools_are_planned_in_turns() -> None:
    async with open_runtime(many_tools()) as runtime:
        agent = Agent(runtime)
        # Nothing else has a turn between these, so that each is one of the channel's.
        agent.host.received(msgspec.json.Encoder().encode_lines([HELLO, CALL]))
        turns = 1
        while not runtime.state.opened:
            agent.host.resume()
            turns += 1
        assert turns == TURNS
        assert [port_of(await agent.hear()) for _ in range(2)] == ["ready", "tool_resp"]
        await agent.end_input()


async def test_channels_that_open_one_profile_at_once_plan_it_together() -> None:
    async with open_runtime(many_tools()) as runtime:
        agents = Agent(runtime), Agent(runtime)
        for agent, first in zip(agents, (HELLO, CALL), strict=True):
            agent.host.received(msgspec.json.encode(first) + b"\n")
        for _ in range(TURNS // 2):
            for agent in agents:
                agent.host.resume()
        assert len(runtime.state.opened) == 2
        assert [port_of(await agent.hear()) for agent in agents] == ["ready", "tool_resp"]
        for agent in agents:
            await agent.end_input()


async def test_an_agent_that_leaves_meanwhile_opens_nothing() -> None:
    async with open_runtime(many_tools()) as runtime:
        agent = Agent(runtime)
        agent.host.received(msgspec.json.encode(HELLO) + b"\n")
        agent.host.gone("the test says so")
        agent.host.resume()
        assert (runtime.state.opened, agent.closings) == ({}, 1)


def port_of(line: object) -> object:
    assert isinstance(line, dict)
    return line["__port"]
