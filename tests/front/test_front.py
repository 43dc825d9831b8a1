"""The front with socket pairs, pipes and a fake answerer: ends, backpressure, fairness, guards."""

import errno
import os
import resource
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from time import perf_counter

import pytest
import trio
import trio.testing

from tooldispatchd.calls.memory import Memory
from tooldispatchd.front.channel import Channel, FdEnd, PairWire, SocketWire
from tooldispatchd.front.front import ACCEPT_PAUSE_S, BRIEF_S, Front, Listener
from tooldispatchd.front.timer import Timer

pytestmark = pytest.mark.usefixtures("nothing_left")

CAP = 10_000


class Incidents:
    def __init__(self) -> None:
        self.events: list[str] = []

    def incident(self, event: str, error: Exception) -> str:
        self.events.append(f"{event}: {error}")
        return "7"


class Echo:
    """A peer that says back what it hears, and remembers how its channel ended."""

    def __init__(self, *, answers: Callable[[bytes], bytes] = bytes) -> None:
        self.channel: Channel | None = None
        self.share = Memory(1 << 40).share(0)
        self.answers = answers
        self.heard = b""
        self.ends: list[str] = []
        self.over = trio.Event()

    def received(self, chunk: bytes) -> None:
        self.heard += chunk
        assert self.channel is not None
        self.channel.write(self.answers(chunk))

    def resume(self) -> None:
        raise AssertionError("it never asks for another turn")

    def ended(self) -> None:
        self.ends.append("ended")
        self.over.set()

    def gone(self, why: str) -> None:
        self.ends.append(f"gone: {why}")
        self.over.set()


@asynccontextmanager
async def open_front(
    *, stalled_s: float = 60.0, clock: Callable[[], float] = perf_counter
) -> AsyncIterator[tuple[Front, Incidents]]:
    incidents = Incidents()
    async with trio.open_nursery() as nursery:
        timer = Timer(incidents)
        front = Front(timer, incidents, out_buffer_bytes=CAP, stalled_s=stalled_s, clock=clock)
        nursery.start_soon(timer.run)
        nursery.start_soon(front.run)
        yield front, incidents
        nursery.cancel_scope.cancel()


def open_socket(front: Front, echo: Echo) -> trio.SocketStream:
    ours, theirs = socket.socketpair()
    echo.channel = Channel(front, SocketWire(ours), echo.share)
    echo.channel.open(echo, closed=lambda: echo.ends.append("closed"))
    return trio.SocketStream(trio.socket.from_stdlib_socket(theirs))


async def receive_all(stream: trio.SocketStream) -> bytes:
    return b"".join([chunk async for chunk in stream])


async def test_what_is_received_is_answered() -> None:
    async with open_front() as (front, _):
        echo = Echo()
        async with open_socket(front, echo) as agent:
            await agent.send_all(b"hello\n")
            assert await agent.receive_some() == b"hello\n"
            assert echo.channel is not None
            echo.channel.close()
            assert await agent.receive_some() == b""
    assert echo.ends == ["closed"]


async def test_a_half_closed_socket_is_the_end_of_input_and_can_still_be_answered() -> None:
    async with open_front() as (front, _):
        echo = Echo()
        async with open_socket(front, echo) as agent:
            await agent.send_eof()
            await echo.over.wait()
            assert echo.ends == ["ended"]
            assert echo.channel is not None
            echo.channel.write(b"late answer\n")
            echo.channel.close()
            assert await receive_all(agent) == b"late answer\n"


async def test_a_closed_socket_is_gone_and_what_lies_in_the_buffer_is_not_looked_at() -> None:
    async with open_front() as (front, _):
        echo = Echo()
        agent = open_socket(front, echo)
        await agent.socket.send(b"never executed\n")
        await agent.aclose()
        await echo.over.wait()
        assert echo.heard == b""
        assert echo.ends[0] == "closed"
        assert echo.ends[1].startswith("gone")


async def test_a_socket_closed_with_unread_answers_is_gone() -> None:
    async with open_front() as (front, _):
        echo = Echo()
        agent = open_socket(front, echo)
        await agent.send_all(b"x")
        await trio.testing.wait_all_tasks_blocked()
        assert echo.channel is not None
        echo.channel.write(b"unread\n")
        await agent.aclose()
        await echo.over.wait()
        assert echo.ends[-1].startswith("gone")


def open_pipes(front: Front, echo: Echo) -> tuple[int, int]:
    requests, to_daemon = os.pipe()
    from_daemon, answers = os.pipe()
    for end in (requests, answers):
        os.set_blocking(end, False)
    echo.channel = Channel(front, PairWire(FdEnd(requests), FdEnd(answers)), echo.share)
    echo.channel.open(echo, closed=lambda: echo.ends.append("closed"))
    return to_daemon, from_daemon


async def test_on_pipes_the_writers_end_is_the_end_of_input_after_what_it_wrote() -> None:
    async with open_front() as (front, _):
        echo = Echo()
        to_daemon, from_daemon = open_pipes(front, echo)
        os.write(to_daemon, b"last words")
        os.close(to_daemon)
        await echo.over.wait()
        assert echo.heard == b"last words"
        assert echo.ends == ["ended"]
        assert echo.channel is not None
        echo.channel.close()
        assert os.read(from_daemon, 100) == b"last words"
        os.close(from_daemon)


async def test_on_pipes_the_readers_end_is_gone_at_once() -> None:
    async with open_front() as (front, _):
        echo = Echo()
        to_daemon, from_daemon = open_pipes(front, echo)
        os.close(from_daemon)
        await echo.over.wait()
        assert echo.ends[-1].startswith("gone")
        os.close(to_daemon)


async def test_reading_stops_while_the_backlog_is_over_its_cap_and_goes_on_after() -> None:
    async with open_front() as (front, _):
        echo = Echo(answers=lambda chunk: chunk * 50)
        async with open_socket(front, echo) as agent:
            for _ in range(40):
                await agent.send_all(b"x" * 1000)
            await trio.testing.wait_all_tasks_blocked(0.05)
            held = echo.share.held
            assert held > CAP
            assert len(echo.heard) < 40_000
            total = 0
            while total < 40 * 1000 * 50:
                total += len(await agent.receive_some())
            assert len(echo.heard) == 40_000
            assert echo.share.held == 0


class Pausing(Echo):
    """It pauses its channel with the first bytes that it hears."""

    def __init__(self) -> None:
        super().__init__(answers=lambda chunk: chunk * 1_000_000)
        self.turns = 0

    def received(self, chunk: bytes) -> None:
        super().received(chunk)
        if self.channel is not None and self.turns == 0:
            self.channel.pause()

    def resume(self) -> None:
        self.turns += 1


async def test_a_paused_channel_has_no_turn_and_reads_nothing_though_answers_were_taken() -> None:
    async with open_front() as (front, incidents):
        echo = Pausing()
        async with open_socket(front, echo) as agent:
            await agent.send_all(b"x")
            total = 0
            while total < 1_000_000:
                total += len(await agent.receive_some())
            await agent.send_all(b"y")
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert (echo.heard, echo.turns) == (b"x", 0)
            assert echo.channel is not None
            echo.channel.again()
            assert (await agent.receive_some()).startswith(b"y")
            assert (echo.heard, echo.turns) == (b"xy", 1)
    assert incidents.events == []


async def test_a_channel_that_never_reads_is_dropped_after_its_time() -> None:
    async with open_front(stalled_s=0.2) as (front, _):
        echo = Echo(answers=lambda chunk: chunk * 10_000)
        async with open_socket(front, echo) as agent:
            await agent.send_all(b"x" * 500)
            with trio.fail_after(5):
                await echo.over.wait()
            assert echo.ends[-1].startswith("gone: stalled")
            assert echo.share.held == 0


async def test_a_channel_with_a_backlog_below_the_cap_is_not_dropped() -> None:
    async with open_front(stalled_s=0.1) as (front, _):
        echo = Echo()
        async with open_socket(front, echo) as agent:
            assert echo.channel is not None
            while echo.share.held == 0:
                echo.channel.write(b"y" * 8_000)
            await trio.sleep(0.3)
            assert echo.ends == []
            assert len(await agent.receive_some()) > 0


async def test_a_defect_of_one_channel_ends_that_channel_alone() -> None:
    def fail(_chunk: bytes) -> bytes:
        raise ValueError("defect")

    async with open_front() as (front, incidents):
        broken, sound = Echo(answers=fail), Echo()
        async with open_socket(front, broken) as one, open_socket(front, sound) as other:
            await one.send_all(b"x")
            assert await receive_all(one) == b""
            await other.send_all(b"y")
            assert await other.receive_some() == b"y"
        assert incidents.events == ["channel failed: defect"]
        assert broken.ends == ["closed", "gone: internal error, incident 7"]


async def test_a_defect_at_the_end_of_a_defective_channel_ends_nothing_else() -> None:
    class FailsTwice(Echo):
        def gone(self, why: str) -> None:
            super().gone(why)
            raise ValueError("another")

    def fail(_chunk: bytes) -> bytes:
        raise ValueError("defect")

    async with open_front() as (front, incidents):
        broken, sound = FailsTwice(answers=fail), Echo()
        async with open_socket(front, broken) as one, open_socket(front, sound) as other:
            await one.send_all(b"x")
            assert await receive_all(one) == b""
            await other.send_all(b"y")
            assert await other.receive_some() == b"y"
        assert incidents.events == ["channel failed: defect", "channel's end failed: another"]


async def test_a_channel_that_floods_leaves_the_others_their_turn() -> None:
    async with open_front() as (front, _):
        flood, calm = Echo(answers=lambda _chunk: b""), Echo()
        async with open_socket(front, flood) as loud, open_socket(front, calm) as quiet, trio.open_nursery() as nursery:

            async def pour() -> None:
                while True:
                    await loud.send_all(b"z" * 65_536)

            nursery.start_soon(pour)
            with trio.fail_after(5):
                for _ in range(50):
                    await quiet.send_all(b"ping")
                    assert await quiet.receive_some() == b"ping"
            nursery.cancel_scope.cancel()
        # The front closes its own ends when it sees that, and only while it runs.
        await flood.over.wait()
        await calm.over.wait()


class Table:
    """Whose turns came in which order; a turn takes as long on its clock as the one whose turn it is says."""

    def __init__(self) -> None:
        self.turns: list[str] = []
        self.now_s = 0.0

    def clock(self) -> float:
        return self.now_s

    def sit_down(self, front: Front, name: str, *turns_s: float, then: Callable[[], object]) -> socket.socket:
        """A channel's other end; each byte is a turn, which takes as long as the next of `turns_s`."""
        left = list(turns_s)
        ours, theirs = socket.socketpair()

        def answer(_chunk: bytes) -> bytes:
            self.turns.append(name)
            self.now_s += left.pop(0)
            then()
            return b""

        echo = Echo(answers=answer)
        echo.channel = Channel(front, SocketWire(ours), echo.share)
        echo.channel.open(echo, closed=lambda: None)
        return theirs


LONG_S = 5 * BRIEF_S


@contextmanager
def closing(*agents: socket.socket) -> Iterator[None]:
    try:
        yield
    finally:
        for agent in agents:
            agent.close()


async def test_an_agent_that_asks_little_waits_for_one_turn_of_many_that_ask_much() -> None:
    table = Table()
    async with open_front(clock=table.clock) as (front, _):
        calm = table.sit_down(front, "calm", *[0.0] * 7, then=bytes)
        calm.send(b"x")
        await trio.testing.wait_all_tasks_blocked(0.01)
        # Whenever one of the others is served the calm one has something to ask, and they have from the beginning.
        others = [table.sit_down(front, "busy", LONG_S, LONG_S, then=lambda: calm.send(b"x")) for _ in range(3)]
        with closing(calm, *others):
            for _ in range(2):
                for other in others:
                    other.send(b"x")
                await trio.testing.wait_all_tasks_blocked(0.01)
        await trio.testing.wait_all_tasks_blocked(0.01)
    assert table.turns == ["calm", *["busy", "calm"] * 6]


async def test_two_long_turns_in_succession_cost_an_agent_its_place_and_a_brief_one_gives_it_back() -> None:
    table = Table()
    async with open_front(clock=table.clock) as (front, _):
        first = table.sit_down(front, "first", LONG_S, *[LONG_S] * 4, then=bytes)
        other = table.sit_down(front, "other", 0.0, LONG_S, 0.0, LONG_S, LONG_S, 0.0, 0.0, then=bytes)
        with closing(first, other):
            for _ in range(2):
                other.send(b"x")
                await trio.testing.wait_all_tasks_blocked(0.01)
            for _ in range(5):
                # In this order they are ready.
                first.send(b"x")
                other.send(b"x")
                await trio.testing.wait_all_tasks_blocked(0.01)
        await trio.testing.wait_all_tasks_blocked(0.01)
    after_one = ["other", "first"]
    assert table.turns == ["other", "other", *after_one * 3, "first", "other", *after_one]


async def test_those_that_ask_much_have_as_much_time_as_those_that_ask_little() -> None:
    table = Table()
    async with open_front(clock=table.clock) as (front, _):
        calm = [table.sit_down(front, "calm", 0.0, *[BRIEF_S] * 2, then=bytes) for _ in range(9)]
        for each in calm:
            each.send(b"x")
        await trio.testing.wait_all_tasks_blocked(0.01)
        busy = [table.sit_down(front, "busy", LONG_S, then=lambda: calm[0].send(b"x")) for _ in range(3)]
        del table.turns[:]
        with closing(*calm, *busy):
            for each in (*busy, *calm):
                each.send(b"x")
            await trio.testing.wait_all_tasks_blocked(0.01)
        await trio.testing.wait_all_tasks_blocked(0.01)
    assert table.turns[:12] == [*["calm"] * 9, "busy", "busy", "calm"]


async def test_reads_grow_with_a_long_line_and_begin_anew_when_lines_are_left_over() -> None:
    class Leaving(Echo):
        """With its fourth read it leaves lines over."""

        def __init__(self) -> None:
            super().__init__(answers=lambda _chunk: b"")
            self.reads: list[int] = []

        def received(self, chunk: bytes) -> None:
            super().received(chunk)
            self.reads.append(len(chunk))
            assert self.channel is not None
            if len(self.reads) == 4:
                self.channel.again()

        def resume(self) -> None:
            pass

    async with open_front() as (front, _):
        echo = Leaving()
        async with open_socket(front, echo) as agent:
            await agent.send_all(b"x" * 1_000_000)
            await trio.testing.wait_all_tasks_blocked(0.01)
    # So much lies in the socket from the beginning.
    assert echo.reads[:5] == [8192, 16_384, 16_384, 16_384, 8192]


async def test_a_channel_is_crowded_when_its_unread_answers_fill_its_share() -> None:
    async with open_front() as (front, _):
        echo = Echo()
        echo.share = Memory(1 << 20).share(0)
        async with open_socket(front, echo):
            assert echo.channel is not None
            seen = [echo.channel.is_crowded]
            echo.channel.write(b"x" * (3 << 20))
            seen.append(echo.channel.is_crowded)
            assert seen == [False, True]
            echo.channel.abort("enough")
            assert echo.share.held == 0


def listening_on(path: str) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen()
    return listening


async def test_a_defect_in_taking_one_connection_ends_that_connection_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    echo = Echo()

    def take(connection: socket.socket) -> None:
        if not incidents.events:
            raise ValueError("defect")
        echo.channel = Channel(front, SocketWire(connection), echo.share)
        echo.channel.open(echo, closed=lambda: None)

    async with open_front() as (front, incidents):
        listener = Listener(front, listening_on(path), take)
        with trio.fail_after(10):
            async with await trio.open_unix_socket(path) as unlucky:
                assert await unlucky.receive_some() == b""
            assert incidents.events == ["connection failed: defect"]
            async with await trio.open_unix_socket(path) as lucky:
                await lucky.send_all(b"ping")
                assert await lucky.receive_some() == b"ping"
                await lucky.send_eof()
                await echo.over.wait()
        assert echo.channel is not None
        echo.channel.close()
        listener.close()


class UnluckySocket(socket.socket):
    """Its first accepts fail in ways that no listener knows of."""

    def __init__(self, fileno: int) -> None:
        super().__init__(fileno=fileno)
        self.failures = [OSError(errno.EPROTO, "protocol error"), ValueError("defect")]

    def accept(self) -> tuple[socket.socket, object]:
        if self.failures:
            raise self.failures.pop(0)
        return super().accept()


async def test_whatever_an_accept_raises_ends_nothing_but_that(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    accepted: list[socket.socket] = []
    async with open_front() as (front, incidents):
        echo = Echo()
        async with open_socket(front, echo) as agent:
            listener = Listener(front, UnluckySocket(listening_on(path).detach()), accepted.append)
            with trio.fail_after(10):
                async with await trio.open_unix_socket(path):
                    while not accepted:
                        await trio.sleep(0.001)
                        await agent.send_all(b"ping")
                        assert await agent.receive_some() == b"ping"
            assert incidents.events == [
                "connection failed: [Errno 71] protocol error",
                "connection failed: defect",
            ]
            listener.close()
        accepted[0].close()


async def test_a_listener_without_descriptors_waits_and_takes_the_connection_then(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    accepted: list[socket.socket] = []
    async with open_front() as (front, incidents):
        listening = listening_on(path)
        listener = Listener(front, listening, accepted.append)
        agent = socket.socket(socket.AF_UNIX)
        with no_more_descriptors():
            agent.connect(path)
            with trio.fail_after(10):
                while front.watches(listening.fileno()):
                    await trio.sleep(0.001)
            # It looks again, and finds none again.
            await trio.sleep(2 * ACCEPT_PAUSE_S)
            assert (accepted, incidents.events) == ([], [])
        with trio.fail_after(10):
            while not accepted:
                await trio.sleep(0.01)
        listener.close()
        agent.close()
        accepted[0].close()


async def test_a_listener_that_is_closed_while_it_waits_stays_closed(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    accepted: list[socket.socket] = []
    async with open_front() as (front, incidents):
        listener = Listener(front, listening_on(path), accepted.append)
        agent = socket.socket(socket.AF_UNIX)
        with no_more_descriptors():
            agent.connect(path)
            await trio.testing.wait_all_tasks_blocked(0.02)
            listener.close()
        await trio.sleep(2 * ACCEPT_PAUSE_S)
        assert (accepted, incidents.events) == ([], [])
        agent.close()


@contextmanager
def no_more_descriptors() -> Iterator[None]:
    """No descriptor can be opened meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The lowest that is free: everything that is open stays, and none may be above it.
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_listener_gives_each_connection_and_stops_when_closed(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    listening = listening_on(path)
    accepted: list[socket.socket] = []
    async with open_front() as (front, _):
        listener = Listener(front, listening, accepted.append)
        agents = [await trio.open_unix_socket(path) for _ in range(3)]
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert len(accepted) == 3
        listener.close()
        with pytest.raises(OSError, match="refused"):
            await trio.open_unix_socket(path)
        for stream in agents:
            await stream.aclose()
        for connection in accepted:
            connection.close()


async def test_a_listener_may_be_closed_after_the_front_has_ended(tmp_path: Path) -> None:
    async with open_front() as (front, _):
        listening = listening_on(str(tmp_path / "s"))
        listener = Listener(front, listening, lambda _: None)
    listener.close()
    assert listening.fileno() == -1
