"""What the web process has to tell the daemon's log: a JSON line on stdout for each event, so many and no more.

Never a token, and never anything of a request but the address that it came from.
"""

import os
import traceback
from contextlib import suppress
from typing import Final

import msgspec
import trio

STDOUT: Final = 1
# Of one event, in a while: an attack is seen in ten lines, and must not fill a disk.
LINES: Final = 10
WHILE_S: Final = 60.0


class LogBook:
    """Writes events to a descriptor, and drops those for which there is no room."""

    def __init__(self, fd: int = STDOUT) -> None:
        self._fd = fd
        os.set_blocking(fd, False)  # the pipe is this process's own
        self._told: dict[str, tuple[float, int]] = {}

    def tell(self, event: str, **fields: str | int) -> None:
        """Log an event, unless it has been told too often of late; then the next line says how many were not."""
        now = trio.current_time()
        began, count = self._told.get(event, (now, 0))
        if now - began >= WHILE_S:
            if count > LINES:
                fields["untold"] = count - LINES
            began, count = now, 0
        self._told[event] = (began, count + 1)
        if count < LINES:
            self._write({"event": event, "fields": fields})

    def incident(self, event: str, error: BaseException) -> None:
        """Log a defect: where it is, not what it was about."""
        frames = traceback.extract_tb(error.__traceback__)[-3:]
        where = " < ".join(f"{frame.name}:{frame.lineno}" for frame in reversed(frames))
        self.tell(event, error=type(error).__name__, where=where)

    def _write(self, told: dict[str, object]) -> None:
        with suppress(OSError):
            os.write(self._fd, msgspec.json.encode(told) + b"\n")
