"""Agents that are shown three tools in the place of all: they find, describe and call the others."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.agent.fakes import HeldPlan, fault_of, open_runtime
from tests.agent.pliable import SOON_S, Place, Talker, code_in, fault_in, names_of, served, talking
from tooldispatchd.agent.calls.unpacking import MAX_UNPACKED_BYTES
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.specs import Config, LimitsSpec, ProfileSpec, ToolSpec
from tooldispatchd.wire.heavy import HEAVY_BYTES

SEARCH = ["find_tools", "describe_tool", "call_tool"]


def searched_catalog(tools: Mapping[str, ToolSpec] = {}, **profile: Any) -> Catalog:
    """A profile with some tools, which are searched."""
    own = {"echo": ToolSpec(type="json -> json", inline="id", description="Gives back."), **tools}
    agents = {"default": ProfileSpec(tools=tuple(own), catalog="search", **profile)}
    catalog = build_catalog(Config(limits=LimitsSpec(waiting=1), tools=own, agents=agents))
    assert isinstance(catalog, Catalog), catalog
    return catalog


async def find(agent: Talker, query: str, **fields: object) -> list[str]:
    """The names of the tools that are found."""
    answer = await agent.ask("find_tools", {"query": query, **fields})
    assert not answer["is_error"], answer
    return [tool["name"] for tool in json.loads(answer["content"])["tools"]]


async def packed(agent: Talker, call_id: str, name: str, value: object, **fields: object) -> None:
    """Call a tool through `call_tool`."""
    await agent.request(call_id, "call_tool", {"name": name, "input": value}, **fields)


# --- what is listed ---


async def test_a_list_is_three_tools_however_many_there_are() -> None:
    work = ToolSpec(type="unit -> unit", inline="discard", hint="Work.")
    tools = {f"do.work_{number}": work for number in range(500)}
    async with open_runtime(searched_catalog(tools, jobs=False)) as runtime:
        agent = Talker(runtime)
        ready = await agent.hello(schemas="anthropic")
        assert names_of(ready) == SEARCH
        assert ready["instructions"].count("\n") == 0
        assert await agent.tools() == SEARCH
        assert await find(agent, "work 17", limit=1) == ["do_work_17"]
        assert (await agent.ask("do_work_17"))["content"] == "null"
        await agent.end_input()


def test_a_tool_of_such_a_name_is_a_mistake() -> None:
    tools = {"call_tool": ToolSpec(type="unit -> unit", inline="discard")}
    agents = {"default": ProfileSpec(tools=("call_tool",), catalog="search")}
    why = "its tools are found by call_tool, and tools.call_tool is another tool"
    found = build_catalog(Config(tools=tools, agents=agents))
    assert found == [Problem(("agents", "default", "catalog"), why, value="search")]


async def test_a_narrowed_profile_is_searched_too() -> None:
    catalog = searched_catalog({"other": ToolSpec(type="unit -> unit", inline="discard")}, jobs=False)
    async with open_runtime(catalog) as runtime:
        agent = Talker(runtime)
        assert names_of(await agent.hello(spec={"tools": ["other"]})) == SEARCH
        assert await find(agent, "") == ["other"]
        await packed(agent, "1", "echo", {})
        assert fault_of(await agent.line())["error"] == "not_allowed"
        await agent.end_input()


# --- calls ---


async def test_a_call_is_the_tools_own_in_its_limits_cancel_and_events(autojump_clock: MockClock) -> None:  # [M249]
    plan = HeldPlan(limit_s=5)
    async with open_runtime(searched_catalog(), plan) as runtime:
        agent = Talker(runtime)
        await agent.hello(events=["tool_started", "tool_finished"], updates=True)
        await packed(agent, "late", "held", {})
        started = await agent.line()
        assert (started["id"], started["tool"]) == ("late", "held")
        ended, answer = await agent.line(), await agent.line()
        assert (ended["id"], ended["tool"]) == ("late", "held")
        assert fault_in(answer)["error"] == "timeout"
        await packed(agent, "no", "held", {})
        await agent.line()
        await agent.say({"__port": "tool_cancel", "id": "no"})
        await agent.line()
        assert code_in(await agent.line()) == "cancelled"
        await packed(agent, "short", "held", {}, deadline_ms=10)
        heard = [await agent.line() for _ in range(3)]
        assert fault_in(heard[-1])["error"] == "timeout"
        await agent.end_input()


async def test_a_job_has_the_name_of_the_tool(autojump_clock: MockClock) -> None:
    plan = HeldPlan()
    async with open_runtime(searched_catalog(), plan) as runtime:
        agent = Talker(runtime)
        await agent.hello()
        await packed(agent, "1", "held", {}, background=True)
        assert json.loads((await agent.line())["content"]) == {"job": "job-1"}
        assert json.loads((await agent.ask("job_list"))["content"])["jobs"][0]["name"] == "held"
        plan.finish("1")
        await agent.end_input()


async def test_a_long_call_is_the_tools_own() -> None:  # [M249]
    async with open_runtime(searched_catalog()) as runtime:
        agent = Talker(runtime)
        await agent.hello(meta=True)
        given = {"x": "ä" * HEAVY_BYTES}
        own = await agent.ask("echo", given)
        await packed(agent, "packed", "echo", given)
        answer = await agent.line()
        assert json.loads(answer["content"]) == json.loads(own["content"]) == given
        assert answer["meta"].keys() == own["meta"].keys()
        assert answer["meta"]["bytes_in"] == own["meta"]["bytes_in"]
        await agent.end_input()


async def test_a_call_that_is_too_long_to_be_unpacked_is_told_to_be_made_by_name() -> None:  # [M251]
    async with open_runtime(searched_catalog()) as runtime:
        agent = Talker(runtime)
        await agent.hello(max_output=8 * MAX_UNPACKED_BYTES)
        given = {"x": "x" * MAX_UNPACKED_BYTES}
        await packed(agent, "1", "echo", given)
        fault = fault_in(await agent.line())
        assert (fault["error"], fault["ran"]) == ("invalid_input", "no")
        assert "call the tool itself by its name" in fault["detail"]
        assert json.loads((await agent.ask("echo", given))["content"]) == given
        await agent.end_input()


@pytest.mark.parametrize(
    "given",
    [
        {"name": "echo", "input": "x" * HEAVY_BYTES},
        {"name": "call_tool", "input": {"x": "x" * HEAVY_BYTES}},
        {"name": "echo", "input": {}, "more": "x" * HEAVY_BYTES},
        {"name": 7, "input": {"x": "x" * HEAVY_BYTES}},
        ["x" * HEAVY_BYTES],
    ],
)
async def test_a_long_call_of_nothing_is_told_so(given: object) -> None:  # [M251]
    async with open_runtime(searched_catalog()) as runtime:
        agent = Talker(runtime)
        await agent.hello()
        await agent.request("1", "call_tool", given)
        assert fault_in(await agent.line())["error"] == "invalid_input"
        assert (await agent.ask("echo", 1))["content"] == "1"
        assert runtime.state.memory.held == 0
        await agent.end_input()


async def test_calls_keep_their_order() -> None:
    async with open_runtime(searched_catalog(order="sequential")) as runtime:
        agent = Talker(runtime)
        await agent.hello()
        await agent.request("1", "find_tools", {"query": "back"})
        await packed(agent, "2", "echo", {})
        assert [(await agent.line())["id"] for _ in range(2)] == ["1", "2"]
        await agent.end_input()


# --- servers ---


async def test_tools_of_servers_are_found_with_their_server_and_as_they_are_now(tmp_path: Path) -> None:  # [M252]
    kit = Place(tmp_path / "kit")
    kit.has("say", "change")
    agents = {"default": ProfileSpec(mcp=("kit",), catalog="search", jobs=False)}
    async with served({"kit": kit.spec()}, agents=agents) as runtime, talking(runtime, updates=True) as agent:
        answer = await agent.ask("find_tools", {"query": "kit:say"})
        tool = json.loads(answer["content"])["tools"][0]
        assert (tool["name"], tool["server"]) == ("kit:say", "kit")
        # Nothing is told of it, for the list stays.
        await packed(agent, "1", "kit:change", {"tools": ["shout", "change"]})
        assert (await agent.line())["id"] == "1"
        with trio.fail_after(SOON_S):
            while await find(agent, "") != ["kit:shout", "kit:change"]:
                await trio.sleep(0.02)
        await packed(agent, "2", "kit:shout", {})
        assert (await agent.line())["content"] == "shout"
        await packed(agent, "3", "kit:shou", {})
        assert fault_in(await agent.line())["did_you_mean"] == "kit:shout"


async def test_what_is_asked_before_the_servers_are_up_waits_for_them(tmp_path: Path) -> None:  # [M252]
    kit = Place(tmp_path / "kit")
    kit.has("say")
    agents = {"default": ProfileSpec(mcp=("kit",), catalog="search", jobs=False)}
    async with served({"kit": kit.spec()}, agents=agents) as runtime:
        agent = Talker(runtime)
        await agent.say({"__port": "hello", "schemas": "anthropic"})
        await agent.request("1", "find_tools", {"query": "say"})
        await agent.request("2", "describe_tool", {"name": "kit__say"})
        await packed(agent, "3", "kit__say", {})
        lines = [await agent.line() for _ in range(4)]
        assert [names_of(line) for line in lines if line["__port"] == "ready"] == [SEARCH]
        answers = {line["id"]: line for line in lines if line["__port"] == "tool_resp"}
        assert json.loads(answers["1"]["content"])["tools"][0]["name"] == "kit__say"
        assert json.loads(answers["2"]["content"])["server"] == "kit"
        assert answers["3"]["content"] == "say"
        await agent.end_input()
        await agent.hear_all()


# --- others meanwhile ---


async def test_others_are_served_while_thousands_of_tools_are_searched() -> None:
    work = ToolSpec(type="unit -> unit", inline="discard", description="Does some work. " * 20)
    async with open_runtime(searched_catalog({f"do.work_{n}": work for n in range(3000)}, jobs=False)) as runtime:
        agent = Talker(runtime)
        await agent.hello()
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                await trio.lowlevel.checkpoint()
                turns += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
            await find(agent, "some work that does")
            nursery.cancel_scope.cancel()
        # It takes some tens of milliseconds, in slices of one; without them there are eight turns.
        assert turns >= 15
        await agent.end_input()
