"""How many records a run was given, and of how many of them its store knows: numbers that outlive a killed daemon.

They lie in memory that has a name (tmpfs), so that to count takes no system call, and no disk that is full or slow
holds the loop. A machine that starts anew has none of them, and nor has a new container: then nothing is said, in the
place of something wrong.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from mmap import mmap
from pathlib import Path
from typing import Final

from tooldispatchd.privatefiles import create_private

# systemd keeps its own directory for the next start, and removes with a service what that has left here (`RemoveIPC=`).
_ELSEWHERE: Final = "/dev/shm"  # noqa: S108  # what stands there has names that nobody knows before
_PREFIX: Final = "tooldispatchd-audit-"
# Given and settled, read by the machine that wrote them.
_BYTES: Final = 16


def tally_directory(environ: Mapping[str, str]) -> Path:
    """Where the tallies of a daemon and of the ones before it are."""
    return Path(environ.get("RUNTIME_DIRECTORY", "").partition(":")[0] or _ELSEWHERE)


class RunTally:
    """One run's. `give` is for the loop's thread, `settle` for the writer's.

    Settled is a record that the store has, or has a note of that it was lost.
    """

    __slots__ = ("_numbers", "_path")

    def __init__(self, directory: Path, run: str) -> None:
        self._path = directory / f"{_PREFIX}{run}"
        self._numbers = memoryview(bytearray(_BYTES)).cast("Q")
        # Where it cannot be kept, a run that is killed tells less: no reason not to record.
        with suppress(OSError):
            fd = create_private(self._path)
            try:
                # Memory that is full says so now; in the midst of counting it would kill.
                os.write(fd, bytes(_BYTES))
                self._numbers = memoryview(mmap(fd, _BYTES)).cast("Q")
            finally:
                os.close(fd)

    def give(self) -> None:
        """One more record is to be written."""
        self._numbers[0] += 1

    def settle(self, count: int) -> None:
        """The store knows of so many more."""
        self._numbers[1] += count

    @property
    def unsettled(self) -> int:
        """How many the store does not know of yet."""
        return self._numbers[0] - self._numbers[1]

    def remove(self) -> None:
        """The store knows of all of them, and of the end of the run."""
        with suppress(OSError):
            self._path.unlink()


def take_unsettled(directory: Path, run: str) -> int | None:
    """How many records of a killed run are missing at most: its last batch may be in the store, and not settled yet.

    None where its tally is gone, as it is from now on.
    """
    # The store says what it is called, and others may write to that.
    if not run.isalnum():
        return None
    path = directory / f"{_PREFIX}{run}"
    with suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            numbers = os.pread(fd, _BYTES, 0)
            is_own = os.fstat(fd).st_uid == os.geteuid()
        finally:
            os.close(fd)
        if is_own and len(numbers) == _BYTES:
            path.unlink()
            given, settled = memoryview(numbers).cast("Q")
            return max(0, given - settled)
    return None
