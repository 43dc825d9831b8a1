"""A server's pipes and its pidfd behind one epoll set, which the connection's one task waits for.

One task per connection instead of one per descriptor: an idle connection costs a third. Writing never waits: what the
pipe does not take stays queued and goes out as the pipe drains; a line is never cut short while the pipe lives.
"""

import math
import os
import select
from typing import Final

import trio

from tooldispatchd.calls.memory import Holding, Share
from tooldispatchd.children.spawn import Child
from tooldispatchd.children.tail import Tail
from tooldispatchd.providers.mcp.link import MAX_QUEUED_BYTES
from tooldispatchd.wire.backlog import Backlog

# What a pipe holds by default, so one read empties it; the bound on what one connection does per turn of the loop.
CHUNK_BYTES: Final = 64 * 1024
# What a dead server may have left: the largest pipe that Linux allows by default (1 MiB), in chunks.
MAX_REST_CHUNKS: Final = 16


class Pipes:
    """The daemon's ends of one child's pipes; `tail` keeps the end of what it wrote to stderr."""

    CLOSED: Final = select.EPOLLERR
    """The event on the input which says that nobody can read it any more."""

    def __init__(self, child: Child, share: Share, *, max_queued_bytes: int = MAX_QUEUED_BYTES) -> None:
        self._child = child
        self._max_queued = max_queued_bytes
        self._share = share
        self._leaving = Backlog()
        self._waiting = Holding(share)  # for the pipe to have room
        self._watched = 0
        self.tail = Tail()
        self._epoll = select.epoll()
        for fd in (child.stdout, child.stderr, child.pidfd):
            self._epoll.register(fd, select.EPOLLIN)
        # No event is asked for: an error, that nobody can read there any more, is always told.
        self._epoll.register(child.stdin, 0)

    async def wait(self, until: float = math.inf) -> list[tuple[int, int]]:
        """Wait until something is ready, or the time is `until`; descriptors and their epoll events."""
        if until == math.inf:
            await trio.lowlevel.wait_readable(self._epoll.fileno())
        else:
            with trio.move_on_at(until):
                await trio.lowlevel.wait_readable(self._epoll.fileno())
        return self._epoll.poll(0)

    def read_output(self) -> bytes | None:
        """What lies in stdout, up to `CHUNK_BYTES`; nothing at its end, None where there is nothing yet."""
        return _read(self._child.stdout)

    def read_errors(self) -> None:
        """Move what lies in stderr into the tail; at its end, look at it no more."""
        for _ in range(MAX_REST_CHUNKS):
            chunk = _read(self._child.stderr)
            if chunk is None:
                return
            if not chunk:
                if self._child.stderr >= 0:
                    # Not by closing alone: a child that is being spawned may hold a copy, which keeps it in the set.
                    self._epoll.unregister(self._child.stderr)
                    self._child.close_stderr()
                return
            self.tail.add(chunk)

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
                written = os.write(self._child.stdin, first)
            except BlockingIOError:
                written = 0
            except OSError:
                self.drop()
                return True
            is_full = written < len(first)
            # Nothing can be added to what somebody looks at.
            del first
            if written:
                self._share.let_go(leaving.drop(written))
            if is_full:
                self._watch_room(select.EPOLLOUT)
                return len(leaving) <= self._max_queued and self._waiting.resize(len(leaving))
        if self._watched:
            self._watch_room(0)
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
            for fd, _ in await self.wait():
                if self._child.pidfd < 0:
                    # Reaped in this very turn. A process between its start and its exec may hold copies of the pipes,
                    # so that the set tells of descriptors that are closed here.
                    return
                if fd == self._child.stderr:
                    self.read_errors()
                elif fd != self._child.stdout or not self.read_output():
                    # The exit, the end of the output, an input that is closed: told once, they would be told for ever.
                    self._epoll.unregister(fd)

    def close(self) -> None:
        """Close the epoll set; the pipes themselves are the child's."""
        self._epoll.close()

    def _watch_room(self, events: int) -> None:
        if events != self._watched:
            self._epoll.modify(self._child.stdin, events)
            self._watched = events


def _read(fd: int) -> bytes | None:
    if fd < 0:
        return b""
    try:
        return os.read(fd, CHUNK_BYTES)
    except BlockingIOError:
        return None
    except OSError:
        return b""
