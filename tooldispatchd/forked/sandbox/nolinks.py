"""Open what lies at a path of which no part is a symbolic link: a policy names places as they were when it was made.

Who may change what stands above such a place could else put a link there, and have another place used in its stead.
See openat2(2), RESOLVE_NO_SYMLINKS.
"""

import ctypes
import errno
import os
import stat
import struct
from typing import Final

from tooldispatchd.forked.libc import load

# The same on every architecture.
_OPENAT2: Final = 437
_HERE: Final = -100
_NO_LINKS: Final = 0x04

_FLAGS: Final = os.O_PATH | os.O_CLOEXEC


def open_straight(path: str) -> int:
    """A descriptor that names what is at the absolute `path`; raises OSError, which is ELOOP where a part is a link."""
    how = struct.pack("=3Q", _FLAGS, 0, _NO_LINKS)
    words = ctypes.c_long(_HERE), ctypes.c_char_p(os.fsencode(path)), ctypes.c_char_p(how), ctypes.c_size_t(len(how))
    fd: int = load().syscall(ctypes.c_long(_OPENAT2), *words)
    if fd >= 0:
        return fd
    number = ctypes.get_errno()
    # A filter of containers that does not know the call answers EPERM, which the call itself never does here.
    if number not in (errno.ENOSYS, errno.EPERM):
        raise OSError(number, os.strerror(number), path)
    return step_by_step(path)


def step_by_step(path: str) -> int:
    """As `open_straight`, for a kernel that lacks its call."""
    fd = os.open("/", _FLAGS)
    for name in path.split("/"):
        if not name:
            continue
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
    return fd
