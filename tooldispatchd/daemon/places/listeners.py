"""Sockets that the daemon listens on: how a Unix socket's path is taken, recognised as stale, and released.

    lock PATH.lock ─▶ PATH is free, or a dead daemon's socket
        ─▶ bind PATH.new ─▶ chown ─▶ chmod ─▶ listen ─▶ rename to PATH

The lock is held for life, so two daemons never share a path; the rename makes the socket appear complete, with its
owner and mode, and replaces a stale one in the same step. An abstract socket has no path and needs none of it: the
kernel gives its name to one program until that ends. A socket that a service manager made belongs to it.

A daemon may leave its socket and its lock to the one that comes after it (`inheritance`): the path stays as it is.
"""

import errno
import fcntl
import os
import socket
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

MODE: Final = 0o660
BACKLOG: Final = 1024
# A path is bound with this behind it, and renamed.
NEW: Final = ".new"
# sun_path of sockaddr_un, less the final NUL (unix(7)).
MAX_PATH_BYTES: Final = 107


class ListenError(Exception):
    """A socket cannot be bound; the message says which and why."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"cannot listen on {where}: {why}")


class UnixSocket:
    """A listening Unix socket, the lock of its path, and the identity of its file."""

    def __init__(self, path: Path, listening: socket.socket, lock_fd: int) -> None:
        self.path = path
        self.socket = listening
        self._lock_fd = lock_fd
        self._identity = _identity(path)

    @property
    def lock_fd(self) -> int:
        """The descriptor that holds the lock; negative once it is released or left."""
        return self._lock_fd

    def leave(self) -> None:
        """Leave the path and the lock to whoever else has their descriptors. Idempotent; the socket stays open."""
        if self._lock_fd >= 0:
            # Closing unlocks only the last descriptor of an open file (flock(2)).
            os.close(self._lock_fd)
            self._lock_fd = -1

    def release(self) -> None:
        """Unlink the path if it is still this socket's, and release the lock. Idempotent; does not close the socket.

        A path that cannot be unlinked stays: the directory may be gone, or no longer writable.
        """
        if self._lock_fd < 0:
            return
        with suppress(OSError):
            if _identity(self.path) == self._identity:
                self.path.unlink(missing_ok=True)
        with suppress(OSError):
            _lock_path(self.path).unlink(missing_ok=True)
        os.close(self._lock_fd)
        self._lock_fd = -1


def listen_unix(
    path: Path,
    *,
    mode: int = MODE,
    owner: tuple[int, int] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> UnixSocket:
    """Listen on `path`; raises `ListenError` where another daemon lives there or the place is not safe.

    `owner` is the user and the group to give it to, -1 for a group that stays as it is. The path's directory is made
    where it stands right under a runtime directory of `environ`.
    """
    where = f"unix:{path}"
    # PATH.new is bound first.
    if len(os.fsencode(path)) > MAX_PATH_BYTES - len(NEW):
        raise ListenError(where, f"the path is longer than {MAX_PATH_BYTES - len(NEW)} bytes")
    try:
        if not path.parent.exists():
            _make_directory(path.parent, where, mode, owner, environ)
        writers = path.parent.stat().st_mode
        if writers & stat.S_IWOTH and not writers & stat.S_ISVTX:
            why = f"{path.parent} may be written by anyone: another user could put a socket in its place"
            raise ListenError(where, why)
        lock_fd = _lock(path, where)
        try:
            _clear(path, where, os.geteuid() if owner is None else owner[0])
            return UnixSocket(path, _bind(path, mode, owner), lock_fd)
        except BaseException:
            _lock_path(path).unlink(missing_ok=True)
            os.close(lock_fd)
            raise
    except OSError as error:
        raise ListenError(where, error.strerror or str(error)) from error


def adopt_unix(path: Path, listening: socket.socket, lock_fd: int | None) -> UnixSocket | None:
    """Go on listening on `path` with the socket and the lock of a daemon before this one; None where that is no use.

    That is where nothing leads to the socket any more, since its file is gone. Takes the lock, where it came without.
    Raises `ListenError` where another daemon has that, and `OSError`. Without a result they stay the caller's.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISSOCK(status.st_mode):
        return None
    return UnixSocket(path, listening, _lock(path, f"unix:{path}") if lock_fd is None else lock_fd)


def path_of(listening: socket.socket) -> Path | None:
    """Where the file of a Unix socket is that `listen_unix` has made; None for any other."""
    name = listening.getsockname() if listening.family == socket.AF_UNIX else b""
    # The kernel tells the name that was bound, and it was renamed then.
    return Path(name.removesuffix(NEW)) if isinstance(name, str) and name.endswith(NEW) else None


def listen_abstract(name: str) -> socket.socket:
    """Listen on the abstract socket `name`, written without its NUL; raises `ListenError` where it is taken."""
    with _listening(socket.AF_UNIX, f"unix:@{name}") as listening:
        listening.bind(b"\0" + os.fsencode(name))
    return listening


def listen_tcp(address: str, port: int) -> socket.socket:
    """Listen on an IP address of this machine; raises `ListenError`."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with _listening(family, f"{address} port {port}") as listening:
        # Connections of a daemon that has just ended keep the port for a minute otherwise.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind((address, port))
    return listening


def take_handed(fd: int, name: str) -> socket.socket:
    """The listening socket that was handed over as `fd`; raises `ListenError` for anything else.

    It must be a Unix socket: the kernel knows the user of no other peer.
    """
    where = f'systemd, descriptor {fd} named "{name}"'
    if not stat.S_ISSOCK(os.fstat(fd).st_mode):
        raise ListenError(where, "it is no socket")
    handed = socket.socket(fileno=fd)
    why = None
    if handed.family != socket.AF_UNIX:
        why = "it is no Unix socket"
    elif handed.type != socket.SOCK_STREAM:
        why = "it is no stream socket"
    elif not handed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        why = "it is not listening"
    if why is not None:
        handed.close()
        raise ListenError(where, why)
    return handed


@contextmanager
def _listening(family: socket.AddressFamily, where: str) -> Iterator[socket.socket]:
    """A socket that is bound in the block, and listens after it."""
    listening = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        yield listening
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        is_taken = error.errno == errno.EADDRINUSE
        why = "another program is listening there" if is_taken else error.strerror or str(error)
        raise ListenError(where, why) from error


def _make_directory(
    directory: Path, where: str, mode: int, owner: tuple[int, int] | None, environ: Mapping[str, str]
) -> None:
    # systemd gives several runtime directories, with colons between them.
    named = (environ.get("XDG_RUNTIME_DIR", ""), *environ.get("RUNTIME_DIRECTORY", "").split(":"))
    if directory.parent not in {Path(each) for each in ("/run", "/var/run", *named) if each.startswith("/")}:
        # Elsewhere a misspelt path would become a directory that no agent looks into.
        why = f"there is no directory {directory}; one is made only right under /run, $XDG_RUNTIME_DIR"
        raise ListenError(where, f"{why} and $RUNTIME_DIRECTORY")
    # Users whom the socket's mode admits must be able to pass through its directory.
    directory.mkdir()
    directory.chmod(0o700 | (0o010 if mode & 0o060 else 0) | (0o001 if mode & 0o006 else 0))
    if owner is not None and owner[1] >= 0:
        os.chown(directory, -1, owner[1])


def _lock_path(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


def _lock(path: Path, where: str) -> int:
    """The descriptor of the path's lock file, locked for as long as it is open."""
    lock = _lock_path(path)
    while True:
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        if os.fstat(fd).st_uid != os.geteuid():
            os.close(fd)
            raise ListenError(where, f"{lock} is another user's")
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise ListenError(where, "another daemon is listening there") from None
        # A daemon that has just ended may have unlinked the file that was locked here: then lock the new one.
        if _identity(lock) == _identity_of(os.fstat(fd)):
            return fd
        os.close(fd)


def _clear(path: Path, where: str, owner: int) -> None:
    """Raise `ListenError` unless nothing, or a stale socket of this user, stands at the path."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise ListenError(where, "something that is no socket stands there")
    if status.st_uid not in {os.geteuid(), owner}:
        raise ListenError(where, "another user's socket stands there")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)  # noqa: FBT003  # the standard library's own signature
        refused = probe.connect_ex(os.fspath(path))
    # Only a socket without a listener refuses. EAGAIN is a full backlog, EPROTOTYPE a socket of another type.
    if refused != errno.ECONNREFUSED:
        raise ListenError(where, "another program is listening there")


def _bind(path: Path, mode: int, owner: tuple[int, int] | None) -> socket.socket:
    new = path.with_name(path.name + NEW)
    # A daemon that died before its socket was complete has left it; anything else is not ours to remove.
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(new.lstat().st_mode):
            raise ListenError(f"unix:{path}", f"something that is no socket stands at {new}")
        new.unlink()
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        # The mode is set with the name: a later chmod could follow a link that was put in its place.
        before = os.umask(0o777 & ~mode)
        try:
            listening.bind(os.fspath(new))
        finally:
            os.umask(before)
        if owner is not None:
            try:
                os.chown(new, *owner, follow_symlinks=False)
            except OSError as error:
                names = ":".join(str(number) for number in owner if number >= 0)
                raise ListenError(f"unix:{path}", f"cannot give it to {names}: {error.strerror}") from error
        listening.listen(BACKLOG)
        new.rename(path)
    except BaseException:
        listening.close()
        new.unlink(missing_ok=True)
        raise
    return listening


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        return _identity_of(path.lstat())
    except FileNotFoundError:
        return None


def _identity_of(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
