"""Calls that are tried again, and tools that rest: retries and breakers."""

from itertools import pairwise
from typing import Final

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.agent.fakes import Agent, HeldPlan, answer, fault_of, open_runtime, small_catalog
from tooldispatchd.agent.calls.call import Call
from tooldispatchd.agent.steps.governing import governed
from tooldispatchd.calls.outcome import Answer, Outcome
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.policy import Breaking, CallPolicy
from tooldispatchd.catalog.policyspec import QueueSpec
from tooldispatchd.catalog.specs import Config, ProfileSpec
from tooldispatchd.wire.faults import Code, Fault

GONE: Final = Fault(Code.CONNECTION_DEAD, "it is gone", {"server": "fake", "reason": "killed"})
BROKEN: Final = Fault(Code.TOOL_FAILED, "it is broken")
DONE: Final = Answer("done")
AGAIN: Final = CallPolicy(retried_by=("tools", "held"))
BREAKER: Final = CallPolicy(breakers=(Breaking(("tools", "held"), 2, 30.0, 10.0),))


class ScriptedPlan(HeldPlan):
    """Ends its calls as it is told, one after the other, and then well; `times` are when each was started."""

    __slots__ = ("outcomes", "times")

    def __init__(self, *outcomes: Outcome) -> None:
        super().__init__()
        self.outcomes = list(outcomes)
        self.times: list[float] = []

    def start(self, call: Call) -> None:
        self.times.append(trio.current_time())
        call.finish(self.outcomes.pop(0) if self.outcomes else DONE)


def waits(times: list[float]) -> list[int]:
    """The whole seconds between one start and the next."""
    return [round(after - before) for before, after in pairwise(times)]


async def test_what_could_not_be_done_is_tried_again_twice_and_ever_later(autojump_clock: MockClock) -> None:
    held = ScriptedPlan(GONE, GONE)
    async with open_runtime(small_catalog(), held) as runtime:
        governed(runtime, held, AGAIN)
        agent = Agent(runtime)
        await agent.call("1", "held")
        assert await agent.hear() == answer("1")
        assert waits(held.times) == [1, 2]
        await agent.end_input()


async def test_after_the_third_try_the_agent_is_told(autojump_clock: MockClock) -> None:
    held = ScriptedPlan(GONE, GONE, GONE)
    async with open_runtime(small_catalog(), held) as runtime:
        governed(runtime, held, AGAIN)
        agent = Agent(runtime)
        await agent.call("1", "held")
        fault = fault_of(await agent.hear())
        assert (fault["error"], fault["ran"], len(held.times)) == ("connection_dead", "maybe", 3)
        await agent.end_input()


async def test_a_tool_that_may_not_do_its_work_twice_is_called_once(autojump_clock: MockClock) -> None:
    held = ScriptedPlan(GONE)
    async with open_runtime(small_catalog(), held) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "held")
        assert fault_of(await agent.hear())["error"] == "connection_dead"
        assert len(held.times) == 1
        await agent.end_input()


async def test_a_failure_of_the_tool_itself_is_not_tried_again(autojump_clock: MockClock) -> None:
    held = ScriptedPlan(BROKEN)
    async with open_runtime(small_catalog(), held) as runtime:
        governed(runtime, held, AGAIN)
        agent = Agent(runtime)
        await agent.call("1", "held")
        assert fault_of(await agent.hear())["error"] == "tool_failed"
        assert len(held.times) == 1
        await agent.end_input()


async def test_nothing_is_tried_again_for_which_there_is_no_time(autojump_clock: MockClock) -> None:
    asks = Fault(Code.SERVER_UNAVAILABLE, "later", {"server": "fake", "reason": "busy", "retry_after_ms": 20_000})
    held = ScriptedPlan(asks)
    async with open_runtime(small_catalog(), held) as runtime:
        governed(runtime, held, AGAIN)
        agent = Agent(runtime)
        began = trio.current_time()
        await agent.call("1", "held", deadline_ms=15_000)
        assert fault_of(await agent.hear())["error"] == "server_unavailable"
        assert trio.current_time() == began
        held.outcomes = [asks]
        await agent.call("2", "held", deadline_ms=25_000)
        assert await agent.hear() == answer("2")
        assert waits(held.times)[-1] == 20
        await agent.end_input()


async def test_a_call_that_waits_to_be_tried_again_can_be_cancelled_and_meets_its_deadline(
    autojump_clock: MockClock,
) -> None:
    held = ScriptedPlan(GONE, GONE)
    async with open_runtime(small_catalog(), held) as runtime:
        governed(runtime, held, AGAIN)
        agent = Agent(runtime)
        await agent.call("1", "held")
        await wait_all_tasks_blocked()
        await agent.say({"__port": "tool_cancel", "id": "1"})
        fault = fault_of(await agent.hear())
        assert (fault["error"], fault["ran"]) == ("cancelled", "maybe")
        await trio.sleep(10)
        assert len(held.times) == 1
        await agent.end_input()


async def test_it_has_no_place_while_it_waits_to_be_tried_again(autojump_clock: MockClock) -> None:
    config = Config(queues={"one": QueueSpec(concurrent=1)}, agents={"default": ProfileSpec()})
    catalog = build_catalog(config)
    assert isinstance(catalog, Catalog)
    held = ScriptedPlan(GONE)
    async with open_runtime(catalog, held) as runtime:
        governed(runtime, held, CallPolicy(queues=("one",), retried_by=("tools", "held")))
        agent = Agent(runtime)
        await agent.call("1", "held")
        await agent.call("2", "held")
        assert await agent.hear() == answer("2")
        assert await agent.hear() == answer("1")
        await agent.end_input()


async def test_an_outage_costs_no_more_than_ten_retries_and_a_tenth(autojump_clock: MockClock) -> None:
    held = ScriptedPlan(*[GONE] * 200)
    async with open_runtime(small_catalog(), held) as runtime:
        governed(runtime, held, AGAIN)
        agent = Agent(runtime)
        for number in range(50):
            await agent.call(str(number), "held")
        for _ in range(50):
            assert fault_of(await agent.hear())["error"] == "connection_dead"
        assert 60 <= len(held.times) <= 50 + 10 + 5
        await agent.end_input()


async def test_events_tell_of_one_start_and_one_end_however_often_it_is_tried(autojump_clock: MockClock) -> None:
    held = ScriptedPlan(GONE, GONE)
    async with open_runtime(small_catalog(), held) as runtime:
        governed(runtime, held, AGAIN)
        agent = Agent(runtime)
        await agent.say({"__port": "hello", "events": ["tool_started", "tool_finished"]})
        await agent.hear()
        await agent.call("1", "held")
        heard = [await agent.hear() for _ in range(3)]
        assert [line.get("kind") for line in heard if isinstance(line, dict)] == ["tool_started", "tool_finished", None]
        await agent.end_input()


# --- breakers ---


async def test_what_failed_too_often_is_not_called_until_it_has_rested(autojump_clock: MockClock) -> None:
    held = ScriptedPlan(GONE, GONE)
    async with open_runtime(small_catalog(), held) as runtime:
        governed(runtime, held, BREAKER)
        agent = Agent(runtime)
        for call_id in "12":
            await agent.call(call_id, "held")
            assert fault_of(await agent.hear())["error"] == "connection_dead"
        await agent.call("3", "held")
        fault = fault_of(await agent.hear())
        assert (fault["error"], fault["server"], fault["retry_after_ms"], fault["ran"]) == (
            "server_unavailable",
            "held",
            10_000,
            "no",
        )
        await trio.sleep(10)
        await agent.call("4", "held")
        assert await agent.hear() == answer("4")
        assert len(held.times) == 3
        await agent.end_input()


async def test_while_one_call_tries_it_all_others_are_refused(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with open_runtime(small_catalog(), held) as runtime:
        governed(runtime, held, BREAKER)
        agent = Agent(runtime)
        for call_id in "12":
            await agent.call(call_id, "held")
            await wait_all_tasks_blocked()
            held.running.pop(call_id).finish(GONE)
        await trio.sleep(11)
        await agent.call("3", "held")
        await agent.call("4", "held")
        await wait_all_tasks_blocked()
        assert list(held.running) == ["3"]
        await agent.say({"__port": "tool_cancel", "id": "3"})
        await agent.call("5", "held")
        await wait_all_tasks_blocked()
        assert list(held.running) == ["5"]
        held.finish("5")
        await agent.call("6", "held")
        await agent.call("7", "held")
        await wait_all_tasks_blocked()
        assert list(held.running) == ["6", "7"]
        held.finish("6")
        held.finish("7")
        await agent.end_input()


async def test_its_own_limit_is_a_failure_and_an_agent_s_deadline_is_none(autojump_clock: MockClock) -> None:
    held = HeldPlan(limit_s=20.0)
    async with open_runtime(small_catalog(), held) as runtime:
        governed(runtime, held, CallPolicy(breakers=(Breaking(("tools", "held"), 1, 30.0, 10.0),)))
        agent = Agent(runtime)
        await agent.call("1", "held", deadline_ms=1_000)
        assert fault_of(await agent.hear())["error"] == "timeout"
        await agent.call("2", "held")
        assert fault_of(await agent.hear())["error"] == "timeout"
        await agent.call("3", "held")
        assert fault_of(await agent.hear())["error"] == "server_unavailable"
        assert held.started == ["1", "2"]
        await agent.end_input()


async def test_who_called_it_and_hears_of_events_is_told(autojump_clock: MockClock) -> None:
    held = ScriptedPlan(GONE, GONE)
    async with open_runtime(small_catalog(), held) as runtime:
        governed(runtime, held, BREAKER)
        agent, other = Agent(runtime), Agent(runtime)
        for each in (agent, other):
            await each.say({"__port": "hello", "events": ["breaker_opened", "breaker_closed"]})
            await each.hear()
        await agent.call("1", "held")
        await agent.hear()
        await agent.call("2", "held")
        heard = [await agent.hear() for _ in range(2)]
        kinds = [(line.get("kind"), line.get("tool")) for line in heard if isinstance(line, dict)]
        assert sorted(kinds, key=str) == [("breaker_opened", "held"), (None, None)]
        await trio.sleep(10)
        await other.call("3", "held")
        heard = [await other.hear() for _ in range(2)]
        kinds = [(line.get("kind"), line.get("tool")) for line in heard if isinstance(line, dict)]
        assert sorted(kinds, key=str) == [("breaker_closed", "held"), (None, None)]
        told = await agent.hear()
        assert isinstance(told, dict)
        assert (told["kind"], told["tool"]) == ("breaker_closed", "held")
        await agent.end_input()
        await other.end_input()
