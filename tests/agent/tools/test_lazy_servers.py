"""Servers with `lazy = true`: they start with their first call, once their tools are known."""

from pathlib import Path

from tests.agent.pliable import Place, Talker, code_in, fault_in, names_of, served, talking, until
from tooldispatchd.catalog.specs import ProfileSpec, ToolSpec


async def test_the_first_session_starts_it_and_the_next_only_when_it_calls(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec(lazy=True)}) as runtime:
        async with talking(runtime) as agent:
            shown = await agent.tools()
            assert len(kit.starts) == 1
        async with talking(runtime) as agent:
            assert await agent.tools() == shown
            assert len(kit.starts) == 1
            await agent.request("1", "kit:say", {"text": "one"})
            await agent.request("2", "kit:say", {"text": "two"})
            assert [(await agent.line())["content"] for _ in range(2)] == ["one", "two"]
            assert len(kit.starts) == 2
        async with talking(runtime):
            pass
        assert len(kit.starts) == 2


async def test_a_call_whose_server_does_not_start_is_told_so(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec(lazy=True)}) as runtime:
        async with talking(runtime):
            pass
        kit.breaks()
        async with talking(runtime) as agent:
            fault = fault_in(await agent.ask("kit:say"))
            assert (fault["error"], fault["reason"]) == ("server_unavailable", "it exited with code 3")


async def test_a_call_may_be_given_up_while_its_server_starts(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec(lazy=True)}) as runtime:
        async with talking(runtime):
            pass
        async with talking(runtime) as agent:
            await agent.request("1", "kit:say", deadline_ms=1)
            await agent.request("2", "kit:say")
            await agent.say({"__port": "tool_cancel", "id": "2"})
            answers = {answer["id"]: code_in(answer) for answer in [await agent.line(), await agent.line()]}
            assert answers == {"1": "timeout", "2": "cancelled"}
            assert (await agent.ask("kit:say"))["content"] == "say"
        # Nothing was cancelled there, as nothing had been asked.
        assert kit.told == []


async def test_a_server_that_starts_with_other_tools_changes_those_of_its_agent(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    kit.has("say")
    async with served({"kit": kit.spec(lazy=True)}) as runtime:
        async with talking(runtime):
            pass
        kit.has("say", "more")
        async with talking(runtime, updates=True) as agent:
            await agent.request("1", "kit:say")
            lines = {line["__port"]: line for line in [await agent.line(), await agent.line()]}
            assert lines["tool_resp"]["content"] == "say"
            assert names_of(lines["tools_changed"]) == ["kit:say", "kit:more"]


async def test_an_agent_that_leaves_while_its_server_starts_leaves_nothing(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec(lazy=True)}) as runtime:
        async with talking(runtime):
            pass
        agent = Talker(runtime)
        await agent.hello()
        await agent.request("1", "kit:hang")
        await until(lambda: len(kit.starts) == 2)
        agent.host.gone("it vanished")
        await agent.end_input()


async def test_a_declared_tool_starts_its_lazy_server(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    tools = {"speak": ToolSpec(mcp="kit", name="say")}
    agents = {"default": ProfileSpec(tools=("speak",))}
    async with served({"kit": kit.spec(lazy=True)}, tools=tools, agents=agents) as runtime:
        async with talking(runtime):
            pass
        async with talking(runtime) as agent:
            assert await agent.tools() == ["speak"]
            assert len(kit.starts) == 1
            assert (await agent.ask("speak"))["content"] == "say"


async def test_a_list_that_proved_wrong_is_not_shown_again(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec(lazy=True, tools=("say",))}) as runtime:
        async with talking(runtime):
            pass
        kit.has("hang")
        async with talking(runtime) as agent:
            assert code_in(await agent.ask("kit:say")) == "missing_tool"
        late = Talker(runtime)
        assert (await late.hello())["error"] == "missing_tool"
        assert await late.hear_all() == []
