"""A session under any schedule: whatever comes, and however it ends, each request has one answer and nothing stays."""

from collections import Counter
from contextlib import suppress

import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.agent.fakes import Agent, HeldPlan, open_runtime, small_catalog
from tests.examples import examples
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.calls.gate import Gate
from tooldispatchd.catalog.specs import LimitsSpec

IDS = [str(number) for number in range(8)]
ACTIONS = st.sampled_from(["call", "call", "call", "inline", "cancel", "finish", "sleep", "yield"])
ENDS = st.sampled_from(["end of input", "bye", "gone", "drain", "abort"])


async def act(agent: Agent, held: HeldPlan, action: str, call_id: str) -> None:
    """Do one thing that may happen to a channel in use."""
    match action:
        case "call":
            await agent.call(call_id, "held", deadline_ms=5000)
        case "inline":
            await agent.call(call_id, "echo", input=1)
        case "cancel":
            await agent.say({"__port": "tool_cancel", "id": call_id})
        case "finish":
            if call_id in held.running:
                held.finish(call_id)
        case "sleep":
            await trio.sleep(2)
        case "yield":
            await trio.lowlevel.checkpoint()


async def finish_all(held: HeldPlan) -> None:
    """End what was halted and what runs, as slow tools do, until nothing is left."""
    while True:
        await wait_all_tasks_blocked()
        if not held.running:
            return
        held.finish(next(iter(held.running)))


async def end(agent: Agent, ending: str) -> None:
    match ending:
        case "end of input":
            await agent.end_input()
        case "bye":
            await agent.say({"__port": "bye"})
        case "gone":
            await agent.stop_listening()
            # An answer may have found nobody before this line is written.
            with suppress(trio.BrokenResourceError):
                await agent.say({"__port": "ping"})
        case "drain":
            await wait_all_tasks_blocked()
            agent.host.drain()
        case "abort":
            await wait_all_tasks_blocked()
            agent.host.abort()


async def find_every_place_free(runtime: Runtime, held: HeldPlan) -> None:
    """Other agents get both places of the tool's gate at once."""
    others = {call_id: Agent(runtime) for call_id in "xy"}
    for call_id, other in others.items():
        await other.call(call_id, "held")
        await wait_all_tasks_blocked()
    assert held.started[-2:] == ["x", "y"]
    for call_id, other in others.items():
        held.finish(call_id)
        await other.end_input()


async def converse(steps: list[tuple[str, str]], ending: str, *, lingers: bool) -> tuple[Counter[str], list[object]]:
    """Play the steps and the end; how often each id was asked, and every line that came back."""
    held = HeldPlan(lingers=lingers, gate=Gate(2))
    asked: Counter[str] = Counter()
    lines: list[object] = []
    async with open_runtime(small_catalog(LimitsSpec(in_flight=3, waiting=2)), held) as runtime:
        agent = Agent(runtime)
        for action, call_id in steps:
            asked[call_id] += action in {"call", "inline"}
            await act(agent, held, action, call_id)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(end, agent, ending)
            nursery.start_soon(finish_all, held)
        await finish_all(held)
        if ending != "gone":
            lines = await agent.hear_all()
        assert agent.closings == 1
        assert agent.share.held == 0
        await find_every_place_free(runtime, held)
    return asked, lines


def id_of(line: object) -> str | None:
    assert isinstance(line, dict)
    call_id = line.get("id")
    assert call_id is None or isinstance(call_id, str)
    return call_id


@given(
    steps=st.lists(st.tuples(ACTIONS, st.sampled_from(IDS)), max_size=25),
    ending=ENDS,
    lingers=st.booleans(),
    schedule=st.random_module(),
)
@settings(max_examples=examples(150), deadline=None)
def test_every_request_has_exactly_one_answer_in_any_order_of_events(
    steps: list[tuple[str, str]], ending: str, lingers: bool, schedule: object
) -> None:
    clock = MockClock(autojump_threshold=0)
    asked, lines = trio.run(lambda: converse(steps, ending, lingers=lingers), clock=clock)
    answered = Counter(call_id for line in lines if (call_id := id_of(line)) is not None)
    assert ending == "gone" or answered == +asked
