"""The ends that a relay moves bytes between: sources that are read, sinks that are written. None of them ever blocks.

Descriptors that other processes have too (our standard input and output) are never made non-blocking: a pipe or a
terminal is opened anew, a socket gets MSG_DONTWAIT with each operation, and everything else is written in pieces that
are sure to fit.
"""

import fcntl
import os
import select
import socket
import stat
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

# The capacity of a pipe by default (pipe(7)).
READ_BYTES: Final = 65_536
# A source is not read while so much waits in one of its sinks; the bound of the daemon's own channels.
ROOM_BYTES: Final = 1024 * 1024
# A pipe that poll calls writable takes this much without blocking.
PIPE_BYTES: Final = 4096
# Above every number that an agent is given, so that no dup2 overwrites one of ours.
LEAST_FD: Final = 10

Read = Callable[[], bytes]
Write = Callable[[memoryview], int]


def lift(fd: int) -> int:
    """Replace `fd` with a copy at `LEAST_FD` or above that is closed on exec; raises OSError."""
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, LEAST_FD)
    finally:
        os.close(fd)


def open_pipe() -> tuple[int, int]:
    """The reading and the writing end of a new pipe, both lifted; raises OSError."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    return lift(reading), lift(writing)


class Sink:
    """A buffer of bytes to write; `has_room` tells its sources when to pause.

    `write` raises `BlockingIOError` if it would block, and `OSError` if there is no reader any more: then `broken` is
    called, once. If `is_watched`, a lost reader is noticed also while nothing waits to be written.
    """

    def __init__(self, fd: int, write: Write, close: Callable[[], None], *, is_watched: bool = False) -> None:
        self.fd = fd
        self.broken: Callable[[], None] = lambda: None
        self._write = write
        self._close = close
        self._is_watched = is_watched
        self._unsent = bytearray()
        self._is_open = True
        self._is_ending = False

    @property
    def has_room(self) -> bool:
        """Whether more may be put in; always true once it is closed, since it then keeps nothing."""
        return len(self._unsent) < ROOM_BYTES

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    @property
    def is_open(self) -> bool:
        """Whether bytes that are put in will be written."""
        return self._is_open and not self._is_ending

    @property
    def events(self) -> int | None:
        """The events to poll for; None for not at all."""
        if self._unsent:
            return select.POLLOUT
        return 0 if self._is_open and self._is_watched else None

    def put(self, chunk: bytes) -> None:
        """Queue bytes; dropped after `end`."""
        if self.is_open:
            self._unsent += chunk

    def end(self) -> None:
        """Close when everything is written."""
        self._is_ending = True
        self._close_when_done()

    def drop(self) -> None:
        """Close now, and discard what is unsent."""
        self._unsent.clear()
        self.end()

    def flush(self) -> None:
        """Write what can be written without blocking; call it when poll says that it is writable."""
        if not self._is_open:
            return
        try:
            sent = self._write(memoryview(bytes(self._unsent[:READ_BYTES])))
        except BlockingIOError:
            return
        except OSError:
            # Dropped first: `broken` may ask whether this sink has room.
            self.drop()
            self.broken()
            return
        del self._unsent[:sent]
        self._close_when_done()

    def fail(self) -> None:
        """Note that there is no reader any more, as poll says."""
        if self._is_open:
            self.drop()
            self.broken()

    def _close_when_done(self) -> None:
        if self._is_open and self._is_ending and not self._unsent:
            self._is_open = False
            self._close()


class Source:
    """Bytes to read, only while all of `sinks` have room.

    `read` gives b"" at the end and raises `BlockingIOError` if it would block; any other `OSError` counts as an end.
    """

    def __init__(
        self,
        fd: int,
        read: Read,
        close: Callable[[], None],
        sinks: Sequence[Sink],
        *,
        received: Callable[[bytes], None],
    ) -> None:
        self.fd = fd
        self.ended: Callable[[], None] = lambda: None
        self.accepts: Callable[[], bool] = lambda: True
        self._read = read
        self._close = close
        self._sinks = sinks
        self._received = received
        self.is_open = True

    @property
    def events(self) -> int | None:
        """The events to poll for; None for not at all."""
        is_wanted = self.is_open and self.accepts() and all(sink.has_room for sink in self._sinks)
        return select.POLLIN if is_wanted else None

    def pull(self) -> None:
        """Read once; call it when poll says that it is readable."""
        try:
            chunk = self._read()
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if chunk:
            self._received(chunk)
        else:
            self.close()
            self.ended()

    def close(self) -> None:
        """Stop reading, and close the descriptor, so that the writer gets a broken pipe. Idempotent."""
        if self.is_open:
            self.is_open = False
            self._close()


def pipe_sink(fd: int) -> Sink:
    """A pipe that only we write."""
    os.set_blocking(fd, False)
    return Sink(fd, partial(os.write, fd), partial(os.close, fd), is_watched=True)


def pipe_source(fd: int, sinks: Sequence[Sink], received: Callable[[bytes], None]) -> Source:
    """A pipe that only we read."""
    os.set_blocking(fd, False)
    return Source(fd, partial(os.read, fd, READ_BYTES), partial(os.close, fd), sinks, received=received)


def channel_sink(channel: socket.socket) -> Sink:
    """The outgoing half of a non-blocking socket; its end is a half-close, and answers can still be read."""
    return Sink(channel.fileno(), channel.send, partial(_half_close, channel))


def channel_source(channel: socket.socket, sinks: Sequence[Sink], received: Callable[[bytes], None]) -> Source:
    """The incoming half of a non-blocking socket; closing it leaves the socket open."""
    return Source(channel.fileno(), partial(channel.recv, READ_BYTES), lambda: None, sinks, received=received)


def standard_sink(fd: int, *, is_watched: bool = False) -> Sink:
    """An inherited descriptor that other processes may write too; raises OSError if it is not open."""
    if stat.S_ISSOCK(os.fstat(fd).st_mode):
        inherited = socket.socket(fileno=lift(os.dup(fd)))
        send = partial(_send_at_once, inherited)
        return Sink(inherited.fileno(), send, inherited.close, is_watched=is_watched)
    own, is_ours = _open_anew(fd, os.O_WRONLY)
    most = READ_BYTES if is_ours else PIPE_BYTES
    return Sink(own, lambda chunk: os.write(own, chunk[:most]), partial(os.close, own), is_watched=is_watched)


def standard_source(fd: int, sinks: Sequence[Sink], received: Callable[[bytes], None]) -> Source:
    """An inherited descriptor that other processes may read too; raises OSError if it is not open."""
    if stat.S_ISSOCK(os.fstat(fd).st_mode):
        inherited = socket.socket(fileno=lift(os.dup(fd)))
        read = partial(inherited.recv, READ_BYTES, socket.MSG_DONTWAIT)
        return Source(inherited.fileno(), read, inherited.close, sinks, received=received)
    own, _is_ours = _open_anew(fd, os.O_RDONLY)
    return Source(own, partial(os.read, own, READ_BYTES), partial(os.close, own), sinks, received=received)


def _open_anew(fd: int, access: int) -> tuple[int, bool]:
    """A descriptor for the same file, and whether it is a non-blocking one with an open file of its own.

    Regular files are only duplicated (opened anew they would start at offset 0), and so are those of another user.
    """
    if stat.S_ISFIFO(os.fstat(fd).st_mode) or os.isatty(fd):
        try:
            return lift(os.open(f"/proc/self/fd/{fd}", access | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)), True
        except OSError:
            pass
    return lift(os.dup(fd)), False


def _send_at_once(channel: socket.socket, chunk: memoryview) -> int:
    return channel.send(chunk, socket.MSG_DONTWAIT)


def _half_close(channel: socket.socket) -> None:
    try:
        channel.shutdown(socket.SHUT_WR)
    except OSError:
        # The daemon is gone, or the channel is closed already.
        return
