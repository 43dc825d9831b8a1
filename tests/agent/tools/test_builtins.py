"""Calls in the background, and the tools that read them."""

import json

import pytest
from trio.testing import MockClock

from tests.agent.fakes import Agent, HeldPlan, code_of, fault_of, open_runtime, small_catalog
from tooldispatchd.calls.outcome import Update
from tooldispatchd.catalog.specs import LimitsSpec


async def start_job(agent: Agent, name: str = "held", *, call_id: str = "start", **fields: object) -> str:
    await agent.call(call_id, name, background=True, **fields)
    answer = await agent.hear()
    assert isinstance(answer, dict)
    assert answer["is_error"] is False
    job = json.loads(answer["content"])["job"]
    assert isinstance(job, str)
    return job


async def ask(agent: Agent, name: str, **given: object) -> dict[str, object]:
    await agent.call("ask", name, input=given)
    answer = await agent.hear()
    assert isinstance(answer, dict)
    assert "fault" not in answer, answer
    read = json.loads(answer["content"])
    assert isinstance(read, dict)
    return read


async def end(agent: Agent) -> None:
    await agent.end_input()
    assert await agent.hear() == "the end"


async def test_a_background_call_is_answered_with_its_job_and_its_id_is_free(autojump_clock: MockClock) -> None:
    plan = HeldPlan()
    async with open_runtime(small_catalog(), plan) as runtime:
        agent = Agent(runtime)
        assert await start_job(agent) == "job-1"
        # Its id is free again.
        await agent.call("start", "echo", input=1)
        assert await agent.hear() == {"id": "start", "content": "1", "is_error": False}
        assert await start_job(agent, call_id="next") == "job-2"
        assert await ask(agent, "job_read", job="job-1") == {"job": "job-1", "name": "held", "state": "running"}
        await end(agent)


async def test_job_wait_gives_the_result_when_it_is_there(autojump_clock: MockClock) -> None:
    plan = HeldPlan()
    async with open_runtime(small_catalog(), plan) as runtime:
        agent = Agent(runtime)
        job = await start_job(agent)
        await agent.call("wait", "job_wait", input={"job": job})
        await agent.call("echo", "echo", input=1)
        assert await agent.hear() == {"id": "echo", "content": "1", "is_error": False}
        plan.finish("start", "found")
        answer = await agent.hear()
        assert isinstance(answer, dict)
        assert (answer["id"], json.loads(answer["content"])["content"]) == ("wait", "found")
        await end(agent)


async def test_job_wait_gives_up_after_its_time_and_the_job_goes_on(autojump_clock: MockClock) -> None:
    plan = HeldPlan()
    async with open_runtime(small_catalog(), plan) as runtime:
        agent = Agent(runtime)
        job = await start_job(agent)
        assert (await ask(agent, "job_wait", job=job, timeout_s=5))["state"] == "running"
        plan.finish("start", "found")
        assert (await ask(agent, "job_wait", job=job))["content"] == "found"
        await end(agent)


async def test_a_wait_is_cancelled_and_the_job_goes_on(autojump_clock: MockClock) -> None:
    plan = HeldPlan()
    async with open_runtime(small_catalog(), plan) as runtime:
        agent = Agent(runtime)
        job = await start_job(agent)
        await agent.call("wait", "job_wait", input={"job": job})
        await agent.say({"__port": "tool_cancel", "id": "wait"})
        assert code_of(await agent.hear()) == "cancelled"
        plan.finish("start", "found")
        assert (await ask(agent, "job_read", job=job))["content"] == "found"
        await end(agent)


async def test_job_stop_ends_a_job_and_tells_when_it_has_ended(autojump_clock: MockClock) -> None:
    plan = HeldPlan(lingers=True)
    async with open_runtime(small_catalog(), plan) as runtime:
        agent = Agent(runtime)
        job = await start_job(agent)
        await agent.call("stop", "job_stop", input={"job": job})
        await agent.pause(1)
        plan.finish("start")
        answer = await agent.hear()
        assert isinstance(answer, dict)
        read = json.loads(answer["content"])
        assert (read["state"], json.loads(read["content"])["error"]) == ("done", "cancelled")
        await end(agent)


async def test_jobs_are_read_and_stopped_while_every_place_is_taken(autojump_clock: MockClock) -> None:
    plan = HeldPlan()
    async with open_runtime(small_catalog(LimitsSpec(in_flight=1, waiting=1)), plan) as runtime:
        agent = Agent(runtime)
        await start_job(agent)
        job = await start_job(agent, call_id="second")
        await agent.call("third", "held", background=True)
        assert code_of(await agent.hear()) == "queue_full"
        stopped = await ask(agent, "job_stop", job="job-1")
        assert stopped["is_error"] is True
        assert [each["state"] for each in (await ask(agent, "job_list"))["jobs"]] == ["done", "running"]  # type: ignore[attr-defined]
        assert plan.started == ["start", "second"]
        plan.finish("second", "second")
        assert (await ask(agent, "job_read", job=job))["content"] == "second"
        await end(agent)


async def test_what_cannot_begin_is_refused_at_once_and_leaves_no_job(autojump_clock: MockClock) -> None:
    plan = HeldPlan()
    async with open_runtime(small_catalog(), plan) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "held", input="refuse me", background=True)
        await agent.call("2", "nothing", background=True)
        await agent.call("3", "echo", background=True)
        codes = [code_of(await agent.hear()) for _ in range(3)]
        assert codes == ["invalid_input", "unknown_tool", "invalid_input"]
        assert await ask(agent, "job_list") == {"jobs": []}
        await end(agent)


async def test_an_inline_tool_in_the_background_is_done_at_once(autojump_clock: MockClock) -> None:
    async with open_runtime(small_catalog()) as runtime:
        agent = Agent(runtime)
        job = await start_job(agent, "echo", input=[1])
        assert (await ask(agent, "job_wait", job=job))["content"] == "[1]"
        await end(agent)


async def test_a_job_that_never_was_is_unknown(autojump_clock: MockClock) -> None:
    async with open_runtime(small_catalog()) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "job_read", input={"job": "job-9"})
        assert fault_of(await agent.hear())["error"] == "unknown_job"
        await agent.call("2", "job_read", input={})
        assert fault_of(await agent.hear())["error"] == "invalid_input"
        await end(agent)


async def test_the_end_of_input_cancels_jobs_and_answers_who_waits_for_them(autojump_clock: MockClock) -> None:
    plan = HeldPlan()
    async with open_runtime(small_catalog(), plan) as runtime:
        agent = Agent(runtime)
        job = await start_job(agent)
        await agent.call("wait", "job_wait", input={"job": job})
        await agent.call("plain", "held")
        await agent.end_input()
        answer = await agent.hear()
        assert isinstance(answer, dict)
        assert json.loads(json.loads(answer["content"])["content"])["error"] == "cancelled"
        plan.finish("plain")
        assert await agent.hear() == {"id": "plain", "content": "done", "is_error": False}
        assert await agent.hear() == "the end"


async def test_one_agent_cannot_read_the_job_of_another(autojump_clock: MockClock) -> None:
    plan = HeldPlan()
    async with open_runtime(small_catalog(), plan) as runtime:
        agent = Agent(runtime)
        job = await start_job(agent)
        await agent.say({"__port": "hello", "agent": "other"})
        await agent.hear()
        await agent.call("1", "job_read", agent="other", input={"job": job})
        assert fault_of(await agent.hear())["error"] == "unknown_job"
        await end(agent)


async def test_without_jobs_nothing_runs_in_the_background(autojump_clock: MockClock) -> None:
    async with open_runtime(small_catalog()) as runtime:
        agent = Agent(runtime)
        await agent.say({"__port": "hello", "spec": {"tools": ["echo"], "jobs": False}})
        ready = await agent.hear()
        assert isinstance(ready, dict)
        assert [tool["name"] for tool in ready["tools"]] == ["echo"]
        await agent.call("1", "echo", input=1, background=True)
        assert code_of(await agent.hear()) == "not_allowed"
        await end(agent)


@pytest.mark.parametrize("asked", [True, False])
async def test_updates_reach_agents_that_asked_for_them(asked: bool, autojump_clock: MockClock) -> None:
    plan = HeldPlan()
    async with open_runtime(small_catalog(), plan) as runtime:
        agent = Agent(runtime)
        await agent.say({"__port": "hello", "updates": asked})
        await agent.hear()
        await agent.call("1", "held")
        while not plan.running:
            await agent.pause()
        call = plan.running["1"]
        call.update(Update(progress=1, total=2, message="half"))
        plan.finish("1")
        call.update(Update(progress=2, total=2))
        await agent.end_input()
        answer = {"id": "1", "content": "done", "is_error": False}
        update = {"__port": "tool_update", "id": "1", "progress": 1, "total": 2, "message": "half"}
        assert await agent.hear_all() == ([update, answer] if asked else [answer])


async def test_a_job_tells_how_far_it_is(autojump_clock: MockClock) -> None:
    plan = HeldPlan()
    async with open_runtime(small_catalog(), plan) as runtime:
        agent = Agent(runtime)
        job = await start_job(agent)
        plan.running["start"].update(Update(progress=7, total=9))
        assert (await ask(agent, "job_read", job=job))["progress"] == 7
        await end(agent)


async def test_meta_tells_what_a_call_took(autojump_clock: MockClock) -> None:
    plan = HeldPlan()
    async with open_runtime(small_catalog(LimitsSpec(in_flight=1)), plan) as runtime:
        agent = Agent(runtime)
        await agent.say({"__port": "hello", "meta": True})
        await agent.hear()
        await agent.call("first", "held", input="é")
        await agent.call("second", "held", input="xy")
        while not plan.running:
            await agent.pause()
        await agent.pause(2)
        plan.finish("first", "é")
        await agent.pause(1)
        plan.finish("second")
        metas = {}
        for _ in range(2):
            answer = await agent.hear()
            assert isinstance(answer, dict)
            metas[answer["id"]] = answer["meta"]
        assert metas["second"] == {
            "latency_ms": 3000.0,
            "queued_ms": 2000.0,
            "kind": "fake",
            "provider": "fake",
            "bytes_in": 4,
            "bytes_out": 4,
            "cached": False,
        }
        assert (metas["first"]["bytes_in"], metas["first"]["bytes_out"]) == (4, 2)
        await agent.call("third", "echo", input=1)
        answer = await agent.hear()
        assert isinstance(answer, dict)
        assert (answer["meta"]["kind"], answer["meta"]["bytes_in"], answer["meta"]["bytes_out"]) == ("inline", 1, 1)
        await end(agent)
