import errno
import json
import socket
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
import trio

from tooldispatchd.forked.python.calling import CallSocket, Function, Gone, caller, failure, limit_of, perform, trace_of
from tooldispatchd.forked.python.frames import FrameKind, FrameReader, frame
from tooldispatchd.providers.python.tool import CallHeader

HEADER = msgspec.json.encode(CallHeader(id="c1", updates=True))


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
    call, line = channel.receive()
    answer = perform(function(lambda a: a + 1), call, line, channel)
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
    teller = channel.teller()
    teller.tell(FrameKind.UPDATE, b"1")
    channel.answer(frame(FrameKind.VALUE, b"2"))
    teller.tell(FrameKind.UPDATE, b"3")
    assert ours.recv(100) == frame(FrameKind.UPDATE, b"1") + frame(FrameKind.VALUE, b"2")


def test_progress_of_the_context_is_an_update(ends: tuple[socket.socket, CallSocket]) -> None:
    ours, channel = ends
    answer = perform(
        function(lambda ctx: ctx.progress(1, message="😀" * 20_000), wants_ctx=True), json.loads(HEADER), b"{}", channel
    )
    assert said(answer) == (FrameKind.VALUE, None)
    assert said(ours.recv(64 * 1024)) == (FrameKind.UPDATE, {"progress": 1, "total": None, "message": "😀" * 4_000})


def frames_of(frames: bytes) -> list[tuple[FrameKind, object]]:
    reader = FrameReader(1 << 20)
    reader.add(frames)
    found = []
    while (one := reader.next()) is not None:
        found.append((one[0], json.loads(one[1])))
    return found


def header(**fields: Any) -> bytes:
    return msgspec.json.encode(CallHeader(id="c1", **fields))


def test_what_a_call_leaves_stands_before_its_value(ends: tuple[socket.socket, CallSocket]) -> None:
    def count(ctx: Any) -> int:
        ctx.details["seen"] = True
        ctx.state["n"] = ctx.state.get("n", 0) + 1
        return 0

    call = header(state=msgspec.Raw(b'{"n":4}'))
    answer = perform(function(count, wants_ctx=True), json.loads(call), b"{}", ends[1])
    assert frames_of(answer) == [
        (FrameKind.DETAILS, {"seen": True}),
        (FrameKind.STATE, {"n": 5}),
        (FrameKind.VALUE, 0),
    ]


def test_a_state_that_is_as_it_came_is_not_written(ends: tuple[socket.socket, CallSocket]) -> None:
    call = header(state=msgspec.Raw(b'{ "n" : "\\u00e9" }'))
    answer = perform(function(lambda ctx: ctx.state["n"], wants_ctx=True), json.loads(call), b"{}", ends[1])
    assert frames_of(answer) == [(FrameKind.VALUE, "é")]


@pytest.mark.parametrize(
    ("value", "limit"), [({"x": "y" * 70_000}, "state"), ({"x": object()}, None), ({"x": float("nan")}, None)]
)
def test_a_state_that_cannot_be_kept_is_a_failure(
    ends: tuple[socket.socket, CallSocket], value: dict[str, object], limit: str | None
) -> None:
    call = header(state=msgspec.Raw(b"{}"))
    answer = perform(function(lambda ctx: ctx.state.update(value), wants_ctx=True), json.loads(call), b"{}", ends[1])
    kind, error = said(answer)
    assert kind is FrameKind.ERROR
    assert isinstance(error, dict)
    assert (error["kind"], error["limit"]) == ("state", limit)


def test_what_comes_behind_a_call_cancels_it(ends: tuple[socket.socket, CallSocket]) -> None:
    ours, channel = ends
    ours.sendall(frame(FrameKind.CALL, HEADER) + frame(FrameKind.INPUT, b"{}"))
    channel.receive()
    teller = channel.teller()
    assert not teller.is_cancelled()
    ours.sendall(frame(FrameKind.CANCEL))
    assert teller.is_cancelled()


def test_a_call_that_is_cancelled_as_it_comes_is_so(ends: tuple[socket.socket, CallSocket]) -> None:
    ours, channel = ends
    ours.sendall(frame(FrameKind.CALL, HEADER) + frame(FrameKind.INPUT, b"{}") + frame(FrameKind.CANCEL))
    channel.receive()
    assert channel.is_cancelled()


@pytest.mark.parametrize(
    ("error", "kind"),
    [(ValueError("bad"), "exception"), (SystemExit(2), "exception"), (KeyboardInterrupt(), "exception")],
)
def test_whatever_is_raised_is_an_answer(
    ends: tuple[socket.socket, CallSocket], error: BaseException, kind: str
) -> None:
    def fail() -> None:
        raise error

    answer = said(perform(function(fail), json.loads(HEADER), b"{}", ends[1]))
    assert answer[0] is FrameKind.ERROR
    assert isinstance(answer[1], dict)
    assert answer[1]["kind"] == kind


def test_an_input_that_cannot_be_read_is_told_as_such(ends: tuple[socket.socket, CallSocket]) -> None:
    answer = said(perform(function(lambda: None), json.loads(HEADER), b"{", ends[1]))
    assert isinstance(answer[1], dict)
    assert answer[1]["kind"] == "input"


def test_a_result_that_cannot_be_written_is_told_as_such(ends: tuple[socket.socket, CallSocket]) -> None:
    circular: list[object] = []
    circular.append(circular)
    answer = said(perform(function(lambda: circular), json.loads(HEADER), b"{}", ends[1]))
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


def test_what_a_function_says_against_its_input_is_told_of_the_field(ends: tuple[socket.socket, CallSocket]) -> None:
    def refuse(ctx: Any) -> None:
        raise ctx.invalid("zone", "no such time zone")

    answer = perform(function(refuse, wants_ctx=True), json.loads(HEADER), b"{}", ends[1])
    kind, told = said(answer)
    assert kind is FrameKind.ERROR
    assert told == {"kind": "invalid", "message": "no such time zone", "trace": "", "limit": None, "field": "zone"}


def test_what_a_function_cannot_do_is_told_in_its_own_sentence(ends: tuple[socket.socket, CallSocket]) -> None:
    def fail(ctx: Any) -> None:
        raise ctx.failed("there is no such file")

    answer = perform(function(fail, wants_ctx=True), json.loads(HEADER), b"{}", ends[1])
    kind, told = said(answer)
    assert kind is FrameKind.ERROR
    assert told == {"kind": "failed", "message": "there is no such file", "trace": "", "limit": None, "field": None}
