"""What agents are shown of many tools: others have their turns while a long list is made."""

import pytest
import trio

from tests.agent.fakes import open_runtime
from tests.agent.pliable import SOON_S, Talker, names_of, talking
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
