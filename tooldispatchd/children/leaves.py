"""A cgroup for each call, where the daemon may make some: it bounds, counts and kills all of a call's processes.

    own/                        where the daemon was started, and what was delegated to it
      tooldispatchd-xxxxxxxx/   one daemon's tree, locked as long as the daemon lives
        daemon/                 the daemon itself, where there are controllers: the kernel lets no cgroup both hold
        │                       processes and bound its children
        calls/
          1, 2, …               leaves

The files of a cgroup are read and written at once: the kernel answers out of its memory. What a killed daemon has left
is ended by the guardian, else by the next daemon. A leaf is no wall: a program that runs as the daemon's user and may
write to the file system of cgroups can move itself elsewhere.
"""

import errno
import fcntl
import itertools
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, Literal

import trio

from tooldispatchd.children.sweep import CALLS, DAEMON, dissolve, kill_cgroup, remove_cgroup, write

PREFIX: Final = "tooldispatchd-"
CONTROLLERS: Final = frozenset({"memory", "pids"})

# A killed process leaves its cgroup when the kernel has taken back its memory, which the first tries are for; it takes
# longer only where it sleeps in a driver.
REMOVE_TRIES_S: Final = (0.001, 0.002, 0.004, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
# At the end for all of them together; and at the start for all that killed daemons have left.
DISSOLVE_S: Final = 2.0
DISSOLVE_TICK_S: Final = 0.01
# Of the leaves that could not be removed so many are tried again with each that is made.
TRIED_AGAIN: Final = 4

Bound = Literal["memory", "processes"]


class LeavesError(Exception):
    """There can be no cgroups for calls; the message says why."""


def delegated(proc: Path = Path("/proc/self")) -> Path:
    """The cgroup in which the daemon was started, if it is the daemon's to divide; raises LeavesError.

    It is where the service manager has marked it so (systemd's `Delegate=`), where it belongs to the daemon's user, and
    where it is the root of all that can be seen, as in a container. Source: cgroups(7), systemd's CGROUP_DELEGATION.
    """
    try:
        own = _own(proc)
    except OSError as error:
        raise LeavesError(f"cannot find the daemon's cgroup: {error.strerror}") from error
    if own is None:
        raise LeavesError("cannot find the daemon's cgroup: no file system of cgroup v2 shows it")
    if not (os.access(own, os.W_OK) and os.access(own / "cgroup.procs", os.W_OK)):
        raise LeavesError(f"cannot make cgroups in {own}: it may not be written")
    is_marked = False
    for attribute in ("user.delegate", "trusted.delegate"):
        with suppress(OSError):
            is_marked |= os.getxattr(own, attribute) == b"1"
    # root may write anywhere, but the manager of that cgroup would not expect another's hand in it.
    if not (own.is_mount() or is_marked or (os.geteuid() != 0 and own.stat().st_uid == os.geteuid())):
        raise LeavesError(f"cannot make cgroups in {own}: it is not delegated to the daemon")
    return own


class Leaf:
    """The cgroup of one call. A process enters it by writing 0 to `cgroup.procs` in its `path`."""

    __slots__ = ("_bounds", "_leaves", "path")

    def __init__(self, path: str, bounds: frozenset[Bound], leaves: "Leaves") -> None:
        self.path = path
        self._bounds = bounds
        self._leaves = leaves

    def passed(self) -> Bound | None:
        """The bound that was met: processes were killed for their memory, or a further one was refused.

        To be asked before it is removed.
        """
        if "memory" in self._bounds and _count(f"{self.path}/memory.events", ("oom_kill", "oom_group_kill")):
            return "memory"
        if "processes" in self._bounds and _count(f"{self.path}/pids.events", ("max",)):
            return "processes"
        return None

    def kill(self) -> None:
        """KILL every process in it, of any group or session, and wait for nothing."""
        kill_cgroup(self.path)

    async def remove(self) -> None:
        """KILL what is left in it and remove it: at once and without a checkpoint where nothing is left.

        It waits two seconds at most. A leaf with a process that the kernel cannot end yet is removed later: when others
        are made, or at the end.
        """
        tries = iter(REMOVE_TRIES_S)
        while not self._leaves.remove_now(self.path) and (pause_s := next(tries, None)) is not None:
            self.kill()
            await trio.sleep(pause_s)


class Leaves:
    """One daemon's `tree`, a path; `controllers` are those of `memory` and `pids` that its leaves have."""

    def __init__(self, tree: str, controllers: frozenset[str]) -> None:
        self.tree = tree
        self.controllers = controllers
        self._numbers = itertools.count(1)
        # They outlived their calls; a dict for its order.
        self._lingering: dict[str, None] = {}

    def make(self, *, memory: int | None = None, processes: int | None = None) -> Leaf:
        """A leaf, whose processes may together have `memory` bytes, and be `processes` with all their threads.

        Raises OSError, with ENOTSUP where a controller is missing.
        """
        for lingering in list(itertools.islice(self._lingering, TRIED_AGAIN)):
            self.remove_now(lingering)
        bounds: set[Bound] = set()
        path = f"{self.tree}/{CALLS}/{next(self._numbers)}"
        os.mkdir(path)  # noqa: PTH102  # half the cost of Path, for every call
        try:
            # It may not be divided further: it would not be known which part met a bound.
            write(f"{path}/cgroup.max.descendants", "0")
            if memory is not None:
                self._demand("memory")
                bound_memory(path, memory)
                bounds.add("memory")
            if processes is not None:
                self._demand("pids")
                write(f"{path}/pids.max", str(processes))
                bounds.add("processes")
        except OSError:
            Path(path).rmdir()
            raise
        return Leaf(path, frozenset(bounds), self)

    def remove_now(self, path: str) -> bool:
        """Remove a leaf that is empty; whether it is gone. One that is not is tried again later."""
        is_gone = remove_cgroup(path)
        self._lingering.pop(path, None)
        if not is_gone:
            # Behind all others, so that a few that never go keep none of them from being tried.
            self._lingering[path] = None
        return is_gone

    def _demand(self, controller: str) -> None:
        if controller not in self.controllers:
            raise OSError(errno.ENOTSUP, f"the daemon's cgroup has no controller '{controller}'")


@asynccontextmanager
async def open_leaves(own: Path) -> AsyncIterator[Leaves]:
    """A tree of leaves in the cgroup `own`, as `delegated` gives it; raises LeavesError.

    To be opened before the daemon has children: it leaves `own` for a cgroup in the tree, where controllers can be had,
    and they would stay and prevent that. When the block is left, no process of a call is, nor the tree. The family is
    to be told of `tree` (`also_dissolve`), for when the daemon is killed.
    """
    # The trees of daemons that were killed with their guardians: those that nobody holds a lock on.
    for left in own.glob(f"{PREFIX}*"):
        with suppress(OSError):
            lock = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                await _dissolve(str(left))
            finally:
                os.close(lock)
    tree = str(own / f"{PREFIX}{secrets.token_hex(4)}")
    lock = -1
    try:
        try:
            Path(tree).mkdir()
            lock = os.open(tree, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            Path(tree, CALLS).mkdir()
            controllers = _enable(own, tree)
        except OSError as error:
            raise LeavesError(f"cannot make cgroups in {own}: {error.strerror}") from error
        yield Leaves(tree, controllers)
    finally:
        await _dissolve(tree)  # noqa: ASYNC102  # it shields and bounds itself
        if lock >= 0:
            os.close(lock)


def bound_memory(path: str, size: int) -> None:
    """Give the processes of a cgroup `size` bytes together; if that is not enough, all of them are killed."""
    # First the means, then the bound.
    write(f"{path}/memory.oom.group", "1")
    # There is no such file where there can be no swap.
    with suppress(FileNotFoundError):
        write(f"{path}/memory.swap.max", "0")
    write(f"{path}/memory.max", str(size))


def _enable(own: Path, tree: str) -> frozenset[str]:
    """Enable every controller that the leaves can have, leaving `own` if need be; those that were enabled."""
    offered = CONTROLLERS & _words(own / "cgroup.controllers")
    # Where some are enabled already, others rely on that: what they left out stays so.
    given = CONTROLLERS & _words(own / "cgroup.subtree_control")
    if offered and not given:
        Path(tree, DAEMON).mkdir()
        write(f"{tree}/{DAEMON}/cgroup.procs", "0")
        given = _enable_in(own, offered)
        if not given:
            # Others are in it: the daemon goes back to them.
            write(f"{own}/cgroup.procs", "0")
            Path(tree, DAEMON).rmdir()
    for cgroup in (Path(tree), Path(tree, CALLS)):
        given = _enable_in(cgroup, given)
    return given


def _enable_in(cgroup: Path, controllers: frozenset[str]) -> frozenset[str]:
    given = set()
    for controller in controllers:
        with suppress(OSError):
            write(f"{cgroup}/cgroup.subtree_control", f"+{controller}")
            given.add(controller)
    return frozenset(given)


async def _dissolve(tree: str) -> None:
    with trio.move_on_after(DISSOLVE_S, shield=True):
        while not dissolve(tree):  # noqa: ASYNC110  # no event tells it
            await trio.sleep(DISSOLVE_TICK_S)


def _own(proc: Path) -> Path | None:
    """The directory of our cgroup of version 2, where it is mounted; raises OSError."""
    entries = (proc / "cgroup").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    # "0::/path"; the versions and hierarchies of others have other numbers.
    path = next((entry[3:] for entry in entries if entry.startswith("0::")), None)
    if path is None:
        return None
    for mount in (proc / "mountinfo").read_bytes().split(b"\n"):
        # proc_pid_mountinfo(5): number, parent, device, root, mount point, …, "-", type, …
        before, _, after = mount.partition(b" - ")
        if not after.startswith(b"cgroup2 "):
            continue
        # Blanks and the like are written in octal.
        words = (word.decode("unicode_escape").encode("latin-1") for word in before.split(b" ")[3:5])
        root, point = map(os.fsdecode, words)
        if Path(path).is_relative_to(root):
            own = Path(point) / Path(path).relative_to(root)
            return own if own.is_dir() else None
    return None


def _words(file: Path) -> frozenset[str]:
    return frozenset(file.read_text(encoding="ascii").split())


def _count(file: str, names: tuple[str, ...]) -> int:
    """The sum of some counters of an events file, one a line; 0 where there is no such file."""
    try:
        lines = Path(file).read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return sum(int(count) for name, _, count in (line.partition(" ") for line in lines) if name in names)
