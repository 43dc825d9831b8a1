"""Calls that are parts of others do not wait for what those have; and their places come back."""

from pathlib import Path
from typing import Final

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.agent.agents_below import agents_catalog, open_world, until
from tests.agent.fakes import PATIENCE_S, Agent, HeldPlan, answer, fault_of, open_runtime
from tooldispatchd.agent.steps.governing import governed
from tooldispatchd.catalog.policy import CallPolicy
from tooldispatchd.config.configuration import load_catalog

pytestmark = pytest.mark.usefixtures("nothing_left")

# All calls of the profile are in one queue; so are the stages of `twice`.
PROFILE: Final = """
queues.one = { concurrent = 1, waiting = 0 }
[processes.two]
kind = "plumb"
type = "!json -> !json"
chain = ["lift(cat)", "lift(cat)"]
[tools]
cat = { command = ["cat"] }
twice = { process = "two" }
[agents.default]
tools = ["cat", "twice"]
queue = "one"
"""
# A stage has a queue of its own, in which others wait too.
STAGES: Final = """
queues.one = { concurrent = 1 }
[processes.two]
kind = "plumb"
type = "!json -> !json"
chain = ["lift(cat)", "lift(cat)"]
[processes.slow]
kind = "plumb"
type = "!json -> !json"
chain = ["lift(sleep)"]
[tools]
cat = { command = ["cat"], queue = "one", exclusive = "files" }
sleep = { command = ["sh", "-c", "cat; exec sleep 0.2"], queue = "one" }
twice = { process = "two" }
lifted = { process = "slow" }
[agents.default]
tools = ["cat", "twice", "sleep", "lifted"]
"""


async def test_a_chain_s_stages_pass_the_queue_that_their_profile_has(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(PROFILE)
    async with open_runtime(load_catalog(tmp_path / "t.toml", {}), patience_s=PATIENCE_S) as runtime:
        agent = Agent(runtime)
        for call_id in "12":
            await agent.call(call_id, "twice", input=5)
            assert await agent.hear() == answer(call_id, "5")
        await agent.end_input()


async def test_stages_wait_in_their_own_queue_and_leave_it_each_by_itself(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(STAGES)
    async with open_runtime(load_catalog(tmp_path / "t.toml", {}), patience_s=PATIENCE_S) as runtime:
        agent = Agent(runtime)
        for call_id, tool in (("s", "sleep"), ("a", "twice"), ("l", "lifted"), ("b", "twice"), ("c", "cat")):
            await agent.call(call_id, tool, input=5)
        heard = [await agent.hear() for _ in range(5)]
        assert sorted(heard, key=str) == sorted((answer(call_id, "5") for call_id in "sablc"), key=str)
        assert runtime.policies._queues["one"].is_empty
        assert runtime.state.policy.exclusives._gates == {}
        await agent.end_input()


async def test_a_stage_that_waits_too_long_ends_its_chain_and_leaves_the_queue(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(STAGES)
    async with open_runtime(load_catalog(tmp_path / "t.toml", {}), patience_s=PATIENCE_S) as runtime:
        agent = Agent(runtime)
        await agent.call("s", "sleep", input=5)
        await agent.call("a", "twice", input=5, deadline_ms=50)
        fault = fault_of(await agent.hear())
        assert (fault["error"], fault["process"]) == ("timeout", "cat")
        assert await agent.hear() == answer("s", "5")
        await wait_all_tasks_blocked(0.01)
        assert runtime.policies._queues["one"].is_empty
        await agent.end_input()


async def test_an_agent_s_calls_pass_the_queue_of_the_call_that_it_serves() -> None:
    script = """ask '{"id":"1","name":"held"}'; printf 1"""
    async with open_world(agents_catalog("one")) as world:
        held, one = HeldPlan(), world.agent("one", script)
        policy = CallPolicy(exclusive=("thing",))
        for plan in (held, one):
            governed(world.runtime, plan, policy)
        world.offer("default", held, one)
        world.offer("one", held)
        root, other = Agent(world.runtime), Agent(world.runtime)
        await root.call("run", "one")
        await until(lambda: held.started == ["1"])
        await other.call("waits", "held")
        await trio.sleep(0.05)
        assert held.started == ["1"]
        held.finish("1")
        assert await root.hear() == answer("run", "1")
        await until(lambda: held.started == ["1", "waits"])
        held.finish("waits")
        assert await other.hear() == answer("waits")
        assert world.runtime.state.policy.exclusives._gates == {}
        await root.end_input()
        await other.end_input()
