"""What goes in and out of one child until its leader has exited, behind one epoll set."""

import fcntl
import math
import os
import select
from typing import Final

import trio

from tooldispatchd.children.spawn import Child
from tooldispatchd.children.tail import STDERR_TAIL_BYTES, Tail
from tooldispatchd.providers.updates import UpdateLines

# What a pipe holds by default, so that one read mostly empties it; and each descriptor gets one read or write of this
# size per turn, so that a child that writes for ever does not hold the loop.
CHUNK_BYTES: Final = 64 * 1024

# What is read of updates in one turn: lines may be short, and each is looked at.
UPDATES_CHUNK_BYTES: Final = 16 * 1024

# How often in a row one child is looked at: its output, the ends of its pipes and its own end.
LOOKS: Final = 4


class ChildPipes:
    """The pipes of `child`: `stdin` goes in, at most `max_output_bytes` of stdout and the end of stderr come out.

    Raises OSError where the kernel refuses an epoll set.
    """

    def __init__(
        self, child: Child, stdin: bytes | bytearray, updates: UpdateLines | None, *, max_output_bytes: int
    ) -> None:
        self._child = child
        self._updates = updates
        self._epoll = select.epoll()
        self._pending = memoryview(stdin)
        self._room = max_output_bytes
        # The one chunk, or all in one: of a program that writes byte by byte each would be an object.
        self._output: bytes | bytearray = b""
        self.errors = Tail(STDERR_TAIL_BYTES)

    @property
    def is_over(self) -> bool:
        """Whether stdout passed its bound."""
        return self._room < 0

    @property
    def output(self) -> bytes | bytearray:
        """All of stdout."""
        return self._output

    async def run(self) -> None:
        """Serve the pipes until the leader has exited or stdout is over its bound."""
        child, epoll = self._child, self._epoll
        for fd in (child.stdout, child.stderr, child.pidfd):
            epoll.register(fd, select.EPOLLIN)
        if child.updates >= 0:
            epoll.register(child.updates, select.EPOLLIN)
        # Most inputs fit into the pipe at once, so that stdin need not be watched at all.
        if self._pending:
            self._write()
        if self._pending:
            epoll.register(child.stdin, select.EPOLLOUT)
        else:
            child.close_stdin()
        while not self.is_over:
            await ready_or_due(epoll, self._updates)
            if self._serve_ready():
                return

    def drain(self) -> None:
        """Take what lies in the pipes; only once the leader has exited.

        Their end of input need not come: a process that left the group may hold the other end for ever.
        """
        child = self._child
        for fd in (child.stdout, child.stderr, child.updates):
            if fd >= 0:
                # The leader can have left no more than the pipe holds; the rest would be another process's.
                left = fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ)
                while left > 0 and (count := self._read(fd)):
                    left -= count

    def close(self) -> None:
        """Give the epoll set back."""
        self._epoll.close()

    def _serve_ready(self) -> bool:
        """Serve what is ready; whether the leader has exited."""
        # What follows the first event mostly comes while that is served, and looking is cheaper than waiting.
        for _ in range(LOOKS):
            ready = [fd for fd, _ in self._epoll.poll(0)]
            if self._child.pidfd in ready:
                return True
            if not ready:
                break
            for fd in ready:
                self._serve(fd)
        return False

    def _serve(self, fd: int) -> None:
        if fd == self._child.stdin:
            self._write()
            if not self._pending:
                self._epoll.unregister(fd)
                self._child.close_stdin()
        elif self._read(fd) == 0:
            # A pipe at its end would be ready for ever. Closing alone need not take it out of the set: a child that
            # is just being started holds a copy until its exec is done, and its number may be another pipe's by then.
            self._epoll.unregister(fd)
            if fd == self._child.stdout:
                self._child.close_stdout()
            elif fd == self._child.stderr:
                self._child.close_stderr()
            else:
                self._child.close_updates()

    def _keep(self, chunk: bytes) -> None:
        self._room -= len(chunk)
        if not self._output:
            self._output = chunk
            return
        if isinstance(self._output, bytes):
            self._output = bytearray(self._output)
        self._output += chunk

    def _write(self) -> None:
        try:
            written = os.write(self._child.stdin, self._pending)
        except BlockingIOError:
            return
        except BrokenPipeError:
            # A program need not read its input.
            written = len(self._pending)
        self._pending = self._pending[written:]

    def _read(self, fd: int) -> int | None:
        """Take one chunk; its size, 0 at the end of the stream, None where nothing lies ready."""
        try:
            chunk = os.read(fd, CHUNK_BYTES if fd != self._child.updates else UPDATES_CHUNK_BYTES)
        except BlockingIOError:
            return None
        if fd == self._child.stdout:
            self._keep(chunk)
        elif fd == self._child.stderr:
            self.errors.add(chunk)
        elif self._updates is not None:
            self._updates.take(chunk)
        return len(chunk)


async def ready_or_due(epoll: select.epoll, updates: UpdateLines | None) -> None:
    """Wait until something in the set is ready, or an update is to be told; what is due now is told."""
    if updates is None or (due := updates.tell_due(trio.current_time())) == math.inf:
        await trio.lowlevel.wait_readable(epoll)
    else:
        with trio.move_on_at(due):
            await trio.lowlevel.wait_readable(epoll)
