"""One agent channel on descriptors that can be polled: a socket, or a pair of pipes.

It moves bytes and tells three ends apart. *End of input*: reading gives nothing, the peer can still read. *Gone*:
EPOLLHUP or EPOLLERR on the answering descriptor, or a write that fails: nobody can be answered, and what still lies
in the input is not looked at. *Closed*: by us, when all that was written has left.
"""

import os
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from select import EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, poll
from socket import MSG_DONTWAIT, SCM_RIGHTS, SOL_SOCKET, socket
from typing import Final, Protocol

import trio

from tooldispatchd.calls.deadlines import Entry
from tooldispatchd.calls.memory import Share
from tooldispatchd.front.front import Front
from tooldispatchd.front.timer import Deferred, Expiring
from tooldispatchd.wire.backlog import Backlog

# One read a turn, and no more of short lines than one turn serves: cutting 64 KiB of them takes as long as serving.
FIRST_BYTES: Final = 8_192
# Of long lines, which are many reads: twice as much. 64 KiB saved them nothing, and had others wait four times as long.
READ_BYTES: Final = 16_384
_GONE: Final = EPOLLHUP | EPOLLERR


class ChannelPeer(Protocol):
    """Serves what a channel receives. None of these may block."""

    def received(self, chunk: bytes) -> None:
        """Bytes have come."""

    def ended(self) -> None:
        """No more bytes will come; answers can still be written."""

    def resume(self) -> None:
        """Go on with lines that were left over when `Outlet.again` was asked for."""

    def gone(self, why: str) -> None:
        """The channel is closed and nothing can be written any more. Never called from inside of `Outlet.write`."""


class Outlet(Protocol):
    """`Channel` or `StreamChannel`, as its peer uses it."""

    share: Share

    @property
    def is_crowded(self) -> bool: ...
    @property
    def is_behind(self) -> bool: ...
    def again(self) -> None: ...
    def pause(self) -> None: ...
    def write(self, lines: bytes | bytearray) -> None: ...
    def close(self) -> None: ...


class ChannelWire(Protocol):
    """Descriptors as a channel needs them; `read` and `write` raise `BlockingIOError` where they would wait."""

    read_fd: int
    write_fd: int

    def read(self, most: int) -> bytes:
        """Up to so many bytes; nothing at the end of input."""

    def write(self, lines: bytes | bytearray | memoryview) -> int:
        """How many bytes were taken."""

    def close(self) -> None:
        """Close both descriptors."""


class SocketWire:
    """A connected stream socket."""

    __slots__ = ("_socket", "read_fd", "write_fd")

    def __init__(self, connection: socket) -> None:
        self._socket = connection
        self.read_fd = self.write_fd = connection.fileno()

    def read(self, most: int) -> bytes:
        # The flag, not O_NONBLOCK: an inherited socket is shared with whoever gave it.
        return self._socket.recv(most, MSG_DONTWAIT)

    def write(self, lines: bytes | bytearray | memoryview) -> int:
        return self._socket.send(lines, MSG_DONTWAIT)

    def hand(self, lines: bytes, fds: Sequence[int]) -> int:
        """Write lines, and pass descriptors on with the first byte (unix(7), SCM_RIGHTS)."""
        rights = [(SOL_SOCKET, SCM_RIGHTS, array("i", fds))]
        return self._socket.sendmsg([lines], rights, MSG_DONTWAIT)

    def close(self) -> None:
        self._socket.close()


class FdEnd:
    """One end of a pipe, or a terminal, on a description of our own."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def read(self, most: int) -> bytes:
        return os.read(self.fd, most)

    def write(self, lines: bytes | bytearray | memoryview) -> int:
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

    def read(self, most: int) -> bytes:
        return self._input.read(most)

    def write(self, lines: bytes | bytearray | memoryview) -> int:
        return self._output.write(lines)

    def close(self) -> None:
        self._input.close()
        self._output.close()


class Channel:
    """Buffers and readiness of one channel in the front."""

    __slots__ = (
        "_closed",
        "_closing",
        "_front",
        "_has_more",
        "_is_closed",
        "_is_paused",
        "_last_write",
        "_most",
        "_out",
        "_peer",
        "_reads",
        "_stall",
        "_wire",
        "share",
    )

    def __init__(self, front: Front, wire: ChannelWire, share: Share) -> None:
        self.share = share
        self._front = front
        self._wire = wire
        self._peer: ChannelPeer | None = None
        self._closed: Callable[[], None] | None = None
        # None while nothing waits to be written: an idle channel has no buffer.
        self._out: Backlog | None = None
        self._reads = True
        self._closing = False
        self._has_more = False
        self._is_closed = False
        self._is_paused = False
        self._last_write = 0.0
        self._most = FIRST_BYTES
        self._stall: Entry[Expiring] | None = None

    def open(self, peer: ChannelPeer, *, closed: Callable[[], None]) -> None:
        """Begin to read for `peer`; `closed` is called when the descriptors are."""
        self._peer = peer
        self._closed = closed
        if self._wire.read_fd == self._wire.write_fd:
            self._front.watch(self._wire.read_fd, EPOLLIN, self._both_ready, owner=self)
        else:
            self._front.watch(self._wire.read_fd, EPOLLIN, self._input_ready, owner=self)
            self._front.watch(self._wire.write_fd, 0, self._output_ready, owner=self)

    @property
    def is_crowded(self) -> bool:
        """Whether the channel's share of the daemon's memory is full, and unread answers are in it."""
        return self._out is not None and self.share.is_full

    @property
    def is_behind(self) -> bool:
        """Whether some of what was written has not been taken yet."""
        return self._out is not None

    def again(self) -> None:
        """Ask for another turn; while the backlog is over its cap it does not come."""
        if not self._is_closed:
            self._has_more = True
            self._is_paused = False
            self._set_interest()
            if not self._is_over():
                self._front.again(self)

    def pause(self) -> None:
        """Read nothing more, and give no turn, until `again`; that the peer hung up is still seen."""
        # Not as `again` does: answers that are taken meanwhile give a channel its turn, and with it its reading.
        self._is_paused = True
        self._set_interest()

    def resume(self) -> None:
        """The other turn."""
        if self._is_closed or self._closing or self._is_paused or not self._has_more or self._peer is None:
            return
        self._has_more = False
        self._peer.resume()
        self._set_interest()

    def write(self, lines: bytes | bytearray) -> None:
        """Send now what the peer takes and keep the rest."""
        if self._is_closed or not lines:
            return
        if self._out is not None:
            self._out.add(lines)
            self.share.add(len(lines))
            self._mind_backlog()
            return
        taken = self._send(lines)
        if taken is not None and taken < len(lines):
            self._out = Backlog(lines, taken)
            self.share.add(len(self._out))
            self._last_write = trio.current_time()
            self._mind_backlog()

    def hand(self, lines: bytes, fds: Sequence[int]) -> bool:
        """Send lines with descriptors, if a socket takes them now; whether it did."""
        if self._is_closed or self._out is not None or not isinstance(self._wire, SocketWire):
            return False
        try:
            taken = self._wire.hand(lines, fds)
        except OSError:
            # A peer that takes nothing, or is gone, which its readiness shows.
            return False
        self.write(lines[taken:])
        return True

    def close(self) -> None:
        """Close when all that was written has left; nothing more is read."""
        if self._is_closed:
            return
        self._closing = True
        if self._out is None:
            self._drop()
        else:
            self._mind_backlog()

    def abort(self, why: str) -> None:
        """Close at once, and tell the peer that it is gone."""
        if self._is_closed:
            return
        peer = self._drop()
        if peer is not None:
            peer.gone(why)

    def give_up(self) -> None:
        """Wait no longer for the peer to take what a closing channel still holds."""
        if self._closing:
            self.abort("it did not read its answers in time")

    def expire(self) -> None:
        """The time without a successful write may be over."""
        self._stall = None
        if self._out is None or self._is_closed:
            return
        due = self._last_write + self._front.stalled_s
        if trio.current_time() >= due:
            self.abort("stalled: it does not read its answers")
        else:
            self._stall = self._front.timer.add(due, self)

    # --- readiness ---

    def _both_ready(self, mask: int) -> None:
        if mask & _GONE:
            self.abort("hung up")
            return
        if mask & EPOLLOUT:
            self._flush()
        if mask & EPOLLIN:
            self._receive()

    def _input_ready(self, mask: int) -> None:
        # EPOLLHUP here is the end of input, which reading shows; but who has left altogether is not listened to.
        if mask & EPOLLHUP:
            answering = poll()
            answering.register(self._wire.write_fd, 0)
            if answering.poll(0):
                self.abort("hung up")
                return
        self._receive()

    def _output_ready(self, mask: int) -> None:
        if mask & _GONE:
            self.abort("hung up")
        elif mask & EPOLLOUT:
            self._flush()

    def _receive(self) -> None:
        if self._is_closed or self._peer is None or not self._may_read:
            return
        try:
            chunk = self._wire.read(self._most)
        except BlockingIOError:
            return
        except OSError as error:
            self.abort(f"cannot read: {error.strerror}")
            return
        if chunk:
            self._peer.received(chunk)
            if self._has_more:
                self._most = FIRST_BYTES
            elif len(chunk) == self._most:
                self._most = min(READ_BYTES, 2 * self._most)
        else:
            self._reads = False
            # A level-triggered descriptor at its end would be ready for ever.
            self._set_interest()
            self._peer.ended()

    # --- writing ---

    def _send(self, lines: bytes | bytearray | memoryview) -> int | None:
        try:
            return self._wire.write(lines)
        except BlockingIOError:
            return 0
        except OSError as error:
            peer = self._drop()
            if peer is not None:
                # A step after the write that found out: its callers must not end under it.
                gone = partial(peer.gone, f"cannot write: {error.strerror}")
                self._front.timer.add(trio.current_time(), Deferred(gone))
            return None

    def _flush(self) -> None:
        if self._out is None:
            return
        taken = self._send(self._out.first())
        if not taken:
            return
        self._last_write = trio.current_time()
        self.share.add(-taken)
        self.share.let_go(self._out.drop(taken))
        if not self._out:
            self._out = None
            if self._closing:
                self._drop()
                return
        self._mind_backlog()
        if self._has_more and not self._is_over():
            self._front.again(self)

    def _mind_backlog(self) -> None:
        """Reading stops while the backlog is over its cap, and a peer that then takes nothing is dropped in time."""
        self._set_interest()
        must_move = self._is_over() or (self._closing and self._out is not None)
        if must_move and self._stall is None:
            self._stall = self._front.timer.add(self._last_write + self._front.stalled_s, self)
        elif not must_move and self._stall is not None:
            self._front.timer.drop(self._stall)
            self._stall = None

    @property
    def _may_read(self) -> bool:
        return self._reads and not (self._closing or self._has_more or self._is_paused)

    def _is_over(self) -> bool:
        return self._out is not None and (len(self._out) > self._front.out_buffer_bytes or self.share.is_full)

    def _set_interest(self) -> None:
        if self._is_closed:
            return
        reading = EPOLLIN if self._may_read and not self._is_over() else 0
        writing = EPOLLOUT if self._out is not None else 0
        if self._wire.read_fd == self._wire.write_fd:
            self._front.change(self._wire.read_fd, reading | writing)
            return
        # A pipe whose writer has left reports EPOLLHUP whatever is asked for: it must leave the set to be quiet.
        if reading and not self._front.watches(self._wire.read_fd):
            self._front.watch(self._wire.read_fd, reading, self._input_ready, owner=self)
        elif not reading and self._front.watches(self._wire.read_fd):
            self._front.forget(self._wire.read_fd)
        self._front.change(self._wire.write_fd, writing)

    def _drop(self) -> ChannelPeer | None:
        """Close the descriptors and let go of the peer, which holds the channel; who it was."""
        self._is_closed = True
        if self._stall is not None:
            self._front.timer.drop(self._stall)
            self._stall = None
        if self._out is not None:
            self.share.add(-len(self._out))
            for piece in self._out.take_all():
                self.share.let_go(piece)
            self._out = None
        self._front.forget(self._wire.read_fd)
        self._front.forget(self._wire.write_fd)
        self._wire.close()
        peer, self._peer = self._peer, None
        closed, self._closed = self._closed, None
        if closed is not None:
            closed()
        return peer
