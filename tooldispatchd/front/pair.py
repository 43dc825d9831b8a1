"""Open a channel on inherited descriptors, whatever they are: sockets, pipes, terminals, files, devices."""

import os
import socket
import stat
from collections.abc import Iterable
from select import EPOLLIN, epoll

import trio
from trio.abc import Stream

from tooldispatchd.calls.memory import Share
from tooldispatchd.front.channel import Channel, FdEnd, PairWire, SocketWire
from tooldispatchd.front.front import Front
from tooldispatchd.front.stream import FileStream, StreamChannel


def open_pair(front: Front, share: Share, read_fd: int, write_fd: int) -> Channel | StreamChannel:
    """A channel that reads one descriptor and answers on the other; both stay open and unchanged for who gave them.

    Raises `OSError` for a descriptor that is not open or may not be opened anew.
    """
    if is_socket(read_fd) and os.fstat(read_fd).st_ino == os.fstat(write_fd).st_ino:
        return Channel(front, SocketWire(_own_socket(read_fd)), share)
    if _can_poll(read_fd) and _can_poll(write_fd):
        return Channel(front, PairWire(_end(read_fd, os.O_RDONLY), _end(write_fd, os.O_WRONLY)), share)
    return StreamChannel(front, share, _stream(read_fd, os.O_RDONLY), _stream(write_fd, os.O_WRONLY))


def give_back(fds: Iterable[int]) -> None:
    """Close inherited descriptors that a channel has its own of.

    A standard one means nothing from now on, instead of whatever is opened next.
    """
    for fd in fds:
        if fd <= 2:
            nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            os.dup2(nothing, fd)
            os.close(nothing)
        else:
            os.close(fd)


def is_socket(fd: int) -> bool:
    """Whether the descriptor is a socket."""
    return stat.S_ISSOCK(os.fstat(fd).st_mode)


def _can_poll(fd: int) -> bool:
    """Regular files and some devices cannot be polled: the kernel answers EPERM."""
    probe = epoll()
    try:
        probe.register(fd, EPOLLIN)
    except PermissionError:
        return False
    finally:
        probe.close()
    return True


def _own_socket(fd: int) -> socket.socket:
    return socket.socket(fileno=os.dup(fd))


def _reopen(fd: int, flags: int) -> int:
    """A descriptor of our own that does not wait; a duplicate would share its flag with everyone who holds `fd`."""
    try:
        return os.open(f"/proc/self/fd/{fd}", flags | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except PermissionError:
        if not stat.S_ISFIFO(os.fstat(fd).st_mode):
            raise
    # Another user's pipe, as behind sudo, is not opened anew. Its end was made for us: hardly anyone else holds it,
    # while a terminal's flag would trouble the shell that lent it.
    own = os.dup(fd)
    os.set_blocking(own, False)
    return own


def _end(fd: int, flags: int) -> FdEnd | SocketWire:
    return SocketWire(_own_socket(fd)) if is_socket(fd) else FdEnd(_reopen(fd, flags))


def _stream(fd: int, flags: int) -> Stream:
    if not _can_poll(fd):
        # A duplicate keeps the file's position, which opening it anew would set to the beginning.
        return FileStream(os.dup(fd))
    if is_socket(fd):
        return trio.SocketStream(trio.socket.from_stdlib_socket(_own_socket(fd)))
    return trio.lowlevel.FdStream(_reopen(fd, flags))
