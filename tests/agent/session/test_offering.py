"""What agents are shown of many tools: others have their turns while a long list is made."""

import functools
from collections.abc import Iterator

import pytest
import trio

from tests.agent.fakes import open_runtime
from tests.agent.pliable import SOON_S, Talker, code_in, names_of, talking
from tooldispatchd.agent.calls.call import Plan
from tooldispatchd.agent.session.offering import Offering
from tooldispatchd.agent.session.session import Session
from tooldispatchd.agent.tools.declaredplans import compile_plans
from tooldispatchd.agent.tools.showing import RENDERED_BYTES, Showing
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.specs import Config, ProfileSpec, ToolSpec

FORM = "google"
"""The one that rewrites most: such a tool takes it half a millisecond."""
FIELDS: dict[str, object] = {
    "type": "object",
    "properties": {f"field_{number}": {"type": ["string", "null"]} for number in range(30)},
}
MANY = {f"tool_{number}": ToolSpec(inline="id", input_schema=FIELDS, output_schema={}) for number in range(200)}
ECHO = ToolSpec(type="json -> json", inline="id")


@functools.cache
def many_tools() -> Catalog:
    """A profile with one tool, and one with many."""
    agents = {"default": ProfileSpec(tools=("echo",)), "many": ProfileSpec(tools=tuple(MANY), jobs=False)}
    catalog = build_catalog(Config(tools={"echo": ECHO, **MANY}, agents=agents))
    assert isinstance(catalog, Catalog), catalog
    return catalog


async def lines_before(agent: Talker, other: Talker, awaited: str) -> int:
    """How many calls of another agent are answered, up to three, before the agent hears the line that it waits for."""
    before = 0
    heard = trio.Event()

    async def hear() -> None:
        line = await agent.line()
        assert (line["__port"], names_of(line)) == (awaited, [*MANY])
        heard.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(hear)
        while not heard.is_set() and before < 3:
            assert (await other.ask("echo", 1))["content"] == "1"
            before += not heard.is_set()
    return before


async def test_others_are_answered_while_a_long_list_is_made_for_ready() -> None:
    async with open_runtime(many_tools()) as runtime, talking(runtime) as other:
        agent = Talker(runtime)
        await agent.say({"__port": "hello", "profile": "many", "schemas": FORM})
        assert await lines_before(agent, other, "ready") == 3
        await agent.end_input()


@pytest.mark.parametrize("port", ["tools", "select"])
async def test_a_list_that_is_asked_for_is_made_so_too(port: str) -> None:
    async with (
        open_runtime(many_tools()) as runtime,
        talking(runtime) as other,
        talking(runtime, profile="many") as agent,
    ):
        await agent.say({"__port": port, "schemas": FORM})
        assert await lines_before(agent, other, "tools") == 3


async def test_ready_is_told_though_the_input_ends_while_its_list_is_made() -> None:
    async with open_runtime(many_tools()) as runtime:
        agent = Talker(runtime)
        await agent.say({"__port": "hello", "profile": "many", "schemas": FORM})
        await agent.end_input()
        assert (await agent.line())["__port"] == "ready"
        assert await agent.hear() == "the end"


async def test_an_agent_that_leaves_meanwhile_leaves_nothing() -> None:
    async with open_runtime(many_tools()) as runtime:
        agent = Talker(runtime)
        await agent.say({"__port": "hello", "profile": "many", "schemas": FORM})
        await agent.pause()
        await agent.stop_listening()
        await agent.end_input()
        with trio.fail_after(SOON_S):
            while runtime.state.opened or not agent.closings:
                await trio.sleep(0.01)


async def test_what_is_switched_holds_for_the_lines_behind_it() -> None:
    async with open_runtime(many_tools()) as runtime, talking(runtime, profile="many", schemas="plain") as agent:
        await agent.say(
            {"__port": "select", "id": "off", "tools": {"tool_1": False}, "schemas": FORM},
            {"__port": "tool_req", "id": "1", "name": "tool_1", "input": {}},
            {"__port": "select", "id": "on", "tools": {"tool_1": True}},
            {"__port": "tool_req", "id": "2", "name": "tool_1", "input": {}},
        )
        heard = [await agent.line() for _ in range(4)]
        assert [line["id"] for line in heard] == ["off", "1", "on", "2"]
        assert [len(line["tools"]) for line in (heard[0], heard[2])] == [len(MANY) - 1, len(MANY)]
        assert (code_in(heard[1]), heard[3]["is_error"]) == ("not_allowed", False)


async def test_ready_comes_before_the_answers_to_lines_behind_hello() -> None:
    async with open_runtime(many_tools()) as runtime:
        agent = Talker(runtime)
        call = {"__port": "tool_req", "id": "1", "name": "tool_1", "input": {}}
        await agent.say({"__port": "hello", "profile": "many", "schemas": FORM}, call)
        assert [(await agent.line())["__port"] for _ in range(2)] == ["ready", "tool_resp"]
        await agent.end_input()


async def test_a_list_for_a_session_that_has_ended_ends_no_other() -> None:
    async with open_runtime(many_tools()) as runtime, talking(runtime, profile="many") as agent:
        await agent.say({"__port": "hello", "profile": "default", "agent": "ada"})
        assert (await agent.line())["__port"] == "ready"
        await agent.say({"__port": "bye"})
        assert (await agent.line())["__port"] == "bye"
        await agent.say({"__port": "tools", "schemas": FORM})
        assert (await agent.line())["__port"] == "tools"
        assert (await agent.ask("echo", 1, agent="ada"))["content"] == "1"


async def test_what_one_turn_makes_is_bounded_whatever_is_switched_on() -> None:
    showing = Showing()
    async with open_runtime(many_tools()) as runtime, talking(runtime, profile="many"):
        plans = {name: plan for name, plan in runtime.plans("many", compile_plans).items() if name in MANY}
        turns = 1 + len(list(showing.render(FORM, plans, plans)))
    listed = sum(map(len, showing.entries(FORM, plans, plans)[0]))
    assert listed // RENDERED_BYTES <= turns <= listed // RENDERED_BYTES + 2


class Watched(dict[str, Plan]):
    """Counts how often one of the tools is looked at."""

    looks = 0

    def items(self) -> Iterator[tuple[str, Plan]]:  # type: ignore[override]  # all that is used of a view
        for item in super().items():
            self.looks += 1
            yield item


async def test_a_turn_goes_on_where_the_last_one_stopped() -> None:
    async with open_runtime(many_tools()) as runtime:
        plans = Watched(runtime.plans("many", compile_plans))
        assert len(list(Showing().render(FORM, plans, plans))) > 10
    assert plans.looks == len(plans)


async def test_tools_that_change_meanwhile_are_made_ready_too() -> None:
    async with open_runtime(many_tools()) as runtime, talking(runtime, profile="many"):
        (session,) = runtime.state.opened.values()
        assert isinstance(session, Session)
        tools = session.toolset.plans
        offering = Offering(session.toolset, session.machine, runtime.setup.catalog.profiles["many"])
        pauses = offering.render(FORM, None)
        next(pauses)
        late = tools.pop("tool_0"), tools.pop("tool_199")
        tools["late"] = late[1]
        assert len(list(pauses)) > 10
        assert (FORM, "late") in late[1].rendered
