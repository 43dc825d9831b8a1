"""The front with socket pairs, pipes and a fake answerer: ends, backpressure, fairness, guards."""

import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from tooldispatchd.front.channel import Channel
from tooldispatchd.front.front import Front
from tooldispatchd.front.timer import Timer
from tooldispatchd.front.wires import FdEnd, PairWire, SocketWire

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
    *, stalled_s: float = 60.0, buffered_bytes: int = 1 << 30
) -> AsyncIterator[tuple[Front, Incidents]]:
    incidents = Incidents()
    async with trio.open_nursery() as nursery:
        timer = Timer(incidents)
        front = Front(timer, incidents, out_buffer_bytes=CAP, stalled_s=stalled_s, buffered_bytes=buffered_bytes)
        nursery.start_soon(timer.run)
        nursery.start_soon(front.run)
        yield front, incidents
        nursery.cancel_scope.cancel()


def open_socket(front: Front, echo: Echo) -> trio.SocketStream:
    ours, theirs = socket.socketpair()
    echo.channel = Channel(front, SocketWire(ours))
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
    echo.channel = Channel(front, PairWire(FdEnd(requests), FdEnd(answers)))
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
            held = front.buffered
            assert held > CAP
            assert len(echo.heard) < 40_000
            total = 0
            while total < 40 * 1000 * 50:
                total += len(await agent.receive_some())
            assert len(echo.heard) == 40_000
            assert front.buffered == 0


async def test_a_channel_that_never_reads_is_dropped_after_its_time() -> None:
    async with open_front(stalled_s=0.2) as (front, _):
        echo = Echo(answers=lambda chunk: chunk * 10_000)
        async with open_socket(front, echo) as agent:
            await agent.send_all(b"x" * 500)
            with trio.fail_after(5):
                await echo.over.wait()
            assert echo.ends[-1].startswith("gone: stalled")
            assert front.buffered == 0


async def test_a_channel_with_a_backlog_below_the_cap_is_not_dropped() -> None:
    async with open_front(stalled_s=0.1) as (front, _):
        echo = Echo()
        async with open_socket(front, echo) as agent:
            assert echo.channel is not None
            while front.buffered == 0:
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


async def test_the_front_is_crowded_when_unread_answers_reach_the_bound() -> None:
    async with open_front(buffered_bytes=1 << 20) as (front, _):
        echo = Echo()
        async with open_socket(front, echo):
            assert echo.channel is not None
            seen = [echo.channel.is_crowded]
            echo.channel.write(b"x" * (3 << 20))
            seen.append(echo.channel.is_crowded)
            assert seen == [False, True]
            echo.channel.abort("enough")
            assert front.buffered == 0


async def test_a_listener_gives_each_connection_and_stops_when_closed(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen()
    accepted: list[socket.socket] = []
    async with open_front() as (front, _):
        listener = front.listen(listening, accepted.append)
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
