"""Servers with `shared = true`: one process for all agents, and none of them can end another's calls."""

from pathlib import Path

import pytest
import trio

from tests.agent.pliable import Place, Talker, code_in, fault_in, gone, names_of, served, talking, until
from tests.daemon.spawned import PATIENCE_S, daemon_on, server
from tests.processes import is_running
from tooldispatchd.catalog.specs import ProfileSpec, ToolSpec


async def test_agents_share_one_process_until_the_last_has_left(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec(shared=True, keep_s=0)}) as runtime:
        async with talking(runtime) as first:
            async with talking(runtime) as second:
                pids = {(await agent.ask("kit:pid"))["content"] for agent in (first, second)}
            assert (await first.ask("kit:pid"))["content"] in pids
            assert len(kit.starts) == 1
        await gone(kit.starts[0])
        async with talking(runtime) as third:
            assert (await third.ask("kit:say"))["content"] == "say"
        assert len(kit.starts) == 2


async def test_agents_that_come_together_wait_for_one_handshake(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec(shared=True)}) as runtime:
        agents = [Talker(runtime) for _ in range(5)]
        for agent in agents:
            await agent.say({"__port": "hello"})
            await agent.request("early", "kit:say")
        for agent in agents:
            lines = {line["__port"]: line for line in [await agent.line(), await agent.line()]}
            assert "kit:say" in names_of(lines["ready"])
            assert lines["tool_resp"]["content"] == "say"
            await agent.end_input()
        assert len(kit.starts) == 1


async def test_profiles_with_other_declared_tools_share_it_too(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    tools = {"speak": ToolSpec(mcp="kit", name="say"), "number": ToolSpec(mcp="kit", name="pid")}
    agents = {
        "one": ProfileSpec(tools=("speak",)),
        "two": ProfileSpec(tools=("number",)),
        "all": ProfileSpec(mcp=("kit",)),
    }
    async with (
        served({"kit": kit.spec(shared=True)}, tools=tools, agents=agents) as runtime,
        talking(runtime, profile="one") as one,
        talking(runtime, profile="two") as two,
        talking(runtime, profile="all") as whole,
    ):
        assert (await one.tools(), await two.tools()) == (["speak"], ["number"])
        assert "kit:say" in await whole.tools()
        assert (await one.ask("speak"))["content"] == "say"
        assert (await two.ask("number"))["content"] == str(kit.starts[0])
        assert len(kit.starts) == 1


async def test_one_agents_cancel_and_end_leave_the_others_calls(tmp_path: Path) -> None:  # [M146]
    kit = Place(tmp_path / "kit")
    async with (
        served({"kit": kit.spec(shared=True)}) as runtime,
        talking(runtime, answers=["elicitation"]) as staying,
    ):
        await staying.request("1", "kit:hang")
        async with talking(runtime) as leaving:
            await leaving.request("1", "kit:hang")
            await leaving.say({"__port": "tool_cancel", "id": "1"})
            assert code_in(await leaving.line()) == "cancelled"
            assert code_in(await leaving.ask("kit:hang", deadline_ms=20)) == "timeout"
        vanishing = Talker(runtime)
        await vanishing.hello()
        await vanishing.request("1", "kit:hang")
        await vanishing.ask("kit:say")
        vanishing.host.gone("it vanished")
        await vanishing.end_input()
        assert (await staying.ask("kit:say"))["content"] == "say"
        await staying.say({"__port": "tool_cancel", "id": "1"})
        assert code_in(await staying.line()) == "cancelled"
        await until(lambda: len(kit.told) == 4)
        assert kit.told == ["notifications/cancelled"] * 4
        assert len(kit.starts) == 1


async def test_its_death_is_told_to_all_and_later_sessions_have_a_new_one(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec(shared=True)}) as runtime, talking(runtime) as first, talking(runtime) as second:
        await first.request("1", "kit:hang")
        await first.ask("kit:say")
        assert code_in(await second.ask("kit:die")) == "connection_dead"
        assert code_in(await first.line()) == "connection_dead"
        assert code_in(await first.ask("kit:say")) == "connection_dead"
        async with talking(runtime) as third:
            assert (await third.ask("kit:say"))["content"] == "say"
        assert code_in(await second.ask("kit:say")) == "connection_dead"


async def test_a_call_that_takes_too_long_is_cancelled_alone(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    servers = {"kit": kit.spec(shared=True, call_s=0.3)}
    async with served(servers) as runtime, talking(runtime) as first, talking(runtime) as second:
        await first.request("1", "kit:hang")
        await trio.sleep(0.15)
        await second.request("1", "kit:hang")
        assert fault_in(await first.line())["limit_ms"] == 300
        assert (await first.ask("kit:say"))["content"] == "say"
        assert code_in(await second.line()) == "timeout"
        assert (await second.ask("kit:say"))["content"] == "say"
        assert len(kit.starts) == 1


async def test_it_comes_back_for_all_where_it_restarts(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    servers = {"kit": kit.spec(shared=True, restart="backoff")}
    async with served(servers) as runtime, talking(runtime) as first, talking(runtime) as second:
        assert code_in(await first.ask("kit:die")) == "connection_dead"
        assert (await second.until_served("kit:say"))["content"] == "say"
        assert (await first.ask("kit:say"))["content"] == "say"
        assert len(kit.starts) == 2


async def test_all_are_told_of_its_new_tools(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    async with (
        served({"kit": kit.spec(shared=True)}) as runtime,
        talking(runtime, updates=True) as first,
        talking(runtime, updates=True) as second,
    ):
        await first.ask("kit:change", {"tools": ["more"]})
        for agent in (first, second):
            assert names_of(await agent.line()) == ["kit:more"]
            assert (await agent.ask("kit:more"))["content"] == "more"


@pytest.mark.parametrize("keys", [{}, {"restart": "backoff"}, {"lazy": True}])
async def test_one_that_does_not_start_is_a_warning_to_all(tmp_path: Path, keys: dict[str, object]) -> None:
    kit = Place(tmp_path / "kit")
    kit.breaks()
    async with served({"kit": kit.spec(shared=True, **keys)}) as runtime:
        agents = [Talker(runtime) for _ in range(2)]
        for agent in agents:
            ready = await agent.hello()
            assert (ready["__port"], names_of(ready), len(ready["warnings"])) == ("ready", [], 1)
            assert code_in(await agent.ask("kit:say")) == "server_unavailable"
        for agent in agents:
            await agent.end_input()


async def test_a_lazy_one_starts_with_the_first_call_of_any(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec(shared=True, lazy=True, keep_s=0)}) as runtime:
        async with talking(runtime):
            pass
        async with talking(runtime) as first, talking(runtime) as second:
            assert len(kit.starts) == 1
            await first.request("1", "kit:say")
            await second.request("1", "kit:say")
            assert [(await agent.line())["content"] for agent in (first, second)] == ["say", "say"]
            assert len(kit.starts) == 2


async def test_it_asks_nobody_anything(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    roots = ProfileSpec(mcp=("kit",), roots=("file:///home/ada",))
    async with (
        served({"kit": kit.spec(shared=True)}, agents={"default": roots}) as runtime,
        talking(runtime, answers=["elicitation", "sampling"]) as agent,
    ):
        assert kit.capabilities == {}
        for method in ("elicitation/create", "sampling/createMessage", "roots/list"):
            assert '"code": -32601' in (await agent.ask("kit:ask", {"method": method}))["content"]


async def test_other_settings_make_it_another_server(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    servers = {name: kit.spec(shared=True, env={"WHO": name}) for name in ("ada", "bob")}
    agents = {name: ProfileSpec(mcp=(name,)) for name in servers}
    async with (
        served(servers, agents=agents) as runtime,
        talking(runtime, profile="ada"),
        talking(runtime, profile="bob"),
    ):
        assert len(kit.starts) == 2
        assert all(is_running(pid) for pid in kit.starts)


def test_a_daemon_that_is_stopped_leaves_no_shared_server(tmp_path: Path) -> None:
    config = server("kit", "silent_calls", "shared = true")
    with daemon_on(tmp_path, config) as daemon, daemon.agent() as first, daemon.agent() as second:
        for agent in (first, second):
            assert agent.hello("default")["__port"] == "ready"
        (pid,) = daemon.running("silent_calls")
        daemon.process.terminate()
        assert daemon.process.wait(PATIENCE_S) == 0
        assert not is_running(pid)
        assert '"incident"' not in daemon.log.read_text()
