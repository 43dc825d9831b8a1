"""Descriptors as a channel reads and writes them: a socket, a pipe, a terminal, or two of these as a pair."""

import os
import socket
from typing import Final, Protocol

# One read a tick: a channel that floods has no more of a tick than another.
READ_BYTES: Final = 65_536


class ChannelWire(Protocol):
    """Descriptors as a channel needs them; `read` and `write` raise `BlockingIOError` where they would wait."""

    read_fd: int
    write_fd: int

    def read(self) -> bytes:
        """Up to `READ_BYTES`; nothing at the end of input."""

    def write(self, lines: bytes | bytearray | memoryview) -> int:
        """How many bytes were taken."""

    def close(self) -> None:
        """Close both descriptors."""


class SocketWire:
    """A connected stream socket."""

    __slots__ = ("_socket", "read_fd", "write_fd")

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self.read_fd = self.write_fd = connection.fileno()

    def read(self) -> bytes:
        """As `ChannelWire.read`."""
        # The flag, not O_NONBLOCK: an inherited socket is shared with whoever gave it.
        return self._socket.recv(READ_BYTES, socket.MSG_DONTWAIT)

    def write(self, lines: bytes | bytearray | memoryview) -> int:
        """As `ChannelWire.write`."""
        return self._socket.send(lines, socket.MSG_DONTWAIT)

    def close(self) -> None:
        """As `ChannelWire.close`."""
        self._socket.close()


class FdEnd:
    """One end of a pipe, or a terminal, on a description of our own."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def read(self) -> bytes:
        """As `ChannelWire.read`."""
        return os.read(self.fd, READ_BYTES)

    def write(self, lines: bytes | bytearray | memoryview) -> int:
        """As `ChannelWire.write`."""
        return os.write(self.fd, lines)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.fd)


class PairWire:
    """Two descriptors, one for each direction: pipes, terminals, or two sockets."""

    __slots__ = ("_input", "_output", "read_fd", "write_fd")

    def __init__(self, read_end: FdEnd | SocketWire, write_end: FdEnd | SocketWire) -> None:
        self._input = read_end
        self._output = write_end
        self.read_fd = read_end.fd if isinstance(read_end, FdEnd) else read_end.read_fd
        self.write_fd = write_end.fd if isinstance(write_end, FdEnd) else write_end.write_fd

    def read(self) -> bytes:
        """As `ChannelWire.read`."""
        return self._input.read()

    def write(self, lines: bytes | bytearray | memoryview) -> int:
        """As `ChannelWire.write`."""
        return self._output.write(lines)

    def close(self) -> None:
        """As `ChannelWire.close`."""
        self._input.close()
        self._output.close()
