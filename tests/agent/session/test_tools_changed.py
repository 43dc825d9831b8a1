"""Servers that change their tools while agents are connected."""

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from tests.agent.fakes import Ledger
from tests.agent.pliable import SOON_S, Place, Talker, code_in, fault_in, names_of, served, talking
from tooldispatchd.agent.session.changes import Changes
from tooldispatchd.catalog.specs import ProcessSpec, ProfileSpec, ToolSpec
from tooldispatchd.front.timer import Timer


async def test_an_agent_that_asked_for_updates_is_told_its_tools(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    kit.has("say", "change")
    async with served({"kit": kit.spec()}) as runtime, talking(runtime, updates=True) as agent:
        await agent.ask("kit:change", {"tools": ["shout", "change"]})
        changed = await agent.line()
        assert (changed["__port"], names_of(changed)) == ("tools_changed", ["kit:shout", "kit:change"])
        assert (await agent.ask("kit:shout"))["content"] == "shout"
        fault = fault_in(await agent.ask("kit:shou"))
        assert (fault["error"], fault["did_you_mean"]) == ("unknown_tool", "kit:shout")
        assert code_in(await agent.ask("kit:say")) == "unknown_tool"


async def test_a_tool_that_cannot_be_used_is_told_with_why(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    kit.has("say", "sing:elsewhere", "shut:elsewhere")
    async with served({"kit": kit.spec(deny=("shut",))}) as runtime, talking(runtime, schemas="anthropic") as agent:
        why = "its inputSchema refers to http://a.example/b.json, which is never fetched"
        detail = f"kit:sing is an unknown tool: server kit lists it, and it is left out: {why}"
        assert (await agent.tools()) == ["kit__say"]
        fault = fault_in(await agent.ask("kit:sing"))
        assert (fault["error"], fault["detail"]) == ("unknown_tool", detail)
        assert fault_in(await agent.ask("kit__sing"))["detail"] == detail.replace("kit:sing", "kit__sing")
        assert code_in(await agent.ask("kit:shut")) == "not_allowed"


async def test_an_agent_that_asked_for_none_is_not_told_and_has_them_too(tmp_path: Path) -> None:  # [M2]
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec()}) as runtime, talking(runtime) as agent:
        await agent.ask("kit:change", {"tools": ["shout"]})
        with trio.fail_after(SOON_S):
            while True:
                if "kit:shout" in await agent.tools():
                    break
                await trio.sleep(0.02)
        assert (await agent.ask("kit:shout"))["content"] == "shout"


async def test_the_list_is_in_the_form_of_hello_and_so_are_its_names(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    kit.has("say", "change")
    async with served({"kit": kit.spec()}) as runtime, talking(runtime, updates=True, schemas="anthropic") as agent:
        await agent.ask("kit__change", {"tools": ["shout"]})
        assert names_of(await agent.line()) == ["kit__shout"]
        assert (await agent.ask("kit__shout"))["content"] == "shout"
        fault = fault_in(await agent.ask("kit__say"))
        assert (fault["error"], fault["source"]) == ("unknown_tool", "kit__say")


async def test_an_input_is_checked_by_the_new_schema(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec()}) as runtime, talking(runtime, updates=True, schemas="openai") as agent:
        assert (await agent.ask("kit__say"))["content"] == "say"
        await agent.ask("kit__change", {"tools": ["say:text", "change"]})
        assert (await agent.line())["__port"] == "tools_changed"
        assert code_in(await agent.ask("kit__say")) == "invalid_input"
        assert code_in(await agent.ask("kit:say")) == "invalid_input"


async def test_a_call_under_way_goes_on_when_its_tool_is_gone(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec()}) as runtime, talking(runtime, updates=True, answers=["elicitation"]) as agent:
        await agent.request("1", "kit:ask", {"method": "elicitation/create", "params": {"message": "Which?"}})
        question = await agent.line()
        await agent.ask("kit:change", {"tools": ["say"]})
        assert names_of(await agent.line()) == ["kit:say"]
        await agent.say({"__port": "ask_resp", "id": question["id"], "refuse": True})
        answer = await agent.line()
        assert (answer["id"], answer["content"]) == ("1", '{"action": "decline"}')


async def test_tools_stay_in_the_order_of_the_profile(tmp_path: Path) -> None:
    first, second = Place(tmp_path / "first"), Place(tmp_path / "second")
    first.has("change", "say")
    second.has("pid")
    servers = {"first": first.spec(), "second": second.spec()}
    async with served(servers) as runtime, talking(runtime, updates=True) as agent:
        await agent.ask("first:change", {"tools": ["more", "change", "say"]})
        assert names_of(await agent.line()) == ["first:more", "first:change", "first:say", "second:pid"]


async def test_a_declared_tool_that_its_server_has_no_more_is_not_offered(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    tools = {"speak": ToolSpec(mcp="kit", name="say", type="{} -> string"), "alter": ToolSpec(mcp="kit", name="change")}
    agents = {"default": ProfileSpec(tools=("speak", "alter"))}
    async with (
        served({"kit": kit.spec()}, tools=tools, agents=agents) as runtime,
        talking(runtime, updates=True) as agent,
    ):
        await agent.ask("alter", {"tools": ["change"]})
        assert names_of(await agent.line()) == ["alter"]
        assert code_in(await agent.ask("speak")) == "unknown_tool"
        assert fault_in(await agent.ask("alte"))["did_you_mean"] == "alter"
        await agent.ask("alter", {"tools": ["say", "change"]})
        assert names_of(await agent.line()) == ["speak", "alter"]
        assert (await agent.ask("speak"))["content"] == '"say"'


async def test_a_whitelisted_tool_that_goes_ends_no_session_and_refuses_the_next(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    servers = {"kit": kit.spec(tools=("say", "change"))}
    async with served(servers) as runtime, talking(runtime, updates=True) as agent:
        await agent.ask("kit:change", {"tools": ["change", "says"]})
        assert names_of(await agent.line()) == ["kit:change"]
        other = Talker(runtime)
        assert (await other.hello())["error"] == "missing_tool"
        assert await other.hear_all() == []


async def test_changes_are_told_once_a_second_and_none_is_lost(autojump_clock: MockClock) -> None:  # [M144]
    told: list[float] = []
    async with trio.open_nursery() as nursery:
        timer = Timer(Ledger())
        nursery.start_soon(timer.run)
        began = trio.current_time()
        changes = Changes(timer, lambda: told.append(round(trio.current_time() - began, 3)))
        for _ in range(25):
            changes.note()
            await trio.sleep(0.1)
        await trio.sleep(5)
        changes.note()
        changes.note()
        changes.close()
        await trio.sleep(5)
        nursery.cancel_scope.cancel()
    assert told == [0.0, 1.0, 2.0, 3.0, 7.5]


async def test_answers_that_were_kept_leave_with_the_tools(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    kit.has("pid", "change")
    async with (
        served({"kit": kit.spec(cache="1h", cache_scope="shared", read_only=("pid",))}) as runtime,
        talking(runtime, updates=True) as agent,
        talking(runtime) as another,
    ):
        own = (await agent.ask("kit:pid"))["content"]
        # The other's own server is another process, and was not asked.
        assert (await another.ask("kit:pid"))["content"] == own
        assert int(own) == kit.starts[0]
        # What may change something is called.
        assert (await agent.ask("kit:change", {"tools": ["pid", "say"]}))["content"] == "changed"
        assert (await agent.line())["__port"] == "tools_changed"
        assert int((await another.ask("kit:pid"))["content"]) == kit.starts[1]


# Of a chain the answer of its stage is kept too.
@pytest.mark.parametrize(("tool", "kept"), [("kit:pid", 1), ("chained", 2)])
async def test_an_agent_gets_no_answer_of_the_server_that_another_has_for_itself(
    tmp_path: Path, tool: str, kept: int
) -> None:
    kit = Place(tmp_path / "kit")
    kit.has("pid")
    pid = ToolSpec(mcp="kit", name="pid", type="{} -> string")
    chain = ProcessSpec(kind="plumb", chain=("lift(pid)",))
    chained = ToolSpec(process="chain", read_only=True, cache="1h")
    async with (
        served(
            {"kit": kit.spec(cache="1h", single_flight=True, read_only=("pid",))},
            tools={"pid": pid, "chained": chained},
            processes={"chain": chain},
        ) as runtime,
        talking(runtime) as agent,
        talking(runtime) as another,
    ):
        said = [(await each.ask(tool))["content"] for each in (agent, another, agent, another)]
        assert [int(str(each).strip('"')) for each in said] == kit.starts * 2
        assert (len(runtime.state.answers), runtime.state.answers.hits) == (2 * kept, 2)
