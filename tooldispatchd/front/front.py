"""The front: one trio task that serves every agent channel through one epoll set and a second one within it.

The set is itself a descriptor, which trio waits for; when it is ready the task polls it and serves each ready channel
synchronously. A task and a send for each line would cost ten times as much. The front knows bytes and readiness, and
nothing of tools.

    quick set ──▶ one turn of the slow set ──▶ quick set ──▶ one more turn of a channel ──▶ quick set ──▶ other tasks
     all that is ready                                        that had lines left over

A descriptor begins in the slow set. A brief turn takes it to the quick set, and two long ones in succession take it
back. So an agent that asks little waits for one turn of those that ask much, however many they are.
"""

import errno
import os
import socket
from collections import deque
from collections.abc import Callable
from select import EPOLLIN, epoll
from time import perf_counter
from typing import Final, Protocol

import trio

from tooldispatchd.front.timer import GuardLog, Timer

# After this long in one tick the other tasks of the daemon have their turn, and the tick then goes on where it was.
TICK_S: Final = 0.002
EVENTS: Final = 512
# A small call takes a third of it where caches are cold and its agent must be woken; a new session, or what a flood
# sends at once, takes more.
BRIEF_S: Final = 0.000_1
# Each costs some forty microseconds, and together they are a turn like others.
ACCEPTS: Final = 4
# Out of descriptors: accepting again at once would only spin.
ACCEPT_PAUSE_S: Final = 0.1

Ready = Callable[[int], None]


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

    def __init__(
        self,
        timer: Timer,
        log: GuardLog,
        *,
        out_buffer_bytes: int,
        stalled_s: float,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self.timer = timer
        self.out_buffer_bytes = out_buffer_bytes
        self.stalled_s = stalled_s
        self._log = log
        self._clock = clock
        self._epoll = epoll()
        # Nested in the other, where it is ready when one of its descriptors is.
        self._slow = epoll()
        self._epoll.register(self._slow.fileno(), EPOLLIN)
        self._is_slow_ready = False
        self._quick: set[int] = set()
        # Of these, those whose last turn was long: one alone may be the machine's doing.
        self._suspected: set[int] = set()
        self._ready: dict[int, tuple[Ready, Abortable | None]] = {}
        self._interest: dict[int, int] = {}
        self._again: deque[Resumable] = deque()
        # Wakes the front where another task gives a channel a turn while nothing else is ready.
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._is_asleep = False
        self.watch(self._bell, EPOLLIN, self._take_bell)

    def watch(self, fd: int, interest: int, ready: Ready, *, owner: Abortable | None = None) -> None:
        """Call `ready(mask)` whenever the descriptor is, and end its owner should that fail.

        Raises `PermissionError` for one that cannot be polled.
        """
        self._slow.register(fd, interest)
        self._ready[fd] = ready, owner
        self._interest[fd] = interest

    def watches(self, fd: int) -> bool:
        """Tell whether the descriptor is in the set."""
        return fd in self._ready

    def change(self, fd: int, interest: int) -> None:
        """Ask for other events of a watched descriptor."""
        if self._interest[fd] != interest:
            self._set_of(fd).modify(fd, interest)
            self._interest[fd] = interest

    def forget(self, fd: int) -> None:
        """Take a descriptor out of the set, before it is closed."""
        if self._ready.pop(fd, None) is not None:
            # A front that has ended has no sets any more, while its listeners are closed after it.
            if not self._epoll.closed:
                self._set_of(fd).unregister(fd)
            self._quick.discard(fd)
            self._suspected.discard(fd)
            del self._interest[fd]

    def _set_of(self, fd: int) -> epoll:
        return self._epoll if fd in self._quick else self._slow

    def again(self, channel: Resumable) -> None:
        """Give the channel another turn, after those that wait for theirs already."""
        self._again.append(channel)
        if self._is_asleep:
            self._is_asleep = False
            os.eventfd_write(self._bell, 1)

    def _take_bell(self, _mask: int) -> None:
        os.eventfd_read(self._bell)

    async def run(self) -> None:
        """Serve until cancelled."""
        try:
            while True:
                if self._again or self._is_slow_ready:
                    await trio.lowlevel.checkpoint()
                else:
                    self._is_asleep = True
                    await trio.lowlevel.wait_readable(self._epoll.fileno())
                    self._is_asleep = False
                took_s = await self._serve_quick()
                if self._is_slow_ready:
                    self._serve_slow(took_s)
                    await self._serve_quick()
                if self._again:
                    self._resume(self._again.popleft())
                    await self._serve_quick()
        finally:
            self._epoll.close()
            self._slow.close()
            os.close(self._bell)

    async def _serve_quick(self) -> float:
        """Serve all of the quick set that is ready, and see whether the slow one is; how long it took, up to a tick."""
        self._is_slow_ready = False
        since = now = self._clock()
        for fd, mask in self._epoll.poll(0, EVENTS):
            watched = self._ready.get(fd)
            if watched is None:
                self._is_slow_ready = self._is_slow_ready or fd == self._slow.fileno()
                continue
            self._call(watched, mask)
            began, now = now, self._clock()
            if now - began > BRIEF_S:
                self._note_long(fd)
            elif fd in self._suspected:
                self._suspected.remove(fd)
            if now - since > TICK_S:
                await trio.lowlevel.checkpoint()
                since = now = self._clock()
        return now - since

    def _note_long(self, fd: int) -> None:
        if fd in self._suspected:
            self._suspected.remove(fd)
            self._epoll.unregister(fd)
            self._quick.remove(fd)
            self._slow.register(fd, self._interest[fd])
        elif fd in self._quick:
            self._suspected.add(fd)

    def _serve_slow(self, least_s: float) -> None:
        """Give one turn; more of them until so much time has passed, which is what the quick ones had."""
        until = self._clock() + least_s
        # One event at a time: the kernel puts a descriptor that it told of behind all others that are ready.
        while events := self._slow.poll(0, 1):
            [(fd, mask)] = events
            watched = self._ready[fd]
            began = self._clock()
            self._call(watched, mask)
            now = self._clock()
            # What has no owner stays: a listener has one connection to take, or many.
            if now - began <= BRIEF_S and watched[1] is not None and self._ready.get(fd) is watched:
                self._slow.unregister(fd)
                self._quick.add(fd)
                self._epoll.register(fd, self._interest[fd])
            if now >= until:
                return

    def _call(self, watched: tuple[Ready, Abortable | None], mask: int) -> None:
        ready, owner = watched
        try:
            ready(mask)
        except Exception as error:  # noqa: BLE001  # guard: a defect of one channel must not end the others
            self.end_defective(error, None if owner is None else owner.abort)

    def _resume(self, channel: Resumable) -> None:
        try:
            channel.resume()
        except Exception as error:  # noqa: BLE001  # the same guard, for a channel's further turns
            self.end_defective(error, channel.abort)

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
    """A listening socket in the front: every connection is given to `accepted`, until it is closed."""

    def __init__(self, front: Front, listening: socket.socket, accepted: Callable[[socket.socket], None]) -> None:
        self._front = front
        self._socket = listening
        # Who comes in here may change while it listens.
        self.accepted = accepted
        self._is_open = True
        listening.settimeout(0)
        front.watch(listening.fileno(), EPOLLIN, self._ready)

    def _ready(self, _mask: int) -> None:
        try:
            self._accept()
        except Exception as error:  # noqa: BLE001  # guard: the same, for a channel that could not even begin
            self._front._log.incident("connection failed", error)
            # A failure that each connection meets must not fill the daemon's time and its log.
            self.pause()

    def _accept(self) -> None:
        """Take the connections that wait, a bounded number at a time."""
        for _ in range(ACCEPTS):
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
                self.accepted(connection)
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
            self._front.watch(self._socket.fileno(), EPOLLIN, self._ready)
        except OSError:
            # Want of memory for the set is no more lasting than want of descriptors.
            self._front.timer.add(trio.current_time() + ACCEPT_PAUSE_S, self)

    def close(self) -> None:
        """Accept no more; connections that wait are refused by the kernel."""
        if self._is_open:
            self._is_open = False
            self._front.forget(self._socket.fileno())
            self._socket.close()
