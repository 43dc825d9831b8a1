"""Remove directories, whatever programs have left in them; as a function, and as a program of its own.

    top/ ── entry: a file, an empty directory ──▶ removed
         └─ entry: a directory with content ──▶ its files removed, its directories moved up into top ──▶ removed

Because everything deep is moved up first, depth costs neither recursion nor descriptors nor long paths. A directory is
opened only after the kernel has called it not empty, or has moved it: it does neither to one that something is mounted
on, so that nothing of another file system, nor of a bind mount of this one, is ever taken for the program's own. No
symbolic link is followed.

Run as `python -I -S removal.py PATH ...`, so it imports the standard library only. It exits 0 if nothing is left.
"""

import contextlib
import ctypes
import errno
import fcntl
import math
import os
import stat
import sys
import time
from secrets import token_hex

# linux/fs.h; the flags that keep even root from removing a file.
FS_IOC_GETFLAGS = 0x80086601
FS_IOC_SETFLAGS = 0x40086602
FS_APPEND_FL = 0x20
FS_IMMUTABLE_FL = 0x10
# linux/mount.h: away from here at once, though still in use elsewhere; never through a symbolic link.
DETACH_NOFOLLOW = 2 | 8

OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# Locked, flagged, mounted twice over, and the try that succeeds: nothing honest needs more.
TRIES = 6
# How often the clock is looked at, in entries.
ENTRIES_PER_LOOK = 256
# It stays until all else of a directory is gone: by it what was left half removed is known as such (`daemon`).
LOCK = ".lock"
# The standard allows either.
NOT_EMPTY = (errno.ENOTEMPTY, errno.EEXIST)


def remove_tree(path: str, *, until: float = math.inf) -> bool:
    """Remove what is at `path` before `until` (of `time.monotonic`); whether nothing is left there. Raises nothing."""
    try:
        parent = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # noqa: PTH120  # in bytes and odd names as well
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        return _Tree(until).remove(parent, os.path.basename(path))  # noqa: PTH119  # as above
    finally:
        os.close(parent)


class _Tree:
    """One removal: names of its own for what it moves, and its bound."""

    def __init__(self, until: float) -> None:
        self._mark = f".removed-{token_hex(8)}-"
        self._moved = 0
        self._until = until
        self._seen = 0
        self._ended = False

    def remove(self, parent: int, name: str) -> bool:
        """Remove an entry of the directory `parent`; whether it is gone."""
        error = _remove(parent, name)
        if error not in NOT_EMPTY:
            return error == 0
        try:
            top = _open(parent, name)
        except OSError:
            return False
        try:
            while self._empty(top, top):
                pass
            with os.scandir(top) as left:
                is_only_lock = all(entry.name == LOCK for entry in left)
            if is_only_lock:
                _remove(top, LOCK)
        finally:
            os.close(top)
        return _remove(parent, name) == 0

    def _empty(self, directory: int, top: int) -> int:
        """Remove the entries of `directory` or move them up into `top`; how many were."""
        done = 0
        with os.scandir(directory) as entries:
            for entry in entries:
                self._seen += 1
                if self._seen % ENTRIES_PER_LOOK == 0:
                    self._ended = time.monotonic() > self._until
                if self._ended:
                    return 0
                if directory == top and entry.name == LOCK:
                    continue
                done += self._take(directory, entry.name, top)
        return done

    def _take(self, directory: int, name: str, top: int) -> int:
        """As `_empty`, one entry."""
        if _remove(directory, name) == 0:
            return 1
        if name.startswith(self._mark):
            try:
                moved = _open(top, name)
            except OSError:
                return 0
            try:
                return self._empty(moved, top)
            finally:
                os.close(moved)
        # What is left is a directory, which gets a name of our own in `top`, or cannot be removed.
        self._moved += 1
        to = f"{self._mark}{self._moved}"
        for _ in range(TRIES):
            try:
                if not stat.S_ISDIR(os.lstat(name, dir_fd=directory).st_mode):
                    break
                os.rename(name, to, src_dir_fd=directory, dst_dir_fd=top)
            except OSError as error:
                if not _relent(error.errno or errno.EIO, directory, name):
                    break
            else:
                return 1
        return 0


def _remove(directory: int, name: str) -> int:
    """Remove a file or an empty directory; 0 when it is gone, else the error number that it failed with."""
    failed = 0
    for _ in range(TRIES):
        try:
            try:
                os.unlink(name, dir_fd=directory)
            except IsADirectoryError:
                # On Linux, whatever the standard allows.
                os.rmdir(name, dir_fd=directory)
        except FileNotFoundError:
            return 0
        except OSError as error:
            failed = error.errno or errno.EIO
            if not _relent(failed, directory, name):
                break
        else:
            return 0
    return failed


def _relent(error: int, directory: int, name: str) -> bool:
    """Take away what stands in the way of removing or moving an entry; whether another try is worth it."""
    match error:
        case errno.EBUSY:
            # By a path that starts at the descriptor, as umount takes no other.
            path = os.fsencode(f"/proc/self/fd/{directory}/{name}")
            return bool(ctypes.CDLL(None).umount2(path, DETACH_NOFOLLOW) == 0)
        case errno.EACCES:
            return _unlock(directory, name)
        case errno.EPERM:
            return _unflag(directory) | _unflag_entry(directory, name)
        case _:
            return False


def _unlock(directory: int, name: str) -> bool:
    """Give ourselves all rights to a directory that is ours."""
    with contextlib.suppress(OSError):
        # Opening it for reading is just what its mode may forbid.
        held = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
        try:
            if stat.S_IMODE(os.fstat(held).st_mode) & 0o700 != 0o700:
                os.chmod(f"/proc/self/fd/{held}", 0o700)  # noqa: PTH101  # not a path but a descriptor
                return True
        finally:
            os.close(held)
    return False


def _unflag_entry(directory: int, name: str) -> bool:
    with contextlib.suppress(OSError):
        mode = os.lstat(name, dir_fd=directory).st_mode
        # To open a device may do things; devices have no such flags.
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            fd = os.open(name, OPEN_FLAGS, dir_fd=directory)
            try:
                return _unflag(fd)
            finally:
                os.close(fd)
    return False


def _unflag(fd: int) -> bool:
    """Let an open file or directory be changed; whether anything had forbidden it."""
    # The kernel takes and gives an int, though the request's number says long.
    flags = bytearray(8)
    try:
        fcntl.ioctl(fd, FS_IOC_GETFLAGS, flags)
        before = int.from_bytes(flags[:4], sys.byteorder)
        after = before & ~(FS_IMMUTABLE_FL | FS_APPEND_FL)
        if after == before:
            return False
        fcntl.ioctl(fd, FS_IOC_SETFLAGS, after.to_bytes(8, sys.byteorder))
    except OSError:
        return False
    return True


def _open(directory: int, name: str) -> int:
    """Open a directory that has been moved, with all rights to it; raises OSError."""
    try:
        fd = os.open(name, OPEN_FLAGS | os.O_DIRECTORY, dir_fd=directory)
    except PermissionError:
        _unlock(directory, name)
        fd = os.open(name, OPEN_FLAGS | os.O_DIRECTORY, dir_fd=directory)
    with contextlib.suppress(OSError):
        # Without them nothing of it can be removed; where it is another's, root needs none.
        os.fchmod(fd, 0o700)
    return fd


if __name__ == "__main__":
    sys.exit(sum(not remove_tree(path) for path in sys.argv[1:]) > 0)
