"""Both directions of a blocking channel together: two sides that only write would wait for each other forever.

A daemon whose answers are not read stops reading (protocol/extensions/limits.md), so `exchange` reads while it
writes. No descriptor is made non-blocking: an inherited one may be shared with programs that do not expect that.
Standard library alone, for the quick commands.
"""

import os
import select
import socket
import stat
import time
from typing import Final

READ_BYTES: Final = 65_536
# What a pipe takes at once when poll calls it writable (pipe(7)); more could block.
PIPE_BYTES: Final = 4096
# poll takes a C int; a limit that is longer than 24 days is none.
MAX_POLL_MS: Final = 2**31 - 1


class Duplex:
    """A pair of descriptors, or one socket for both directions, which `close` closes.

    Raises `OSError` if one is not open, and leaves the other as it is.
    """

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd = read_fd
        self._write_fd = write_fd
        os.fstat(read_fd)
        is_socket = stat.S_ISSOCK(os.fstat(write_fd).st_mode)
        # A second descriptor for the same socket: `send` alone can be told not to block.
        self._socket = socket.socket(fileno=os.dup(write_fd)) if is_socket else None
        self._unsent = bytearray()
        self._is_closed = False
        self.write_error: str | None = None

    @property
    def has_unsent(self) -> bool:
        """Whether lines wait to be written; never after the other side has stopped reading."""
        return bool(self._unsent)

    @property
    def has_heard(self) -> bool:
        """Whether there is something to read, an end included."""
        poll = select.poll()
        poll.register(self._read_fd, select.POLLIN)
        return bool(poll.poll(0))

    def write(self, lines: bytes) -> None:
        """Queue lines for the next exchanges; dropped if the other side has stopped reading."""
        if self.write_error is None:
            self._unsent += lines

    def exchange(self, until: float) -> bytes | None:
        """Move bytes once: those that came, b"" if only some went out, None at the end of the channel.

        Raises `TimeoutError` at `until`, on the monotonic clock, and `OSError` where reading fails.
        """
        left_s = until - time.monotonic()
        if left_s <= 0:
            raise TimeoutError  # also if the other side never stops writing
        poll = select.poll()
        poll.register(self._read_fd, select.POLLIN)
        if self._unsent:
            # One descriptor has one entry: a second `register` would replace the first.
            both = self._read_fd == self._write_fd
            poll.register(self._write_fd, select.POLLOUT | (select.POLLIN if both else 0))
        ready = dict(poll.poll(min(int(left_s * 1000) + 1, MAX_POLL_MS)))
        if not ready:
            raise TimeoutError
        if ready.get(self._write_fd, 0) & (select.POLLOUT | select.POLLERR | select.POLLHUP) and self._unsent:
            try:
                if self._socket is None:
                    sent = os.write(self._write_fd, self._unsent[:PIPE_BYTES])
                else:
                    sent = self._socket.send(self._unsent[:READ_BYTES], socket.MSG_DONTWAIT)
                del self._unsent[:sent]
            except BlockingIOError:
                pass
            except OSError as error:
                # There may still be lines that the other side wrote before it stopped reading.
                self.write_error = error.strerror or str(error)
                self._unsent.clear()
        if not ready.get(self._read_fd, 0) & ~select.POLLOUT:
            return b""
        return os.read(self._read_fd, READ_BYTES) or None

    def close(self) -> None:
        """Close both directions. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._socket is not None:
            self._socket.close()
        # A set: they may be the same.
        for fd in {self._read_fd, self._write_fd}:
            os.close(fd)
