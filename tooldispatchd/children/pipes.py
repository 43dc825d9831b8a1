"""The pump over one child's descriptors: its pipes and its pidfd behind one epoll set, for which one task waits.

It owns three facts of the kernel that each of its users would otherwise have to know:

- A pipe at its end is ready for ever, so it leaves the set when its end is read. Closing it is not enough: a child that
  is just being started holds a copy until its exec is done, and the set goes on telling of a number that may be another
  pipe's by then.
- The end of a pipe need not come at all: a process that left the child's group may hold the other end for ever. The end
  of the child is its pidfd; what it left in a pipe is read by `rest`, which stops at what a pipe can hold.
- A write to a pipe whose other end is closed is no error: a program need not read its input.
"""

import fcntl
import math
import os
import select
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import trio

# A pipe holds so much by default, so that one read mostly empties it; each descriptor gets one read or write of this
# size per turn, so that a child that writes for ever does not hold the loop.
CHUNK_BYTES: Final = 64 * 1024

# How often in a row one child is looked at before others have their turn. What follows the first event mostly comes
# while that is served, and looking is cheaper than waiting.
LOOKS: Final = 4


class ChildPipes:
    """Watches the readable descriptors `fds` of one child (those below 0 are left out); raises OSError.

    The descriptors themselves stay the caller's to close.
    """

    __slots__ = ("_epoll", "_events")

    def __init__(self, *fds: int) -> None:
        self._events: dict[int, int] = {}
        self._epoll = select.epoll()
        for fd in fds:
            if fd >= 0:
                self.watch(fd)

    def fileno(self) -> int:
        """The set's own descriptor: readable when anything in it is ready, so that it can be watched in another set."""
        return self._epoll.fileno()

    def watch(self, fd: int, events: int = select.EPOLLIN) -> None:
        """Watch `fd` for `events`. Without any, its errors alone are told: the other end is closed."""
        before = self._events.get(fd)
        if before is None:
            self._epoll.register(fd, events)
        elif before != events:
            self._epoll.modify(fd, events)
        self._events[fd] = events

    def unwatch(self, fd: int) -> None:
        """Take `fd` out of the set, which must come before it is closed. Idempotent."""
        if self._events.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def is_watched(self, fd: int) -> bool:
        """Whether `fd` is in the set: it was put there, and its end has not been read."""
        return fd in self._events

    async def wait(self, until: float = math.inf) -> None:
        """Wait until something is ready, or until the time `until` on trio's clock."""
        if until == math.inf:
            await trio.lowlevel.wait_readable(self._epoll)
        else:
            with trio.move_on_at(until):
                await trio.lowlevel.wait_readable(self._epoll)

    def ready(self) -> dict[int, int]:
        """The descriptors that are ready now, and their epoll events."""
        return dict(self._epoll.poll(0))

    def read(self, fd: int, size: int = CHUNK_BYTES) -> bytes | None:
        """One chunk, None where nothing lies ready; b"" at the end of the stream, which is watched no more then.

        Raises ConnectionResetError for a socket.
        """
        try:
            chunk = os.read(fd, size)
        except BlockingIOError:
            return None
        if not chunk:
            self.unwatch(fd)
        return chunk

    def close(self) -> None:
        """Close the set. Idempotent."""
        self._epoll.close()


def rest(fd: int) -> Iterator[bytes]:
    """The bytes that lie in a pipe, but never more than it holds: later ones would be another process's, without end.

    Nothing where the pipe is closed (-1).
    """
    if fd < 0:
        return
    left = fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ)
    with suppress(BlockingIOError):
        while left > 0 and (chunk := os.read(fd, CHUNK_BYTES)):
            left -= len(chunk)
            yield chunk


def write(fd: int, chunk: bytes | bytearray | memoryview) -> int:
    """How much of `chunk` the pipe takes now; raises BrokenPipeError where the other end is closed."""
    try:
        return os.write(fd, chunk)
    except BlockingIOError:
        return 0
