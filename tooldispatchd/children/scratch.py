"""Scratch directories: one for a call, removed after it, whatever its program has left there.

    remove ── empty, or never made ──▶ gone at once
       └── not ──▶ rm ── something is left ──▶ removal ──▶ removal, a moment later ──▶ removal ──▶ told of as left

Nothing of the content is looked at in the daemon's own thread: there may be a million files, or ten thousand levels.
`rm` is quick and does for nearly all; `removal` is Python and knows what stands in its way. The later passes are for
what a process that was not quite dead has still made.
"""

import itertools
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio

from tooldispatchd.children.family import Family
from tooldispatchd.children.spawn import SpawnError

REMOVAL: Final = (sys.executable, "-I", "-S", str(Path(__file__).with_name("removal.py")))

# How long a call waits for its own directory to be removed: a million files take that long.
WAIT_S: Final = 10.0
# After this a pass is killed: the file system may not answer.
PASS_S: Final = 300.0
# At the end for all of them together; then the guardian does it, and after it the next daemon.
CLOSE_S: Final = 2.0
# Before each of the passes that follow `rm`. An orphan lives a fifth of a second longer than its call, its own orphans
# as much longer each.
PAUSES_S: Final = (0.0, 0.3, 1.5)
# Before a pass that could not be started is tried again, from the first time on, ever longer.
AGAIN_S: Final = 1.0
MAX_AGAIN_S: Final = 30.0
# They compete with calls for the processors and the disk.
AT_ONCE: Final = 4

# What mountinfo escapes in the path of a mount point, in that order: proc_pid_mountinfo(5).
ESCAPES: Final = (("\\", "\\134"), (" ", "\\040"), ("\t", "\\011"), ("\n", "\\012"))


class Scratches:
    """The scratch directories of a daemon, each under its own number in one directory."""

    def __init__(self, parent: Path, family: Family, nursery: trio.Nursery, left: Callable[[str], object]) -> None:
        self._parent = parent
        self._family = family
        self._nursery = nursery
        self._left = left
        self._numbers = itertools.count(1)
        self._passes = trio.CapacityLimiter(AT_ONCE)
        self._removals: dict[str, tuple[trio.CancelScope, trio.Event]] = {}

    def name(self) -> str:
        """The path of one that is not there: a program of the daemon's own user may make it, if it needs one."""
        return f"{self._parent}/{next(self._numbers)}"

    def make(self, uid: int | None = None, gid: int | None = None) -> str:
        """Make one that only its user may enter, which is `uid` where that is given; its path. Raises OSError."""
        path = self.name()
        os.mkdir(path, 0o700)  # noqa: PTH102  # for every call; half the cost of Path, as below
        if uid is not None or gid is not None:
            try:
                os.chown(path, -1 if uid is None else uid, -1 if gid is None else gid)
            except OSError:
                os.rmdir(path)  # noqa: PTH106  # as above
                raise
        return path

    async def remove(self, path: str) -> None:
        """Remove one that was made, or may have been; its processes must have been killed.

        Where it is empty or missing that is done at once, without a checkpoint. Else it is waited for, WAIT_S at most
        and not when cancelled: what is not done then goes on.
        """
        if is_removed(path) or self._nursery.cancel_scope.cancel_called:
            return
        if path not in self._removals:
            # The directory must go even if its call is cancelled meanwhile; only `close` gives it up.
            self._removals[path] = trio.CancelScope(shield=True), trio.Event()
            self._nursery.start_soon(self._remove, path)
        _, done = self._removals[path]
        with trio.move_on_after(WAIT_S):
            await done.wait()

    async def close(self) -> None:
        """Wait for what is being removed, CLOSE_S at most, then give it up; cannot be cancelled."""
        with trio.move_on_after(CLOSE_S, shield=True):
            for _, done in list(self._removals.values()):
                await done.wait()
        for scope, _ in self._removals.values():
            scope.cancel()
        self._nursery.cancel_scope.cancel()

    async def _remove(self, path: str) -> None:
        scope, done = self._removals[path]
        try:
            with scope:
                # As root a program may have mounted something. Where it is of the same file system, rm takes it for
                # the program's own.
                if os.geteuid() != 0 or not has_mounts(path):
                    await self._run(("rm", "-rf", "--one-file-system", "--", path))
                for pause_s in PAUSES_S:
                    if is_removed(path):
                        return
                    await trio.sleep(pause_s)
                    # Until the end, if need be: none that was not run has shown that the directory cannot be removed.
                    again_s = AGAIN_S
                    while not await self._run((*REMOVAL, path)):
                        await trio.sleep(again_s)
                        again_s = min(2 * again_s, MAX_AGAIN_S)
                if not is_removed(path):
                    self._left(path)
        finally:
            del self._removals[path]
            done.set()

    async def _run(self, argv: tuple[str, ...]) -> bool:
        """Run one pass; false where no process could be started."""
        async with self._passes:
            try:
                child = self._family.spawn(argv)
            except SpawnError:
                return False
            try:
                # It complains of each thing that it cannot remove, and nothing reads that.
                child.close_pipes()
                with trio.move_on_after(PASS_S):
                    await child.exited()
            finally:
                await child.kill()  # noqa: ASYNC102  # it shields and bounds itself
        return True


@asynccontextmanager
async def open_scratches(
    parent: Path, family: Family, *, left: Callable[[str], object] = lambda _path: None
) -> AsyncIterator[Scratches]:
    """Scratch directories in `parent`, an absolute path, which is the daemon's alone.

    Other users that run tools must be able to pass through `parent`. `left` is told each path that could not be
    removed, once. `family` is to be told of `parent` (`also_remove`), for when the daemon is killed.
    """
    async with trio.open_nursery() as nursery:
        scratches = Scratches(parent, family, nursery, left)
        try:
            yield scratches
        finally:
            await scratches.close()  # noqa: ASYNC102  # it shields and bounds itself


def is_removed(path: str) -> bool:
    """Remove the directory `path` if it is empty; whether it is gone."""
    try:
        os.rmdir(path)  # noqa: PTH106  # for every call; half the cost of Path
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def has_mounts(path: str) -> bool:
    """Whether anything is mounted below `path`, which has no symbolic links; true where that cannot be told."""
    for character, escape in ESCAPES:
        path = path.replace(character, escape)
    try:
        mounts = Path("/proc/self/mountinfo").read_bytes()
    except OSError:
        return True
    return b" " + os.fsencode(path) + b"/" in mounts or b" " + os.fsencode(path) + b" " in mounts
