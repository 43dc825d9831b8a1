"""Each call of a session is recorded once, whatever became of it, and stays what it was."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.agent.fakes import Agent, HeldPlan, answer, open_runtime, small_catalog
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.calls.endedcall import EndedCall, SessionCaller


class Book:
    """An audit that keeps what it is told."""

    lost = waiting = 0
    failure = None

    def __init__(self, payload_chars: int = 0) -> None:
        self.payload_chars = payload_chars
        self.ended: list[EndedCall] = []

    def put(self, ended: EndedCall) -> None:
        self.ended.append(ended)

    @property
    def ends(self) -> list[tuple[str, str, str | None]]:
        return [(each.id, each.tool, each.code) for each in self.ended]


@asynccontextmanager
async def audited(book: Book, *plans: HeldPlan) -> AsyncIterator[Runtime]:
    async with open_runtime(small_catalog(), *plans, audit=book) as runtime:
        yield runtime


async def test_an_inline_call_is_recorded_and_still_answered_at_once(autojump_clock: MockClock) -> None:
    book = Book()
    async with audited(book) as runtime:
        agent = Agent(runtime)
        await agent.say({"__port": "tool_req", "id": "1", "name": "echo", "input": {"a": 1}})
        assert await agent.hear() == {
            "__port": "tool_resp",
            "id": "1",
            "content": '{"a":1}',
            "is_error": False,
        }
        session = agent.host._roster.own
        assert session is not None
        assert session.in_flight is None
        await agent.end_input()
    (ended,) = book.ended
    assert ended.caller == SessionCaller("default", None, 1000, 1, 1)
    assert (ended.provider, ended.input, ended.bytes_in, ended.bytes_out) == ("inline", b'{"a":1}', 7, 7)
    assert (ended.waited_s, ended.is_error, ended.code, ended.content) == (0.0, False, None, None)


async def test_a_call_in_flight_tells_how_long_it_waited_and_ran(autojump_clock: MockClock) -> None:
    book, held = Book(), HeldPlan()
    async with audited(book, held) as runtime:
        agent = Agent(runtime)
        await agent.say({"__port": "hello", "order": "sequential"})
        await agent.hear()
        await agent.call("1", "held", input={"b": 1, "a": 2})
        await agent.call("2", "held")
        await wait_all_tasks_blocked()
        await trio.sleep(2)
        held.finish("1")
        await wait_all_tasks_blocked()
        await trio.sleep(3)
        held.finish("2")
        assert [await agent.hear(), await agent.hear()] == [answer("1"), answer("2")]
        await agent.end_input()
    assert [(each.id, each.waited_s, each.total_s) for each in book.ended] == [("1", 0.0, 2.0), ("2", 2.0, 5.0)]
    assert book.ended[0].input == b'{"b":1,"a":2}'


@pytest.mark.parametrize(
    ("request_line", "end"),
    [
        ({"id": "1", "name": "nothing"}, ("1", "nothing", "unknown_tool")),
        ({"id": "1", "name": "held", "input": "refuse me"}, ("1", "held", "invalid_input")),
        ({"id": "1", "name": "echo"}, ("1", "echo", "invalid_input")),
        ({"id": "1", "name": "held", "deadline_ms": 10}, ("1", "held", "timeout")),
    ],
)
async def test_what_never_reached_its_tool_or_was_not_done_is_recorded(
    request_line: dict[str, object], end: tuple[str, str, str], autojump_clock: MockClock
) -> None:
    book, held = Book(), HeldPlan()
    async with audited(book, held) as runtime:
        agent = Agent(runtime)
        await agent.say(request_line)
        await agent.hear()
        await agent.end_input()
    assert book.ends == [end]


async def test_a_second_request_with_an_id_in_flight_is_recorded_too(autojump_clock: MockClock) -> None:
    book, held = Book(), HeldPlan()
    async with audited(book, held) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "held")
        await agent.call("1", "held")
        await agent.hear()
        held.finish("1")
        await agent.end_input()
        await agent.hear_all()
    assert book.ends == [("1", "held", "duplicate_id"), ("1", "held", None)]


async def test_the_agents_of_a_channel_are_told_apart(autojump_clock: MockClock) -> None:
    book = Book()
    async with audited(book) as runtime:
        agent = Agent(runtime)
        for name in ("ada", "bob"):
            await agent.say({"__port": "hello", "agent": name}, {"id": "1", "name": "echo", "input": 1, "agent": name})
        await agent.end_input()
        await agent.hear_all()
    assert [(each.caller.agent, each.caller.session) for each in book.ended] == [("ada", 1), ("bob", 2)]


async def test_a_request_for_which_no_session_opens_is_recorded(autojump_clock: MockClock) -> None:
    book = Book()
    async with audited(book) as runtime:
        agent = Agent(runtime)
        await agent.say({"id": "1", "name": "echo", "input": 1, "agent": "nobody"})
        await agent.hear()
        await agent.end_input()
    assert book.ends == [("1", "echo", "unknown_agent")]
    assert book.ended[0].caller == SessionCaller(None, "nobody", 1000)


async def test_payloads_are_told_where_they_are_wanted_and_only_so_much(autojump_clock: MockClock) -> None:
    book = Book(payload_chars=4)
    async with audited(book) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "echo", input="abcdef")
        await agent.hear()
        await agent.end_input()
    assert book.ended[0].content == '"abc'


async def test_a_trace_that_is_none_is_not_recorded(autojump_clock: MockClock) -> None:
    book = Book()
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with audited(book) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "echo", input=1, traceparent=trace)
        await agent.call("2", "echo", input=1, traceparent="rubbish")
        await agent.end_input()
        await agent.hear_all()
    assert [each.trace for each in book.ended] == [trace, None]
