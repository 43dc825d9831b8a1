"""Open what lies at a path of which no part is a symbolic link: a policy names places as they were when it was made.

A process that may change what stands above such a place could else put a link there, and have another place used.
"""

import errno
import os
import stat
from collections.abc import Sequence
from typing import Final

_FLAGS: Final = os.O_PATH | os.O_CLOEXEC


def open_straight(path: str, held: Sequence[int] | None = None) -> int:
    """A descriptor that names what is at the absolute `path`; raises OSError, which is ELOOP where a part is a link.

    It has to be what `held` names by device and inode, if that is given: else ESTALE.

    Step by step, which is as safe as openat2(2) and a few microseconds slower: filters of containers refuse that call.
    """
    fd = os.open("/", _FLAGS)
    for name in filter(None, path.split("/")):
        above = fd
        try:
            # With O_PATH a link itself is opened.
            fd = os.open(name, _FLAGS | os.O_NOFOLLOW, dir_fd=above)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from error
        finally:
            os.close(above)
        if stat.S_ISLNK(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    if held is not None:
        found = os.fstat(fd)
        if [found.st_dev, found.st_ino] != [*held]:
            os.close(fd)
            raise OSError(errno.ESTALE, "it is another directory than when the session opened", path)
    return fd


def enter_straight(path: str, held: Sequence[int]) -> None:
    """Make it the working directory; otherwise as `open_straight`."""
    fd = open_straight(path, held)
    try:
        os.fchdir(fd)
    finally:
        os.close(fd)
