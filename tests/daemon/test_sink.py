"""Tests of `daemon.sink`: no descriptor makes a log line wait or fail."""

import os
import socket
from collections.abc import Iterator
from contextlib import closing
from fcntl import F_GETFL, F_SETPIPE_SZ, fcntl
from pathlib import Path

import pytest

from tooldispatchd.daemon.logs import LogSink

# A sink lives as long as its process and cannot be closed.
KEEPS_ITS_SOCKET = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
LINE = b'{"event":"x"}\n'


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe that holds one page."""
    reading, writing = os.pipe()
    fcntl(writing, F_SETPIPE_SZ, 4096)
    # As files, so that a test may close an end itself.
    with os.fdopen(reading, "rb", 0), os.fdopen(writing, "wb", 0):
        yield reading, writing


def test_a_pipe_gets_the_lines(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    sink = LogSink(writing)
    sink.write(LINE)
    sink.write(LINE)
    assert (os.read(reading, 4096), sink.dropped) == (LINE * 2, 0)


def test_the_pipe_stays_as_it_was_for_the_others_who_hold_it(pipe: tuple[int, int]) -> None:
    _reading, writing = pipe
    LogSink(writing).write(LINE)
    assert fcntl(writing, F_GETFL) & os.O_NONBLOCK == 0


def test_a_line_for_a_pipe_that_nobody_reads_any_more_is_dropped(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    sink = LogSink(writing)
    with Path(os.devnull).open("rb") as other:
        os.dup2(other.fileno(), reading)
    sink.write(LINE)
    sink.write(LINE)
    assert sink.dropped == 2


def test_lines_for_a_full_pipe_are_dropped_and_the_next_says_how_many(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    sink = LogSink(writing)
    sink.write(b"x" * 4095 + b"\n")
    sink.write(LINE)
    sink.write(LINE)
    assert sink.dropped == 2
    os.read(reading, 4096)
    sink.write(LINE)
    told = b'{"level":"warning","event":"log lines dropped","count":2}\n'
    assert (os.read(reading, 4096), sink.dropped) == (told + LINE, 0)


def test_a_line_that_is_cut_counts_as_dropped_and_spoils_no_other(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    sink = LogSink(writing)
    sink.write(b"x" * 5000 + b"\n")
    assert (os.read(reading, 8192), sink.dropped, sink.lost) == (b"x" * 4096, 1, 1)
    sink.write(LINE)
    sink.write(LINE)
    told = b'{"level":"warning","event":"log lines dropped","count":1}\n'
    assert (os.read(reading, 4096), sink.dropped) == (b"\n" + told + LINE * 2, 0)


@KEEPS_ITS_SOCKET
def test_a_socket_gets_the_lines_and_stays_blocking_for_who_gave_it() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        LogSink(theirs.fileno()).write(LINE)
        assert ours.recv(4096) == LINE
        assert theirs.getblocking()


@KEEPS_ITS_SOCKET
def test_a_line_for_a_socket_that_nobody_reads_is_dropped() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sink = LogSink(theirs.fileno())
        # No kernel holds that much for a socket.
        for _ in range(64):
            sink.write(b"x" * 65_535 + b"\n")
        assert sink.dropped > 0
        ours.close()
        before = sink.dropped
        sink.write(LINE)
        assert sink.dropped == before + 1


def test_a_regular_file_gets_the_lines_at_its_end(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_bytes(b"before\n")
    with file.open("ab") as log:
        LogSink(log.fileno()).write(LINE)
    assert file.read_bytes() == b"before\n" + LINE


def test_a_closed_descriptor_takes_every_line_in_silence() -> None:
    ours, theirs = socket.socketpair()
    fd = theirs.detach()
    with ours, closing(socket.socket(fileno=fd)):
        pass
    sink = LogSink(fd)
    sink.write(LINE)
    assert sink.dropped == 0
