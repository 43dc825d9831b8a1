"""What the daemon counts of calls: every request that was answered, once."""

from trio.testing import MockClock, wait_all_tasks_blocked

from tests.agent.fakes import Agent, HeldPlan, open_runtime, small_catalog
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.calls.outcome import Answer
from tooldispatchd.catalog.specs import LimitsSpec


def counted(runtime: Runtime) -> dict[str, dict[str, int]]:
    """How many calls ended so, by tool and outcome; those of no tool are under the empty name."""
    tallies = runtime.state.tallies
    return {tally.name: tally.counts() for tally in (tallies.none, *tallies.tools())}


async def test_calls_that_are_answered_at_once_are_counted_and_those_that_wait_are_timed(
    autojump_clock: MockClock,
) -> None:
    held = HeldPlan()
    async with open_runtime(small_catalog(), held, logs_calls=False) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "held")
        for call_id in ("2", "3"):
            await agent.call(call_id, "echo", input=1)
        await agent.pause(5.0)
        held.finish("1")
        await agent.end_input()
        await agent.hear_all()
        echo, waited = runtime.state.tallies.tools()
    assert (echo.name, echo.provider, echo.at_once, echo.ended) == ("echo", "inline", 2, {})
    assert (waited.name, waited.at_once, waited.ended["ok"].total_s) == ("held", 0, 5.0)


async def test_every_other_end_is_counted_by_its_tool_and_what_became_of_it(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with open_runtime(small_catalog(LimitsSpec(in_flight=1, waiting=1)), held, logs_calls=False) as runtime:
        agent = Agent(runtime)
        for call_id in ("runs", "waits", "has no room"):
            await agent.call(call_id, "held")
        await agent.call("refused", "held", input="refuse me")
        await agent.call("to none", "nothing-like-it")
        await agent.call("in time", "echo", input=1, deadline_ms=1000)
        await wait_all_tasks_blocked()
        held.finish("runs", Answer("no", is_error=True))
        await agent.say({"__port": "tool_cancel", "id": "waits"})
        await agent.end_input()
        answers = await agent.hear_all()
        told = counted(runtime)
    assert len(answers) == 6
    assert told == {
        "": {"unknown_tool": 1},
        "echo": {"ok": 1},
        "held": {"queue_full": 1, "invalid_input": 1, "error": 1, "cancelled": 1},
    }


async def test_requests_of_who_may_not_come_in_are_counted(autojump_clock: MockClock) -> None:
    async with open_runtime(small_catalog()) as runtime:
        agent = Agent(runtime)
        await agent.say({"__port": "hello", "profile": "nobody"}, {"id": "1", "name": "echo"})
        await agent.hear_all()
        await agent.end_input()
        told = counted(runtime)
    assert told == {"": {"unknown_profile": 1}}
