"""What bounds a session's calls: places, unread answers, deadlines, and the daemon's end."""

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.agent.fakes import (
    Agent,
    BusyCheckers,
    EndedCheckers,
    HeldPlan,
    answer,
    code_of,
    fault_of,
    open_runtime,
    small_catalog,
)
from tooldispatchd.agent.session.host import TURN
from tooldispatchd.calls.gate import Gate
from tooldispatchd.calls.stages import Reason
from tooldispatchd.catalog.specs import LimitsSpec


async def test_calls_over_both_bounds_get_queue_full(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with open_runtime(small_catalog(LimitsSpec(in_flight=2, waiting=1)), held) as runtime:
        agent = Agent(runtime)
        await agent.say(*[{"id": call_id, "name": "held"} for call_id in "1234"])
        line = await agent.hear()
        assert isinstance(line, dict)
        assert line["id"] == "4"
        assert (code_of(line), fault_of(line)["queue"]) == ("queue_full", "agent")
        assert held.started == ["1", "2"]
        held.finish("2")
        assert held.started == ["1", "2", "3"]
        held.finish("1")
        held.finish("3")
        assert [await agent.hear() for _ in "213"] == [answer("2"), answer("1"), answer("3")]
        await agent.end_input()


async def test_a_call_that_leaves_the_queue_makes_room_in_it(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with open_runtime(small_catalog(LimitsSpec(in_flight=1, waiting=1)), held) as runtime:
        agent = Agent(runtime)
        await agent.say({"id": "1", "name": "held"}, {"id": "2", "name": "held"}, {"__port": "tool_cancel", "id": "2"})
        await agent.call("3", "held")
        assert code_of(await agent.hear()) == "cancelled"
        await wait_all_tasks_blocked()
        held.finish("1")
        assert held.started == ["1", "3"]
        held.finish("3")
        await agent.end_input()


async def test_agents_take_turns_at_a_tool_s_gate(autojump_clock: MockClock) -> None:
    held = HeldPlan(gate=Gate(1))
    async with open_runtime(small_catalog(), held) as runtime:
        greedy, modest = Agent(runtime), Agent(runtime)
        await greedy.say(*[{"id": call_id, "name": "held"} for call_id in ("a1", "a2", "a3")])
        await wait_all_tasks_blocked()
        await modest.call("b1", "held")
        await wait_all_tasks_blocked()
        for call_id in ("a1", "b1", "a2", "a3"):
            held.finish(call_id)
        assert held.started == ["a1", "b1", "a2", "a3"]
        await greedy.end_input()
        await modest.end_input()


async def test_requests_get_too_many_while_unread_answers_crowd_the_daemon(autojump_clock: MockClock) -> None:
    async with open_runtime(small_catalog(), HeldPlan()) as runtime:
        agent = Agent(runtime)
        agent.bounds.is_crowded = True
        await agent.say({"__port": "tool_req", "id": "1", "name": "held"}, {"id": "2", "name": "echo", "input": 1})
        faults = [fault_of(await agent.hear()) for _ in "12"]
        assert [(fault["error"], fault["what"]) for fault in faults] == [("too_many", "buffered_bytes")] * 2
        agent.bounds.is_crowded = False
        await agent.call("3", "echo", input=1)
        assert await agent.hear() == answer("3", "1")
        await agent.end_input()


async def test_a_long_answer_in_a_crowded_daemon_is_told_as_too_many_and_a_short_one_is_not(
    autojump_clock: MockClock,
) -> None:
    held = HeldPlan()
    async with open_runtime(small_catalog(), held) as runtime:
        agent = Agent(runtime)
        await agent.say({"id": "1", "name": "held"}, {"id": "2", "name": "held"})
        await wait_all_tasks_blocked()
        agent.bounds.is_crowded = True
        held.finish("1", "x" * 2000)
        held.finish("2", "short")
        assert code_of(await agent.hear()) == "too_many"
        assert await agent.hear() == answer("2", "short")
        await agent.end_input()


async def test_a_call_that_never_ends_is_answered_at_its_tool_s_limit(autojump_clock: MockClock) -> None:
    held = HeldPlan(limit_s=60.0)
    async with open_runtime(small_catalog(), held) as runtime:
        agent = Agent(runtime)
        since = trio.current_time()
        await agent.call("1", "held")
        fault = fault_of(await agent.hear())
        assert (fault["error"], fault["limit_ms"], fault["stage"]) == ("timeout", 60_000, "run")
        assert trio.current_time() - since == pytest.approx(60.0)
        assert held.halted == [("1", Reason.LIMIT)]
        await agent.end_input()


async def test_an_agent_s_own_deadline_ends_a_call_before_its_tool_s_limit(autojump_clock: MockClock) -> None:
    held = HeldPlan(limit_s=3600.0)
    async with open_runtime(small_catalog(), held) as runtime:
        agent = Agent(runtime)
        since = trio.current_time()
        await agent.call("1", "held", deadline_ms=60_000)
        fault = fault_of(await agent.hear())
        assert (fault["error"], fault["limit_ms"], fault["stage"]) == ("timeout", 60_000, "run")
        assert trio.current_time() - since == pytest.approx(60.0)
        assert held.halted == [("1", Reason.CANCELLED)]
        await agent.end_input()


async def test_a_deadline_that_passes_in_the_queue_says_so_and_the_tool_never_starts(autojump_clock: MockClock) -> None:
    held = HeldPlan(limit_s=100.0)
    async with open_runtime(small_catalog(LimitsSpec(in_flight=1)), held) as runtime:
        agent = Agent(runtime)
        await agent.say({"id": "1", "name": "held"}, {"id": "2", "name": "held", "deadline_ms": 60_000})
        fault = fault_of(await agent.hear())
        assert (fault["error"], fault["limit_ms"], fault["stage"]) == ("timeout", 60_000, "queue")
        assert held.started == ["1"]
        held.finish("1")
        await agent.end_input()


async def test_a_call_s_limit_begins_anew_when_it_starts(autojump_clock: MockClock) -> None:
    held = HeldPlan(limit_s=60.0)
    async with open_runtime(small_catalog(LimitsSpec(in_flight=1)), held) as runtime:
        agent = Agent(runtime)
        since = trio.current_time()
        await agent.say({"id": "1", "name": "held"}, {"id": "2", "name": "held"})
        await trio.sleep(50)
        held.finish("1")
        assert await agent.hear() == answer("1")
        assert fault_of(await agent.hear())["stage"] == "run"
        assert trio.current_time() - since == pytest.approx(110.0)
        await agent.end_input()


async def test_a_draining_session_finishes_what_runs_and_takes_no_more(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with open_runtime(small_catalog(), held) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "held")
        await wait_all_tasks_blocked()
        runtime.state.is_draining = True
        agent.host.drain()
        await agent.call("2", "echo", input=1)
        assert code_of(await agent.hear()) == "draining"
        held.finish("1")
        assert await agent.hear_all() == [answer("1")]
        assert agent.closings == 1


async def test_an_aborted_session_answers_draining_and_closes(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with open_runtime(small_catalog(LimitsSpec(in_flight=1)), held) as runtime:
        agent = Agent(runtime)
        await agent.say({"id": "1", "name": "held"}, {"id": "2", "name": "held"})
        await wait_all_tasks_blocked()
        agent.host.drain()
        agent.host.abort()
        assert [code_of(line) for line in await agent.hear_all()] == ["draining", "draining"]
        assert held.started == ["1"]


async def test_requests_are_answered_while_what_was_aborted_is_torn_down(autojump_clock: MockClock) -> None:
    held = HeldPlan(lingers=True)
    async with open_runtime(small_catalog(), held) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "held")
        await wait_all_tasks_blocked()
        agent.host.drain()
        agent.host.abort()
        await agent.call("2", "echo", input=1)
        await agent.say(
            {"__port": "tool_req", "id": "3", "name": "echo", "input": 1}, {"__port": "hello", "agent": "a"}
        )
        assert [code_of(await agent.hear()) for _ in range(3)] == ["draining"] * 3
        held.finish("1")
        assert [code_of(line) for line in await agent.hear_all()] == ["draining"]
        assert agent.closings == 1


async def test_lines_that_lie_there_when_the_grace_is_over_are_answered(autojump_clock: MockClock) -> None:
    async with open_runtime(small_catalog()) as runtime:
        agent = Agent(runtime)
        await agent.say(*[{"id": str(number), "name": "echo", "input": 1} for number in range(TURN + 9)])
        await agent.hear()
        agent.host.drain()
        agent.host.abort()
        assert len(await agent.hear_all()) == TURN + 8
        assert agent.closings == 1


async def test_a_channel_that_says_nothing_is_closed_when_the_daemon_drains(autojump_clock: MockClock) -> None:
    async with open_runtime(small_catalog()) as runtime:
        agent = Agent(runtime)
        await wait_all_tasks_blocked()
        agent.host.drain()
        assert await agent.hear_all() == []
        assert agent.closings == 1


async def test_no_session_opens_in_a_daemon_that_drains(autojump_clock: MockClock) -> None:
    async with open_runtime(small_catalog()) as runtime:
        runtime.state.is_draining = True
        polite, hasty = Agent(runtime), Agent(runtime)
        await polite.say({"__port": "hello"})
        assert [code_of(line) for line in await polite.hear_all()] == ["draining"]
        await hasty.call("1", "echo", input=1)
        assert code_of(await hasty.hear()) == "draining"
        await hasty.end_input()


async def test_the_check_of_an_input_is_within_the_limit_of_its_call(autojump_clock: MockClock) -> None:
    held = HeldPlan(limit_s=5.0)
    async with open_runtime(small_catalog(), held, checkers=BusyCheckers()) as runtime:
        agent = Agent(runtime)
        since = trio.current_time()
        # The line is light, and what is in it is not.
        await agent.call("1", "held", input=[0] * 20_000)
        fault = fault_of(await agent.hear())
        assert (fault["error"], fault["limit_ms"], fault["ran"], held.started) == ("timeout", 5_000, "no", [])
        assert trio.current_time() - since == pytest.approx(5.0)
        await agent.end_input()


async def test_a_call_whose_line_no_checker_has_read_is_answered_by_its_id(autojump_clock: MockClock) -> None:
    async with open_runtime(small_catalog(), checkers=EndedCheckers()) as runtime:
        agent = Agent(runtime)
        await agent.say({"__port": "tool_req", "id": "7", "name": "echo", "input": "x" * 100_000})
        line = await agent.hear()
        assert isinstance(line, dict)
        assert (line["__port"], line["id"], code_of(line)) == ("tool_resp", "7", "line_too_long")
        assert fault_of(line)["detail"] == "a line cannot be read: its checker ended"
        await agent.end_input()
