import errno
import json
import socket
from collections.abc import Callable, Iterator

import pytest
import trio

from tooldispatchd.forked.python.calling import CallSocket, Function, Gone, caller, failure, limit_of, perform, trace_of
from tooldispatchd.forked.python.frames import FrameKind, FrameReader, frame

HEADER = json.dumps({"id": "c1", "agent": None, "left_s": None, "scratch": None, "updates": True}).encode()


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, CallSocket]]:
    """The daemon's end of a call, and the child's."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = CallSocket(theirs.fileno())
        channel.belong()
        yield ours, channel


def function(call: Callable[..., object], *, wants_ctx: bool = False) -> Function:
    return Function(
        name="a:b",
        call=call,
        arguments=json.loads,
        encode=lambda value: json.dumps(value).encode(),
        wants_ctx=wants_ctx,
    )


def said(frames: bytes) -> tuple[FrameKind, object]:
    reader = FrameReader(1 << 20)
    reader.add(frames)
    found = reader.next()
    assert found is not None
    return found[0], json.loads(found[1])


def test_a_call_is_read_and_answered(ends: tuple[socket.socket, CallSocket]) -> None:
    ours, channel = ends
    ours.sendall(frame(FrameKind.CALL, HEADER) + frame(FrameKind.INPUT, b'{"a": 1}'))
    header, line = channel.receive()
    answer = perform(function(lambda a: a + 1), header, line, channel)
    channel.answer(answer)
    assert said(ours.recv(100)) == (FrameKind.VALUE, 2)


def test_a_daemon_that_has_gone_is_told_by_the_end(ends: tuple[socket.socket, CallSocket]) -> None:
    ours, channel = ends
    ours.close()
    with pytest.raises(Gone):
        channel.receive()
    with pytest.raises(Gone):
        channel.answer(b"x")


def test_what_comes_out_of_order_is_no_call(ends: tuple[socket.socket, CallSocket]) -> None:
    ours, channel = ends
    ours.sendall(frame(FrameKind.INPUT, b"{}"))
    with pytest.raises(Gone):
        channel.receive()


def test_updates_of_a_call_that_is_answered_are_not_written(ends: tuple[socket.socket, CallSocket]) -> None:
    ours, channel = ends
    tell = channel.teller()
    tell(b"1")
    channel.answer(frame(FrameKind.VALUE, b"2"))
    tell(b"3")
    assert ours.recv(100) == frame(FrameKind.UPDATE, b"1") + frame(FrameKind.VALUE, b"2")


def test_progress_of_the_context_is_an_update(ends: tuple[socket.socket, CallSocket]) -> None:
    ours, channel = ends
    answer = perform(
        function(lambda ctx: ctx.progress(1, message="😀" * 20_000), wants_ctx=True), HEADER, b"{}", channel
    )
    assert said(answer) == (FrameKind.VALUE, None)
    assert said(ours.recv(64 * 1024)) == (FrameKind.UPDATE, {"progress": 1, "total": None, "message": "😀" * 4_000})


@pytest.mark.parametrize(
    ("error", "kind"),
    [(ValueError("bad"), "exception"), (SystemExit(2), "exception"), (KeyboardInterrupt(), "exception")],
)
def test_whatever_is_raised_is_an_answer(
    ends: tuple[socket.socket, CallSocket], error: BaseException, kind: str
) -> None:
    def fail() -> None:
        raise error

    answer = said(perform(function(fail), HEADER, b"{}", ends[1]))
    assert answer[0] is FrameKind.ERROR
    assert isinstance(answer[1], dict)
    assert answer[1]["kind"] == kind


def test_an_input_that_cannot_be_read_is_told_as_such(ends: tuple[socket.socket, CallSocket]) -> None:
    answer = said(perform(function(lambda: None), HEADER, b"{", ends[1]))
    assert isinstance(answer[1], dict)
    assert answer[1]["kind"] == "input"


def test_a_result_that_cannot_be_written_is_told_as_such(ends: tuple[socket.socket, CallSocket]) -> None:
    circular: list[object] = []
    circular.append(circular)
    answer = said(perform(function(lambda: circular), HEADER, b"{}", ends[1]))
    assert isinstance(answer[1], dict)
    assert answer[1]["kind"] == "output"


@pytest.mark.parametrize(
    ("error", "limit"),
    [
        (MemoryError(), "memory"),
        (OSError(errno.ENOMEM, ""), "memory"),
        (OSError(errno.EMFILE, ""), "files"),
        (OSError(errno.EFBIG, ""), "file_size"),
        (BlockingIOError(errno.EAGAIN, ""), "processes"),
        (RuntimeError("can't start new thread"), "processes"),
        (ExceptionGroup("", [ValueError(), ExceptionGroup("", [MemoryError()])]), "memory"),
        (RuntimeError("else"), None),
        (OSError(errno.ENOENT, ""), None),
    ],
)
def test_the_limit_is_known_by_the_exception(error: BaseException, limit: str | None) -> None:
    assert limit_of(error) == limit


def test_the_limit_is_known_by_what_an_exception_came_of() -> None:
    error = RuntimeError("no")
    error.__cause__ = ValueError()
    error.__cause__.__context__ = MemoryError()
    assert limit_of(error) == "memory"


def test_a_chain_without_end_is_no_harm() -> None:
    error, other = RuntimeError(), ValueError()
    error.__cause__, other.__cause__ = other, error
    assert limit_of(error) is None


def test_an_exception_that_cannot_be_told_is_named() -> None:
    class OddError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert json.loads(failure("exception", OddError()))["message"] == "OddError"


def test_a_traceback_is_cut_at_its_front() -> None:
    trace = trace_of(ValueError("ä" * 10_000))
    assert len(trace.encode()) <= 4096
    assert trace.endswith("ä\n")


def test_an_asynchronous_function_is_run_to_its_end() -> None:
    async def add(a: int) -> int:
        await trio.lowlevel.checkpoint()
        return a + 1

    # trio is imported here, as in a daemon's tests.
    assert caller(add, is_async=True)(a=1) == 2


def test_a_function_that_is_not_is_called_as_it_is() -> None:
    def add(a: int) -> int:
        return a + 1

    assert caller(add, is_async=False) is add
