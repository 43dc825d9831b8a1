"""One file that a configuration consists of or names: read with a bound, and never waited for."""

import errno
import os
import stat
from pathlib import Path

from tooldispatchd.config.stamps import note


def read_regular(path: Path, max_bytes: int) -> tuple[bytes, int]:
    """The content of a file, of one over `max_bytes` a little more than that, and its mode.

    Raises OSError, also for what is no regular file, and ValueError for what no file can be called.
    """
    note(path)
    with open(path, "rb", opener=_open_at_once) as file:
        mode = os.fstat(file.fileno()).st_mode
        # The usual name of nothing at all, for a configuration that says nothing.
        if not stat.S_ISREG(mode) and str(path) != os.devnull:
            raise OSError(errno.EINVAL, "it is not a regular file")
        # One more than a newline at the end may add.
        return file.read(max_bytes + 3), stat.S_IMODE(mode)


def _open_at_once(path: str, flags: int) -> int:
    # A pipe would be waited for until somebody writes, and a terminal until somebody types.
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
