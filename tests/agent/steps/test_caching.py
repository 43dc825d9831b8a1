"""Calls that get the answer to an equal one: kept from before, or of one under way."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.agent.fakes import ANOTHER_USER, Agent, HeldPlan, answer, fault_of, open_runtime
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.steps.caching import ToolIdentity, lasting
from tooldispatchd.agent.steps.governing import governed
from tooldispatchd.agent.tools.declaredplans import LIFTED, compile_lifted, compile_plans
from tooldispatchd.calls.outcome import Answer
from tooldispatchd.catalog.caching import Caching
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.policy import CallPolicy
from tooldispatchd.catalog.policyspec import QueueSpec
from tooldispatchd.catalog.specs import Config, ProcessSpec, ProfileSpec, ToolSpec
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import ContentKind, QuotedText

KEPT: Final = Caching(keeps_s=60.0)
JOINED: Final = Caching(is_joined=True)
BROKEN: Final = Fault(Code.TOOL_FAILED, "it is broken")
META: Final = {"__port": "hello", "profile": "default", "meta": True, "events": ["tool_started"]}


def catalog() -> Catalog:
    """One inline tool, two profiles of it, and a queue for one call."""
    profiles = {name: ProfileSpec(tools=("echo",)) for name in ("default", "other")}
    tools = {"echo": ToolSpec(type="json -> json", inline="id")}
    built = build_catalog(Config(queues={"one": QueueSpec(concurrent=1)}, tools=tools, agents=profiles))
    assert isinstance(built, Catalog)
    return built


@asynccontextmanager
async def caching(
    held: HeldPlan, caching: Caching = KEPT, *, queues: tuple[str, ...] = (), shown: Sequence[str | None] = (None,)
) -> AsyncIterator[Runtime]:
    """A runtime in which answers of `held` may be given again; the first of `shown` is its token."""
    async with open_runtime(catalog(), held) as runtime:
        policy = CallPolicy(caching=caching, queues=queues)
        governed(runtime, held, policy, ToolIdentity(lambda: ("1",), "s", lambda: shown[0]))
        runtime.plans("other", compile_plans)[held.name] = held
        yield runtime


async def ask(agent: Agent, held: HeldPlan, call_id: str, value: object, content: str = "done") -> bool:
    """Whether the tool ran for a call with this input; it then answers with `content`."""
    before = len(held.started)
    await agent.call(call_id, "held", input=value)
    await wait_all_tasks_blocked()
    has_run = len(held.started) > before
    if has_run:
        held.finish(call_id, content)
    assert await agent.hear() == answer(call_id, content)
    return has_run


async def test_an_equal_call_gets_the_answer_without_its_tool(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with caching(held, queues=("one",)) as runtime:
        agent, another = Agent(runtime), Agent(runtime)
        assert await ask(agent, held, "1", {"a": 1, "b": [2.5, "é"]})
        await agent.call("2", "held", input="busy")
        await wait_all_tasks_blocked()
        # Nor does it wait for a place.
        assert not await ask(another, held, "3", {"b": [2.5, "é"], "a": 1.0})
        held.finish("2")
        for each in (agent, another):
            await each.end_input()


@pytest.mark.parametrize("value", [{"a": 2}, {"a": "1"}, {"a": None}, {}, [1], {"a": 1, "b": 1}, {"a": True}])
async def test_another_input_is_another_call(autojump_clock: MockClock, value: object) -> None:
    held = HeldPlan()
    async with caching(held) as runtime:
        agent = Agent(runtime)
        assert await ask(agent, held, "1", {"a": 1})
        assert await ask(agent, held, "2", value)
        await agent.end_input()


async def test_an_answer_has_its_time(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with caching(held) as runtime:
        agent = Agent(runtime)
        assert await ask(agent, held, "1", 1)
        await trio.sleep(59)
        assert not await ask(agent, held, "2", 1)
        await trio.sleep(2)
        assert await ask(agent, held, "3", 1, "newer")
        assert not await ask(agent, held, "4", 1, "newer")
        await agent.end_input()


async def test_meta_tells_of_it_and_no_event_of_a_start(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with caching(held) as runtime:
        agent = Agent(runtime)
        assert await ask(agent, held, "1", 1)
        asking = Agent(runtime)
        await asking.say(META, {"__port": "tool_req", "id": "2", "name": "held", "input": 1})
        await asking.hear()
        await trio.sleep(1.5)
        await asking.say({"__port": "tool_req", "id": "3", "name": "held", "input": 1})
        heard = [await asking.hear() for _ in "23"]
        metas = [line["meta"] for line in heard if isinstance(line, dict)]
        assert [(meta["cached"], meta["age_ms"], meta["kind"]) for meta in metas] == [
            (True, 0, "fake"),
            (True, 1500, "fake"),
        ]
        for each in (agent, asking):
            await each.end_input()


@pytest.mark.parametrize("scope", ["own", "shared"])
async def test_an_answer_crosses_to_other_users_and_profiles_only_where_it_is_shared(
    autojump_clock: MockClock, scope: str
) -> None:
    held = HeldPlan()
    async with caching(held, Caching(60.0, is_shared=scope == "shared")) as runtime:
        agent, stranger, other = Agent(runtime), Agent(runtime, visitor=ANOTHER_USER), Agent(runtime)
        await other.say({"__port": "hello", "profile": "other"})
        await other.hear()
        assert await ask(agent, held, "1", 1)
        assert await ask(stranger, held, "2", 1) is (scope == "own")
        await other.say({"__port": "tool_req", "id": "3", "name": "held", "input": 1})
        await wait_all_tasks_blocked()
        assert ("3" in held.started) is (scope == "own")
        for call_id in list(held.running):
            held.finish(call_id)
        for each in (agent, stranger, other):
            await each.end_input()


async def test_each_form_of_content_has_an_answer_of_its_own(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with caching(held) as runtime:
        agent = Agent(runtime)
        assert await ask(agent, held, "1", 1)
        for call_id, content in (("2", "text"), ("3", "blocks")):
            await agent.call(call_id, "held", input=1, content=content)
            await wait_all_tasks_blocked()
        assert held.started == ["1", "2", "3"]
        for call_id in "23":
            held.finish(call_id)
        await agent.end_input()


async def test_what_failed_is_asked_for_again(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with caching(held) as runtime:
        agent = Agent(runtime)
        for call_id, outcome in (("1", BROKEN), ("2", Answer("no", is_error=True))):
            await agent.call(call_id, "held", input=1)
            await wait_all_tasks_blocked()
            call = held.running.pop(call_id)
            call.finish(outcome)
            call.flush()
            await agent.hear()
        assert await ask(agent, held, "3", 1)
        await agent.end_input()


async def test_what_was_asked_before_a_server_changed_is_not_kept(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with caching(held) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "held", input=1)
        await wait_all_tasks_blocked()
        runtime.state.answers.clear("s")
        held.finish("1")
        assert await agent.hear() == answer("1")
        assert await ask(agent, held, "2", 1)
        runtime.state.answers.clear("s")
        assert await ask(agent, held, "3", 1)
        await agent.end_input()


async def test_another_token_begins_anew_also_for_what_was_under_way(autojump_clock: MockClock) -> None:
    held, shown = HeldPlan(), ["alice"]
    async with caching(held, shown=shown) as runtime:
        agent = Agent(runtime)
        assert await ask(agent, held, "1", 1)
        await agent.call("2", "held", input=2)
        await wait_all_tasks_blocked()
        shown[0] = "bob"
        held.finish("2")
        assert await agent.hear() == answer("2")
        assert await ask(agent, held, "3", 1)
        shown[0] = "alice"
        assert not await ask(agent, held, "4", 1)
        assert await ask(agent, held, "5", 2)
        await agent.end_input()


async def test_another_version_of_a_tool_has_other_answers(autojump_clock: MockClock) -> None:
    held, changed = HeldPlan(), HeldPlan("changed")
    async with caching(held) as runtime:
        runtime.plans("default", compile_plans)["changed"] = changed
        governed(runtime, changed, CallPolicy(caching=KEPT), ToolIdentity(lambda: ("2",), "s", lambda: None))
        # As after a restart with another configuration: the tool has its name, and is another.
        changed.offered = held.offered
        agent = Agent(runtime)
        assert await ask(agent, held, "1", 1)
        await agent.call("2", "changed", input=1)
        await wait_all_tasks_blocked()
        assert changed.started == ["2"]
        changed.finish("2")
        await agent.end_input()


async def test_equal_calls_under_way_are_one(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with caching(held, JOINED) as runtime:
        agents = [Agent(runtime) for _ in range(3)]
        for number, agent in enumerate(agents):
            await agent.call(str(number), "held", input=1)
            await wait_all_tasks_blocked()
        await agents[0].call("other", "held", input=2)
        await wait_all_tasks_blocked()
        assert held.started == ["0", "other"]
        held.finish("0")
        for number, agent in enumerate(agents):
            assert await agent.hear() == answer(str(number))
        # Nothing is kept.
        assert await ask(agents[1], held, "4", 1)
        held.finish("other")
        assert len(runtime.state.flights) == 0
        for agent in agents:
            await agent.end_input()


async def test_nobody_waits_for_an_equal_call_in_the_queue_of_another_profile(autojump_clock: MockClock) -> None:
    shared = Caching(is_joined=True, is_shared=True)
    held, elsewhere = HeldPlan(), HeldPlan()
    async with caching(held, shared, queues=("one",)) as runtime:
        governed(runtime, elsewhere, CallPolicy(caching=shared), ToolIdentity(lambda: ("1",), "s"))
        runtime.plans("other", compile_plans)["held"] = elsewhere
        queued, others = Agent(runtime), [Agent(runtime), Agent(runtime)]
        await queued.call("busy", "held", input="busy")
        await queued.call("queued", "held", input=1)
        for agent in others:
            await agent.say({"__port": "hello", "profile": "other"})
            await agent.hear()
            await agent.call("1", "held", input=1)
            await wait_all_tasks_blocked()
        # The second joined the first, which runs.
        assert (held.started, elsewhere.started) == (["busy"], ["1"])
        elsewhere.finish("1")
        for agent in others:
            assert await agent.hear() == answer("1")
            await agent.end_input()
        held.finish("busy")
        assert await queued.hear() == answer("busy")
        held.finish("queued")
        assert await queued.hear() == answer("queued")
        assert len(runtime.state.flights) == 0
        await queued.end_input()


@pytest.mark.parametrize("outcome", [BROKEN, Answer("no", is_error=True)])
async def test_what_came_of_the_first_holds_for_all_that_joined_it(
    autojump_clock: MockClock, outcome: Answer | Fault
) -> None:
    held = HeldPlan()
    async with caching(held, JOINED) as runtime:
        agent = Agent(runtime)
        for call_id in "12":
            await agent.call(call_id, "held", input=1)
        await wait_all_tasks_blocked()
        held.running.pop("1").finish(outcome)
        heard = [await agent.hear() for _ in "12"]
        assert [line["content"] for line in heard if isinstance(line, dict)] == [
            outcome.ran(may_have=True).content() if isinstance(outcome, Fault) else "no"
        ] * 2
        assert held.started == ["1"]
        await agent.end_input()


@pytest.mark.parametrize("end", ["cancel", "deadline", "gone"])
async def test_where_the_first_is_ended_the_next_runs_in_its_place(autojump_clock: MockClock, end: str) -> None:
    held = HeldPlan()
    async with caching(held, Caching(60.0, is_joined=True)) as runtime:
        first, others = Agent(runtime), [Agent(runtime), Agent(runtime)]
        await first.call("1", "held", input=1, **({"deadline_ms": 1000} if end == "deadline" else {}))
        await wait_all_tasks_blocked()
        for agent in others:
            await agent.call("2", "held", input=1)
            await wait_all_tasks_blocked()
        if end == "cancel":
            await first.say({"__port": "tool_cancel", "id": "1"})
        elif end == "gone":
            first.host.abort()
        else:
            await trio.sleep(1.1)
        await wait_all_tasks_blocked()
        assert held.started == ["1", "2"]
        held.finish("2")
        for agent in others:
            assert await agent.hear() == answer("2")
            await agent.end_input()
        if end != "gone":
            await first.end_input()


async def test_one_that_joined_can_be_cancelled_and_has_its_own_deadline(autojump_clock: MockClock) -> None:
    held = HeldPlan()
    async with caching(held, JOINED) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "held", input=1)
        await agent.call("2", "held", input=1)
        await agent.call("3", "held", input=1, deadline_ms=1000)
        await wait_all_tasks_blocked()
        await agent.say({"__port": "tool_cancel", "id": "2"})
        faults = [fault_of(await agent.hear()) for _ in "23"]
        assert [(fault["error"], fault["ran"]) for fault in faults] == [("cancelled", "no"), ("timeout", "no")]
        held.finish("1")
        assert await agent.hear() == answer("1")
        assert held.started == ["1"]
        await agent.end_input()


async def test_where_the_tools_own_limit_passes_all_that_wait_are_told(autojump_clock: MockClock) -> None:
    held = HeldPlan(limit_s=10.0)
    async with caching(held, JOINED) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "held", input=1)
        await trio.sleep(5)
        await agent.call("2", "held", input=1)
        faults = [fault_of(await agent.hear()) for _ in "12"]
        assert [(fault["error"], fault["stage"], fault["ran"]) for fault in faults] == [("timeout", "run", "maybe")] * 2
        assert held.started == ["1"]
        await agent.end_input()


async def test_a_part_of_another_call_does_not_wait_for_an_equal_one_and_gets_what_is_kept(
    autojump_clock: MockClock,
) -> None:
    # What its chain holds the other one may be waiting for.
    held = HeldPlan("leaf")
    built = build_catalog(
        Config(
            tools={"leaf": ToolSpec(type="json -> json", command=("x",)), "whole": ToolSpec(process="chain")},
            processes={"chain": ProcessSpec(kind="plumb", type="!json -> !json", chain=("lift(leaf)",))},
        )
    )
    assert isinstance(built, Catalog)
    async with open_runtime(built, held) as runtime:
        governed(runtime, held, CallPolicy(caching=Caching(60.0, is_joined=True)), ToolIdentity(lambda: ()))
        runtime.plans(LIFTED + "default", compile_lifted)["leaf"] = held
        agent = Agent(runtime)
        await agent.call("first", "leaf", input=1)
        await agent.call("whole", "whole", input=1)
        await wait_all_tasks_blocked()
        assert held.started == ["first", "whole"]
        held.finish("whole", "1")
        assert await agent.hear() == answer("whole", "1")
        await agent.call("again", "whole", input=1)
        assert await agent.hear() == answer("again", "1")
        held.finish("first", "1")
        await agent.end_input()


def test_what_is_kept_has_bytes_of_its_own() -> None:
    buffer = bytearray(b'"abc"')
    kept = lasting(Answer(QuotedText(buffer, 3), kind=ContentKind.TEXT))
    buffer[:] = b"....."
    assert isinstance(kept.content, QuotedText)
    assert (kept.content.literal, kept.content.size) == (b'"abc"', 3)
