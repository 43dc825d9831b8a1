"""What the service manager and the daemon tell each other: sockets that it hands over or keeps, and the daemon's state.

This is systemd's protocol (sd_listen_fds(3), sd_notify(3), sd_watchdog_enabled(3)). Its variables are taken out of the
environment, since they are meant for this process alone and not for its children.
"""

import os
import socket
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from select import EPOLLIN
from typing import Final

import trio

from tooldispatchd.daemon.places.inheritance import UNNAMED, Handed
from tooldispatchd.daemon.places.listeners import ListenError
from tooldispatchd.front.front import Front

FIRST_FD: Final = 3
# More than any unit has; past it the number is a mistake.
MAX_FDS: Final = 1024
# Often enough for `systemctl status`, and too seldom to be seen in any measurement.
STATUS_S: Final = 5.0
# Each of the daemon's states has one.
MAX_UNSENT: Final = 8
MICROSECOND_S: Final = 1e-6
# The manager's number is of 32 bits.
MAX_STORE_DIGITS: Final = 10


def listen_fds(environ: MutableMapping[str, str]) -> list[tuple[int, str]]:
    """The descriptors that are handed to this process, each with its name; none where there are none.

    They are closed on exec from now on, and the variables are taken out of `environ`. Raises `ListenError` where
    what is handed over is not what the variables say. Call it before anything is opened.
    """
    pid, count, names = (environ.pop(name, None) for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"))
    environ.pop("LISTEN_PIDFDID", None)
    if count is None or pid != str(os.getpid()):
        return []
    if not count.isdecimal() or int(count) > MAX_FDS:
        raise ListenError("systemd", f'LISTEN_FDS is "{count}", no number of descriptors')
    fds = range(FIRST_FD, FIRST_FD + int(count))
    named = names.split(":") if names else [UNNAMED] * len(fds)
    if len(named) != len(fds):
        raise ListenError("systemd", f"LISTEN_FDNAMES names {len(named)} descriptors, and LISTEN_FDS has {len(fds)}")
    for fd in fds:
        try:
            os.set_inheritable(fd, False)  # noqa: FBT003  # the standard library's own signature
        except OSError as error:
            raise ListenError("systemd", f"descriptor {fd} is not open") from error
    return list(zip(fds, named, strict=True))


def take_watchdog(environ: MutableMapping[str, str]) -> float | None:
    """The seconds of silence after which the service manager takes this process for hung; None where it never does."""
    limit, pid = environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", None)
    if pid not in {None, str(os.getpid())} or not limit.isdecimal():
        return None
    return int(limit) * MICROSECOND_S or None


class Notifier:
    """Tells the service manager, where there is one, the daemon's state. It never waits and never raises.

    What the manager does not take at once is sent before the next datagram, but for beats, of which another comes.
    """

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        address = environ.pop("NOTIFY_SOCKET", "")
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._socket: socket.socket | None = None
        self._is_stopping = False
        self._unsent: deque[bytes] = deque(maxlen=MAX_UNSENT)
        # Names of what it need not keep any more and was not told of yet. They are no more than it keeps, since it is
        # given nothing meanwhile; and apart, so that many of them drop no state.
        self._unkept: dict[str, None] = {}
        # How many descriptors it keeps for the next daemon; systemd says it from version 254 on.
        most = environ.pop("FDSTORE", "")
        self._most = int(most) if most.isdecimal() and len(most) <= MAX_STORE_DIGITS else 0
        self._stored: set[str] = set()
        if address.startswith(("/", "@")):
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)

    @property
    def is_heard(self) -> bool:
        """Whether there is a service manager that listens."""
        return self._socket is not None

    def ready(self, status: str) -> None:
        self.tell("READY=1", f"MAINPID={os.getpid()}", f"STATUS={status}")

    def reloading(self) -> None:
        """Say that the configuration is read anew (sd_notify(3)); `reloaded` must follow."""
        if self._socket is not None:
            now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
            self.tell("RELOADING=1", f"MONOTONIC_USEC={now_us}")

    def reloaded(self) -> None:
        """Say that it was, or that it could not be used; the state of before goes on."""
        if not self._is_stopping:
            self.tell("READY=1")

    def stopping(self, status: str, *, within_s: float) -> None:
        """Say that the daemon ends and asks for so much time before it is killed. It is not ready any more then."""
        self._is_stopping = True
        self.tell("STOPPING=1", f"STATUS={status}", f"EXTEND_TIMEOUT_USEC={int(within_s / MICROSECOND_S)}")

    def tell(self, *assignments: str) -> None:
        """Send these in one datagram, or later where it cannot be sent at once."""
        if self._socket is not None:
            self._unsent.append(_datagram(assignments))
            self._flush()

    def beat(self, *assignments: str) -> bool:
        """Send what is still unsent, then these if there are any: they are dropped if they cannot be sent at once.

        Whether all were sent.
        """
        return self._flush() and (not assignments or self._send(_datagram(assignments)))

    def store(self, handed: Handed) -> bool:
        """Have the manager keep these for the next daemon; whether it was told so. What it has already stays one.

        It is not while anything is unsent: that may be that it keep one of the same name no longer.
        """
        if self._socket is None or not handed or len(self._stored) + len(handed) > self._most or not self._flush():
            return False
        told: list[str] = []
        for fd, name in handed:
            # All descriptors of one message get the same name. It must not look whether a socket has hung up.
            if not self._send(_datagram(("FDSTORE=1", f"FDNAME={name}", "FDPOLL=0")), fd):
                self.forget(told)
                return False
            told.append(name)
            self._stored.add(name)
        return True

    def forget(self, names: Sequence[str]) -> None:
        """Have the manager keep the descriptors of these names no longer."""
        if self._socket is not None:
            self._stored.difference_update(names)
            self._unkept.update(dict.fromkeys(names))
            self._flush()

    def _flush(self) -> bool:
        """Send what is unsent; whether all of it was."""
        while self._unsent:
            if not self._send(self._unsent[0]):
                return False
            self._unsent.popleft()
        for name in [*self._unkept]:
            if not self._send(_datagram(("FDSTOREREMOVE=1", f"FDNAME={name}"))):
                return False
            del self._unkept[name]
        return True

    def _send(self, datagram: bytes, *fds: int) -> bool:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds))] if fds else []
        try:
            if self._socket is not None:
                self._socket.sendmsg([datagram], rights, socket.MSG_DONTWAIT, self._address)
        except OSError:
            # A manager that restarts, or is slow.
            return False
        return self._socket is not None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _datagram(assignments: Sequence[str]) -> bytes:
    return "\n".join(assignments).encode(errors="replace")


@contextmanager
def open_pulse(
    front: Front, notifier: Notifier, *, watchdog_s: float | None, status: Callable[[], str]
) -> Iterator[None]:
    """Meanwhile tell the service manager that the dispatch loop runs, and what `status` says; `front` must run."""
    if not notifier.is_heard:
        yield
        return
    pulse = Pulse(front, notifier, watchdog_s=watchdog_s, status=status)
    try:
        yield
    finally:
        pulse.close()


class Pulse:
    """Beats through the timer and the front; `open_pulse` holds it.

        timer ─▶ eventfd ─▶ front ─▶ WATCHDOG=1, STATUS=… ─▶ timer

    Every beat goes through the front's own set and sets the next one, so that it stops when either loop hangs.
    """

    def __init__(
        self, front: Front, notifier: Notifier, *, watchdog_s: float | None, status: Callable[[], str]
    ) -> None:
        self._front = front
        self._notifier = notifier
        self._status = status
        self._told = ""
        self._words = () if watchdog_s is None else ("WATCHDOG=1",)
        # Half of it, as sd_watchdog_enabled(3) advises.
        self._every_s = STATUS_S if watchdog_s is None else min(watchdog_s / 2, STATUS_S)
        self._fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        front.watch(self._fd, EPOLLIN, self._beat, owner=self)
        self.expire()

    def expire(self) -> None:
        """Have the front beat; the timer calls it."""
        if self._fd >= 0:
            os.eventfd_write(self._fd, 1)

    def abort(self, _why: str) -> None:
        """End after a defect; the front calls it."""
        self.close()

    def close(self) -> None:
        """Stop beating. Idempotent."""
        if self._fd >= 0:
            self._front.forget(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _beat(self, _mask: int) -> None:
        os.eventfd_read(self._fd)
        status = self._status()
        news = () if status == self._told else (f"STATUS={status}",)
        if self._notifier.beat(*self._words, *news):
            self._told = status
        self._front.timer.add(trio.current_time() + self._every_s, self)
