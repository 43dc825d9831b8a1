"""The pipes of a child that serves a call: its input goes in, its output, updates and complaints come out."""

import math
import select
from collections.abc import Callable
from typing import Final

import trio

from tooldispatchd.children.pipes import CHUNK_BYTES, LOOKS, ChildPipes, rest, write
from tooldispatchd.children.spawn import Child
from tooldispatchd.children.tail import STDERR_TAIL_BYTES, Tail
from tooldispatchd.providers.updates import UpdateLines

# Of updates in one turn: lines may be short, and each is looked at.
UPDATES_CHUNK_BYTES: Final = 16 * 1024

Take = Callable[[bytes], bool]
"""Is given each chunk of stdout, and b"" at its end; whether no more of it is wanted."""


class ProgramStreams(ChildPipes):
    """The pipes of `child`, and the call that it serves. Raises OSError where there is no epoll set."""

    __slots__ = ("_closes_stdin", "_is_done", "_take", "_updates", "child", "errors", "unwritten")

    _take: Take
    _closes_stdin: bool

    def __init__(self, child: Child) -> None:
        super().__init__(child.pidfd, child.stdout, child.stderr, child.updates)
        self.child = child
        self.errors = Tail(STDERR_TAIL_BYTES)
        self.unwritten = memoryview(b"")
        self._updates: UpdateLines | None = None
        self._is_done = False

    def begin(
        self, stdin: bytes | bytearray, take: Take, updates: UpdateLines | None, *, closes_stdin: bool = False
    ) -> None:
        """Begin the call: write what the pipe takes. `closes_stdin`: the call ends the child's input."""
        self._take = take
        self._closes_stdin = closes_stdin
        self._updates = updates
        self._is_done = False
        self.unwritten = memoryview(stdin)
        self._write()

    async def serve(self) -> bool:
        """Serve the pipes until the child has exited, or until no more is wanted; whether it has exited."""
        updates = self._updates
        while True:
            await self.wait(math.inf if updates is None else updates.tell_due(trio.current_time()))
            for _ in range(LOOKS):
                ready = self.ready()
                if self.child.pidfd in ready:
                    return True
                if not ready:
                    break
                for fd in ready:
                    self._serve(fd)
                if self._is_done:
                    return False

    def drain(self) -> None:
        """Take what an ended child has left in its pipes."""
        for chunk in rest(self.child.stdout):
            self._take(chunk)
        for chunk in rest(self.child.stderr):
            self.errors.add(chunk)
        self.drain_updates()

    def drain_updates(self) -> None:
        """Take what lies in the updates, which are complete then."""
        if self._updates is not None:
            for chunk in rest(self.child.updates):
                self._updates.take(chunk)
            self._updates.end()

    def _serve(self, fd: int) -> None:
        child = self.child
        if fd == child.stdin:
            self._write()
            return
        is_stdout, is_stderr = fd == child.stdout, fd == child.stderr
        chunk = self.read(fd, CHUNK_BYTES if is_stdout or is_stderr else UPDATES_CHUNK_BYTES)
        if chunk is None:
            return
        if not chunk:
            child.close_pipe(fd)
        if is_stdout:
            self._is_done |= self._take(chunk)
        elif is_stderr:
            self.errors.add(chunk)
        elif self._updates is not None:
            self._updates.take(chunk)

    def _write(self) -> bool:
        """Write what the pipe takes, and watch for room while anything is left; whether the other end is held."""
        stdin = self.child.stdin
        is_open = True
        try:
            if self.unwritten:
                self.unwritten = self.unwritten[write(stdin, self.unwritten) :]
        except BrokenPipeError:
            is_open = False
        if is_open and self.unwritten:
            self.watch(stdin, select.EPOLLOUT)
        else:
            # Most inputs fit into the pipe at once, and it was never watched.
            self.unwatch(stdin)
            if self._closes_stdin:
                self.child.close_stdin()
        return is_open
