"""Servers that wait without a session: shared ones that are kept, spares, and those of profiles with `warm`."""

import os
import signal
from pathlib import Path

import msgspec
import pytest

from tests.agent.fakes import Ledger
from tests.agent.pliable import Place, code_in, gone, names_of, served, talking, until
from tests.processes import is_running
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.setup import Setup
from tooldispatchd.agent.tools.warming import renew_servers
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.specs import Config, LimitsSpec, McpSpec, ProfileSpec


def reloaded(runtime: Runtime, **servers: McpSpec) -> Runtime:
    """The generation that follows, with these servers."""
    catalog = build_catalog(Config(mcp=servers))
    assert isinstance(catalog, Catalog), catalog
    return Runtime(Setup(catalog, Ledger(), uid=1000), runtime.services, runtime.state)


async def until_one_is_up(runtime: Runtime) -> None:
    """Wait until a server that no session owns has started."""
    await until(lambda: any(each.is_up for each in runtime.services.sharing))


async def test_a_shared_server_outlives_its_last_agent(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec(shared=True)}) as runtime:
        sharing = runtime.services.sharing
        for _ in range(2):
            async with talking(runtime) as agent:
                assert (await agent.ask("kit:pid"))["content"] == str(kit.starts[0])
                assert sharing.kept == 0
            await until(lambda: sharing.kept == 1)
        assert len(kit.starts) == 1
        sharing.shed()
        await gone(kit.starts[0])
        assert sharing.kept == 0


async def test_a_shared_server_ends_when_it_was_kept_for_so_long(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec(shared=True, keep_s=0.05)}) as runtime:
        async with talking(runtime):
            pass
        await gone(kit.starts[0])
        assert runtime.services.sharing.kept == 0


async def test_a_kept_server_that_dies_leaves_nothing_and_the_next_agent_has_another(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec(shared=True)}) as runtime:
        async with talking(runtime):
            pass
        os.kill(kit.starts[0], signal.SIGKILL)
        await until(lambda: len(runtime.services.sharing) == 0)
        async with talking(runtime) as agent:
            assert (await agent.ask("kit:say"))["content"] == "say"


async def test_the_next_session_takes_a_spare_which_is_replaced_and_ends_with_it(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec(spare=1)}) as runtime:
        sharing = runtime.services.sharing
        async with talking(runtime) as first:
            await until_one_is_up(runtime)
            async with talking(runtime) as second:
                pids = [int((await each.ask("kit:pid"))["content"]) for each in (first, second)]
                assert pids == kit.starts[:2]
                await until(lambda: len(kit.starts) == 3 and sharing.spare == 1)
            assert not is_running(pids[1])
            assert is_running(pids[0])


async def test_a_spare_that_was_killed_is_replaced(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec(spare=1)}) as runtime, talking(runtime):
        await until_one_is_up(runtime)
        os.kill(kit.starts[1], signal.SIGKILL)
        await until(lambda: len(kit.starts) == 3)
        await until_one_is_up(runtime)
        async with talking(runtime) as agent:
            assert (await agent.ask("kit:pid"))["content"] == str(kit.starts[2])


async def test_a_spare_serves_only_sessions_of_which_its_handshake_would_say_the_same(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec(spare=1)}) as runtime, talking(runtime):
        await until_one_is_up(runtime)
        async with talking(runtime, answers=["sampling"]) as agent:
            assert kit.capabilities == {"sampling": {}}
            assert (await agent.ask("kit:pid"))["content"] == str(kit.starts[2])


async def test_agents_that_could_be_asked_for_roots_have_no_spares(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec(spare=1)}) as runtime:
        async with talking(runtime, answers=["roots"]):
            assert kit.capabilities == {"roots": {}}
        assert runtime.services.sharing.spare == 0


async def test_a_spare_asks_the_agent_that_has_taken_it(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec(spare=1)}) as runtime:
        sharing, answers = runtime.services.sharing, ["elicitation"]
        async with talking(runtime, answers=answers):
            await until_one_is_up(runtime)
            async with talking(runtime, answers=answers, updates=True) as agent:
                assert sharing.spare == 0
                params = {"message": "which?", "requestedSchema": {"type": "object", "properties": {}}}
                await agent.request("1", "kit:ask", {"method": "elicitation/create", "params": params})
                asked = await agent.line()
                assert (asked["__port"], asked["server"]) == ("ask", "kit")
                await agent.say({"__port": "ask_resp", "id": asked["id"], "result": {"action": "decline"}})
                assert "decline" in (await agent.line())["content"]
                await agent.ask("kit:change", {"tools": ["more"]})
                assert names_of(await agent.line()) == ["kit:more"]


async def test_a_spare_takes_a_place_of_its_channel(tmp_path: Path) -> None:
    kit, other = Place(tmp_path / "kit"), Place(tmp_path / "other")
    servers = {"kit": kit.spec(spare=1), "other": other.spec()}
    agents = {"default": ProfileSpec(mcp=("kit",)), "both": ProfileSpec(mcp=("other", "kit"))}
    async with served(servers, agents=agents, limits=LimitsSpec(mcp_processes=1)) as runtime, talking(runtime):
        await until_one_is_up(runtime)
        async with talking(runtime) as agent:
            assert (await agent.ask("kit:pid"))["content"] == str(kit.starts[1])
        await until_one_is_up(runtime)
        async with talking(runtime, profile="both") as agent:
            assert (await agent.ask("kit:say"))["content"] == "say"
            assert code_in(await agent.ask("other:say")) == "server_unavailable"


async def test_a_reload_ends_spares_and_kept_servers_of_another_table(tmp_path: Path) -> None:
    kit, all_ = Place(tmp_path / "kit"), Place(tmp_path / "all")
    specs = {"kit": kit.spec(spare=1), "all": all_.spec(shared=True)}
    async with served(specs) as runtime:
        sharing = runtime.services.sharing
        async with talking(runtime):
            await until(lambda: any(each.is_up and each.successor is not None for each in sharing))
        renew_servers(reloaded(runtime, **specs))
        assert (sharing.kept, sharing.spare) == (1, 1)
        changed = {name: msgspec.structs.replace(spec, env={"NEW": "1"}) for name, spec in specs.items()}
        renew_servers(reloaded(runtime, **changed))
        await gone(kit.starts[1])
        await gone(all_.starts[0])
        await until(lambda: len(kit.starts) == 3)
        renew_servers(reloaded(runtime, kit=kit.spec(), all=all_.spec()))
        await gone(kit.starts[2])
        assert len(all_.starts) == 1


@pytest.mark.parametrize("keys", [{"shared": True}, {"spare": 1}, {}])
async def test_a_warm_profile_has_its_servers_before_the_first_agent(tmp_path: Path, keys: dict[str, object]) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec(**keys)}, agents={"default": ProfileSpec(mcp=("kit",), warm=True)}) as runtime:
        sharing = runtime.services.sharing
        renew_servers(runtime)
        assert sharing.cold == ["kit"]
        await until(lambda: not sharing.cold)
        async with talking(runtime) as agent:
            assert (await agent.ask("kit:pid"))["content"] == str(kit.starts[0])
        assert sharing.cold == []


async def test_a_warm_server_that_does_not_start_is_tried_again(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    kit.breaks()
    agents = {"default": ProfileSpec(mcp=("kit",), warm=True)}
    async with served({"kit": kit.spec(shared=True)}, agents=agents) as runtime:
        renew_servers(runtime)
        await until(lambda: len(kit.starts) == 2)
        assert runtime.services.sharing.cold == ["kit"]
        kit.mended()
        await until(lambda: not runtime.services.sharing.cold)
