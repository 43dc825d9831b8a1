"""What a program leaves behind: its orphans come to this process, or to its attendant, and end with the program.

They do so whatever session and environment they have given themselves, by which the daemon would know them. What forks
faster than it is killed here ends with the attendant; where there is none it is left to the daemon.
"""

import ctypes
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tooldispatchd.forked.libc import prctl
from tooldispatchd.forked.sandbox import attendant

# linux/prctl.h; Python has no name for them.
PR_SET_CHILD_SUBREAPER: Final = 36
PR_GET_CHILD_SUBREAPER: Final = 37
# A generation dies in a millisecond or so on a machine that is not overloaded.
ENDING_S: Final = 0.5
ROUND_S: Final = 0.001


class Leftovers:
    """The processes that have come to this one since; `program`, which it waits for itself, is none of them."""

    def __init__(self) -> None:
        self._before = _children()
        self._told: set[int] = set()

    def told_to_end(self, program: int) -> bool:
        """Have each end, unless it is in the group of `program`, which was told; whether there are any."""
        left = self.living(program)
        for pid in left - self._told:
            self._told.add(pid)
            if os.getpgid(pid) != program:
                # One that is stopped must go on to hear of it.
                _signal(pid, signal.SIGTERM, signal.SIGCONT)
        attendant.signal_orphans(signal.SIGTERM, but_of=program)
        return attendant.signal_orphans(signal.SIGCONT, but_of=program) or bool(left)

    def living(self, program: int | None = None) -> set[int]:
        """Those that live; the others are reaped."""
        # Ours until we reap it: the number cannot be another's.
        return {pid for pid in _children() - self._before - {program} if os.waitpid(pid, os.WNOHANG) == (0, 0)}


@contextmanager
def ended_leftovers() -> Iterator[Leftovers]:
    """End what is started within and outlives its parents; nothing of it that this process waits for may be left."""
    was_adopting = _adopts_orphans()
    _adopt_orphans(1)
    leftovers = Leftovers()
    try:
        yield leftovers
    finally:
        until = time.monotonic() + ENDING_S
        while (attendant.signal_orphans(signal.SIGKILL, but_of=0) or leftovers.living()) and time.monotonic() < until:
            for pid in leftovers.living():
                _signal(pid, signal.SIGKILL)
            time.sleep(ROUND_S)
        _adopt_orphans(was_adopting)


def _signal(pid: int, *signums: int) -> None:
    # It may run as another user.
    with suppress(PermissionError):
        for signum in signums:
            os.kill(pid, signum)


def _adopts_orphans() -> int:
    found = ctypes.c_int()
    with suppress(OSError):
        prctl(PR_GET_CHILD_SUBREAPER, ctypes.addressof(found))
    return found.value


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
