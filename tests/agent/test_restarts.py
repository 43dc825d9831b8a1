"""Servers with `restart = "backoff"`: what their agents see when they end, and when they are back."""

import os
import signal
from pathlib import Path

import trio

from tests.agent.pliable import SOON_S, Place, Talker, code_in, fault_in, gone, names_of, served, talking, until
from tooldispatchd.catalog.specs import ProcessSpec, ProfileSpec, ToolSpec


async def test_a_call_in_flight_fails_at_once_and_the_next_ones_are_served_again(tmp_path: Path) -> None:  # [M145]
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec(restart="backoff")}) as runtime, talking(runtime) as agent:
        await agent.request("1", "kit:hang")
        await agent.request("2", "kit:die")
        answers = [await agent.line(), await agent.line()]
        assert [code_in(answer) for answer in answers] == ["connection_dead"] * 2
        assert (await agent.until_served("kit:say", {"text": "back"}))["content"] == "back"
        assert len(kit.starts) == 2


async def test_calls_meanwhile_are_told_when_to_try_again_and_the_tools_stay(tmp_path: Path) -> None:  # [M147]
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec(restart="backoff")}) as runtime, talking(runtime) as agent:
        before = await agent.tools()
        kit.breaks()
        await agent.ask("kit:die")
        await until(lambda: len(kit.starts) == 2)
        fault = fault_in(await agent.ask("kit:say"))
        assert (fault["error"], fault["category"], fault["server"]) == ("server_unavailable", "unavailable", "kit")
        assert 0 <= fault["retry_after_ms"] <= 1200
        assert await agent.tools() == before


async def test_a_server_that_was_down_at_hello_shows_its_tools_when_it_is_up(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    kit.has("say")
    kit.breaks()
    async with served({"kit": kit.spec(restart="backoff")}) as runtime:
        agent = Talker(runtime)
        ready = await agent.hello(updates=True)
        assert (names_of(ready), len(ready["warnings"])) == ([], 1)
        assert "it exited with code 3" in ready["warnings"][0]
        kit.mended()
        changed = await agent.line()
        assert (changed["__port"], names_of(changed)) == ("tools_changed", ["kit:say"])
        assert (await agent.ask("kit:say"))["content"] == "say"
        await agent.end_input()


async def test_a_whitelisted_server_that_is_down_at_hello_refuses_the_session(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    kit.breaks()
    async with served({"kit": kit.spec(restart="backoff", tools=("say",))}) as runtime:
        agent = Talker(runtime)
        refused = await agent.hello()
        assert (refused["__port"], refused["error"]) == ("fault", "server_unavailable")
        assert await agent.hear_all() == []


async def test_who_comes_while_a_shared_server_is_away_has_its_tools(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec(restart="backoff", shared=True)}) as runtime, talking(runtime) as staying:
        tools = await staying.tools()
        kit.breaks()
        await staying.ask("kit:die")
        await until(lambda: len(kit.starts) == 2)
        late = Talker(runtime)
        ready = await late.hello()
        assert (names_of(ready), len(ready["warnings"])) == (tools, 1)
        assert code_in(await late.ask("kit:say")) == "server_unavailable"
        kit.mended()
        assert (await late.until_served("kit:say"))["content"] == "say"
        await late.end_input()


async def test_declared_tools_are_called_once_their_server_is_up(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    kit.breaks()
    tools = {"bare": ToolSpec(mcp="kit", name="say"), "typed": ToolSpec(mcp="kit", name="say", type="{} -> string")}
    profile = ProfileSpec(tools=("typed", "bare"))
    async with (
        served({"kit": kit.spec(restart="backoff")}, tools=tools, agents={"default": profile}) as runtime,
        talking(runtime) as agent,
    ):
        # Nothing is known of the other one but its server's name.
        assert await agent.tools() == ["typed"]
        faults = [fault_in(await agent.ask(name)) for name in ("typed", "bare")]
        assert [fault["error"] for fault in faults] == ["server_unavailable"] * 2
        assert all(fault["retry_after_ms"] <= 1200 for fault in faults)
        kit.mended()
        assert (await agent.until_served("bare"))["content"] == "say"
        assert (await agent.ask("typed"))["content"] == '"say"'
        assert await agent.tools() == ["typed", "bare"]


async def test_a_server_without_a_name_has_one_once_it_is_up(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    kit.has("say")
    kit.breaks()
    helper = ProcessSpec(
        kind="agent", type="!json -> !json", command=("true",), mcp=(kit.spec(restart="backoff"),), uid=(1000,)
    )
    async with served({}, processes={"helper": helper}, agents={"default": ProfileSpec()}) as runtime:
        agent = Talker(runtime)
        assert names_of(await agent.hello(profile="helper", updates=True)) == []
        kit.mended()
        assert names_of(await agent.line()) == ["kit:say"]
        await agent.end_input()


async def test_a_session_that_ends_while_its_server_is_away_waits_for_nothing(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec(restart="backoff")}) as runtime:
        async with talking(runtime) as agent:
            kit.breaks()
            await agent.ask("kit:die")
            await until(lambda: len(kit.starts) == 2)
            began = trio.current_time()
        assert trio.current_time() - began < 0.7
        assert len(kit.starts) == 2
        with trio.fail_after(SOON_S):
            await gone(kit.starts[-1])


async def test_nothing_is_opened_anew_while_the_daemon_drains(tmp_path: Path) -> None:
    kit, other = Place(tmp_path / "kit"), Place(tmp_path / "other")
    servers = {"kit": kit.spec(restart="backoff"), "other": other.spec()}
    async with served(servers) as runtime, talking(runtime) as agent:
        await agent.request("long", "other:hang")
        assert (await agent.ask("kit:pid"))["content"] == str(kit.starts[0])
        runtime.state.is_draining = True
        agent.host.drain()
        os.kill(kit.starts[0], signal.SIGKILL)
        await gone(kit.starts[0])
        await trio.sleep(0.1)
        assert len(kit.starts) == 1
        agent.host.abort()
        assert fault_in(await agent.line())["error"] == "draining"


async def test_what_waits_to_be_opened_anew_is_not_once_the_daemon_drains(tmp_path: Path) -> None:
    kit, other = Place(tmp_path / "kit"), Place(tmp_path / "other")
    servers = {"kit": kit.spec(restart="backoff"), "other": other.spec()}
    async with served(servers) as runtime, talking(runtime) as agent:
        kit.breaks()
        await agent.request("long", "other:hang")
        await agent.ask("kit:die")
        await until(lambda: len(kit.starts) == 2)
        runtime.state.is_draining = True
        agent.host.drain()
        await trio.sleep(1.3)
        assert len(kit.starts) == 2
        agent.host.abort()
        assert fault_in(await agent.line())["error"] == "draining"
