"""What an agent that asked is told: when calls start and end, jobs are done; what one that does not read is told."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.agent.fakes import Agent, HeldPlan, answer, open_runtime, small_catalog
from tooldispatchd.agent.session.events import MAX_UNREAD, Events
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import EventLine, Hello, Outgoing
from tooldispatchd.wire.session import SessionMachine

pytestmark = pytest.mark.usefixtures("autojump_clock")


async def open_agent(agent: Agent, events: object = True, **fields: object) -> None:
    await agent.say({"__port": "hello", "events": events, **fields})
    ready = await agent.hear()
    assert isinstance(ready, dict)
    assert ready["__port"] == "ready"


def event(line: object) -> dict[str, object]:
    """An event without its times, which must be there."""
    assert isinstance(line, dict)
    assert line["__port"] == "event", line
    assert isinstance(line["at"], float)
    return {key: value for key, value in line.items() if key not in {"__port", "at", "took_ms", "queued_ms"}}


def started(call_id: str, tool: str, provider: str, **more: object) -> dict[str, object]:
    return {"kind": "tool_started", "id": call_id, "tool": tool, "provider": provider, **more}


def finished(call_id: str, tool: str, size: int, **more: object) -> dict[str, object]:
    return {"kind": "tool_finished", "id": call_id, "tool": tool, "is_error": False, "bytes": size, **more}


async def test_an_inline_call_is_told_of_before_its_answer() -> None:
    async with open_runtime(small_catalog()) as runtime:
        agent = Agent(runtime)
        await open_agent(agent)
        await agent.call("1", "echo", input="x")
        assert event(await agent.hear()) == started("1", "echo", "inline")
        assert event(await agent.hear()) == finished("1", "echo", 3)
        assert await agent.hear() == answer("1", '"x"')
        await agent.end_input()


async def test_a_call_that_waits_is_told_of_when_it_starts_and_right_before_its_answer() -> None:
    held = HeldPlan()
    async with open_runtime(small_catalog(), held) as runtime:
        agent = Agent(runtime)
        await open_agent(agent)
        await agent.call("1", "held")
        assert event(await agent.hear()) == started("1", "held", "fake")
        held.finish("1")
        assert event(await agent.hear()) == finished("1", "held", 4)
        assert await agent.hear() == answer("1")
        await agent.end_input()


async def test_the_wait_before_its_start_is_told() -> None:
    held = HeldPlan()
    async with open_runtime(small_catalog(), held) as runtime:
        agent = Agent(runtime)
        await open_agent(agent, ["tool_started"], order="sequential")
        await agent.call("1", "held")
        await agent.call("2", "held")
        first = await agent.hear()
        await trio.sleep(2)
        held.finish("1")
        assert await agent.hear() == answer("1")
        second = await agent.hear()
        assert isinstance(first, dict)
        assert isinstance(second, dict)
        assert (first["id"], second["id"]) == ("1", "2")
        assert first["queued_ms"] < 1000
        assert second["queued_ms"] >= 2000
        held.finish("2")
        await agent.hear()
        await agent.end_input()


async def test_a_fault_is_told_by_its_code_and_a_call_that_never_ran_never_started() -> None:
    held = HeldPlan()
    async with open_runtime(small_catalog(), held) as runtime:
        agent = Agent(runtime)
        await open_agent(agent)
        await agent.call("1", "held", input="refuse me")
        told = event(await agent.hear())
        assert (told["kind"], told["is_error"], told["code"]) == ("tool_finished", True, "invalid_input")
        await agent.hear()
        await agent.end_input()


async def test_a_request_that_becomes_no_call_has_no_events() -> None:
    async with open_runtime(small_catalog()) as runtime:
        agent = Agent(runtime)
        await open_agent(agent)
        await agent.call("1", "nothing of that name")
        heard = await agent.hear()
        assert isinstance(heard, dict)
        assert heard["id"] == "1"
        await agent.end_input()


async def test_only_the_kinds_that_were_asked_for_are_told_and_unknown_ones_are_ignored() -> None:
    async with open_runtime(small_catalog()) as runtime:
        agent = Agent(runtime)
        await open_agent(agent, ["tool_finished", "tool_dreamt"])
        await agent.call("1", "echo", input="x")
        assert event(await agent.hear()) == finished("1", "echo", 3)
        assert await agent.hear() == answer("1", '"x"')
        await agent.end_input()


async def test_an_agent_that_did_not_ask_is_told_nothing_though_another_of_its_channel_did() -> None:
    async with open_runtime(small_catalog()) as runtime:
        agent = Agent(runtime)
        await agent.say({"__port": "hello", "agent": "a", "events": True}, {"__port": "hello", "agent": "b"})
        await agent.hear()
        await agent.hear()
        await agent.call("1", "echo", agent="b", input=1)
        await agent.call("1", "echo", agent="a", input=1)
        assert await agent.hear() == {**answer("1", "1"), "agent": "b"}
        assert event(await agent.hear()) == started("1", "echo", "inline", agent="a")
        await agent.hear()
        await agent.hear()
        await agent.end_input()


async def test_a_job_is_told_of_under_its_own_name_after_its_request_has_its_answer() -> None:
    held = HeldPlan()
    async with open_runtime(small_catalog(), held) as runtime:
        agent = Agent(runtime)
        await open_agent(agent)
        await agent.call("1", "held", background=True)
        assert await agent.hear() == answer("1", '{"job":"job-1"}')
        job = {"job": "job-1", "tool": "held"}
        assert event(await agent.hear()) == {"kind": "tool_started", "provider": "fake", **job}
        held.finish("1")
        assert event(await agent.hear()) == {"kind": "tool_finished", "is_error": False, "bytes": 4, **job}
        assert event(await agent.hear()) == {"kind": "job_done", "is_error": False, **job}
        await agent.end_input()


async def test_an_inline_job_is_done_after_its_request_has_its_answer() -> None:
    async with open_runtime(small_catalog()) as runtime:
        agent = Agent(runtime)
        await open_agent(agent, ["job_done"])
        await agent.call("1", "echo", input=1, background=True)
        assert await agent.hear() == answer("1", '{"job":"job-1"}')
        assert event(await agent.hear()) == {"kind": "job_done", "job": "job-1", "tool": "echo", "is_error": False}
        await agent.end_input()


async def test_what_is_not_told_for_want_of_room_is_counted_in_the_next_event() -> None:
    """[M219]"""
    held = HeldPlan()
    async with open_runtime(small_catalog(), held) as runtime:
        agent = Agent(runtime)
        await open_agent(agent, ["tool_finished"])
        for call_id in "123":
            await agent.call(call_id, "held")
        await wait_all_tasks_blocked()
        agent.bounds.is_crowded = True
        held.finish("1")
        held.finish("2")
        assert [await agent.hear(), await agent.hear()] == [answer("1"), answer("2")]
        agent.bounds.is_crowded = False
        held.finish("3")
        assert event(await agent.hear()) == finished("3", "held", 4, dropped=2)
        assert await agent.hear() == answer("3")
        await agent.call("4", "echo", input=1)
        assert event(await agent.hear()) == finished("4", "echo", 1)
        await agent.hear()
        await agent.end_input()


class Stalled:
    """A channel whose peer reads or does not."""

    def __init__(self) -> None:
        self.is_behind = True

    def crowding(self, _size: int) -> None:
        return None

    def flush(self) -> None:
        """There is nothing to send it on."""


async def test_to_an_agent_that_does_not_read_so_many_events_are_told_and_no_more_until_it_reads() -> None:
    async with open_runtime(small_catalog()) as runtime:
        outgoing: list[Outgoing] = []
        machine, channel = SessionMachine(outgoing), Stalled()
        machine.greet(Hello(events=True), line=1)
        events = Events(runtime, machine, channel, None)  # type: ignore[arg-type]  # all of a channel that it uses
        for _ in range(MAX_UNREAD + 10):
            events.server_moved("docs", None)
        assert len(outgoing) == MAX_UNREAD
        channel.is_behind = False
        events.server_moved("docs", Fault(Code.CONNECTION_DEAD, "it is gone", {"reason": "it left"}))
        last = outgoing[-1]
        assert isinstance(last, EventLine)
        assert (last.kind, last.server, last.reason, last.dropped) == ("server_dead", "docs", "it left", 10)
