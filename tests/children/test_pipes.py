"""The pump over a child's descriptors, on pipes of this process's own."""

import os
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from io import FileIO

import pytest
import trio

from tooldispatchd.children.pipes import CHUNK_BYTES, ChildPipes, rest, write

Pipe = tuple[FileIO, FileIO]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """The reading end, which does not block, and the writing end."""
    ends = os.pipe()
    os.set_blocking(ends[0], False)
    with FileIO(ends[0], "r") as reading, FileIO(ends[1], "w") as writing:
        yield reading, writing


def test_what_is_ready_is_told_with_its_events(pipe: Pipe) -> None:
    pipes = ChildPipes(pipe[0].fileno(), -1)
    assert pipes.ready() == {}
    os.write(pipe[1].fileno(), b"x")
    assert pipes.ready() == {pipe[0].fileno(): select.EPOLLIN}
    pipes.close()


def test_a_pipe_at_its_end_leaves_the_set_though_a_copy_of_it_is_open(pipe: Pipe) -> None:
    reading, writing = (end.fileno() for end in pipe)
    copy = os.dup(reading)
    pipes = ChildPipes(reading)
    os.write(writing, b"last words")
    pipe[1].close()
    assert pipes.read(reading) == b"last words"
    assert pipes.is_watched(reading)
    assert pipes.read(reading) == b""
    assert not pipes.is_watched(reading)
    assert pipes.ready() == {}
    os.close(copy)
    pipes.close()


def test_nothing_ready_is_not_the_end(pipe: Pipe) -> None:
    pipes = ChildPipes(pipe[0].fileno())
    assert pipes.read(pipe[0].fileno()) is None
    assert pipes.is_watched(pipe[0].fileno())
    pipes.close()


def test_without_events_only_the_closed_other_end_is_told(pipe: Pipe) -> None:
    writing = pipe[1].fileno()
    pipes = ChildPipes()
    pipes.watch(writing, 0)
    assert pipes.ready() == {}
    pipe[0].close()
    assert pipes.ready() == {writing: select.EPOLLERR}
    with pytest.raises(BrokenPipeError):
        write(writing, b"x")
    pipes.close()


def test_a_full_pipe_takes_nothing(pipe: Pipe) -> None:
    os.set_blocking(pipe[1].fileno(), False)
    assert write(pipe[1].fileno(), bytes(CHUNK_BYTES)) == CHUNK_BYTES
    assert write(pipe[1].fileno(), b"x") == 0


def test_the_rest_of_a_pipe_that_is_flooded_has_an_end(pipe: Pipe) -> None:
    reading, writing = (end.fileno() for end in pipe)
    os.write(writing, bytes(CHUNK_BYTES))

    def flood() -> None:
        with suppress(OSError):
            while True:
                os.write(writing, bytes(4096))

    flooding = threading.Thread(target=flood)
    flooding.start()
    taken = sum(len(chunk) for chunk in rest(reading))
    pipe[0].close()
    flooding.join()
    assert CHUNK_BYTES <= taken < 2 * CHUNK_BYTES


def test_there_is_no_rest_of_what_is_closed() -> None:
    assert list(rest(-1)) == []


def test_a_reset_socket_raises() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        pipes = ChildPipes(ours.fileno())
        ours.sendall(b"unread")
        theirs.close()
        with pytest.raises(ConnectionResetError):
            pipes.read(ours.fileno())
        pipes.close()


async def test_waiting_ends_when_something_is_ready_or_at_its_time(pipe: Pipe) -> None:
    pipes = ChildPipes(pipe[0].fileno())
    await pipes.wait(trio.current_time() + 0.01)
    assert pipes.ready() == {}
    os.write(pipe[1].fileno(), b"x")
    await pipes.wait()
    assert pipe[0].fileno() in pipes.ready()
    pipes.close()
