"""Calls that become jobs while they run or wait, tools whose every call is one, and the end of all calls at once."""

import pytest
from trio.testing import wait_all_tasks_blocked

from tests.agent.fakes import Agent, HeldPlan, answer, code_of, fault_of, open_runtime, small_catalog
from tooldispatchd.calls.gate import Gate
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.specs import Config, LimitsSpec, ProfileSpec, ToolSpec
from tooldispatchd.wire.messages import EventKind

pytestmark = pytest.mark.usefixtures("autojump_clock")


def named(line: object) -> tuple[object, object]:
    """The id of a failed call, and why."""
    assert isinstance(line, dict)
    return line["id"], code_of(line)


async def test_a_call_that_runs_becomes_a_job_and_ends_once() -> None:
    held = HeldPlan()
    async with open_runtime(small_catalog(), held) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "held")
        await agent.say({"__port": "tool_background", "id": "1"})
        assert await agent.hear() == answer("1", '{"job":"job-1"}')
        # Its id is free again.
        await agent.call("1", "job_read", input={"job": "job-1"})
        assert await agent.hear() == answer("1", '{"job":"job-1","name":"held","state":"running"}')
        held.finish("1")
        await agent.call("2", "job_wait", input={"job": "job-1"})
        heard = await agent.hear()
        assert isinstance(heard, dict)
        assert '"content":"done"' in heard["content"]
        await agent.end_input()
        assert await agent.hear_all() == []


async def test_a_call_that_waits_becomes_a_job_and_waits_on() -> None:
    held = HeldPlan()
    async with open_runtime(small_catalog(LimitsSpec(in_flight=1)), held) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "held")
        await agent.call("2", "held")
        await agent.say({"__port": "tool_background", "id": "2"})
        assert await agent.hear() == answer("2", '{"job":"job-1"}')
        assert held.started == ["1"]
        held.finish("1")
        assert await agent.hear() == answer("1")
        assert held.started == ["1", "2"]
        held.finish("2")
        await agent.end_input()


async def test_a_promotion_that_comes_too_late_is_told_so_with_the_id() -> None:
    held = HeldPlan(lingers=True)
    async with open_runtime(small_catalog(), held) as runtime:
        agent = Agent(runtime)
        await agent.say({"__port": "tool_background", "id": "never"})
        await agent.call("1", "held")
        await agent.say({"__port": "tool_cancel", "id": "1"}, {"__port": "tool_background", "id": "1"})
        heard = [await agent.hear(), await agent.hear()]
        assert [named(line) for line in heard] == [("never", "invalid_request"), ("1", "invalid_request")]
        assert [line["__port"] for line in heard if isinstance(line, dict)] == ["fault", "fault"]
        held.finish("1")
        assert named(await agent.hear()) == ("1", "cancelled")
        await agent.say({"__port": "tool_background", "id": "1"})
        assert named(await agent.hear()) == ("1", "invalid_request")
        await agent.end_input()


async def test_what_cannot_be_a_job_is_told_so_and_goes_on() -> None:
    held = HeldPlan()
    async with open_runtime(small_catalog(LimitsSpec(jobs=1)), held) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "held", background=True)
        await agent.hear()
        await agent.call("2", "job_wait", input={"job": "job-1"})
        await agent.call("3", "held")
        await agent.say({"__port": "tool_background", "id": "2"}, {"__port": "tool_background", "id": "3"})
        assert [named(await agent.hear()) for _ in range(2)] == [("2", "invalid_request"), ("3", "queue_full")]
        held.finish("3")
        assert await agent.hear() == answer("3")
        held.finish("1")
        await agent.hear()
        await agent.end_input()


async def test_without_jobs_nothing_is_promoted() -> None:
    held = HeldPlan()
    async with open_runtime(small_catalog(), held) as runtime:
        agent = Agent(runtime)
        await agent.say({"__port": "hello", "spec": {"jobs": False}})
        await agent.hear()
        await agent.say({"__port": "tool_background", "id": "1"})
        assert named(await agent.hear()) == ("1", "not_allowed")
        await agent.say({"__port": "tool_background", "agent": "nobody", "id": "1"})
        assert named(await agent.hear()) == ("1", "unknown_agent")
        await agent.end_input()


def background_catalog(*, jobs: bool) -> Catalog | list[Problem]:
    tool = ToolSpec(type="json -> json", inline="id", mode="background")
    return build_catalog(Config(tools={"later": tool}, agents={"default": ProfileSpec(tools=("later",), jobs=jobs)}))


async def test_each_call_of_a_tool_that_says_so_is_a_job() -> None:
    catalog = background_catalog(jobs=True)
    assert isinstance(catalog, Catalog)
    async with open_runtime(catalog) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "later", input=5)
        assert await agent.hear() == answer("1", '{"job":"job-1"}')
        await agent.call("2", "job_wait", input={"job": "job-1"})
        heard = await agent.hear()
        assert isinstance(heard, dict)
        assert '"content":"5"' in heard["content"]
        await agent.end_input()


async def test_such_a_tool_cannot_be_called_where_a_spec_takes_the_jobs_away() -> None:
    catalog = background_catalog(jobs=True)
    assert isinstance(catalog, Catalog)
    async with open_runtime(catalog) as runtime:
        agent = Agent(runtime)
        await agent.say({"__port": "hello", "spec": {"jobs": False}})
        await agent.hear()
        await agent.call("1", "later", input=5)
        assert code_of(await agent.hear()) == "not_allowed"
        await agent.end_input()


def test_a_profile_without_jobs_cannot_have_such_a_tool() -> None:
    problems = background_catalog(jobs=False)
    assert not isinstance(problems, Catalog)
    assert [problem.path for problem in problems] == [("agents", "default", "tools", 0)]


def asking_catalog() -> Catalog:
    asking = "{text: string, background?: bool}"
    tool = ToolSpec(type=f"{asking} -> {asking}", inline="id", mode="asked")
    catalog = build_catalog(Config(tools={"either": tool}))
    assert isinstance(catalog, Catalog)
    return catalog


async def test_a_call_whose_input_asks_for_it_is_a_job_where_its_tool_says_so() -> None:
    async with open_runtime(asking_catalog()) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "either", input={"text": "a", "background": True})
        assert await agent.hear() == answer("1", '{"job":"job-1"}')
        await agent.call("2", "either", input={"text": "a", "background": False})
        assert await agent.hear() == answer("2", '{"text":"a","background":false}')
        await agent.call("3", "either", input={"text": "a"}, background=True)
        assert await agent.hear() == answer("3", '{"job":"job-2"}')
        await agent.end_input()


async def test_an_input_asks_in_vain_where_there_are_no_jobs() -> None:
    async with open_runtime(asking_catalog()) as runtime:
        agent = Agent(runtime)
        await agent.say({"__port": "hello", "spec": {"jobs": False}})
        await agent.hear()
        await agent.call("1", "either", input={"text": "a", "background": True})
        assert code_of(await agent.hear()) == "not_allowed"
        await agent.call("2", "either", input={"text": "a"})
        assert await agent.hear() == answer("2", '{"text":"a"}')
        await agent.end_input()


async def test_all_calls_and_jobs_of_an_agent_are_ended_at_once_and_of_no_other() -> None:
    held = HeldPlan()
    async with open_runtime(small_catalog(LimitsSpec(in_flight=2)), held) as runtime:
        agent = Agent(runtime)
        await agent.say({"__port": "hello", "agent": "a"}, {"__port": "hello", "agent": "b"})
        await agent.hear()
        await agent.hear()
        await agent.call("job", "held", agent="a", background=True)
        await agent.hear()
        for call_id in "123":
            await agent.call(call_id, "held", agent="a")
        await agent.call("4", "job_wait", agent="a", input={"job": "job-1"})
        await agent.call("b1", "held", agent="b")
        await wait_all_tasks_blocked()
        assert held.started == ["job", "1", "b1"]
        await agent.say({"__port": "tool_cancel", "agent": "a", "all": True})
        heard = sorted([named(await agent.hear()) for _ in range(4)])
        assert heard == [("1", "cancelled"), ("2", "cancelled"), ("3", "cancelled"), ("4", "cancelled")]
        # No place that came free has started one of them.
        assert held.started == ["job", "1", "b1"]
        await agent.call("5", "job_read", agent="a", input={"job": "job-1"})
        heard_of_job = await agent.hear()
        assert isinstance(heard_of_job, dict)
        assert "cancelled" in heard_of_job["content"]
        held.finish("b1")
        assert await agent.hear() == {**answer("b1"), "agent": "b"}
        await agent.end_input()


@pytest.mark.parametrize("order", ["parallel", "sequential"])
async def test_only_what_waits_is_ended_and_nothing_starts_in_its_place(order: str) -> None:
    held, gated = HeldPlan(), HeldPlan("gated", gate=Gate(1))
    async with open_runtime(small_catalog(LimitsSpec(in_flight=2)), held, gated) as runtime:
        agent = Agent(runtime)
        await agent.say({"__port": "hello", "order": order})
        await agent.hear()
        for call_id, tool in (("1", "gated"), ("2", "gated"), ("3", "held"), ("4", "gated")):
            await agent.call(call_id, tool)
        await agent.call("5", "held", background=True)
        assert await agent.hear() == answer("5", '{"job":"job-1"}')
        await agent.say({"__port": "tool_cancel", "waiting": True})
        assert sorted([named(await agent.hear()) for _ in range(3)]) == [
            ("2", "cancelled"),
            ("3", "cancelled"),
            ("4", "cancelled"),
        ]
        assert (gated.started, held.started) == (["1"], [])
        gated.finish("1")
        assert await agent.hear() == answer("1")
        await agent.end_input()


@pytest.mark.parametrize(
    "line", [{}, {"id": None}, {"id": "1", "all": True}, {"id": "1", "waiting": True}, {"all": False}]
)
async def test_a_cancel_of_nothing_or_of_two_things_is_invalid(line: dict[str, object]) -> None:
    async with open_runtime(small_catalog()) as runtime:
        agent = Agent(runtime)
        await agent.say({"__port": "tool_cancel", **line})
        heard = fault_of(await agent.hear())
        assert heard["error"] == "invalid_request"
        assert "tool_cancel has an id, or else all or waiting" in str(heard["detail"])
        await agent.end_input()


async def test_a_promoted_call_is_told_of_by_its_id_and_then_by_its_job() -> None:
    held = HeldPlan()
    async with open_runtime(small_catalog(), held) as runtime:
        agent = Agent(runtime)
        await agent.say({"__port": "hello", "events": True})
        await agent.hear()
        await agent.call("1", "held")
        await agent.say({"__port": "tool_background", "id": "1"})
        heard: list[object] = [await agent.hear(), await agent.hear()]
        held.finish("1")
        heard += [await agent.hear(), await agent.hear()]
        told = [(line.get("kind"), line.get("id"), line.get("job")) for line in heard if isinstance(line, dict)]
        assert told == [
            (EventKind.TOOL_STARTED, "1", None),
            (None, "1", None),
            (EventKind.TOOL_FINISHED, None, "job-1"),
            (EventKind.JOB_DONE, None, "job-1"),
        ]
        await agent.end_input()
