"""How a server may fail, and what its agent sees of each: the whole policy, with servers that do as they are told."""

import sys
from pathlib import Path

import pytest
import trio

from tests.agent.pliable import Place, Talker, code_in, fault_in, gone, names_of, served, talking
from tests.processes import is_running
from tooldispatchd.catalog.specs import McpSpec, ProfileSpec, ToolSpec

ECHO = {"echo": ToolSpec(type="json -> json", inline="id")}
# Nobody listens on the port that is kept for that.
NOWHERE = "http://127.0.0.1:1/mcp"

CANNOT = [
    McpSpec(command="no-such-program-here"),
    McpSpec(command=sys.executable, args=("-c", "import sys; sys.exit(4)")),
    McpSpec(url=NOWHERE, handshake_s=2.0),
    McpSpec(command="sh", args=("-c", "cat > /dev/null"), handshake_s=0.2, protocol="2025-11-25"),
]


@pytest.mark.parametrize("spec", CANNOT, ids=["spawn", "exit", "connect", "handshake"])
async def test_a_server_that_does_not_come_up_is_a_warning_and_is_skipped(spec: McpSpec) -> None:
    async with served({"kit": spec}, tools=ECHO) as runtime:
        agent = Talker(runtime)
        ready = await agent.hello()
        assert (names_of(ready), len(ready["warnings"])) == (["echo"], 1)
        assert ready["warnings"][0].startswith("server kit is not available: ")
        assert (await agent.ask("echo", 1))["content"] == "1"
        assert code_in(await agent.ask("kit:say")) == "server_unavailable"
        await agent.end_input()


@pytest.mark.parametrize("keys", [{"tools": ("say",)}, {"tools": ("say",), "shared": True}])
@pytest.mark.parametrize("spec", CANNOT, ids=["spawn", "exit", "connect", "handshake"])
async def test_one_whose_tools_are_named_refuses_the_session(spec: McpSpec, keys: dict[str, object]) -> None:
    table = {**{name: getattr(spec, name) for name in ("command", "url", "args", "handshake_s", "protocol")}, **keys}
    async with served({"kit": McpSpec(**table)}) as runtime:
        agent = Talker(runtime)
        refused = await agent.hello()
        assert (refused["__port"], refused["error"], refused["server"]) == ("fault", "server_unavailable", "kit")
        assert await agent.hear_all() == []


@pytest.mark.parametrize("keys", [{}, {"shared": True}, {"restart": "backoff"}, {"lazy": True}])
async def test_a_whitelisted_tool_that_is_missing_is_named(tmp_path: Path, keys: dict[str, object]) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec(tools=("says",), **keys)}) as runtime:
        agent = Talker(runtime)
        refused = await agent.hello()
        assert (refused["error"], refused["server"], refused["tool"]) == ("missing_tool", "kit", "says")
        assert refused["did_you_mean"] == "say"
        assert refused["detail"] == "server kit does not offer the whitelisted tool says; did you mean say?"
        assert await agent.hear_all() == []
    assert not any(is_running(pid) for pid in kit.starts)


@pytest.mark.parametrize("keys", [{"tools": ("sing",)}, {}])
async def test_a_tool_that_is_asked_for_and_left_out_is_told_with_why(tmp_path: Path, keys: dict[str, object]) -> None:
    kit = Place(tmp_path / "kit")
    kit.has("say", "sing:elsewhere")
    agents = {"default": ProfileSpec(tools=("kit:sing",))}
    async with served({"kit": kit.spec(**keys)}, agents=agents) as runtime:
        agent = Talker(runtime)
        refused = await agent.hello()
        why = "its inputSchema refers to http://a.example/b.json, which is never fetched"
        assert (refused["error"], refused["tool"]) == ("missing_tool", "sing")
        assert refused["detail"].endswith(f"tool sing: sing is left out: {why}")
        assert "did_you_mean" not in refused
        assert await agent.hear_all() == []


async def test_a_tool_of_a_profile_that_is_missing_has_its_nearest_name_told(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    agents = {"default": ProfileSpec(tools=("kit:sya",))}
    async with served({"kit": kit.spec()}, agents=agents) as runtime:
        agent = Talker(runtime)
        refused = await agent.hello()
        assert (refused["error"], refused["did_you_mean"]) == ("missing_tool", "say")
        assert await agent.hear_all() == []


async def test_a_call_over_its_time_is_cancelled_there_and_the_connection_is_dead(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec(call_s=0.3)}) as runtime, talking(runtime) as agent:
        await agent.request("1", "kit:hang")
        await trio.sleep(0.1)
        await agent.request("2", "kit:hang")
        answers = {answer["id"]: fault_in(answer) for answer in [await agent.line(), await agent.line()]}
        assert (answers["1"]["error"], answers["1"]["limit_ms"]) == ("timeout", 300)
        assert (answers["2"]["error"], answers["2"]["reason"]) == (
            "connection_dead",
            "a call took longer than 0.3 s",
        )
        assert code_in(await agent.ask("kit:say")) == "connection_dead"
        await gone(kit.starts[0])
        assert kit.told == ["notifications/cancelled"]


async def test_a_call_over_its_time_leaves_a_connection_that_only_cancels(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    servers = {"kit": kit.spec(call_s=0.2, on_timeout="cancel")}
    async with served(servers) as runtime, talking(runtime) as agent:
        assert code_in(await agent.ask("kit:hang")) == "timeout"
        assert (await agent.ask("kit:say"))["content"] == "say"
        assert (kit.told, len(kit.starts)) == (["notifications/cancelled"], 1)


async def test_what_the_agent_gives_up_is_cancelled_there_and_ends_nothing(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec()}) as runtime, talking(runtime) as agent:
        assert code_in(await agent.ask("kit:hang", deadline_ms=30)) == "timeout"
        await agent.request("1", "kit:hang")
        await agent.say({"__port": "tool_cancel", "id": "1"})
        assert code_in(await agent.line()) == "cancelled"
        assert (await agent.ask("kit:say"))["content"] == "say"
        assert kit.told == ["notifications/cancelled"] * 2


async def test_a_tools_own_error_is_passed_through(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec()}) as runtime, talking(runtime) as agent:
        answer = await agent.ask("kit:fail")
        assert (answer["content"], answer["is_error"], answer.get("fault")) == ("no such thing", True, None)


async def test_all_calls_in_flight_fail_at_the_death_of_their_server_and_no_other(tmp_path: Path) -> None:
    kit, other = Place(tmp_path / "kit"), Place(tmp_path / "other")
    async with (
        served({"kit": kit.spec(), "other": other.spec()}) as runtime,
        talking(runtime) as agent,
    ):
        await agent.request("0", "other:hang")
        for number in range(1, 4):
            await agent.request(str(number), "kit:hang")
        await agent.request("4", "kit:die")
        answers = [await agent.line() for _ in range(4)]
        assert {answer["id"]: code_in(answer) for answer in answers} == dict.fromkeys("1234", "connection_dead")
        assert (await agent.ask("other:say"))["content"] == "say"
        assert code_in(await agent.ask("kit:say")) == "connection_dead"
        await agent.say({"__port": "tool_cancel", "id": "0"})
        await agent.line()


async def test_what_servers_advise_is_in_ready_after_the_hints(tmp_path: Path) -> None:
    kit, hidden = Place(tmp_path / "kit"), Place(tmp_path / "hidden")
    tools = {
        "echo": ToolSpec(type="json -> json", inline="id", hint="Say it twice."),
        "speak": ToolSpec(mcp="hidden", name="say"),
    }
    agents = {"default": ProfileSpec(tools=("echo", "speak"), mcp=("kit",))}
    async with served({"kit": kit.spec(), "hidden": hidden.spec()}, tools=tools, agents=agents) as runtime:
        agent = Talker(runtime)
        ready = await agent.hello()
        # A server of which only declared tools are used advises nobody.
        assert ready["instructions"] == "- Say it twice.\n\n# kit\nBe kit."
        await agent.end_input()
