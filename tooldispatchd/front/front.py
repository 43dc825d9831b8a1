"""The front: one trio task that serves every agent channel through one epoll set.

The set is itself a descriptor, which trio waits for; when it is ready the task polls it and serves each ready channel
synchronously. A task and a send for each line would cost ten times as much. The front knows bytes and readiness, and
nothing of tools.
"""

import errno
import os
import socket
from collections.abc import Callable
from select import EPOLLIN, epoll
from time import perf_counter
from typing import Final, Protocol

import trio

from tooldispatchd.front.timer import GuardLog, Timer

# After this long in one tick the other tasks of the daemon have their turn, and the tick then goes on where it was.
TICK_S: Final = 0.002
EVENTS: Final = 512
# Each costs some forty microseconds, in which nobody is served; who connects can wait for the next tick.
ACCEPTS: Final = 8
# Out of descriptors: accepting again at once would only spin.
ACCEPT_PAUSE_S: Final = 0.1

Ready = Callable[[int], None]


def _accept_later(_mask: int) -> None:
    """A listener is served after the channels of the tick, never through the table."""


class Abortable(Protocol):
    """A channel, as the front sees it when it must end it."""

    def abort(self, why: str) -> None:
        """Close at once."""


class Resumable(Abortable, Protocol):
    """A channel whose turn ended before its lines did."""

    def resume(self) -> None:
        """Take another turn."""


class Front:
    """The epoll set, its task, and the bounds that hold for every channel."""

    def __init__(self, timer: Timer, log: GuardLog, *, out_buffer_bytes: int, stalled_s: float) -> None:
        self.timer = timer
        self.out_buffer_bytes = out_buffer_bytes
        self.stalled_s = stalled_s
        self._log = log
        self._epoll = epoll()
        self._ready: dict[int, tuple[Ready, Abortable | None]] = {}
        self._interest: dict[int, int] = {}
        self._listeners: dict[int, Listener] = {}
        self._again: list[Resumable] = []
        # Wakes the front where another task gives a channel a turn while nothing else is ready.
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._is_asleep = False
        self.watch(self._bell, EPOLLIN, self._take_bell)

    def watch(self, fd: int, interest: int, ready: Ready, *, owner: Abortable | None = None) -> None:
        """Call `ready(mask)` whenever the descriptor is, and end its owner should that fail.

        Raises `PermissionError` for one that cannot be polled.
        """
        self._epoll.register(fd, interest)
        self._ready[fd] = ready, owner
        self._interest[fd] = interest

    def watches(self, fd: int) -> bool:
        """Whether the descriptor is in the set."""
        return fd in self._ready

    def change(self, fd: int, interest: int) -> None:
        """Ask for other events of a watched descriptor."""
        if self._interest[fd] != interest:
            self._epoll.modify(fd, interest)
            self._interest[fd] = interest

    def forget(self, fd: int) -> None:
        """Take a descriptor out of the set, before it is closed."""
        if self._ready.pop(fd, None) is not None:
            self._epoll.unregister(fd)
            del self._interest[fd]

    def again(self, channel: Resumable) -> None:
        """Give the channel another turn, after every other that is ready has had its own."""
        self._again.append(channel)
        if self._is_asleep:
            self._is_asleep = False
            os.eventfd_write(self._bell, 1)

    def _take_bell(self, _mask: int) -> None:
        os.eventfd_read(self._bell)

    def listen(self, listening: socket.socket, accepted: Callable[[socket.socket], None]) -> "Listener":
        """Give every connection of a listening socket to `accepted`, until the returned listener is closed."""
        listener = Listener(self, listening, accepted)
        self._listeners[listening.fileno()] = listener
        return listener

    async def run(self) -> None:
        """Serve until cancelled."""
        try:
            while True:
                if self._again:
                    await trio.lowlevel.checkpoint()
                else:
                    self._is_asleep = True
                    await trio.lowlevel.wait_readable(self._epoll.fileno())
                    self._is_asleep = False
                again, self._again = self._again, []
                await self._serve(self._epoll.poll(0, EVENTS))
                for channel in again:
                    try:
                        channel.resume()
                    except Exception as error:  # noqa: BLE001  # the same guard, for a channel's further turns
                        self.end_defective(error, channel.abort)
                    await trio.lowlevel.checkpoint()
                    # A channel that asks little need not wait for the turns of all that ask much.
                    await self._serve(self._epoll.poll(0, EVENTS))
        finally:
            self._epoll.close()
            os.close(self._bell)

    async def _serve(self, events: list[tuple[int, int]]) -> None:
        since = perf_counter()
        listeners: list[Listener] = []
        for fd, mask in events:
            # Accepting comes last: until then no number of a descriptor closed in this tick can mean a new one.
            if fd in self._listeners:
                listeners.append(self._listeners[fd])
                continue
            watched = self._ready.get(fd)
            if watched is None:
                continue
            ready, owner = watched
            try:
                ready(mask)
            except Exception as error:  # noqa: BLE001  # guard: a defect of one channel must not end the others
                self.end_defective(error, None if owner is None else owner.abort)
            if perf_counter() - since > TICK_S:
                await trio.lowlevel.checkpoint()
                since = perf_counter()
        for listener in listeners:
            try:
                listener.accept()
            except Exception as error:  # noqa: BLE001  # guard: the same, for a channel that could not even begin
                self._log.incident("connection failed", error)
                # A failure that each connection meets must not fill the daemon's time and its log.
                listener.pause()

    def end_defective(self, error: Exception, end: Callable[[str], None] | None) -> None:
        """Log what a channel failed of, and have `end` end it, told why; that may meet the same defect."""
        incident = self._log.incident("channel failed", error)
        if end is None:
            return
        try:
            end(f"internal error, incident {incident}")
        except Exception as again:  # noqa: BLE001  # the same guard
            self._log.incident("channel's end failed", again)


class Listener:
    """A listening socket in the front."""

    def __init__(self, front: Front, listening: socket.socket, accepted: Callable[[socket.socket], None]) -> None:
        self._front = front
        self._socket = listening
        self._accepted = accepted
        self._is_open = True
        listening.settimeout(0)
        front.watch(listening.fileno(), EPOLLIN, _accept_later)

    def accept(self) -> None:
        """Take the connections that wait, a bounded number at a time."""
        for _ in range(ACCEPTS):
            # It may have been closed while this tick let others have their turn.
            if not self._is_open:
                return
            try:
                connection, _address = self._socket.accept()
            except (BlockingIOError, ConnectionAbortedError, InterruptedError):
                return
            except OSError as error:
                if error.errno not in {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS}:
                    raise
                self.pause()
                return
            try:
                self._accepted(connection)
            except OSError:
                # The world's refusal (no room in the epoll set, a peer that has left) is this connection's end alone.
                connection.close()
            except BaseException:
                connection.close()
                raise

    def pause(self) -> None:
        """Accept nothing for a moment."""
        if self._is_open:
            self._front.forget(self._socket.fileno())
            self._front.timer.add(trio.current_time() + ACCEPT_PAUSE_S, self)

    def expire(self) -> None:
        """The pause is over."""
        if not self._is_open:
            return
        try:
            self._front.watch(self._socket.fileno(), EPOLLIN, _accept_later)
        except OSError:
            # Want of memory for the set is no more lasting than want of descriptors.
            self._front.timer.add(trio.current_time() + ACCEPT_PAUSE_S, self)

    def close(self) -> None:
        """Accept no more; connections that wait are refused by the kernel."""
        if self._is_open:
            self._is_open = False
            del self._front._listeners[self._socket.fileno()]
            self._front.forget(self._socket.fileno())
            self._socket.close()
