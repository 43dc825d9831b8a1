"""Calls that have an order: one at a time or in groups, inline ones too, and what takes no part in it."""

from typing import Final

import pytest
from trio.testing import wait_all_tasks_blocked

from tests.agent.fakes import Agent, HeldPlan, add_plans, answer, code_of, fault_of, open_runtime
from tooldispatchd.catalog import speckinds
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.specs import Config, LimitsSpec, ProfileSpec, ToolSpec
from tooldispatchd.wire import messages

pytestmark = pytest.mark.usefixtures("autojump_clock")
# Enough text that a checker must read it.
HEAVY: Final = "x" * 300_000


def catalog_of(order: str | None = None, limits: LimitsSpec | None = None) -> Catalog:
    tools = {"echo": ToolSpec(type="json -> json", inline="id", doc="Gives it back.")}
    profile = ProfileSpec(tools=("echo",), order=order)
    built = build_catalog(Config(limits=limits or LimitsSpec(), tools=tools, agents={"default": profile}))
    assert isinstance(built, Catalog), built
    return built


async def test_one_at_a_time_an_inline_call_waits_for_those_before_it() -> None:
    held = HeldPlan()
    async with open_runtime(catalog_of("sequential"), held) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "held")
        await agent.call("2", "echo", input=2)
        await agent.call("3", "held")
        await agent.call("4", "echo", input=4)
        await wait_all_tasks_blocked()
        assert held.started == ["1"]
        held.finish("1")
        assert [await agent.hear(), await agent.hear()] == [answer("1"), answer("2", "2")]
        await wait_all_tasks_blocked()
        assert held.started == ["1", "3"]
        held.finish("3")
        assert [await agent.hear(), await agent.hear()] == [answer("3"), answer("4", "4")]
        await agent.end_input()


@pytest.mark.parametrize(("order", "said"), [("sequential", "parallel"), (None, "sequential")])
async def test_a_hello_says_the_order_where_the_profile_says_none(order: str | None, said: str) -> None:
    held = HeldPlan()
    async with open_runtime(catalog_of(order), held) as runtime:
        agent = Agent(runtime)
        await agent.say({"__port": "hello", "order": said})
        await agent.hear()
        await agent.call("1", "held")
        await agent.call("2", "echo", input=2)
        await wait_all_tasks_blocked()
        held.finish("1")
        assert [await agent.hear(), await agent.hear()] == [answer("1"), answer("2", "2")]
        await agent.end_input()


def test_a_hello_may_say_what_a_profile_may_say() -> None:
    assert messages.ORDER_PATTERN == speckinds.ORDER_PATTERN


async def test_an_order_that_is_none_is_a_wrong_hello() -> None:
    async with open_runtime(catalog_of()) as runtime:
        agent = Agent(runtime)
        await agent.say({"__port": "hello", "order": "batched:0"})
        assert code_of(await agent.hear()) == "invalid_request"
        await agent.end_input()


async def test_the_next_group_begins_when_the_whole_group_has_ended() -> None:
    held = HeldPlan()
    async with open_runtime(catalog_of("batched:2"), held) as runtime:
        agent = Agent(runtime)
        for call_id in "12345":
            await agent.call(call_id, "held")
        await wait_all_tasks_blocked()
        assert held.started == ["1", "2"]
        held.finish("2")
        await wait_all_tasks_blocked()
        assert held.started == ["1", "2"]
        held.finish("1")
        await wait_all_tasks_blocked()
        assert held.started == ["1", "2", "3", "4"]
        for call_id in "345":
            held.finish(call_id)
            await wait_all_tasks_blocked()
        assert [await agent.hear() for _ in range(5)] == [answer(call_id) for call_id in "21345"]
        await agent.end_input()


async def test_a_heavy_input_is_not_overtaken_by_a_light_one() -> None:
    held = HeldPlan()
    async with open_runtime(catalog_of("sequential"), held) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "echo", input=HEAVY)
        await agent.call("2", "echo", input=2)
        assert [line["id"] for line in (await agent.hear(), await agent.hear()) if isinstance(line, dict)] == ["1", "2"]
        await agent.end_input()


async def test_many_calls_that_wait_are_begun_one_after_the_other() -> None:
    held = HeldPlan()
    async with open_runtime(catalog_of("sequential"), held) as runtime:
        agent = Agent(runtime)
        await agent.call("first", "held")
        await agent.say(*({"id": str(number), "name": "echo", "input": number} for number in range(1000)))
        await wait_all_tasks_blocked()
        held.finish("first")
        assert await agent.hear() == answer("first")
        assert [await agent.hear() for _ in range(1000)] == [answer(str(n), str(n)) for n in range(1000)]
        await agent.end_input()


async def test_what_is_wrong_with_a_call_is_said_before_its_turn() -> None:
    held = HeldPlan()
    async with open_runtime(catalog_of("sequential"), held) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "held")
        await agent.call("2", "held", input="refuse me")
        await agent.call("3", "nothing of that name")
        assert [code_of(await agent.hear()), code_of(await agent.hear())] == ["invalid_input", "unknown_tool"]
        held.finish("1")
        await agent.hear()
        await agent.end_input()


async def test_a_call_that_waits_for_its_turn_is_over_at_its_own_deadline_and_not_at_its_tool_s_limit() -> None:
    held = HeldPlan(limit_s=100)
    brief = HeldPlan("brief", limit_s=1)
    async with open_runtime(catalog_of("sequential"), held, brief) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "held")
        await agent.call("2", "brief")
        await agent.call("3", "held", deadline_ms=5000)
        assert fault_of(await agent.hear())["stage"] == "queue"
        held.finish("1")
        await agent.hear()
        assert brief.started == ["2"]
        brief.finish("2")
        assert await agent.hear() == answer("2")
        await agent.end_input()


async def test_jobs_have_their_turns_and_the_tools_for_jobs_need_none() -> None:
    held = HeldPlan()
    async with open_runtime(catalog_of("sequential"), held) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "held", background=True)
        await agent.call("2", "held", background=True)
        await agent.call("3", "job_list")
        heard = [await agent.hear() for _ in range(3)]
        assert heard[:2] == [answer("1", '{"job":"job-1"}'), answer("2", '{"job":"job-2"}')]
        assert held.started == ["1"]
        await agent.call("4", "job_stop", input={"job": "job-1"})
        await agent.hear()
        await wait_all_tasks_blocked()
        assert held.started == ["1", "2"]
        held.finish("2")
        await agent.end_input()


async def test_a_wrong_input_of_a_job_that_would_wait_for_its_turn_is_told_at_once() -> None:
    held = HeldPlan()
    async with open_runtime(catalog_of("sequential"), held) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "held")
        await agent.call("2", "held", input="refuse me", background=True)
        assert code_of(await agent.hear()) == "invalid_input"
        held.finish("1")
        await agent.hear()
        await agent.end_input()


async def test_a_cancelled_call_lets_the_next_one_have_its_turn() -> None:
    held = HeldPlan()
    async with open_runtime(catalog_of("sequential"), held) as runtime:
        agent = Agent(runtime)
        for call_id in "123":
            await agent.call(call_id, "held")
        await agent.say({"__port": "tool_cancel", "id": "2"}, {"__port": "tool_cancel", "id": "1"})
        assert [code_of(await agent.hear()) for _ in range(2)] == ["cancelled", "cancelled"]
        await wait_all_tasks_blocked()
        assert held.started == ["1", "3"]
        held.finish("3")
        await agent.hear()
        await agent.end_input()


async def test_more_calls_than_may_wait_for_their_turn_are_told_so() -> None:
    held = HeldPlan()
    async with open_runtime(catalog_of("sequential", LimitsSpec(waiting=1)), held) as runtime:
        agent = Agent(runtime)
        for call_id in "123":
            await agent.call(call_id, "held")
        assert fault_of(await agent.hear())["queue"] == "agent"
        held.finish("1")
        await agent.hear()
        await wait_all_tasks_blocked()
        held.finish("2")
        await agent.hear()
        await agent.end_input()


async def test_the_texts_of_tools_are_given_in_the_order_too() -> None:
    held = HeldPlan()
    async with open_runtime(catalog_of("sequential"), held) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "held")
        await agent.call("2", "info", input={"name": "echo"})
        await wait_all_tasks_blocked()
        held.finish("1")
        assert [await agent.hear(), await agent.hear()] == [answer("1"), answer("2", '"Gives it back."')]
        await agent.end_input()


async def test_the_calls_of_one_agent_do_not_wait_for_those_of_another() -> None:
    held = HeldPlan()
    async with open_runtime(catalog_of("sequential"), held) as runtime:
        agent = Agent(runtime)
        await agent.say({"__port": "hello", "agent": "a"}, {"__port": "hello", "agent": "b"})
        await agent.hear()
        await agent.hear()
        await agent.call("1", "held", agent="a")
        await agent.call("1", "echo", agent="b", input=1)
        assert await agent.hear() == {**answer("1", "1"), "agent": "b"}
        held.finish("1")
        await agent.hear()
        await agent.end_input()


async def test_at_the_end_of_the_input_the_calls_that_wait_have_their_turns_still() -> None:
    held = HeldPlan()
    async with open_runtime(catalog_of("sequential")) as runtime:
        add_plans(runtime, held)
        agent = Agent(runtime)
        await agent.call("1", "held")
        await agent.call("2", "echo", input=2)
        await agent.end_input()
        await wait_all_tasks_blocked()
        held.finish("1")
        assert await agent.hear_all() == [answer("1"), answer("2", "2")]
