"""What a server says unasked, as its agent is told it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
from msgspec import Raw
from trio.testing import MockClock

from tests.agent.fakes import Ledger
from tooldispatchd.agent.session.notes import LOG, MAX_A_SECOND, MAX_LATE, MAX_LATE_BYTES, ServerNotes
from tooldispatchd.front.timer import Timer
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import Hello, Outgoing, ServerNote
from tooldispatchd.wire.session import Event, SessionMachine

UPDATED = "notifications/resources/updated"
TOLD = Raw(b"{}")


class Channel:
    """A channel that takes everything, unless its agent does not read or there is no room."""

    gate_key = 1

    def __init__(self) -> None:
        self.is_behind = False
        self.fault: Fault | None = None

    def crowding(self, size: int) -> Fault | None:
        return self.fault

    def flush(self) -> None:
        """Nothing is sent here."""


class Hearing:
    def __init__(self, timer: Timer, *, asked: bool = True) -> None:
        self.outgoing: list[Outgoing] = []
        self.machine = SessionMachine(self.outgoing, agent="a")
        self.machine.greet(Hello(agent="a", capabilities=["servers"] if asked else []), line=1)
        self.machine.apply(Event.OPENED)
        self.channel = Channel()
        self.notes = ServerNotes(timer, self.machine, self.channel, "kit")  # type: ignore[arg-type]  # all that it uses

    def heard(self) -> list[tuple[str, bytes]]:
        """What was told since this was asked last."""
        told = [(line.method, bytes(line.params)) for line in self.outgoing if isinstance(line, ServerNote)]
        self.outgoing.clear()
        return told


@asynccontextmanager
async def hearing(*, asked: bool = True) -> AsyncIterator[Hearing]:
    async with trio.open_nursery() as nursery:
        timer = Timer(Ledger())
        nursery.start_soon(timer.run)
        yield Hearing(timer, asked=asked)
        nursery.cancel_scope.cancel()


def changed(number: int) -> Raw:
    return Raw(b'{"uri":"note:%d"}' % number)


async def test_a_note_is_told_at_once(autojump_clock: MockClock) -> None:
    async with hearing() as agent:
        agent.notes.take(UPDATED, changed(1))
        assert agent.outgoing == [ServerNote("kit", UPDATED, changed(1), "a")]


async def test_an_agent_that_did_not_ask_is_told_nothing(autojump_clock: MockClock) -> None:  # [M239]
    async with hearing(asked=False) as agent:
        agent.notes.take(UPDATED, changed(1))
        assert agent.heard() == []


async def test_of_too_many_messages_of_a_log_the_rest_is_dropped(autojump_clock: MockClock) -> None:  # [M240]
    async with hearing() as agent:
        for _ in range(10 * MAX_A_SECOND):
            agent.notes.take(LOG, TOLD)
        await trio.sleep(5)
        assert len(agent.heard()) == MAX_A_SECOND
        agent.notes.take(LOG, TOLD)
        assert len(agent.heard()) == 1


async def test_what_changes_too_often_is_told_once_a_second_and_no_change_is_lost(autojump_clock: MockClock) -> None:
    async with hearing() as agent:
        for _ in range(3):
            for number in range(MAX_A_SECOND + 10):
                agent.notes.take(UPDATED, changed(number))
        assert len(agent.heard()) == MAX_A_SECOND
        await trio.sleep(1.5)
        # The ten that had no room, then the first ones, which have changed once more.
        later = agent.heard()
        assert (len(later), later[0]) == (MAX_A_SECOND, (UPDATED, bytes(changed(MAX_A_SECOND))))
        await trio.sleep(5)
        assert len(agent.heard()) == 10


async def test_what_waits_is_bounded_in_number_and_size(autojump_clock: MockClock) -> None:
    async with hearing() as agent:
        for number in range(MAX_A_SECOND + MAX_LATE + 100):
            agent.notes.take(UPDATED, changed(number))
        agent.notes.take(UPDATED, Raw(b'{"uri":"%b"}' % (b"x" * MAX_LATE_BYTES)))
        await trio.sleep(100)
        assert len(agent.heard()) == MAX_A_SECOND + MAX_LATE


async def test_an_agent_that_does_not_read_is_told_nothing(autojump_clock: MockClock) -> None:
    async with hearing() as agent:
        agent.channel.is_behind = True
        agent.notes.take(UPDATED, changed(1))
        agent.channel.is_behind, agent.channel.fault = False, Fault(Code.TOO_MANY, "it is full")
        agent.notes.take(UPDATED, changed(2))
        assert agent.heard() == []


async def test_after_the_end_nothing_is_told(autojump_clock: MockClock) -> None:
    async with hearing() as agent:
        for number in range(MAX_A_SECOND + 1):
            agent.notes.take(UPDATED, changed(number))
        agent.heard()
        agent.notes.close()
        await trio.sleep(5)
        assert agent.heard() == []
