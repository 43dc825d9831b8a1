"""Channels on what cannot be polled: files and devices, and streams of tests in their stead."""

import os
from pathlib import Path

import pytest
import trio
from trio.abc import ReceiveStream, SendStream
from trio.testing import MockClock, lockstep_stream_one_way_pair, memory_stream_one_way_pair, wait_all_tasks_blocked

from tests.front.test_front import CAP, open_front
from tooldispatchd.calls.memory import Memory
from tooldispatchd.front.front import Front
from tooldispatchd.front.pair import open_pair
from tooldispatchd.front.stream import SEND_BYTES, FileStream, StreamChannel

pytestmark = pytest.mark.usefixtures("nothing_left")

STALLED_S = 60.0


class Listener:
    """A peer that says back what it hears, takes another turn where it is told to, and closes at the end of input."""

    def __init__(self, *, turns: int = 0, max_bytes: int = 1 << 40) -> None:
        self.share = Memory(max_bytes).share(0)
        self.channel: StreamChannel | None = None
        self.turns = turns
        self.heard = b""
        self.ends: list[str] = []

    def received(self, chunk: bytes) -> None:
        assert self.channel is not None
        self.heard += chunk
        self.channel.write(chunk)
        self._ask()

    def resume(self) -> None:
        assert self.channel is not None
        self.turns -= 1
        self.channel.write(b"turn\n")
        self._ask()

    def _ask(self) -> None:
        assert self.channel is not None
        if self.turns:
            self.channel.again()

    def ended(self) -> None:
        assert self.channel is not None
        self.ends.append("ended")
        self.channel.close()

    def gone(self, why: str) -> None:
        self.ends.append(f"gone: {why}")


def channel_on(front: Front, listener: Listener, receiving: ReceiveStream, sending: SendStream) -> StreamChannel:
    listener.channel = StreamChannel(front, listener.share, receiving, sending)
    return listener.channel


async def test_a_file_is_read_from_where_it_stands_and_answered_in_another(tmp_path: Path) -> None:
    given, answers = tmp_path / "in", tmp_path / "out"
    given.write_bytes(b"skipped\none\ntwo\n")
    async with open_front() as (front, _):
        listener = Listener()
        with given.open("rb", buffering=0) as reading, answers.open("wb", buffering=0) as writing:
            reading.read(len(b"skipped\n"))
            channel = open_pair(front, listener.share, reading.fileno(), writing.fileno())
        assert isinstance(channel, StreamChannel)
        listener.channel = channel
        with trio.fail_after(10):
            await channel.run(listener)
    assert answers.read_bytes() == listener.heard == b"one\ntwo\n"
    assert listener.ends == ["ended"]


async def test_a_full_device_is_gone_and_nothing_stays_buffered(tmp_path: Path) -> None:
    given = tmp_path / "in"
    given.write_bytes(b"one\n")
    async with open_front() as (front, _):
        listener = Listener()
        with given.open("rb") as reading, Path("/dev/full").open("wb") as writing:
            streams = FileStream(os.dup(reading.fileno())), FileStream(os.dup(writing.fileno()))
        channel = channel_on(front, listener, *streams)
        with trio.fail_after(10):
            await channel.run(listener)
        assert listener.ends[-1] == "gone: cannot write"
        channel.write(b"more")
        assert (channel.is_crowded, listener.share.held) == (False, 0)


async def test_what_cannot_be_read_is_at_its_end(tmp_path: Path) -> None:
    async with open_front() as (front, _):
        listener = Listener()
        answers = tmp_path / "out"
        with answers.open("wb") as writing:
            sending = FileStream(os.dup(writing.fileno()))
        channel = channel_on(front, listener, FileStream(os.open(tmp_path, os.O_RDONLY)), sending)
        with trio.fail_after(10):
            await channel.run(listener)
    assert listener.ends == ["ended"]


async def test_a_file_may_be_closed_twice(tmp_path: Path) -> None:
    stream = FileStream(os.open(tmp_path, os.O_RDONLY))
    await stream.aclose()
    await stream.aclose()


async def test_turns_that_are_asked_for_are_given_before_more_is_read() -> None:
    async with open_front() as (front, _):
        listener = Listener(turns=2)
        send, receiving = memory_stream_one_way_pair()
        sending, receive = memory_stream_one_way_pair()
        await send.send_all(b"one\n")
        await send.aclose()
        with trio.fail_after(10):
            await channel_on(front, listener, receiving, sending).run(listener)
        assert await receive.receive_some() == b"one\nturn\nturn\n"


async def test_reading_stops_while_the_backlog_is_over_its_cap(autojump_clock: MockClock) -> None:
    async with open_front(stalled_s=STALLED_S) as (front, _), trio.open_nursery() as nursery:
        listener = Listener()
        send, receiving = memory_stream_one_way_pair()
        sending, receive = lockstep_stream_one_way_pair()
        channel = channel_on(front, listener, receiving, sending)
        nursery.start_soon(channel.run, listener)
        await send.send_all(b"x" * (CAP + 1))
        await wait_all_tasks_blocked()
        await send.send_all(b"y")
        await wait_all_tasks_blocked()
        assert b"y" not in listener.heard
        taken = b""
        while b"y" not in taken:
            taken += await receive.receive_some(CAP)
        assert taken == b"x" * (CAP + 1) + b"y"
        await send.aclose()


async def test_a_peer_that_takes_nothing_is_gone_when_its_time_is_over(autojump_clock: MockClock) -> None:
    async with open_front(stalled_s=STALLED_S) as (front, _):
        listener = Listener(max_bytes=3 * SEND_BYTES)
        _send, receiving = memory_stream_one_way_pair()
        sending, _receive = lockstep_stream_one_way_pair()
        channel = channel_on(front, listener, receiving, sending)
        channel.write(b"x" * SEND_BYTES)
        assert (channel.is_crowded, channel.is_behind) == (True, False)
        channel.write(b"x")
        assert channel.is_behind
        since = trio.current_time()
        await channel.run(listener)
        assert trio.current_time() - since == pytest.approx(STALLED_S)
        assert (listener.ends, channel.is_crowded) == (["gone: cannot write"], False)


async def test_a_closing_channel_waits_for_its_peer_until_it_is_given_up(autojump_clock: MockClock) -> None:
    async with open_front(stalled_s=STALLED_S) as (front, _), trio.open_nursery() as nursery:
        listener = Listener()
        _send, receiving = memory_stream_one_way_pair()
        sending, _receive = lockstep_stream_one_way_pair()
        channel = channel_on(front, listener, receiving, sending)
        channel.write(b"x")
        over = trio.Event()

        async def run() -> None:
            await channel.run(listener)
            over.set()

        nursery.start_soon(run)
        channel.give_up()  # it is not closing yet
        await wait_all_tasks_blocked()
        channel.close()
        await wait_all_tasks_blocked()
        assert not over.is_set()
        since = trio.current_time()
        channel.give_up()
        await over.wait()
        assert trio.current_time() == since
