"""Landlock by its three system calls: which files a process may use from now on, and which it may not.

A domain, once entered, is never left; programs that the process starts are in it too, and domains within domains only
take away. Rules name files and directories by descriptor, and a directory's rule holds for all beneath it. What no
right speaks of is not restricted: looking at names and attributes (`stat`), changing modes, owners, times and extended
attributes, entering directories, and, before ABI 9, connecting to the path of a socket. See landlock(7) and the
kernel's userspace-api/landlock.
"""

import contextlib
import errno
import functools
import os
import stat
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from tooldispatchd.forked.libc import syscall
from tooldispatchd.forked.nolinks import open_straight

# The same on every architecture, as for all calls since Linux 5.
_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_VERSION: Final = 1
_PATH_BENEATH: Final = 1

EXECUTE: Final = 1 << 0
WRITE_FILE: Final = 1 << 1
READ_FILE: Final = 1 << 2
READ_DIR: Final = 1 << 3
REFER: Final = 1 << 13
TRUNCATE: Final = 1 << 14
IOCTL_DEV: Final = 1 << 15
RESOLVE_UNIX: Final = 1 << 16
MAKE_DEVICES: Final = 1 << 6 | 1 << 11

READ: Final = EXECUTE | READ_FILE | READ_DIR
FILE: Final = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV | RESOLVE_UNIX
"""The rights that a rule for what is no directory may give; any other in it is EINVAL."""

_TCP: Final = 0b11
"""Binding to and connecting from TCP ports."""
_SCOPES: Final = 0b11
"""Connecting to abstract Unix sockets, and sending signals, of processes outside the domain."""

RIGHTS: Final = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16, 9: 17}
"""How many rights over files each ABI has known, from the lowest bit on."""


class Handled(NamedTuple):
    """The rights that a domain takes away where no rule gives them: bits of rights over files, TCP ports and scopes."""

    files: int
    ports: int = 0
    scopes: int = 0


@functools.cache
def abi() -> int:
    """The version that the kernel speaks; 0 where it has no Landlock, or has not been told to use it."""
    try:
        return syscall(_CREATE_RULESET, None, 0, _VERSION)
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM):
            return 0
        raise


def known_rights(version: int) -> int:
    """All rights over files that this ABI knows."""
    return (1 << max(bits for since, bits in RIGHTS.items() if since <= version)) - 1


def handled(version: int, *, read: bool, write: bool, network: bool) -> Handled:
    """The rights of a domain in which reading, writing (where True) and the network (where False) are restricted.

    Devices can be made in none, since with one of a disk a process that is root would be past everything.
    """
    known = known_rights(version)
    files = MAKE_DEVICES
    if read:
        files |= READ
    if write:
        files |= known & ~READ
    elif version >= 2:
        # A domain that does not speak of it refuses it everywhere.
        files |= REFER
    ports = _TCP if version >= 4 and not network else 0
    return Handled(files, ports, _SCOPES if version >= 6 else 0)


class Ruleset:
    """Rules being gathered, which are entered with `restrict_self`; a context manager that closes it.

    It is one object of the kernel for all processes that have its descriptor, through forks too.
    """

    def __init__(self, what: Handled) -> None:
        self._handled = what
        # Fields that an older kernel does not know are zero, which it lets pass.
        attributes = struct.pack("=3Q", *what)
        self._fd = syscall(_CREATE_RULESET, attributes, len(attributes), 0)

    def allow(self, fd: int, rights: int, *, is_directory: bool) -> None:
        """Give `rights`, as far as they are handled, over the file `fd`, or over all beneath the directory `fd`."""
        rights &= self._handled.files
        if not is_directory:
            rights &= FILE
        if rights:
            syscall(_ADD_RULE, self._fd, _PATH_BENEATH, struct.pack("=Qi", rights, fd), 0)

    def allow_path(self, path: str, rights: int, *, is_straight: bool = False) -> None:
        """As `allow`, for what `open_place` finds at `path`; raises OSError where there is nothing."""
        fd, is_directory = open_place(path, is_straight=is_straight)
        try:
            self.allow(fd, rights, is_directory=is_directory)
        finally:
            os.close(fd)

    def restrict_self(self) -> None:
        """Enter a new domain with these rules; needs no_new_privs. This thread alone is in it, and what it starts."""
        syscall(_RESTRICT_SELF, self._fd, 0)

    def __enter__(self) -> "Ruleset":
        return self

    def __exit__(self, *_: object) -> None:
        # The rules are forgotten; domains that were made of them remain.
        os.close(self._fd)


def open_place(path: str, *, is_straight: bool = False) -> tuple[int, bool]:
    """A descriptor that names what is at `path` and cannot be read from, and whether it is a directory.

    Where the absolute `path` `is_straight` no part of it may be a symbolic link, which is ELOOP.
    """
    fd = open_straight(path) if is_straight else os.open(path, os.O_PATH | os.O_CLOEXEC)
    return fd, stat.S_ISDIR(os.fstat(fd).st_mode)


def open_places(paths: Sequence[str]) -> list[tuple[int, bool]]:
    """As `open_place`, without those that are not there or cannot be reached."""
    places = []
    for path in paths:
        with contextlib.suppress(OSError):
            places.append(open_place(path))
    return places
