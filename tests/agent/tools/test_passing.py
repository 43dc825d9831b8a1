"""What passes between agents and their servers beyond tools: which servers, whose questions, and when."""

import json
import sys
from pathlib import Path

import pytest

from tests.agent.fakes import open_runtime
from tests.agent.pliable import Line, Place, Talker, code_in, fault_in, served, talking
from tooldispatchd.agent.tools.passing import passes
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.profiles import ServerUse
from tooldispatchd.catalog.specs import Config, McpSpec, ProcessSpec, ProfileSpec, ToolSpec

ERAS = Path(__file__).parent.parent.parent / "servers" / "eras.py"
SHELF = Path(__file__).parent.parent.parent / "servers" / "shelf.py"
FORM = {"message": "Which day?", "requestedSchema": {"type": "object", "properties": {}}}
ADA = {"action": "accept", "content": {"name": "Ada"}}
SERVERS = {"capabilities": ["servers"]}
KIT = ("kit",)


def shelf(**keys: object) -> McpSpec:
    """A modern server with things on it."""
    spec = {"command": sys.executable, "args": ("-I", "-S", str(SHELF)), "protocol": "2026-07-28", **keys}
    return McpSpec(**spec)  # type: ignore[arg-type]


# --- which servers ---


@pytest.mark.parametrize(
    ("said", "of_profile", "expected"),
    [
        (None, None, True),
        (True, None, True),
        (False, None, False),
        (False, True, False),
        (True, False, True),
        (None, False, False),
        (None, True, True),
    ],
)
async def test_a_server_passes_unless_its_table_or_its_profile_says_otherwise(
    said: bool | None, of_profile: bool | None, expected: bool
) -> None:
    spec = McpSpec(command="kit", mcp_resources=said)
    assert await is_passing(spec, ProfileSpec(mcp=KIT, mcp_resources=of_profile)) is expected


@pytest.mark.parametrize(
    ("narrowed", "profile"),
    [
        (McpSpec(command="kit", tools=("say",)), ProfileSpec(mcp=KIT)),
        (McpSpec(command="kit", allow=("say",)), ProfileSpec(mcp=KIT)),
        (McpSpec(command="kit", deny=("say",)), ProfileSpec(mcp=KIT)),
        (McpSpec(command="kit"), ProfileSpec(tools=("kit:say",))),
        (McpSpec(command="kit"), ProfileSpec(mcp=KIT, allow=("kit:say",))),
    ],
)
async def test_who_narrows_the_tools_of_a_server_must_say_that_its_resources_pass(
    narrowed: McpSpec, profile: ProfileSpec
) -> None:
    assert not await is_passing(narrowed, profile)
    told = McpSpec(command="kit", tools=narrowed.tools, allow=narrowed.allow, deny=narrowed.deny, mcp_resources=True)
    assert await is_passing(told, profile)


async def test_a_server_that_is_there_for_declared_tools_alone_does_not_pass() -> None:
    config = Config(
        mcp={"kit": McpSpec(command="kit", mcp_resources=True)},
        tools={"say": ToolSpec(mcp="kit")},
        agents={"default": ProfileSpec(tools=("say",))},
    )
    assert not await passes_in(config, None)


async def test_no_spec_can_have_what_it_narrows() -> None:  # [M243]
    config = Config(mcp={"kit": McpSpec(command="kit", mcp_resources=True)}, agents={"default": ProfileSpec(mcp=KIT)})
    assert await passes_in(config, ServerUse("kit"))
    assert not await passes_in(config, ServerUse("kit", ("say",)))
    assert not await passes_in(config, ServerUse("kit", None, (("say",),)))


async def is_passing(spec: McpSpec, profile: ProfileSpec) -> bool:
    config = Config(mcp={"kit": spec}, agents={"default": profile})
    catalog = build_catalog(config)
    assert isinstance(catalog, Catalog), catalog
    return await passes_in(config, catalog.profiles["default"].servers[0])


async def passes_in(config: Config, use: ServerUse | None) -> bool:
    catalog = build_catalog(config)
    assert isinstance(catalog, Catalog), catalog
    async with open_runtime(catalog) as runtime:
        return passes(catalog.servers["kit"].spec, use, runtime.setup, catalog.profiles["default"])


@pytest.mark.parametrize(
    ("fields", "is_listed", "is_there"),
    [
        ({}, False, False),
        ({"answers": ["ui"]}, False, True),
        ({"answers": ["ui"], "schemas": "openai"}, False, True),
        ({"answers": ["ui"], "schemas": "mcp"}, True, True),
        ({"schemas": "mcp"}, False, False),
    ],
)
async def test_a_tool_for_an_app_alone_is_there_for_agents_that_show_apps_and_in_no_models_list(
    fields: dict[str, object], *, is_listed: bool, is_there: bool
) -> None:
    async with served({"shelf": shelf(prefix="")}) as runtime:
        agent = Talker(runtime)
        ready = await agent.hello(**fields)
        assert ("redraw" in json.dumps(ready["tools"])) is is_listed
        answer = await agent.ask("redraw", {})
        assert ("unknown_tool" not in answer["content"]) is is_there
        await agent.end_input()
        await agent.hear_all()


# --- requests ---


async def test_a_request_for_a_server_that_is_still_starting_waits_for_it() -> None:
    async with served({"shelf": shelf()}) as runtime:
        agent = Talker(runtime)
        await agent.say({"__port": "hello", **SERVERS})
        await agent.request("1", "shelf!resources/read", {"uri": "note:day"})
        lines = {line["__port"]: line for line in [await agent.line(), await agent.line()]}
        assert json.loads(lines["tool_resp"]["content"])["contents"] == [{"uri": "note:day", "text": "Monday"}]
        await agent.end_input()
        await agent.hear_all()


async def test_progress_of_a_request_is_told_as_of_a_call() -> None:
    async with served({"shelf": shelf()}) as runtime, talking(runtime, updates=True, **SERVERS) as agent:
        await agent.request("1", "shelf!resources/read", {"uri": "note:slow"})
        update = await agent.line()
        assert (update["__port"], update["id"], update["progress"]) == ("tool_update", "1", 1)
        assert (await agent.line())["__port"] == "tool_resp"


async def test_params_that_are_no_object_are_no_request() -> None:
    async with served({"shelf": shelf()}) as runtime, talking(runtime, **SERVERS) as agent:
        assert code_in(await agent.ask("shelf!resources/read", 5)) == "invalid_input"
        assert code_in(await agent.ask("shelf!logging/setLevel", {"level": "loud"})) == "invalid_input"
        assert code_in(await agent.ask("shelf!resources/subscribe", {"uri": 5})) == "invalid_input"


async def test_members_that_a_method_has_not_are_ignored() -> None:
    async with served({"shelf": shelf()}) as runtime, talking(runtime, **SERVERS) as agent:
        assert (await agent.ask("shelf!resources/subscribe", {"uri": "note:day", "level": 5}))["content"] == "{}"
        assert (await agent.ask("shelf!logging/setLevel", {"level": "error", "uri": 5}))["content"] == "{}"


async def test_a_name_with_the_sign_is_no_tools_for_agents_that_did_not_ask(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec()}) as runtime, talking(runtime) as agent:
        fault = fault_in(await agent.ask("kit!resources/list"))
        assert (fault["error"], fault["source"]) == ("unknown_tool", "kit!resources/list")


async def test_a_request_whose_server_must_know_more_first_is_made_again_with_that() -> None:
    fields = {"answers": ["elicitation"], **SERVERS}
    async with served({"shelf": shelf()}) as runtime, talking(runtime, **fields) as agent:
        await agent.request("1", "shelf!prompts/get", {"name": "user_name", "arguments": {"style": "short"}})
        question = await agent.line()
        assert (question["__port"], question["call"]) == ("ask", "1")
        await agent.say({"__port": "ask_resp", "id": question["id"], "result": ADA})
        answer = await agent.line()
        params = json.loads(json.loads(answer["content"])["messages"][0]["content"]["text"])
        assert params.pop("_meta")
        assert params == {
            "name": "user_name",
            "arguments": {"style": "short"},
            "inputResponses": {"user_name": ADA},
            "requestState": "s1",
        }


async def test_all_that_a_server_asks_for_in_a_round_comes_at_once_by_its_own_keys() -> None:  # [M245] [M253]
    fields = {"answers": ["elicitation", "sampling", "roots"], **SERVERS}
    async with served({"shelf": shelf()}) as runtime, talking(runtime, **fields) as agent:
        await agent.request("1", "shelf!prompts/get", {"name": "user_name places model"})
        asked = [await agent.line() for _ in range(3)]
        assert [(line["kind"], line["key"], line.get("more")) for line in asked] == [
            ("elicitation", "user_name", True),
            ("roots", "places", True),
            ("sampling", "model", None),
        ]
        rooted = {"roots": [{"uri": "file:///home/ada", "name": "ada"}]}
        made = {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}
        for line, result in zip(asked, (ADA, rooted, made), strict=True):
            await agent.say({"__port": "ask_resp", "id": line["id"], "result": result})
        params = json.loads(json.loads((await agent.line())["content"])["messages"][0]["content"]["text"])
        assert params["inputResponses"] == {"user_name": ADA, "places": rooted, "model": made}


# --- a server of a revision without subscriptions of its own ---


async def test_a_resource_that_one_is_subscribed_to_is_told_of_until_the_end_of_that() -> None:
    async with served({"shelf": shelf()}) as runtime, talking(runtime, **SERVERS) as agent:
        assert (await agent.ask("shelf!resources/subscribe", {"uri": "note:day"}))["content"] == "{}"
        note = await noted(agent)
        assert (note["server"], note["method"]) == ("shelf", "notifications/resources/updated")
        assert note["params"]["uri"] == "note:day"
        assert (await agent.ask("shelf!resources/unsubscribe", {"uri": "note:day"}))["content"] == "{}"
        assert (await agent.ask("shelf:touch"))["content"] == "[]"


async def noted(agent: Talker) -> Line:
    """What the agent hears when the server's resources change."""
    await agent.request("touch", "shelf:touch")
    lines = {line["__port"]: line for line in [await agent.line(), await agent.line()]}
    return lines["server_note"]


async def test_a_level_is_said_with_every_request_that_follows() -> None:
    async with served({"shelf": shelf()}) as runtime, talking(runtime, **SERVERS) as agent:
        assert (await agent.ask("shelf!logging/setLevel", {"level": "error"}))["content"] == "{}"
        assert (await agent.ask("shelf:level"))["content"] == "error"


async def test_changes_of_lists_are_told_to_who_asked_alone() -> None:
    async with (
        served({"shelf": shelf()}) as runtime,
        talking(runtime, **SERVERS) as agent,
        talking(runtime, updates=True) as other,
    ):
        await agent.request("grow", "shelf:grow")
        lines = {line["__port"]: line for line in [await agent.line(), await agent.line()]}
        assert lines["server_note"]["method"] == "notifications/resources/list_changed"
        assert (await other.ask("shelf:grow"))["content"] == "[]"


# --- whose question it is ---


async def test_a_question_names_the_call_whose_round_it_is() -> None:  # [M242]
    spec = McpSpec(command=sys.executable, args=("-I", "-S", str(ERAS), "modern"), protocol="2026-07-28")
    async with served({"kit": spec}) as runtime, talking(runtime, answers=["elicitation"]) as agent:
        for name in ("first", "second"):
            await agent.request(name, "kit:ask")
            assert (await agent.line())["call"] == name
        await cancel_all(agent, 2)


async def test_a_question_that_is_no_calls_names_the_oldest_at_its_server(tmp_path: Path) -> None:
    kit, other = Place(tmp_path / "kit"), Place(tmp_path / "other")
    servers = {"kit": kit.spec(), "other": other.spec()}
    async with served(servers) as runtime, talking(runtime, answers=["elicitation"]) as agent:
        await agent.request("elsewhere", "other:hang")
        await agent.request("oldest", "kit:hang")
        await agent.request("newest", "kit:ask", {"method": "elicitation/create", "params": FORM})
        assert (await agent.line())["call"] == "oldest"
        await cancel_all(agent, 3)


async def cancel_all(agent: Talker, number: int) -> None:
    """End what an agent has in flight: that many calls."""
    await agent.say({"__port": "tool_cancel", "all": True})
    assert {code_in(await agent.line()) for _ in range(number)} == {"cancelled"}


async def test_a_question_to_a_job_names_the_job(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec()}) as runtime, talking(runtime, answers=["elicitation"]) as agent:
        await agent.request("1", "kit:ask", {"method": "elicitation/create", "params": FORM}, background=True)
        lines = {line["__port"]: line for line in [await agent.line(), await agent.line()]}
        assert lines["ask"]["call"] == "job-1"
        await agent.say({"__port": "tool_cancel", "all": True})


async def test_a_question_within_a_chain_names_the_call_of_the_agent(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    tools = {
        "inner": ToolSpec(mcp="kit", name="ask", type="json -> string"),
        "outer": ToolSpec(process="lifted", type="json -> string"),
    }
    processes = {"lifted": ProcessSpec(kind="plumb", chain=("lift(inner)",))}
    servers = {"kit": kit.spec()}
    async with (
        served(servers, tools=tools, processes=processes, agents={"default": ProfileSpec(tools=("outer",))}) as runtime,
        talking(runtime, answers=["elicitation"]) as agent,
    ):
        await agent.request("1", "outer", {"method": "elicitation/create", "params": FORM})
        assert (await agent.line())["call"] == "1"
        await cancel_all(agent, 1)
