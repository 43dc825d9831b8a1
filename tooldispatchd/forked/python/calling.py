"""One call in the child: its frames are read, the function runs, its value or its failure is written. Stdlib only.

Nothing is imported, looked up or opened in the child: all that it needs stands ready in the parent that is forked.
"""

import errno
import json
import os
import select
import sys
import traceback
from _thread import allocate_lock
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from tooldispatchd.forked.python.context import InvalidInputError, ToolContext, ToolFailedError
from tooldispatchd.forked.python.frames import MAX_WORDS_BYTES, FrameKind, FrameReader, frame

CHUNK_BYTES = 64 * 1024
# No call is larger than what the daemon takes from its agents, which has checked it.
MAX_CALL_BYTES = 1 << 40
# As much of a traceback as a model should read, and of what an exception says.
TRACE_BYTES = 4 * 1024
MAX_MESSAGE_CHARS = 2_000
# An exception may be the end of a chain, or a group, without end.
MAX_CAUSES = 32

# Bound here, as each way to them touches pages that a child must copy or fault in.
CALL, INPUT, VALUE, ERROR = FrameKind.CALL, FrameKind.INPUT, FrameKind.VALUE, FrameKind.ERROR

LIMIT_OF_ERRNO = {
    errno.EMFILE: "files",
    errno.EFBIG: "file_size",
    errno.EAGAIN: "processes",
    errno.ENOMEM: "memory",
}


class Function(NamedTuple):
    """A tool's function, ready to be called."""

    name: str
    """As the tool names it, `package.module:function`."""
    call: Callable[..., object]
    """Takes the arguments by keyword and returns the result, whether the function is a coroutine's or not."""
    arguments: Callable[[bytes], dict[str, Any]]
    """From the input's JSON; raises ValueError or TypeError."""
    encode: Callable[[object], bytes]
    """To the output's JSON; raises ValueError or TypeError."""
    wants_ctx: bool
    is_attended: bool = False
    """Whether what it starts is held together by an attendant, where it is shut in."""


class Gone(Exception):  # noqa: N818  # no error: the answer is not wanted any more
    """The daemon has closed its end."""


class CallSocket:
    """The child's end of one call's socket, or of one worker's; it answers nothing before it belongs to the child."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._reader = FrameReader(MAX_CALL_BYTES)
        # Not of `threading`: each fork of a process that has imported that costs a tenth more.
        # Updates may come from any thread, and must neither cut a frame in two nor follow the answer.
        self._lock = allocate_lock()
        self._number = 0
        self._pid = -1

    def belong(self) -> None:
        """Belong to this process, and to no copy that it may make of itself."""
        self._pid = os.getpid()

    def receive(self) -> tuple[dict[str, Any], bytes]:
        """The next call's header, and its input as JSON; raises Gone where none comes any more."""
        header = self._frame(CALL)
        return json.loads(header), self._frame(INPUT)

    def teller(self) -> "CallTeller":
        """What tells of the call that has just come, and says nothing once it is answered."""
        return CallTeller(self, self._number)

    def tell(self, number: int, frames: bytes) -> None:
        """Write the frames of a call, by its number, unless it is answered."""
        with self._lock:
            if self._number == number and os.getpid() == self._pid:
                self._write(frames)

    def is_cancelled(self) -> bool:
        """Whether anything has come since the call: it can only be that it is to end, or that the daemon is gone."""
        if not self._reader.is_between:
            return True
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return bool(poll.poll(0))

    def fileno(self) -> int:
        """Its descriptor."""
        return self._fd

    def answer(self, frames: bytes) -> None:
        """Write the call's last frames; raises Gone, also in a copy of this process that the tool has forked."""
        if os.getpid() != self._pid:
            raise Gone
        with self._lock:
            self._number += 1
            self._write(frames)

    def _frame(self, expected: FrameKind) -> bytes:
        while (found := self._reader.next()) is None:
            try:
                chunk = os.read(self._fd, CHUNK_BYTES)
            except ConnectionResetError:
                chunk = b""
            if not chunk:
                raise Gone
            self._reader.add(chunk)
        if found[0] is not expected:
            raise Gone
        return bytes(found[1])

    def _write(self, frames: bytes) -> None:
        left = memoryview(frames)
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except (BrokenPipeError, ConnectionResetError):
            raise Gone from None


class CallTeller:
    """One call's way to the daemon: a `context.Teller`."""

    def __init__(self, channel: CallSocket, number: int) -> None:
        self._channel = channel
        self._number = number

    def tell(self, kind: FrameKind, payload: bytes) -> None:
        self._channel.tell(self._number, frame(kind, payload))

    def is_cancelled(self) -> bool:
        return self._channel.is_cancelled()

    def fileno(self) -> int:
        return self._channel.fileno()


class LeftError(ValueError):
    """What a call leaves beside its value cannot be taken: `what` is `details` or `state`, and it may be too large."""

    def __init__(self, what: str, why: str, *, is_large: bool = False) -> None:
        super().__init__(why)
        self.what = what
        self.limit = what if is_large else None


def perform(function: Function, call: dict[str, Any], line: bytes, channel: CallSocket) -> bytes:
    """Call the function; the frames with its value or its failure. Raises Gone.

    `call` is the header of the call, and `line` its input.
    """
    stage, ctx, before = "input", None, b""
    # Any exception is the call's answer: this is the tool's code, not ours.
    try:
        arguments = function.arguments(line)
        if function.wants_ctx:
            ctx = arguments["ctx"] = ToolContext(call, channel.teller())
            if call["state"] is not None:
                before = written(call["state"])
        stage = "exception"
        value = function.call(**arguments)
        stage = "output"
        answer = frame(VALUE, function.encode(value))
        return answer if ctx is None else left_by(ctx, before) + answer
    except Gone:
        raise
    except LeftError as error:
        return frame(ERROR, failure(error.what, error))
    except (InvalidInputError, ToolFailedError) as error:
        return frame(ERROR, failure("invalid" if isinstance(error, InvalidInputError) else "failed", error))
    except BaseException as error:  # noqa: BLE001, ASYNC103  # sys.exit in a function is a failure like any other
        if not isinstance(error, ValueError) and stage != "exception":
            # No memory is left, or the tool's own classes raise.
            stage = "exception"
        return frame(ERROR, failure(stage, error))  # noqa: ASYNC104  # no task runs here


def left_by(ctx: ToolContext, before: bytes) -> bytes:
    """The frames of what a call leaves beside its value; `before` is the state that it came with. Raises LeftError."""
    frames, left = b"", {"details": ctx.details or None, "state": ctx.state if before else None}
    for what, value in left.items():
        try:
            payload = b"" if value is None else written(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise LeftError(what, f"it cannot be written as JSON: {error}") from error
        if len(payload) > MAX_WORDS_BYTES:
            raise LeftError(what, f"it has more than {MAX_WORDS_BYTES} bytes", is_large=True)
        if payload and payload != before:
            frames += frame(FrameKind.DETAILS if what == "details" else FrameKind.STATE, payload)
    return frames


def written(value: object) -> bytes:
    """JSON in its shortest form; raises TypeError or ValueError."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def failure(kind: str, error: BaseException) -> bytes:
    """The payload of an ERROR: what was raised, and at which stage.

    `kind` is `import`, `confine`, `input`, `exception`, `output`, `details` or `state`; `invalid` or `failed` for what
    the function says of itself; `child` where a child could not serve at all.
    """
    try:
        for stream in (sys.stdout, sys.stderr):
            # The tool may have put anything there; a lost line of output is no failure of the call.
            with suppress(Exception):
                stream.flush()
        text, name = str(error), type(error).__name__
        if kind in {"invalid", "failed"}:
            said = {"kind": kind, "message": text[:MAX_MESSAGE_CHARS], "trace": "", "limit": None}
            return json.dumps(said | {"field": getattr(error, "field", None)}).encode()
        message = (f"{name}: {text}" if text else name)[:MAX_MESSAGE_CHARS]
        said = {"kind": kind, "message": message, "trace": trace_of(error), "limit": limit_of(error)}
        return json.dumps(said).encode()
    except BaseException:  # noqa: BLE001, ASYNC103  # no memory is left, or the exception's own methods raise
        said = {"kind": kind, "message": type(error).__name__, "trace": "", "limit": limit_of(error)}
        return json.dumps(said).encode()  # noqa: ASYNC104  # as above


def trace_of(error: BaseException) -> str:
    """The end of the traceback, without the frames that are ours."""
    tb = error.__traceback__
    ours = os.path.dirname(__file__)  # noqa: PTH120  # as the interpreter wrote it, in no other form
    while tb is not None and tb.tb_next is not None and tb.tb_frame.f_code.co_filename.startswith(ours):
        tb = tb.tb_next
    text = "".join(traceback.format_exception(type(error), error, tb))
    return text.encode(errors="replace")[-TRACE_BYTES:].decode(errors="ignore")


def limit_of(error: BaseException) -> str | None:
    """The limit that the exception, or one that it came of, speaks of; the tool need not have it."""
    if isinstance(error, LeftError):
        return error.limit
    waiting: list[BaseException | None] = [error]
    for _ in range(MAX_CAUSES):
        if not waiting:
            break
        one = waiting.pop(0)
        if isinstance(one, MemoryError):
            return "memory"
        if isinstance(one, OSError) and one.errno in LIMIT_OF_ERRNO:
            return LIMIT_OF_ERRNO[one.errno]
        if isinstance(one, RuntimeError) and "can't start new thread" in str(one):
            return "processes"
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions[:MAX_CAUSES]
        if one is not None:
            waiting += (one.__cause__, one.__context__)
    return None


def caller(function: Callable[..., Any], *, is_async: bool) -> Callable[..., object]:
    """`function` itself; for a coroutine function, one that runs it to its end.

    Under trio where trio is imported by now, as the function's module (or another one of its environment) has done
    that uses it; else under asyncio.
    """
    if not is_async:
        return function
    if "trio" in sys.modules:
        trio = sys.modules["trio"]

        def under_trio(**arguments: object) -> object:
            async def main() -> object:
                return await function(**arguments)

            return trio.run(main)

        return under_trio
    import asyncio  # noqa: PLC0415  # it is large, and most tools are not asynchronous

    def under_asyncio(**arguments: object) -> object:
        async def main() -> object:
            return await function(**arguments)

        return asyncio.run(main())

    return under_asyncio
