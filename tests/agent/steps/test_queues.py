"""Calls that wait for one another: in queues, for what only one may have, and in the order of these."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.agent.fakes import Agent, HeldPlan, answer, code_of, fault_of, open_runtime
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.steps.governing import governed
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.policy import CallPolicy
from tooldispatchd.catalog.policyspec import QueueSpec
from tooldispatchd.catalog.specs import Config, ProfileSpec, ToolSpec

ONE: Final = CallPolicy(queues=("one",))


def catalog_of(**queues: QueueSpec) -> Catalog:
    """One inline tool, `echo`, and these queues."""
    config = Config(
        queues=queues,
        tools={"echo": ToolSpec(type="json -> json", inline="id")},
        agents={"default": ProfileSpec(tools=("echo",))},
    )
    catalog = build_catalog(config)
    assert isinstance(catalog, Catalog), catalog
    return catalog


@asynccontextmanager
async def queued(held: HeldPlan, policy: CallPolicy = ONE, **queues: QueueSpec) -> AsyncIterator[Runtime]:
    """A runtime in which calls of `held` come to the queues of `policy`."""
    async with open_runtime(catalog_of(**queues), held) as runtime:
        governed(runtime, held, policy)
        yield runtime


async def test_no_more_run_than_the_queue_lets_whoever_calls(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with queued(held, one=QueueSpec(concurrent=2)) as runtime:
        agents = {name: Agent(runtime) for name in "abc"}
        for name, agent in agents.items():
            await agent.call(f"{name}1", "held")
            await agent.call(f"{name}2", "held")
            await wait_all_tasks_blocked()
        assert held.started == ["a1", "a2"]
        for _ in range(3):
            assert len(held.running) == 2
            for call_id in list(held.running):
                held.finish(call_id)
        for name, agent in agents.items():
            assert sorted([str(await agent.hear()) for _ in "12"]) == [str(answer(f"{name}{n}")) for n in "12"]
            await agent.end_input()


async def test_agents_take_turns_in_a_queue(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with queued(held, one=QueueSpec(concurrent=1)) as runtime:
        greedy, modest = Agent(runtime), Agent(runtime)
        for number in range(4):
            await greedy.call(f"g{number}", "held")
        await wait_all_tasks_blocked()
        await modest.call("m0", "held")
        await modest.call("m1", "held")
        await wait_all_tasks_blocked()
        while held.running:
            held.finish(next(iter(held.running)))
        assert held.started == ["g0", "m0", "g1", "m1", "g2", "g3"]
        for agent in (greedy, modest):
            await agent.end_input()


async def test_a_call_that_finds_no_room_is_told_in_which_queue(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with queued(held, one=QueueSpec(concurrent=1, waiting=1)) as runtime:
        agent = Agent(runtime)
        for call_id in "123":
            await agent.call(call_id, "held")
        fault = fault_of(await agent.hear())
        assert (fault["error"], fault["queue"], fault["retry_after_ms"], fault["ran"]) == (
            "queue_full",
            "one",
            1000,
            "no",
        )
        held.finish("1")
        held.finish("2")
        await agent.end_input()


async def test_what_comes_too_often_waits_for_its_time(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with queued(held, one=QueueSpec(rate="2/s burst 2")) as runtime:
        agent = Agent(runtime)
        began = trio.current_time()
        for number in range(5):
            await agent.call(str(number), "held")
        at: list[float] = []
        for count in range(2, 6):
            await trio.sleep(0.01)
            while len(held.started) < count:
                await trio.sleep(0.05)
            at.append(round(trio.current_time() - began, 1))
        assert at == [0.0, 0.5, 1.0, 1.5]
        for number in range(5):
            held.finish(str(number))
        await agent.end_input()


async def test_a_call_whose_time_would_come_after_its_deadline_is_told_when_to_come_again(
    autojump_clock: MockClock,
) -> None:
    held = HeldPlan()
    async with queued(held, one=QueueSpec(rate="1/m")) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "held")
        await agent.call("2", "held", deadline_ms=30_000)
        fault = fault_of(await agent.hear())
        assert (fault["error"], fault["category"], fault["queue"]) == ("rate_limited", "unavailable", "one")
        after_ms = fault["retry_after_ms"]
        assert isinstance(after_ms, int)
        assert 59_000 < after_ms <= 60_000
        held.finish("1")
        await agent.end_input()


async def test_the_deadline_covers_the_wait(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with queued(held, one=QueueSpec(concurrent=1)) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "held")
        await agent.call("2", "held", deadline_ms=5_000)
        fault = fault_of(await agent.hear())
        assert (fault["error"], fault["stage"], fault["limit_ms"], fault["ran"]) == ("timeout", "queue", 5000, "no")
        await agent.call("3", "held")
        await wait_all_tasks_blocked()
        held.finish("1")
        assert held.started == ["1", "3"]
        held.finish("3")
        await agent.end_input()


@pytest.mark.parametrize("end", ["cancel", "gone", "abort"])
async def test_a_place_is_given_back_however_a_call_ends(autojump_clock: MockClock, end: str) -> None:
    held = HeldPlan()
    async with queued(held, one=QueueSpec(concurrent=1)) as runtime:
        agent, other = Agent(runtime), Agent(runtime)
        await agent.call("runs", "held")
        await agent.call("waits", "held")
        await wait_all_tasks_blocked()
        await other.call("other", "held")
        await wait_all_tasks_blocked()
        match end:
            case "cancel":
                await agent.say({"__port": "tool_cancel", "id": "waits"}, {"__port": "tool_cancel", "id": "runs"})
            case "gone":
                await agent.stop_listening()
                await agent.say({"__port": "ping"})
            case _:
                agent.host.abort()
        await wait_all_tasks_blocked()
        assert held.started == ["runs", "other"]
        held.finish("other")
        assert await other.hear() == answer("other")
        await other.end_input()
        if end == "cancel":
            await agent.end_input()


async def test_a_high_call_passes_those_that_wait(autojump_clock: MockClock) -> None:
    held, urgent = HeldPlan(), HeldPlan("urgent")
    async with open_runtime(catalog_of(one=QueueSpec(concurrent=1)), held, urgent) as runtime:
        governed(runtime, held, ONE)
        governed(runtime, urgent, CallPolicy(queues=("one",), priority="high"))
        agent = Agent(runtime)
        for call_id in "123":
            await agent.call(call_id, "held")
        await agent.call("now", "urgent")
        await wait_all_tasks_blocked()
        held.finish("1")
        assert (held.started, urgent.started) == (["1"], ["now"])
        urgent.finish("now")
        held.finish("2")
        held.finish("3")
        await agent.end_input()


async def test_a_call_waits_in_each_of_its_queues(autojump_clock: MockClock) -> None:
    held, other = HeldPlan(), HeldPlan("other")
    queues = {"first": QueueSpec(concurrent=1), "second": QueueSpec(concurrent=1)}
    async with open_runtime(catalog_of(**queues), held, other) as runtime:
        governed(runtime, held, CallPolicy(queues=("first", "second")))
        governed(runtime, other, CallPolicy(queues=("second",)))
        agent = Agent(runtime)
        await agent.call("1", "other")
        await agent.call("2", "held")
        await agent.call("3", "held")
        await wait_all_tasks_blocked()
        assert held.started == []
        other.finish("1")
        assert held.started == ["2"]
        held.finish("2")
        assert held.started == ["2", "3"]
        held.finish("3")
        await agent.end_input()


async def test_an_inline_tool_in_a_queue_waits_as_any_other(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    config = Config(
        queues={"one": QueueSpec(concurrent=1)},
        tools={"echo": ToolSpec(type="json -> json", inline="id", queue="one")},
        agents={"default": ProfileSpec(tools=("echo",))},
    )
    catalog = build_catalog(config)
    assert isinstance(catalog, Catalog)
    async with open_runtime(catalog, held) as runtime:
        governed(runtime, held, ONE)
        agent = Agent(runtime)
        await agent.call("1", "held")
        await agent.call("2", "echo", input={"a": [1, None]})
        await wait_all_tasks_blocked()
        held.finish("1")
        assert [await agent.hear(), await agent.hear()] == [answer("1"), answer("2", '{"a":[1,null]}')]
        await agent.end_input()


async def test_the_queue_of_a_profile_holds_for_all_that_its_agents_call(autojump_clock: MockClock) -> None:
    config = Config(
        queues={"one": QueueSpec(rate="1/h", waiting=0)},
        tools={"echo": ToolSpec(type="json -> json", inline="id")},
        agents={"default": ProfileSpec(tools=("echo",), queue="one")},
    )
    catalog = build_catalog(config)
    assert isinstance(catalog, Catalog)
    async with open_runtime(catalog) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "echo", input=1)
        assert await agent.hear() == answer("1", "1")
        await agent.call("2", "echo", input=1)
        assert code_of(await agent.hear()) == "rate_limited"
        await agent.call("3", "job_list")
        assert await agent.hear() == answer("3", '{"jobs":[]}')
        await agent.end_input()


async def test_nothing_is_told_of_a_call_before_it_has_its_turn(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with queued(held, one=QueueSpec(concurrent=1, waiting=1)) as runtime:
        agent = Agent(runtime)
        await agent.say({"__port": "hello", "events": ["tool_started", "tool_finished"]})
        await agent.hear()
        for call_id in "123":
            await agent.call(call_id, "held")
        heard = [await agent.hear() for _ in range(3)]
        kinds = [(line.get("kind"), line["id"]) for line in heard if isinstance(line, dict)]
        assert kinds == [("tool_started", "1"), ("tool_finished", "3"), (None, "3")]
        held.finish("1")
        heard = [await agent.hear() for _ in range(3)]
        kinds = [(line.get("kind"), line["id"]) for line in heard if isinstance(line, dict)]
        assert kinds == [("tool_finished", "1"), (None, "1"), ("tool_started", "2")]
        held.finish("2")
        await agent.end_input()


async def test_a_job_is_told_of_when_its_call_waits_and_one_that_finds_no_room_is_none(
    autojump_clock: MockClock,
) -> None:
    held = HeldPlan()
    async with queued(held, one=QueueSpec(concurrent=1, waiting=1)) as runtime:
        agent = Agent(runtime)
        for call_id in "123":
            await agent.call(call_id, "held", background=True)
        assert await agent.hear() == answer("1", '{"job":"job-1"}')
        assert await agent.hear() == answer("2", '{"job":"job-2"}')
        assert code_of(await agent.hear()) == "queue_full"
        held.finish("1")
        held.finish("2")
        await agent.end_input()


# --- what only one may have ---


async def test_of_what_touches_the_same_thing_one_runs_at_a_time_whoever_calls(autojump_clock: MockClock) -> None:
    writes, reads = HeldPlan("writes"), HeldPlan("reads")
    async with open_runtime(catalog_of(), writes, reads) as runtime:
        governed(runtime, writes, CallPolicy(exclusive=("db",)))
        governed(runtime, reads, CallPolicy(exclusive=("db",), is_reader=True))
        one, two = Agent(runtime), Agent(runtime)
        await one.call("r1", "reads")
        await wait_all_tasks_blocked()
        await two.call("r2", "reads")
        await wait_all_tasks_blocked()
        assert reads.started == ["r1", "r2"]
        await one.call("w1", "writes")
        await wait_all_tasks_blocked()
        await two.call("w2", "writes")
        await two.call("r3", "reads")
        await wait_all_tasks_blocked()
        assert writes.started == []
        reads.finish("r1")
        reads.finish("r2")
        assert (writes.started, reads.started) == (["w1"], ["r1", "r2"])
        writes.finish("w1")
        assert writes.started == ["w1", "w2"]
        writes.finish("w2")
        assert reads.started == ["r1", "r2", "r3"]
        reads.finish("r3")
        await one.end_input()
        await two.end_input()
        assert runtime.state.policy.exclusives._gates == {}


async def test_a_session_without_a_workspace_has_none_to_itself(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with queued(held, CallPolicy(exclusive=("workspace",))) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "held")
        await agent.call("2", "held")
        await wait_all_tasks_blocked()
        assert held.started == ["1", "2"]
        held.finish("1")
        held.finish("2")
        await agent.end_input()
