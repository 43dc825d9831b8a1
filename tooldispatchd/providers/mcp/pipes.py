"""A server's pipes and its pidfd behind one epoll set, which the connection's one task waits for.

One task per connection instead of one per descriptor: an idle connection costs a third. Writing never waits: what the
pipe does not take stays queued and goes out as the pipe drains; a line is never cut short while the pipe lives.
"""

import select
from typing import Final

from tooldispatchd.calls.memory import Holding, Share
from tooldispatchd.children.pipes import ChildPipes, write
from tooldispatchd.children.spawn import Child
from tooldispatchd.children.tail import Tail
from tooldispatchd.providers.mcp.link import MAX_QUEUED_BYTES
from tooldispatchd.wire.backlog import Backlog


class Pipes(ChildPipes):
    """The daemon's ends of one child's pipes; `tail` keeps the end of what it wrote to stderr."""

    CLOSED: Final = select.EPOLLERR
    """The event on the input which says that its other end is closed."""

    def __init__(self, child: Child, share: Share, *, max_queued_bytes: int = MAX_QUEUED_BYTES) -> None:
        super().__init__(child.pidfd, child.stdout, child.stderr)
        # Its errors alone are asked for, which tell that the other end is closed.
        self.watch(child.stdin, 0)
        self._child = child
        self._max_queued = max_queued_bytes
        self._share = share
        self._leaving = Backlog()
        self._waiting = Holding(share)  # for the pipe to have room
        self.tail = Tail()

    def read_errors(self) -> None:
        """Move a chunk of what lies in stderr into the tail."""
        chunk = self.read(self._child.stderr)
        if chunk == b"":
            self._child.close_pipe(self._child.stderr)
        self.tail.add(chunk or b"")

    def queue(self, line: bytes | bytearray) -> None:
        """Hold `line` for the next `flush`."""
        self._leaving.add(line)

    def flush(self) -> bool:
        """Write what the pipe takes now; whether what is left is within the bound.

        A pipe whose other end is closed drops all; `wait` tells of it by an error on stdin.
        """
        leaving = self._leaving
        while leaving:
            first = leaving.first()
            try:
                written = write(self._child.stdin, first)
            except OSError:
                self.drop()
                return True
            is_full = written < len(first)
            # Nothing can be added to a buffer while a view of it exists.
            del first
            if written:
                self._share.let_go(leaving.drop(written))
            if is_full:
                self.watch(self._child.stdin, select.EPOLLOUT)
                return len(leaving) <= self._max_queued and self._waiting.resize(len(leaving))
        self.watch(self._child.stdin, 0)
        if self._waiting.held:
            self._waiting.resize(0)
        return True

    def drop(self) -> None:
        """Forget what is queued."""
        for piece in self._leaving.take_all():
            self._share.let_go(piece)
        self._waiting.resize(0)

    async def discard(self) -> None:
        """Read and forget what the server writes, until cancelled: one that waits for room could not end politely."""
        while True:
            await self.wait()
            for fd in self.ready():
                if self._child.pidfd < 0:
                    # Reaped in this very turn. A process between its start and its exec may hold copies of the pipes,
                    # so that the set tells of descriptors that are closed here.
                    return
                if fd == self._child.stderr:
                    self.read_errors()
                elif fd != self._child.stdout or not self.read(fd):
                    # The exit, the end of the output, an input that is closed: told once, they would be told for ever.
                    self.unwatch(fd)
