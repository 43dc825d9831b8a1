"""Namespaces of a process's own: of users, for a count of its own processes, and of mounts, to make files read-only.

The mounts of one are gone with its last process. See user_namespaces(7), mount_namespaces(7), mount_setattr(2) and
capabilities(7).
"""

import contextlib
import ctypes
import errno
import os
import struct
from collections.abc import Sequence
from typing import Final

from tooldispatchd.forked.libc import check, load, prctl, syscall
from tooldispatchd.forked.nolinks import open_straight

_NEW_MOUNTS: Final = 0x00020000
_NEW_USERS: Final = 0x10000000

# The same on every architecture.
_OPEN_TREE: Final = 428
_MOVE_MOUNT: Final = 429
_MOUNT_SETATTR: Final = 442
_HERE: Final = -100
_CLONE_TREE: Final = 1
_RECURSIVE: Final = 0x8000
_EMPTY_FROM: Final = 0x4
_EMPTY_TO: Final = 0x40
_EMPTY_PATH: Final = 0x1000
_READ_ONLY: Final = 0x1
_PRIVATE: Final = 1 << 18

_KERNEL: Final = (b"proc", b"sysfs", b"cgroup", b"cgroup2")

_PR_SET_DUMPABLE: Final = 4
_PR_CAPBSET_DROP: Final = 24
_PR_SET_SECUREBITS: Final = 28
_NO_ROOT: Final = 0b11
"""SECBIT_NOROOT and its lock: user 0 gains nothing by starting a program."""
_CAP_SYS_RESOURCE: Final = 24
_CAP_VERSION: Final = 0x20080522


def enter_user_namespace(*, with_mounts: bool = False) -> None:
    """Enter a user namespace in which this user and group are themselves, and all others nobody.

    Its processes are counted from none, whatever else runs as this user. This process has every capability in it, until
    it executes a program or drops them. Raises OSError (EPERM, ENOSPC) where that is not allowed.
    """
    uid, gid = os.geteuid(), os.getegid()
    # After a change of user the files beneath /proc/self are root's, unless the process may be dumped. What is
    # executed next sets that anew.
    prctl(_PR_SET_DUMPABLE, 1)
    check(load().unshare(_NEW_USERS | (_NEW_MOUNTS if with_mounts else 0)))
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{uid} {uid} 1")
    _write("/proc/self/gid_map", f"{gid} {gid} 1")


def enter_mount_namespace() -> None:
    """Enter a mount namespace; needs CAP_SYS_ADMIN."""
    check(load().unshare(_NEW_MOUNTS))


def make_read_only(writable: Sequence[str]) -> None:
    """Let nothing be changed in any file system but beneath `writable`; in a mount namespace of one's own only.

    The paths are without symbolic links: one that has become one is refused (ELOOP). It holds for names, modes, owners,
    times and attributes too; not for what is written to devices, pipes and sockets.
    """
    opened: list[int] = []
    try:
        # Opened in this namespace, whose mounts alone can be moved: what was opened before it lies in another.
        opened += [open_straight(path) for path in writable]
        flags = _EMPTY_PATH | _CLONE_TREE | _RECURSIVE | os.O_CLOEXEC
        trees = [syscall(_OPEN_TREE, place, b"", flags) for place in opened]
        places, opened = opened, [*opened, *trees]
        # Private, so that nothing of the following is seen outside.
        asked = struct.pack("=4Q", _READ_ONLY, 0, _PRIVATE, 0)
        syscall(_MOUNT_SETATTR, _HERE, b"/", _RECURSIVE, asked, len(asked))
        for tree, place in zip(trees, places, strict=True):
            syscall(_MOVE_MOUNT, tree, b"", place, b"", _EMPTY_FROM | _EMPTY_TO)
    finally:
        for fd in opened:
            os.close(fd)
    # It still stands in the mount below, which is read-only; and stays there where its directory has no path for it.
    with contextlib.suppress(OSError):
        os.chdir(os.getcwd())  # noqa: PTH109  # in a fork each module that is first touched costs its pages


def make_kernel_read_only() -> None:
    """Let nothing be changed by the kernel's files (settings, cgroups, processes); in a mount namespace of one's own.

    They are root's, and so root's to write without any capability.
    """
    mounted = []
    # proc_pid_mountinfo(5). Path would cost more: in a fork each module that is first touched costs its pages.
    with open("/proc/self/mountinfo", "rb") as lines:  # noqa: PTH123  # as above
        for line in lines:
            place, _, source = line.partition(b" - ")
            if source.split()[0] in _KERNEL:
                # Blanks and the like are written in octal.
                mounted.append(place.split()[4].decode("unicode_escape").encode("latin-1"))
    asked = struct.pack("=4Q", _READ_ONLY, 0, _PRIVATE, 0)
    for path in mounted:
        try:
            syscall(_MOUNT_SETATTR, _HERE, path, _RECURSIVE, asked, len(asked))
        except OSError as error:
            # Something else is mounted over it, so that it cannot be reached.
            if error.errno not in (errno.EINVAL, errno.ENOENT, errno.ENOTDIR):
                raise


def drop_capabilities() -> None:
    """Give up every capability for good, as root too: no program that is started gives any back."""
    if os.geteuid() == 0:
        prctl(_PR_SET_SECUREBITS, _NO_ROOT)
    header = struct.pack("=Ii", _CAP_VERSION, 0)
    check(load().capset(header, bytes(24)))


def keep_limits() -> None:
    """Give up what lets root pass the limits of a process and raise them; nothing for any other user."""
    if os.geteuid() != 0:
        return
    try:
        prctl(_PR_CAPBSET_DROP, _CAP_SYS_RESOURCE)
    except OSError as error:
        # Without CAP_SETPCAP: root in a box so small has no capability to raise limits with.
        if error.errno != errno.EPERM:
            raise
    header = struct.pack("=Ii", _CAP_VERSION, 0)
    held = ctypes.create_string_buffer(24)
    check(load().capget(header, held))
    words = list(struct.unpack("=6I", held.raw))
    for index in range(3):
        words[index] &= ~(1 << _CAP_SYS_RESOURCE)
    check(load().capset(header, struct.pack("=6I", *words)))


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
