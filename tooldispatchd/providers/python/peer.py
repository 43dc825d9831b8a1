"""One forked child as the daemon sees it: its socket, its stderr and its own end, behind one epoll set.

    not yet forked ── call written ──▶ forked ──▶ frames read ──▶ answered, or gone ──▶ killed, reaped, closed
                           ▲─────────── a worker that lives on ─────────┘

A call is over with its answer, or with the end of the child; never with the end of a pipe, which a process that left
the group may hold for ever. The kernel tells whether a child that is gone had read its call: if not, the other end of
a socket is reset instead of ended (unix(7), ECONNRESET).
"""

import math
import os
import select
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Literal

import msgspec
import trio
from msgspec import Raw

from tooldispatchd.calls.outcome import NOTHING_LEFT, LeftBeside, Update
from tooldispatchd.children.descriptors import close_all, open_pipe
from tooldispatchd.children.pipes import CHUNK_BYTES, LOOKS, ChildPipes, rest, write
from tooldispatchd.children.procstat import ProcessorTime, processor_time
from tooldispatchd.children.spawn import Child, Exit
from tooldispatchd.children.tail import STDERR_TAIL_BYTES, Tail
from tooldispatchd.forked.python.frames import FrameError, FrameKind, FrameReader, frame
from tooldispatchd.providers.python.endings import ChildError, Ending
from tooldispatchd.providers.python.environment import ParentLease
from tooldispatchd.providers.python.tool import CallSide, PythonTool
from tooldispatchd.providers.updates import Held

# Of a child that has exited: it can have left some times the socket's buffer (208 KiB by default), of which small
# writes fill less.
LEFT_CHUNKS: Final = 64

# A parent that died may have forked a child without telling: that is killed as an orphan, well within this time.
UNKNOWN_S: Final = 5.0

# A function that says more to the log says it to nobody.
LOG_LINES: Final = 100
# As `ctx.log` cuts it.
MAX_LINE_CHARS: Final = 4_000

NOBODY: Final = CallSide()


class LogLine(msgspec.Struct, frozen=True):
    """A line that a function writes to the daemon's log."""

    level: Literal["debug", "info", "warning", "error"]
    message: str


# The exit of a child whose end is not known; never taken for a success.
UNKNOWN: Final = Exit(signal=signal.SIGKILL)

_decode_update: Final = msgspec.json.Decoder(Update).decode
_decode_line: Final = msgspec.json.Decoder(LogLine).decode
_decode_object: Final = msgspec.json.Decoder(dict[str, object]).decode
_decode_error: Final = msgspec.json.Decoder(ChildError).decode


class WorkerPipes:
    """Our ends of one child's socket and stderr; `theirs` are the other ends until the child has them."""

    _pending: memoryview
    _reader: FrameReader
    _held: Held | None
    _log: Callable[[str, str], None] | None
    _lines_left: int
    _left: LeftBeside
    _is_leaving: bool
    _is_reset: bool
    _ending: Ending | None

    def __init__(self, max_bytes: int) -> None:
        """Raises OSError where there is no room for descriptors."""
        self.child: Child | None = None
        self.parent: ParentLease | None = None
        self.calls = 0
        self.cpu: ProcessorTime | None = None
        """Processor time that the child had used when it was ended."""
        self.waits_since = -math.inf
        """When a worker began to wait for a call."""
        self.scratch: str | None = None
        """A worker's own directory, to be removed when it has been ended."""
        self._max = max_bytes
        self._tail = Tail(STDERR_TAIL_BYTES)
        fds: list[int] = []
        try:
            open_pipe(fds)
            ours, sock = socket.socketpair()
            fds += (ours.detach(), sock.detach())
            self._stderr, errors, self._sock, theirs = fds
            for fd in (self._stderr, self._sock):
                os.set_blocking(fd, False)  # the standard library's own
            self._pipes = ChildPipes(self._sock, self._stderr)
        except BaseException:
            close_all(fds)
            raise
        self.theirs = [theirs, errors]
        self._reset(b"", NOBODY)

    @property
    def stderr(self) -> str:
        """The end of the output that this call has printed so far, to stdout and to stderr."""
        return self._tail.text()

    def serves(self, tool: PythonTool) -> bool:
        """Whether it was forked by a parent that knows the tool, and still starts children."""
        return self.parent is not None and self.parent.serves(tool)

    def begin(self, frames: bytes | bytearray, side: CallSide) -> None:
        """Write a call, as far as it can be written at once; its `side` is told until `finish` has returned."""
        self.calls += 1
        self._reset(frames, side)
        self._write()

    async def stop(self) -> Ending:
        """Ask a call that was cancelled to end itself, and serve it until it does."""
        self._pending = memoryview(bytes(self._pending) + frame(FrameKind.CANCEL))
        self._write()
        return Ending() if self.child is None else await self.finish()

    def attach(self, child: Child, parent: ParentLease) -> None:
        """The child has been forked by `parent`."""
        self.child = child
        self.parent = parent
        self._pipes.watch(child.pidfd)

    def hand_over(self) -> None:
        """Close the child's ends: it has copies, or was not forked. Idempotent."""
        fds, self.theirs = self.theirs, []
        close_all(fds)

    async def finish(self) -> Ending:
        """Serve the child until its call is answered or it is gone."""
        if self._pending and self._pipes.is_watched(self._sock):
            self._pipes.watch(self._sock, select.EPOLLIN | select.EPOLLOUT)
        if self.child is not None:
            await self._serve()
        else:
            with trio.move_on_after(UNKNOWN_S):
                await self._serve()
        ending = self._ending or Ending()
        if ending.value is None:
            self._hear()
        if self._held is not None:
            self._held.tell()
            self._held = None
        return ending

    async def end(self) -> Exit:
        """KILL what is left of the child's group, wait for it, reap it and close everything; how it ended.

        Cannot be cancelled, and is bounded as `Child.kill` is. Idempotent.
        """
        child, self.child = self.child, None
        try:
            if child is None:
                return UNKNOWN
            # The kernel tells it until the child is reaped.
            self.cpu = processor_time(child.pid)
            return await child.kill()
        finally:
            self.hand_over()
            if self._sock >= 0:
                self._pipes.close()
                close_all((self._sock, self._stderr))
                self._sock = self._stderr = -1

    async def _serve(self) -> None:
        while self._ending is None:
            await self._pipes.wait(math.inf if self._held is None else self._held.tell_due(trio.current_time()))
            ready = self._pipes.ready()
            if self._stderr in ready:
                self._tail.add(self._pipes.read(self._stderr) or b"")
            if self._sock in ready:
                if ready[self._sock] & select.EPOLLOUT:
                    self._write()
                    if not self._pending:
                        self._pipes.watch(self._sock)
                for _ in range(LOOKS):
                    if not self._read():
                        break
            if self._ending is None and self._has_gone(ready):
                is_unread = self._is_reset or bool(self._pending)
                self._ending = Ending(is_unread=is_unread, is_cut=not self._reader.is_between)

    def _reset(self, frames: bytes | bytearray, side: CallSide) -> None:
        self._pending = memoryview(frames)
        # A worker's earlier words are not this call's; there are none where the child is new.
        if self.calls > 1:
            self._hear()
            self._tail = Tail(STDERR_TAIL_BYTES)
        # Faults are told in frames too, whatever answers are bounded to.
        self._reader = FrameReader(max(self._max, CHUNK_BYTES))
        self._held = None if side.update is None else Held(side.update)
        self._log, self._lines_left = side.log, LOG_LINES
        self._left = NOTHING_LEFT
        self._is_leaving = False
        self._is_reset = False
        self._ending = None

    def _has_gone(self, ready: dict[int, int]) -> bool:
        """Whether nothing can come any more; what had come by then has been read."""
        if self.child is None:
            # Perhaps it was forked before its parent died: its socket is all that is known of it.
            return not self._pipes.is_watched(self._sock)
        if self.child.pidfd not in ready:
            return False
        for _ in range(LEFT_CHUNKS):
            if not self._read():
                break
        return self._ending is None

    def _write(self) -> None:
        try:
            while self._pending and (written := write(self._sock, self._pending)):
                self._pending = self._pending[written:]
        except (BrokenPipeError, ConnectionResetError):
            # It is gone: the rest of `_pending` shows that it has not read everything.
            return

    def _read(self) -> bool:
        """Take what lies in the socket, up to a chunk; whether there may be more that is wanted."""
        if self._ending is not None or not self._pipes.is_watched(self._sock):
            return False
        try:
            chunk = self._pipes.read(self._sock)
        except ConnectionResetError:
            self._is_reset = True
            self._pipes.unwatch(self._sock)
            return False
        if not chunk:
            return False
        self._reader.add(chunk)
        try:
            while self._ending is None and (found := self._reader.next()) is not None:
                self._take(*found)
        except FrameError as error:
            is_over = error.kind is FrameKind.VALUE
            self._ending = Ending(is_over=is_over, nonsense=None if is_over else str(error))
        return len(chunk) == CHUNK_BYTES

    def _take(self, kind: FrameKind, payload: bytes | bytearray) -> None:
        if kind is FrameKind.VALUE:
            is_over = len(payload) > self._max
            value = None if is_over else payload
            self._ending = Ending(value=value, is_over=is_over, is_leaving=self._is_leaving, left=self._left)
        elif kind is FrameKind.UPDATE:
            # Not a number, or no text: an update that cannot be read is dropped.
            with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                if self._held is not None:
                    self._held.add(_decode_update(payload))
        elif kind is FrameKind.LOG:
            self._lines_left -= 1
            with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                if self._log is not None and self._lines_left >= 0:
                    line = _decode_line(payload)
                    self._log(line.level, line.message[:MAX_LINE_CHARS])
        elif kind in {FrameKind.DETAILS, FrameKind.STATE}:
            self._take_left(kind, bytes(payload))
        elif kind is FrameKind.LEAVING:
            self._is_leaving = True
        elif kind is FrameKind.UNBEGUN:
            self._ending = Ending(is_unread=True)
        elif kind is FrameKind.ERROR:
            try:
                self._ending = Ending(error=_decode_error(payload), is_leaving=self._is_leaving)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                self._ending = Ending(nonsense=str(error))
        else:
            self._ending = Ending(nonsense=f"a {kind.name} frame")

    def _take_left(self, kind: FrameKind, payload: bytes) -> None:
        try:
            _decode_object(payload)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self._ending = Ending(nonsense=str(error))
            return
        left = self._left
        is_state = kind is FrameKind.STATE
        self._left = LeftBeside(left.details, payload) if is_state else LeftBeside(Raw(payload), left.state)

    def _hear(self) -> None:
        for chunk in rest(self._stderr):
            self._tail.add(chunk)
