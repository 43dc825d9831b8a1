"""What a program leaves behind: its orphans come to this process, and end with the program.

They do so whatever session and environment they have given themselves, by which the daemon would know them. What forks
faster than it is killed here is left to the daemon.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tooldispatchd.forked.libc import prctl

# linux/prctl.h; Python has no name for it.
PR_SET_CHILD_SUBREAPER: Final = 36
# A generation dies in a millisecond or so on a machine that is not overloaded.
ENDING_S: Final = 0.5
ROUND_S: Final = 0.001


@contextmanager
def ended_leftovers() -> Iterator[None]:
    """End what is started within and outlives its parents; nothing of it that this process waits for may be left."""
    _adopt_orphans(1)
    before = _children()
    try:
        yield
    finally:
        until = time.monotonic() + ENDING_S
        while (left := _children() - before) and time.monotonic() < until:
            for pid in left:
                # Ours until we reap it: the number cannot be another's.
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
            time.sleep(ROUND_S)
        _adopt_orphans(0)


def _adopt_orphans(is_adopting: int) -> None:
    # A filter of system calls may refuse it: then they go to the daemon.
    with suppress(OSError):
        prctl(PR_SET_CHILD_SUBREAPER, is_adopting)


def _children() -> set[int]:
    """The children of this process; none where it may not look."""
    try:
        return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_bytes().split()}
    except OSError:
        return set()
