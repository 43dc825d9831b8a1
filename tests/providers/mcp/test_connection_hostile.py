"""A connection whose server does everything at the worst moment: in memory, under a clock that jumps."""

import json
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import trio
import trio.testing

from tests.providers.mcp.connecting import DEFAULT, Session, Waiting, begin
from tests.providers.mcp.linking import SHARE
from tooldispatchd.calls.connection import ConnectionState
from tooldispatchd.calls.outcome import Answer, Outcome
from tooldispatchd.catalog.schemas import compile_check
from tooldispatchd.checkers.pool import IN_PLACE
from tooldispatchd.providers.mcp.answers import PendingCall
from tooldispatchd.providers.mcp.connection import Connection
from tooldispatchd.providers.mcp.dialects import Dialect
from tooldispatchd.providers.mcp.link import Bell, Inbox
from tooldispatchd.providers.mcp.messages import Outgoing
from tooldispatchd.providers.mcp.remembered import Eras
from tooldispatchd.providers.mcp.server import Result
from tooldispatchd.providers.mcp.subscription import SUBSCRIBE_AGAIN_S
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import ContentKind

Message = dict[str, Any]

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
CHANGED = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'


class Stream:
    """The `Way` to a server that writes lines. `said` are all messages that came, `opened` how often it was opened.

    `mute` holds methods that it does not answer; whatever `answers` has for one is answered with that.
    """

    needs_tasks = False
    is_http = False
    may_probe = True
    close_s = 10.0

    def __init__(self) -> None:
        self.origin: Hashable = self
        self.said: list[Message] = []
        self.mute: set[str] = set()
        self.answers: dict[str, Message] = {}
        self.opened = 0
        self.told = trio.Event()
        self.closing: Callable[[], None] | None = None
        self.link_now: StreamLink

    def link(self, inbox: Inbox, nursery: trio.Nursery | None) -> "StreamLink":
        self.link_now = StreamLink(self, inbox)
        return self.link_now

    def older(self) -> None:
        return None

    def numbers(self, method: str) -> list[int]:
        return [message["id"] for message in self.said if message.get("method") == method]

    async def asked(self, method: str, times: int = 1) -> int:
        """Wait until that was asked so often; the number of the last request."""
        with trio.fail_after(600):
            while len(self.numbers(method)) < times:
                await self.told.wait()
        return self.numbers(method)[times - 1]


class StreamLink:
    def __init__(self, way: Stream, inbox: Inbox) -> None:
        self.dialect: Dialect | None = None
        self.is_read_beside = True
        self.stderr_tail = ""
        self.pid: int | None = None
        self.ended: dict[str, object] = {}
        self._way = way
        self._inbox = inbox
        self._bell = Bell()
        self._chunks: list[bytes] = []
        # What it takes to deal with a chunk.
        self.slow_s = 0.0

    def write(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._bell.ring()

    def reply(self, number: int, **members: object) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", "id": number, **members}).encode() + b"\n")

    def say(self, number: int, words: str) -> None:
        self.reply(number, result={"content": [{"type": "text", "text": words}]})

    def die(self, why: str = "it ended") -> None:
        self._bell.lose(why)

    async def open(self) -> None:
        self._way.opened += 1

    async def greeted(self) -> None:
        pass

    def send(self, message: Outgoing) -> None:
        said = json.loads(message.line)
        self._way.said.append(said)
        self._way.told.set()
        self._way.told = trio.Event()
        method = said.get("method")
        if "id" not in said or method in self._way.mute:
            return
        capabilities = {"tools": {"listChanged": True}}
        usual = {
            "initialize": {"protocolVersion": LEGACY, "capabilities": capabilities},
            "server/discover": {"supportedVersions": [MODERN], "capabilities": capabilities},
            "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
        }
        if method in self._way.answers:
            self.reply(said["id"], **self._way.answers[method])
        elif method in usual:
            self.reply(said["id"], result=usual[method])

    def flush(self) -> bool:
        return True

    async def turn(self, until: float) -> None:
        if not self._chunks:
            await self._bell.wait(until)
        while self._chunks:
            chunk = self._chunks.pop(0)
            await trio.sleep(self.slow_s)
            await self._inbox.take_chunk(chunk)

    def wake(self) -> None:
        self._bell.ring()

    def give_up(self, number: int) -> bool:
        return False

    def drop(self) -> None:
        pass

    async def close(self) -> None:
        if self._way.closing is not None:
            self._way.closing()


@asynccontextmanager
async def opened(way: Stream, **settings: Any) -> AsyncIterator[Session]:
    session = Session()
    async with trio.open_nursery() as nursery:
        session.connection = Connection(
            msgspec.structs.replace(DEFAULT, **settings),
            share=SHARE,
            way=way,
            eras=Eras(),
            opening=trio.CapacityLimiter(1),
            checkers=IN_PLACE,
            log=session.log,
            batch_done=session.batch_done,
        )
        nursery.start_soon(session.own)
        await session.opened.wait()
        yield session
        session.connection.close()


# --- ends ------------------------------------------------------------------------------------------------------------


async def test_a_call_that_is_cancelled_when_another_one_is_told_of_the_end_is_not_told(
    autojump_clock: trio.testing.MockClock,
) -> None:
    way = Stream()
    async with opened(way) as session:
        connection = session.connection
        calls: list[PendingCall] = []
        told: list[Outcome] = []

        def done(outcome: Outcome) -> None:
            told.append(outcome)
            for call in calls:
                connection.cancel(call, "one is enough")

        tool = connection.offer.tools["echo"]
        for _ in range(3):
            call = begin(connection, tool, b"{}", done)
            assert isinstance(call, PendingCall)
            calls.append(call)
        way.link_now.die()
        await session.ended.wait()
        assert [outcome.code for outcome in told if isinstance(outcome, Fault)] == [Code.CONNECTION_DEAD]


async def test_a_connection_that_is_closed_while_a_link_is_left_opens_no_other(
    autojump_clock: trio.testing.MockClock,
) -> None:
    way = Stream()
    way.mute.add("server/discover")
    session = Session()
    connection = session.connection = Connection(
        msgspec.structs.replace(DEFAULT, protocol="auto"),
        share=SHARE,
        way=way,
        eras=Eras(),
        opening=trio.CapacityLimiter(1),
        checkers=IN_PLACE,
        log=session.log,
        batch_done=session.batch_done,
    )
    way.closing = connection.close
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.own)
        await way.asked("server/discover")
        way.link_now.die()
        await session.ended.wait()
    assert way.opened == 1
    assert connection.state is ConnectionState.CLOSED


# --- lists that change -----------------------------------------------------------------------------------------------


async def test_a_turn_is_never_cancelled_while_the_connection_lives(
    autojump_clock: trio.testing.MockClock,
) -> None:
    way = Stream()
    async with opened(way, handshake_s=5.0) as session:
        way.mute.add("tools/list")
        way.link_now.write(CHANGED)
        await way.asked("tools/list", 2)
        call, waiting = session.start()
        way.link_now.slow_s = 10.0
        way.link_now.say(call.number, "here")
        await trio.sleep(60)
        assert waiting.outcomes == [Answer("here", kind=ContentKind.TEXT)]
        (event, fields) = session.log.said[-1]
        assert (event, fields["reason"]) == ("tools not listed again", "it did not answer tools/list in time")


async def test_a_call_that_is_sent_again_by_a_new_list_keeps_its_declared_type(
    autojump_clock: trio.testing.MockClock,
) -> None:
    way = Stream()
    async with opened(way) as session:
        listed = session.connection.offer.tools["echo"]
        typed = msgspec.structs.replace(listed, output=compile_check({"type": "integer"}), result=Result.TYPED)
        waiting = Waiting()
        assert isinstance(begin(session.connection, typed, b"{}", waiting.done), PendingCall)
        way.link_now.reply(await way.asked("tools/call"), error={"code": -32020, "message": "Header mismatch"})
        way.link_now.say(await way.asked("tools/call", 2), "no number")
        outcome = await waiting.outcome()
        assert isinstance(outcome, Fault)
        assert outcome.code is Code.INVALID_OUTPUT


async def test_a_list_that_is_outdated_and_cannot_be_had_is_asked_for_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    way = Stream()
    tools = [{"name": "echo", "inputSchema": {"type": "object"}}]
    way.answers["tools/list"] = {"result": {"tools": tools, "ttlMs": 10_000}}
    async with opened(way, protocol=MODERN) as session:
        way.answers["tools/list"] = {"error": {"code": 1, "message": "not now"}}
        for times in (2, 3):
            await trio.sleep(11)
            session.start()
            await way.asked("tools/list", times)
        assert session.connection.state is ConnectionState.OPEN


async def test_a_subscription_that_ends_is_made_again_and_the_tools_are_listed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    way = Stream()
    waits = []
    async with opened(way, protocol=MODERN):
        number = await way.asked("subscriptions/listen")
        for times in range(2, 9):
            way.link_now.reply(number, result={"resultType": "complete"})
            ended_at = trio.current_time()
            number = await way.asked("subscriptions/listen", times)
            waits.append(round(trio.current_time() - ended_at))
            assert len(way.numbers("tools/list")) == times - 1
            await way.asked("tools/list", times)
    assert waits == [1, 2, 5, 10, 30, 30, 30]


async def test_a_subscription_is_no_call_in_flight(autojump_clock: trio.testing.MockClock) -> None:
    way = Stream()
    async with opened(way, protocol=MODERN) as session:
        await way.asked("subscriptions/listen")
        assert session.connection.in_flight == 0
        session.start()
        assert session.connection.in_flight == 1


async def test_a_subscription_that_lived_for_long_is_made_again_soon(autojump_clock: trio.testing.MockClock) -> None:
    way = Stream()
    async with opened(way, protocol=MODERN):
        for times in (1, 2, 3):
            number = await way.asked("subscriptions/listen", times)
            await trio.sleep(60)
            way.link_now.reply(number, result={"resultType": "complete"})
            ended_at = trio.current_time()
            await way.asked("subscriptions/listen", times + 1)
            assert round(trio.current_time() - ended_at) == 1


async def test_the_tools_are_listed_only_once_the_subscription_stands(autojump_clock: trio.testing.MockClock) -> None:
    way = Stream()
    async with opened(way, protocol=MODERN):
        number = await way.asked("subscriptions/listen")
        for times in (2, 3, 4):
            way.link_now.reply(number, result={"resultType": "complete"})
            number = await way.asked("subscriptions/listen", times)
        assert len(way.numbers("tools/list")) == 1
        await way.asked("tools/list", 2)


async def test_a_server_that_always_says_its_tools_changed_is_asked_once_a_second(
    autojump_clock: trio.testing.MockClock,
) -> None:
    way = Stream()
    async with opened(way):
        began = trio.current_time()
        for times in (2, 3, 4):
            way.link_now.write(b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n')
            await way.asked("tools/list", times)
        assert trio.current_time() - began >= 2


async def test_a_subscription_that_is_refused_is_not_asked_for_again(autojump_clock: trio.testing.MockClock) -> None:
    way = Stream()
    way.answers["subscriptions/listen"] = {"error": {"code": -32601, "message": "Method not found"}}
    async with opened(way, protocol=MODERN):
        await trio.sleep(10 * SUBSCRIBE_AGAIN_S[-1])
        assert len(way.numbers("subscriptions/listen")) == 1


# --- words -----------------------------------------------------------------------------------------------------------


async def test_why_a_server_refuses_is_told_without_what_a_terminal_would_obey(
    autojump_clock: trio.testing.MockClock,
) -> None:
    way = Stream()
    way.answers["initialize"] = {"error": {"code": 1, "message": "no\x1b[2J\u202e" + "x" * 100_000}}
    async with opened(way) as session:
        reason = session.fault().extras["reason"]
        assert isinstance(reason, str)
        assert reason.isprintable()
        assert reason.startswith(r"it refused initialize: no\x1b[2J\u202exxx")
        assert len(reason) < 1000
