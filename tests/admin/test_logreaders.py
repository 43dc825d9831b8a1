"""Administrators who read the log: what they asked for alone, and what is dropped where they do not read is counted."""

import threading

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.admin.running import Running, administered, answer_to, ask
from tests.agent.fakes import Agent
from tooldispatchd.admin.logreaders import MAX_QUEUED, MAX_QUEUED_BYTES, MAX_SUBSCRIPTIONS, LogReaders
from tooldispatchd.wire.faults import Fault
from tooldispatchd.wire.messages import AdminReq


async def events(agent: Agent, number: int) -> list[tuple[object, object]]:
    """The ids and events of the next notes."""
    heard = []
    for _ in range(number):
        line = await agent.hear()
        assert isinstance(line, dict)
        assert line["__port"] == "admin_note"
        heard.append((line["id"], line["value"]["event"]))
    return heard


async def test_each_reader_gets_the_lines_that_it_asked_for(autojump_clock: MockClock) -> None:
    running = Running()
    async with administered(running=running) as (_, agent):
        await answer_to(agent, "log", id="warnings", level="warning")
        await answer_to(agent, "log", id="session", session=3)
        running.log.debug("not heard")
        running.log.bind(session=3).info("one")
        running.log.bind(session=4).warning("two")
        running.log.bind(session=3).error("three", token=object())
        assert sorted(await events(agent, 4)) == [
            ("session", "one"),
            ("session", "three"),
            ("warnings", "three"),
            ("warnings", "two"),
        ]
        assert await ask(agent, "stop", of="warnings") == {}
        running.log.bind(session=4).warning("four")
        running.log.bind(session=3).info("five")
        assert await events(agent, 1) == [("session", "five")]
        await agent.end_input()
    assert running.log_output.wanted == 20


async def test_a_reader_at_debug_hears_what_is_not_written(autojump_clock: MockClock) -> None:
    running = Running()
    async with administered(running=running) as (_, agent):
        await answer_to(agent, "log", id="d", level="debug", tool="echo")
        assert running.log.logs_calls
        running.log.debug("call answered", tool="other")
        running.log.debug("call answered", tool="echo")
        assert await events(agent, 1) == [("d", "call answered")]
        await agent.end_input()
    assert not running.log.logs_calls


async def test_a_line_that_a_thread_logs_is_told(autojump_clock: MockClock) -> None:
    running = Running()
    async with administered(running=running) as (_, agent):
        await answer_to(agent, "log", id="1")
        thread = threading.Thread(target=running.log.warning, args=("from a thread",))
        thread.start()
        thread.join()
        assert await events(agent, 1) == [("1", "from a thread")]
        await agent.end_input()


class Unread:
    """A channel whose reader does not read, until it does."""

    def __init__(self) -> None:
        self.is_behind = self.may_administer = True
        self.is_closed = False
        self.said: list[object] = []
        self.refused: list[Fault] = []

    def crowding(self, size: int) -> None: ...
    def flush(self) -> None: ...
    def answered(self) -> None: ...
    def refuse(self, asked: AdminReq, fault: Fault, *, line: int) -> None:
        self.refused.append(fault)

    def say(self, line: object) -> None:
        self.said.append(line)


async def test_lines_that_nobody_reads_are_dropped_and_counted(autojump_clock: MockClock) -> None:
    """[M310]"""
    running, channel = Running(), Unread()
    readers = LogReaders(running.log_output, trio.lowlevel.checkpoint)
    reader = await readers.open(AdminReq("1", "log"), channel)  # type: ignore[arg-type]  # as much as it uses
    assert not isinstance(reader, Fault)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reader.run)
        for number in range(MAX_QUEUED + 7):
            running.log.info("line", number=number)
        await wait_all_tasks_blocked()
        assert channel.said == []
        channel.is_behind = False
        await trio.sleep(1)
        assert len(channel.said) == MAX_QUEUED
        running.log.info("the next")
        await trio.sleep(1)
        reader.end()
    told = [getattr(line, "dropped", None) for line in channel.said]
    assert (told[0], set(told[1:])) == (7, {None})


async def test_long_lines_that_nobody_reads_are_bounded_by_their_size(autojump_clock: MockClock) -> None:
    running, channel = Running(), Unread()
    readers = LogReaders(running.log_output, trio.lowlevel.checkpoint)
    reader = await readers.open(AdminReq("1", "log"), channel)  # type: ignore[arg-type]  # as much as it uses
    assert not isinstance(reader, Fault)
    for _ in range(8):
        running.log.info("line", text="x" * (MAX_QUEUED_BYTES // 4))
    channel.is_behind = False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reader.run)
        await trio.sleep(1)
        running.log.info("the next")
        await trio.sleep(1)
        reader.end()
    assert [getattr(line, "dropped", None) for line in channel.said] == [4, None, None, None, None]


async def test_a_subscription_that_sessions_cannot_be_told_of_is_none() -> None:
    async def fail() -> None:
        raise RuntimeError

    running = Running()
    readers = LogReaders(running.log_output, fail)
    with pytest.raises(RuntimeError):
        await readers.open(AdminReq("1", "log", level="debug"), Unread())  # type: ignore[arg-type]  # as much as it uses
    assert (readers.reading, running.log.logs_calls) == (set(), False)


async def test_a_subscription_ends_with_the_right_to_it(autojump_clock: MockClock) -> None:
    """[M306]"""
    running, channel = Running(), Unread()
    async with administered(running=running) as (runtime, agent):
        side = runtime.services.admin
        assert side is not None
        for asked_again in (False, True):
            channel.may_administer = True
            side.take(AdminReq("1", "log", level="debug"), channel, line=1)  # type: ignore[arg-type]  # as above
            await agent.pause(1)
            assert (running.log.logs_calls, channel.refused) == (True, []), asked_again
            channel.may_administer = False
            await agent.pause(60)
            assert not running.log.logs_calls
        await agent.end_input()


async def test_there_are_so_many_readers_and_each_leaves_with_its_channel(autojump_clock: MockClock) -> None:
    running = Running()
    async with administered(running=running) as (runtime, agent):
        others = [Agent(runtime) for _ in range(MAX_SUBSCRIPTIONS // 16 + 1)]
        answers = []
        for other in others:
            await other.say({"__port": "hello"})
            await other.hear()
            answers += [await answer_to(other, "log", id=str(number)) for number in range(16)]
        assert [answer.get("queue") for answer in answers] == [None] * MAX_SUBSCRIPTIONS + ["admin"] * 16
        # What another channel has subscribed to is not there.
        assert (await answer_to(agent, "stop", of="1"))["error"] == "unknown_target"
        for other in others:
            await other.end_input()
        await agent.pause(1)
        assert (await answer_to(agent, "log", id="mine"))["__port"] == "admin_resp"
        await agent.end_input()
    assert running.log_output.wanted == 20
