"""All children of one daemon: what they inherit, how they are killed, and that none is left.

open_family ── spawn ──▶ Child … ── reap ──▶ gone, and its orphans soon after
    └── on exit: KILL and reap what is left, orphans too, then a guardian sweeps and is reaped
"""

import itertools
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from typing import Final, NamedTuple, Protocol
from weakref import WeakSet

import trio

from tooldispatchd.children.guardian import Guardian, Guardians
from tooldispatchd.children.inheritance import CHILD, RUN_ID, UPDATES_FD, environment, seal
from tooldispatchd.children.oomscore import expose
from tooldispatchd.children.orphans import TICK_S, Orphans
from tooldispatchd.children.spawn import KILL_S, Child, SpawnError, spawn
from tooldispatchd.children.sweep import CGROUPS, DIRECTORY
from tooldispatchd.forked.nolinks import open_straight

# Between two tries to start a guardian where the kernel had no room for it.
RETRY_S: Final = 1.0
# The names of forkers.
LAUNCHER: Final = "launcher"
WARM_PARENT: Final = "warm parent"


class Reservation(NamedTuple):
    """Room for a child: its place in the guardians' table, its number, and all of its environment."""

    slot: int
    number: int
    env: dict[str, str]


class NamedForker(Protocol):
    """A `Forker`, as it is counted."""

    name: str

    @property
    def is_ready(self) -> bool: ...


class Family:
    """The children of a daemon, under one run id that all of them carry in their environment."""

    def __init__(self) -> None:
        self.run_id = secrets.token_hex(16)
        self._guardians = Guardians(self.run_id)
        self._orphans = Orphans(self.run_id)
        self._numbers = itertools.count(1)
        self._environment = environment()
        self._slots: dict[Child, int] = {}
        # Killed, and no task waits for them; few, and looked at soon, and when the next child is started.
        self._lingering: set[Child] = set()
        # One for each forker that is to be told of children.
        self._reminders: set[Callable[[], None]] = set()
        # How many children there were, of which so many were started by the daemon itself and no forker.
        self.started = self.spawned = 0
        self.forkers: Final[WeakSet[NamedForker]] = WeakSet()
        self._is_sealed = False
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def serving(self) -> dict[str, int]:
        """How many forkers serve, by their name."""
        names = [forker.name for forker in self.forkers if forker.is_ready]
        return {name: names.count(name) for name in (LAUNCHER, WARM_PARENT)}

    def spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] = {},
        cwd: str | None = None,
        with_updates: bool = False,
        is_joined: bool = False,
        extra: Mapping[int, int] = {},
        held: tuple[int, int] | None = None,
    ) -> Child:
        """Start `argv` (a program and its arguments, at least one word); raises SpawnError.

        Its environment is that of `reserve`. A program without a slash is looked for in that environment's PATH; where
        `cwd` is given, a relative program or PATH entry starts there. `extra` are further descriptors of the caller's,
        by their numbers in the child (3 only where there are no updates); the caller keeps its own. `is_joined`:
        stdout and stderr are one pipe. `held`: the device and inode that `cwd` must have; no part of its path may be a
        link then. Must be called in trio's thread, always the same.
        """
        reserved = self.reserve(argv[0], env=env, with_updates=with_updates)
        try:
            pipes = {"with_updates": with_updates, "is_joined": is_joined}
            with _opened(argv[0], cwd, held) as straight:
                child = spawn(argv, env=reserved.env, cwd=straight, owner=self, extra=extra, **pipes)
        except SpawnError:
            self.cancel(reserved)
            raise
        expose(child.pid)
        self.register(child, reserved)
        self.spawned += 1
        return child

    def spawn_module(
        self, module: str, *, env: Mapping[str, str] = {}, is_joined: bool = False, extra: Mapping[int, int] = {}
    ) -> Child:
        """Start a module of this package as a process of its own; otherwise as `spawn`."""
        argv = (sys.executable, "-P", "-s", "-m", module)
        # It finds what we have imported, wherever that lies.
        path = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        return self.spawn(argv, env={**path, **env}, is_joined=is_joined, extra=extra)

    def reserve(self, argv0: str, *, env: Mapping[str, str] = {}, with_updates: bool = False) -> Reservation:
        """Make room for a child that a forker starts for the family; raises SpawnError.

        Its environment is a few of the daemon's variables (`inheritance`), then `env`, then the run id and the child's
        number. A child `with_updates` has a fourth pipe, and is told of its number. `register` or `cancel` must follow.
        """
        if self._is_closed:
            raise SpawnError(argv0, "the daemon is ending")
        self._settle_lingering()
        try:
            if not self._is_sealed:
                seal()
                self._is_sealed = True
            self._guardians.ensure()
            slot = self._guardians.reserve()
        except OSError as error:
            raise SpawnError(argv0, error.strerror or str(error)) from error
        number = next(self._numbers)
        whole = {**self._environment, **env, RUN_ID: self.run_id, CHILD: str(number)}
        if with_updates:
            whole[UPDATES_FD] = "3"
        else:
            # A program must never take for its updates what is not there, whatever `env` says.
            whole.pop(UPDATES_FD, None)
        return Reservation(slot, number, whole)

    def register(self, child: Child, reserved: Reservation) -> None:
        """Guard a child that was started; to be called before anything is awaited."""
        self._guardians.enter(reserved.slot, child.pid)
        self._orphans.enter(child.pid, reserved.number)
        self._slots[child] = reserved.slot
        self.started += 1

    def cancel(self, reserved: Reservation) -> None:
        """Give back the room of a child that was not started."""
        self._guardians.free(reserved.slot)

    def also_remove(self, directory: str) -> None:
        """Have the guardians remove `directory`, an absolute path, and all in it, should the daemon be killed."""
        self._guardians.tell(DIRECTORY, directory)

    def also_dissolve(self, tree: str) -> None:
        """Have the guardians end what runs in the cgroups of `tree` and remove them, should the daemon be killed."""
        self._guardians.tell(CGROUPS, tree)

    def kill_all(self) -> None:
        """KILL every group at once and wait for nothing; their owners reap them."""
        for child in self._slots:
            child.signal_group(signal.SIGKILL)

    def release(self, child: Child) -> None:
        self._lingering.discard(child)
        self._guardians.free(self._slots.pop(child))
        self._orphans.release(child.pid)

    def adopt(self, child: Child) -> None:
        self._lingering.add(child)
        self._orphans.look_soon()

    def remind(self, flush: Callable[[], None]) -> None:
        """Call `flush` once, soon, when the children that have just been released are looked after. Coalesced."""
        self._reminders.add(flush)

    async def keep_guarded(self, replaced: Callable[[], object]) -> None:
        """Replace a guardian that died, as soon as it has, and call `replaced`; runs until cancelled."""
        async with trio.open_nursery() as nursery:
            for guardian in self._guardians.each:
                nursery.start_soon(self._keep, guardian, replaced)

    async def _keep(self, guardian: Guardian, replaced: Callable[[], object]) -> None:
        while True:
            await guardian.died()
            try:
                self._guardians.ensure()
            except OSError:
                # No room for a process now; the next child asks again.
                await trio.sleep(RETRY_S)
            else:
                replaced()

    async def end_orphans(self, *, tick_s: float = TICK_S) -> None:
        """End what children leave behind in groups of its own soon after each has ended; runs until cancelled.

        Orphans come to us from when this has begun; without it they live until the family is closed. What helpers of
        living children leave is reaped at least every `tick_s` seconds.
        """
        await self._orphans.run(lambda: self._guardians.pids, tick_s=tick_s, reap=self._reap_lingering)

    def strangers(self) -> AbstractContextManager[None]:
        """Meanwhile a thread of the daemon may start processes by itself, which it waits for.

        Where this is cancelled those that lead a group are killed with it.
        """
        return self._orphans.strangers(lambda: self._guardians.pids)

    async def close(self) -> None:
        """KILL and reap every child and its orphans, then end the guardians; bounded, cannot be cancelled."""
        self._is_closed = True
        self.kill_all()
        with trio.move_on_after(KILL_S, shield=True):
            for child in list(self._slots):
                await child.exited()
        for child in list(self._slots):
            await child.kill(within_s=0)
        with trio.move_on_after(KILL_S, shield=True):
            await self._orphans.end_all(self._guardians.pids)
        await self._guardians.end()
        self._orphans.resign()

    def _reap_lingering(self) -> bool:
        """Reap the children that have ended; whether any are left."""
        reminders, self._reminders = self._reminders, set()
        for flush in reminders:
            flush()
        return self._settle_lingering()

    def _settle_lingering(self) -> bool:
        for child in [child for child in self._lingering if child.has_exited()]:
            child.reap()
        return bool(self._lingering)


@contextmanager
def _opened(argv0: str, directory: str | None, held: tuple[int, int] | None) -> Iterator[str | None]:
    """A path that leads to the directory that is `held`, whatever comes to have its place; raises SpawnError."""
    if directory is None or held is None:
        yield directory
        return
    try:
        fd = open_straight(directory, held)
    except OSError as error:
        raise SpawnError(argv0, f"directory '{directory}': {error.strerror}") from error
    try:
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)


@asynccontextmanager
async def open_family() -> AsyncIterator[Family]:
    """A family; when the block is left, all of its children are gone, and what they left behind under its run id."""
    family = Family()
    try:
        yield family
    finally:
        await family.close()  # noqa: ASYNC102  # it shields and bounds itself
