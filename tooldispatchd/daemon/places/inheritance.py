"""Listening sockets that outlive a daemon: their names, and what is there of the daemon before this one.

    place ─▶ place-DIGEST: its listening socket, lock-DIGEST: the lock of its path, where it has one

They come out of a service manager's store (systemd.service(5), FileDescriptorStoreMax=), or from the daemon that is
taken over (`takeover`). A lock of flock(2) belongs to the open file, so that it is passed on with its descriptor.
"""

import hashlib
import os
import re
import socket
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Protocol

from tooldispatchd.config.listen_values import ListenAddress, ListenKind
from tooldispatchd.daemon.places.listeners import UnixSocket, path_of

Handed = Sequence[tuple[int, str]]

# What systemd names a socket that was given none (sd_listen_fds(3)).
UNNAMED: Final = "unknown"
# One of the kind is the daemon's own; every other descriptor is one that a unit names.
OWN: Final = re.compile(r"(place|lock)-([0-9a-f]{32})")
WITH_PATH: Final = frozenset({ListenKind.UNIX, ListenKind.HTTP_UNIX})


class SocketStore(Protocol):
    """A service manager that may keep sockets for the next daemon: `systemd.Notifier`."""

    def store(self, handed: Handed) -> bool:
        """Have it keep these; whether it was told so."""

    def forget(self, names: Sequence[str]) -> None:
        """It need not keep these any more."""


def names_of(place: ListenAddress) -> tuple[str, str]:
    """What the socket of an own place is called, and its lock: the same in each daemon that listens there.

    ASCII without a colon, as FDNAME= must be (sd_notify(3)).
    """
    name = str(Path(place.name).absolute()) if place.kind in WITH_PATH else place.name
    digest = hashlib.sha256(os.fsencode(f"{place.kind.value}\0{name}\0{place.port}")).hexdigest()[:32]
    return f"place-{digest}", f"lock-{digest}"


def divide(handed: Handed) -> tuple[Handed, Handed]:
    """The descriptors that a daemon left, and those that a unit names."""
    own = [each for each in handed if OWN.fullmatch(each[1])]
    return own, [each for each in handed if each not in own]


class Inheritance:
    """The sockets and locks of a daemon before this one, until a place takes them or `close`."""

    def __init__(self, handed: Handed = ()) -> None:
        self._fds: dict[str, int] = {}
        for fd, name in handed:
            _close(self._fds.pop(name, None))
            self._fds[name] = fd

    def take(self, place: ListenAddress) -> tuple[socket.socket, int | None] | None:
        """The listening socket of the place and its lock, where they are there; from now on they are the caller's."""
        socket_name, lock_name = names_of(place)
        fd, lock_fd = self._fds.pop(socket_name, None), self._fds.pop(lock_name, None)
        listening = None if fd is None else _listening(fd, place.kind)
        if listening is None:
            _close(lock_fd)
            return None
        return listening, lock_fd

    def close(self) -> list[str]:
        """Let go of what no place has taken, and remove its files; the names."""
        left, self._fds = self._fds, {}
        for name in left:
            kind, digest = name.split("-")
            if kind == "place":
                with socket.socket(fileno=left[name]) as listening:
                    path, lock_fd = path_of(listening), left.get(f"lock-{digest}", -1)
                    if path is not None and lock_fd >= 0:
                        UnixSocket(path, listening, os.dup(lock_fd)).release()
        for name, fd in left.items():
            if name.startswith("lock-"):
                os.close(fd)
        return sorted(left)


def handed_of(place: ListenAddress, listening: socket.socket, lock_fds: Iterable[int]) -> Handed:
    """The descriptors of an own place, as the next daemon is to be given them."""
    return list(zip((listening.fileno(), *lock_fds), names_of(place), strict=False))


def _listening(fd: int, kind: ListenKind) -> socket.socket | None:
    """The socket, if it is what the place listens on; else it is closed."""
    if not stat.S_ISSOCK(os.fstat(fd).st_mode):
        os.close(fd)
        return None
    found = socket.socket(fileno=fd)
    is_unix = kind in WITH_PATH or kind is ListenKind.ABSTRACT
    if (found.family == socket.AF_UNIX) is is_unix and found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return found
    found.close()
    return None


def _close(fd: int | None) -> None:
    if fd is not None:
        os.close(fd)
