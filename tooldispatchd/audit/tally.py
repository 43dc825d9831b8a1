"""How many records a run was given, and of how many of them its store knows: numbers that outlive a killed daemon.

They lie in memory that has a name (tmpfs), so that no disk that is full or slow holds the loop; to count is one write
of eight bytes. The file is never mapped: a tool that may write there could truncate it, and the next count would end
the daemon with SIGBUS. A machine that starts anew has none of them, and nor has a new container: then nothing is said,
in the place of something wrong.
"""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
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

    __slots__ = ("_fd", "_given", "_path", "_settled")

    def __init__(self, directory: Path, run: str) -> None:
        self._path = directory / f"{_PREFIX}{run}"
        self._given = self._settled = 0
        # Where it cannot be kept, a run that is killed tells less: no reason not to record.
        self._fd = -1
        with suppress(OSError):
            self._fd = create_private(self._path)
            os.pwrite(self._fd, bytes(_BYTES), 0)

    def give(self) -> None:
        """One more record is to be written."""
        self._given += 1
        self._keep(self._given, 0)

    def settle(self, count: int) -> None:
        """The store knows of so many more."""
        self._settled += count
        self._keep(self._settled, 1)

    @property
    def unsettled(self) -> int:
        """How many the store does not know of yet."""
        return self._given - self._settled

    def remove(self) -> None:
        """The store knows of all of them, and of the end of the run."""
        with suppress(OSError):
            self._path.unlink()

    def close(self) -> None:
        """Close the file, when no thread counts any more. Idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _keep(self, number: int, place: int) -> None:
        if self._fd >= 0:
            with suppress(OSError):
                os.pwrite(self._fd, number.to_bytes(8, sys.byteorder), 8 * place)


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
