"""What the soak counts, in a mapped file: a process that is killed has counted up to its last instruction."""

import mmap
from enum import IntEnum
from pathlib import Path


class Count(IntEnum):
    """What is counted, and where it lies in the file of counters."""

    ASKED = 0
    ANSWERED = 1
    VOID = 2  # asked on a channel that this program then closed: nobody is there to be answered
    LOST = 3
    DOUBLED = 4
    CROSSED = 5
    WRONG = 6  # a fault that was not to come, or an end of the channel
    OPENED = 7
    BYES = 8
    HALF_CLOSED = 9
    CLOSED = 10
    CANCELLED = 11
    TIMED_OUT = 12
    JOBS = 13
    PROCESSES = 14
    MCP = 15


class Counters:
    """The file of counters, eight bytes each."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(8 * len(Count)))
        with path.open("r+b") as file:
            self._view = memoryview(mmap.mmap(file.fileno(), 0)).cast("Q")

    def add(self, count: Count, number: int = 1) -> None:
        """Count `number` more."""
        self._view[count] += number

    def __getitem__(self, count: Count) -> int:
        return self._view[count]
