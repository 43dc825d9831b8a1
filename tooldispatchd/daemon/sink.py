"""Where log lines go: a descriptor that may break or stop being read at any time, which must stop nobody.

A line that cannot be written at once is dropped and counted; the next that can says how many were.
"""

import os
import socket
import stat
from typing import Final

STDERR: Final = 2


class LogSink:
    """Writes whole lines to a descriptor and never waits, never raises."""

    def __init__(self, fd: int = STDERR) -> None:
        self._socket: socket.socket | None = None
        self._fd = -1
        self.dropped = 0
        try:
            self._open(fd)
        except OSError:
            self._fd = -1  # nobody to tell

    def _open(self, fd: int) -> None:
        mode = os.fstat(fd).st_mode
        if stat.S_ISSOCK(mode):
            self._socket = socket.socket(fileno=os.dup(fd))
        elif stat.S_ISFIFO(mode) or os.isatty(fd):
            # Opened anew: the non-blocking flag of a duplicate would be everyone's who holds it.
            self._fd = _reopen(fd)
        else:
            self._fd = os.dup(fd)

    def write(self, line: bytes) -> None:
        """Write `line`, which ends with its newline, or drop it."""
        if self.dropped:
            line = b'{"level":"warning","event":"log lines dropped","count":%d}\n%b' % (self.dropped, line)
        try:
            if self._socket is not None:
                self._socket.send(line, socket.MSG_DONTWAIT)
            elif self._fd >= 0:
                os.write(self._fd, line)
        except OSError:
            self.dropped += 1
        else:
            self.dropped = 0


def _reopen(fd: int) -> int:
    try:
        return os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except PermissionError:
        # Another user's pipe: started by sudo, a log is worth sharing the flag with whoever else writes there.
        own = os.dup(fd)
        os.set_blocking(own, False)
        return own
