"""What the search and the model have found, each as the shortest conversation that shows it."""

from trio.testing import MockClock, wait_all_tasks_blocked

from tests.agent.fakes import Agent, HeldPlan, code_of, open_runtime, small_catalog
from tests.fuzz.target import catalog_of
from tooldispatchd.catalog.specs import LimitsSpec

LONG_NAME = "é" * 300  # 600 bytes


async def test_a_channel_that_is_refused_for_good_keeps_no_more_of_what_it_says(autojump_clock: MockClock) -> None:
    plan = HeldPlan()
    async with open_runtime(catalog_of(LimitsSpec()), plan) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "held")
        for _ in range(3):
            await agent.say({"__port": "hello", "agent": "a", "profile": "locked", "token": "wrong"})
        await wait_all_tasks_blocked()
        for _ in range(50):
            await agent.say(*[{"__port": "ping"}] * 20)
            await wait_all_tasks_blocked()
        kept = len(agent.host._machine.lines)
        plan.finish("1")
        await agent.end_input()
        await agent.hear_all()
    assert kept <= 20


async def test_a_job_that_stops_itself_is_no_defect_of_the_daemon(autojump_clock: MockClock) -> None:
    async with open_runtime(small_catalog()) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "job_stop", input={"job": "job-1"}, background=True)
        await agent.hear()
        await agent.end_input()
        await agent.hear_all()


async def test_a_refused_request_of_an_agent_with_a_long_name_is_answered_under_that_name(
    autojump_clock: MockClock,
) -> None:
    async with open_runtime(small_catalog()) as runtime:
        agent = Agent(runtime)
        await agent.say({"__port": "hello", "agent": LONG_NAME})
        greeting = await agent.hear()
        assert isinstance(greeting, dict)
        await agent.call("1", "echo", agent=LONG_NAME, deadline_ms="soon")
        answer = await agent.hear()
        assert isinstance(answer, dict)
        await agent.end_input()
        await agent.hear_all()
    # Either there is no such agent, or its answers bear its name.
    assert greeting["__port"] == "fault" or answer.get("agent") == LONG_NAME


async def test_a_wrong_request_over_the_limit_of_lines_is_still_answered(autojump_clock: MockClock) -> None:
    async with open_runtime(small_catalog(LimitsSpec(lines_per_s=1))) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "echo", input=1)
        await agent.hear()
        await agent.say({"id": "2", "name": 5})
        answer = await agent.hear()
        await agent.end_input()
        await agent.hear_all()
    assert isinstance(answer, dict)
    assert answer.get("id") == "2"
    assert code_of(answer) in {"too_many", "invalid_request"}
