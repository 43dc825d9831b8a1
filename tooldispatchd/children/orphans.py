"""Orphans: processes that outlived their parent inside a child's tree, and end with that child.

    a child's helper ── its parent ends ──▶ ours ┬─ its child lives ──▶ left alone, reaped when it has ended
                                                 └─ its child ended ──▶ KILL ──▶ reaped; what it leaves is ours next

The kernel gives orphans to the nearest ancestor that asked for them, a *subreaper*, or to process 1. From which child
one comes its environment tells, by the run id and the child's number. A process can wipe those, or take another
child's: one that is shut in is believed only where the kernel shows it in the mounts of that child, which are its own,
and is killed otherwise. Without a sandbox such a process escapes, here as it escapes the guardian.

A number is signalled or reaped only while it stands among our own children, which stay there until this task reaps
them: it cannot be another process's meanwhile. A child of the family is known by its pid and reaped by its owner alone;
any other process is reaped when it has ended, whichever group it is in. So whatever else in the daemon starts
processes while this runs, and waits for them itself, does so among `strangers`.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Final

import trio

from tooldispatchd.children.inheritance import CHILD, RUN_ID
from tooldispatchd.forked.libc import prctl

# linux/prctl.h; Python has no name for it.
PR_SET_CHILD_SUBREAPER: Final = 36

# Ends come by the hundred in a second: one look serves all of this long, which is also how long an orphan may outlive
# its child, and each generation of its own descendants it. Where a look is dear (thousands of children), looks are
# rarer, so that they take at most a fiftieth of the time.
PAUSE_S: Final = 0.2
PAUSES_PER_LOOK: Final = 50
MAX_PAUSE_S: Final = 1.0

# While no child ends, helpers of those that live may still leave zombies.
TICK_S: Final = 10.0

# Looks in a row against a program that forks faster than it is killed; the next end or tick goes on.
LOOKS: Final = 20

# So many are looked at in one turn of the loop: each may cost two dozen microseconds.
BATCH: Final = 64

# At the end looks need not be spared: a killed process takes about so long to be gone.
HASTE_S: Final = 0.005

# The kernel gives no more than a page at once.
READ_BYTES: Final = 4096

# No child has it: the origin of an orphan with our run id and a number that says nothing.
NOBODY: Final = -1
# The digits of the largest number that is read; no daemon starts more children than that.
MAX_DIGITS: Final = 19


class Orphans:
    """Tells our children from what they left to us, and ends the latter."""

    def __init__(self, run_id: str) -> None:
        self._mark = f"\0{RUN_ID}={run_id}\0".encode()
        self._numbers: dict[int, int] = {}
        # From which child each orphan comes, by its pid; None where it does not say.
        self._origins: dict[int, int | None] = {}
        self._ended = trio.Event()
        self._is_adopting = False
        self._strangers = 0
        self._pause_s = PAUSE_S

    def enter(self, pid: int, number: int) -> None:
        """A child was started, and has `number`. To be called before anything is awaited."""
        self._numbers[pid] = number

    def release(self, pid: int) -> None:
        """A child has ended and is reaped before anything is awaited; its orphans end soon."""
        del self._numbers[pid]
        self._ended.set()

    @contextmanager
    def strangers(self, guardians: Callable[[], set[int]]) -> Iterator[None]:
        """Meanwhile leave processes that do not carry our run id to a thread that has started them.

        Where this is cancelled nobody waits for the thread any more: what it has started in groups of its own is ended.
        """
        before = _started_by_threads()
        self._strangers += 1
        try:
            yield
        except trio.Cancelled:
            for pid in _started_by_threads() - before - self._numbers.keys() - guardians():
                _kill_stranger(pid, is_ours=self._origin(pid) is not None)
            raise
        finally:
            self._strangers -= 1
            self._ended.set()

    def look_soon(self) -> None:
        """A child is about to end for which no task waits."""
        self._ended.set()

    async def run(self, guardians: Callable[[], set[int]], *, tick_s: float, reap: Callable[[], bool]) -> None:
        """Take orphans in and end them with their children. Runs until cancelled.

        `guardians` tells their pids; `reap` reaps children for which no task waits, and tells whether there are more.
        """
        # Process 1 of a container gets them in any case. Where the kernel refuses (a filter of system calls), they go
        # elsewhere and the guardian finds them at the end.
        self._is_adopting = _set_subreaper(1) or os.getpid() == 1
        while True:
            with trio.move_on_after(tick_s) as tick:
                await self._ended.wait()
            if not tick.cancelled_caught:
                await trio.sleep(self._pause_s)
            self._ended = trio.Event()
            is_thorough = tick.cancelled_caught
            for _ in range(LOOKS):
                # First, since what they leave are orphans from then on.
                is_unfinished = reap()
                if not await self._look(guardians(), thorough=is_thorough) and not is_unfinished:
                    break
                await trio.sleep(self._pause_s)
                is_thorough = True

    async def end_all(self, guardians: set[int]) -> None:
        """KILL and reap until none is left; to be bounded by the caller, when there are no children any more."""
        while self._is_adopting and await self._look(guardians, thorough=True):  # noqa: ASYNC110  # no event tells it
            await trio.sleep(HASTE_S)

    def resign(self) -> None:
        """Reap what has ended and take no more in; idempotent."""
        if self._is_adopting:
            for pid in self._unknown(set()):
                self._reap(pid)
            _set_subreaper(0)
            self._is_adopting = False

    async def _look(self, guardians: set[int], *, thorough: bool) -> bool:
        """Look at each orphan once; whether to look again soon. Raises nothing."""
        began = time.thread_time()
        unknown = self._unknown(guardians)
        took_s = time.thread_time() - began
        self._pause_s = min(MAX_PAUSE_S, max(PAUSE_S, PAUSES_PER_LOOK * took_s))
        # Numbers that were reaped elsewhere are forgotten: they may come back.
        self._origins = {pid: self._origins[pid] for pid in unknown if pid in self._origins}
        is_unfinished = False
        for start in range(0, len(unknown), BATCH):
            living = {number: child for child, number in self._numbers.items()}
            for pid in unknown[start : start + BATCH]:
                is_unfinished |= self._settle(pid, living, thorough=thorough)
            await trio.lowlevel.checkpoint()
        return is_unfinished

    def _unknown(self, guardians: set[int]) -> list[int]:
        """Those of this process's children, ended ones too, that are neither the family's nor guardians."""
        # Orphans go to the first thread of a process. As only our one thread reaps, the list is whole.
        try:
            fd = os.open(f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY | os.O_CLOEXEC)
            # With nothing around it: this is most of what a look costs where no child leaves anything.
            try:
                listed = b"".join(iter(lambda: os.read(fd, READ_BYTES), b""))
            finally:
                os.close(fd)
        except OSError:
            # Out of descriptors, or a kernel without such lists.
            return []
        return [pid for pid in map(int, listed.split()) if pid not in self._numbers and pid not in guardians]

    def _settle(self, pid: int, living: Mapping[int, int], *, thorough: bool) -> bool:
        """Reap or KILL one orphan, or leave it alone; whether that changes anything soon."""
        if pid in self._numbers:
            # Another part of this program reaped it since it was listed, and a child got its number.
            return False
        if (not self._strangers or self._origins.get(pid) is not None) and self._reap(pid):
            # Its own orphans came to us perhaps after the list was read.
            return True
        is_new = pid not in self._origins
        origin = self._origins.get(pid)
        if is_new or (thorough and origin is None):
            origin = self._origins[pid] = self._origin(pid)
        if origin is None and is_new:
            # In the moment of its exec a process shows no environment; that proves nothing until it is seen again.
            return True
        if (origin is None or origin in living) and not self._is_disguised(pid, living.get(origin or NOBODY)):
            return False
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
        return True

    def _is_disguised(self, pid: int, child: int | None) -> bool:
        """Whether `pid` is shut in and not in the mounts of `child`; what is there cannot leave them."""
        if self._strangers or _filters_of(pid) <= self._own_filters:
            return False
        mounts = _mounts_of(pid)
        return child is None or mounts in {None, self._own_mounts} or mounts != _mounts_of(child)

    # Neither changes while the daemon runs, and each orphan is looked at again and again.
    @cached_property
    def _own_filters(self) -> int:
        return _filters_of(os.getpid())

    @cached_property
    def _own_mounts(self) -> str | None:
        return _mounts_of(os.getpid())

    def _reap(self, pid: int) -> bool:
        """Reap an orphan if it has ended; whether it has."""
        try:
            return os.waitpid(pid, os.WNOHANG)[0] == pid
        except ChildProcessError:
            return False

    def _origin(self, pid: int) -> int | None:
        """The number of the child that `pid` comes from; None where it lacks our run id, or we may not look."""
        try:
            # The kernel bounds it: a quarter of the stack's limit.
            environment = b"\0" + Path(f"/proc/{pid}/environ").read_bytes() + b"\0"
        except OSError:
            return None
        if self._mark not in environment:
            return None
        _, _, rest = environment.partition(f"\0{CHILD}=".encode())
        digits = rest[: rest.find(b"\0")]
        return int(digits) if digits.isdigit() and len(digits) <= MAX_DIGITS else NOBODY


def _filters_of(pid: int) -> int:
    """How many filters of system calls a process has, none of which it can take off; 0 before Linux 5.9."""
    with suppress(OSError):
        _, _, rest = Path(f"/proc/{pid}/status").read_bytes().partition(b"\nSeccomp_filters:")
        return int(rest.split(maxsplit=1)[0]) if rest else 0
    return 0


def _mounts_of(pid: int) -> str | None:
    """The mount namespace of a process; None where we may not look."""
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt")  # noqa: PTH115  # a name, and no path
    except OSError:
        return None


def _started_by_threads() -> set[int]:
    """All children, also those that another thread than ours has started."""
    found: set[int] = set()
    for listed in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            found.update(map(int, listed.read_bytes().split()))
    return found


def _kill_stranger(pid: int, *, is_ours: bool) -> None:
    """KILL the group of a child that no reaper has taken yet."""
    with suppress(OSError):
        if not is_ours and os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)


def _set_subreaper(is_one: int) -> bool:
    """Whether the kernel did as asked; it holds for the whole process, and is not inherited."""
    try:
        prctl(PR_SET_CHILD_SUBREAPER, is_one)
    except OSError:
        return False
    return True
