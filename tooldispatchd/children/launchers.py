"""Launchers: one warm process for each distinct policy, which starts programs under it at the speed of vfork.

    first call ──▶ started ──▶ launches … ──▶ retired (it says so), or ended because it is idle and another is needed
                                   └── dead ──▶ replaced by the next call

The limits that a process inherits are put on the launcher once; what a call needs for itself the launcher does between
a fork and the exec (`forked.sandbox.launch`).
"""

import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio

from tooldispatchd.children.control import ForkerGone
from tooldispatchd.children.descriptors import close_all
from tooldispatchd.children.family import LAUNCHER, Family
from tooldispatchd.children.forker import ANSWER_S, Forker
from tooldispatchd.children.spawn import Child, SpawnError, open_pipes
from tooldispatchd.forked.policy import Policy

START: Final = Path(__file__).parent.parent / "forked" / "start.py"

# As many bytes as a handful of calls of a Python program; a daemon has few policies, and no more launchers than that.
MAX_LAUNCHERS: Final = 32

# Starting one takes 30 ms; on a busy machine, at the lowest priority, a hundred times that.
START_S: Final = 10.0


class Launchers:
    """Launchers by policy, each started with the first call that needs it and replaced when it dies or retires.

    At most `max_launchers` stay; only while more than that have children at once are there more. `answer_s` bounds the
    answers of each, in seconds.
    """

    def __init__(self, family: Family, *, max_launchers: int = MAX_LAUNCHERS, answer_s: float = ANSWER_S) -> None:
        self._family = family
        self._max_launchers = max_launchers
        self._answer_s = answer_s
        # The least recently used first.
        self._forkers: dict[tuple[Policy, bool], Forker] = {}
        self._retired: set[Forker] = set()

    def __len__(self) -> int:
        return len(self._forkers) + len(self._retired)

    async def launch(
        self,
        policy: Policy,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] = {},
        cwd: str | None = None,
        with_updates: bool = False,
        is_joined: bool = False,
        extra: Mapping[int, int] = {},
        leaf: str | None = None,
        scratch: str | None = None,
        held: tuple[int, int] | None = None,
    ) -> Child:
        """Start `argv` under `policy`, all else as for `Family.spawn`; raises SpawnError.

        `leaf` is the cgroup of this call, which then bounds memory and processes in the place of the kernel's limits of
        one process; `scratch` its private directory. A launcher that dies before it has answered is replaced once; in
        the rare case that it had started the program, that one is killed as an orphan.
        """

        async def start() -> Child:
            try:
                forker = await self._ready(policy, has_leaf=leaf is not None)
            except SpawnError as error:
                raise SpawnError(argv[0], f"its launcher cannot be started: {error.why}") from error
            reserved = self._family.reserve(argv[0], env=env, with_updates=with_updates)
            theirs: list[int] = []
            ours: list[int] = []
            try:
                theirs, ours = open_pipes(4 if with_updates else 3, is_joined=is_joined)
                # As `forked.sandbox.launch.LaunchRequest` reads it.
                request = {
                    "argv": list(argv),
                    "env": reserved.env,
                    "cwd": cwd,
                    "fds": [*range(len(theirs)), *extra],
                    "scratch": scratch,
                    "held": held,
                }
                fds = [*theirs, *extra.values()]
                if leaf is not None:
                    theirs.append(os.open(f"{leaf}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC))
                    fds.append(theirs[-1])
            except OSError as error:
                close_all((*theirs, *ours))
                self._family.cancel(reserved)
                raise SpawnError(argv[0], error.strerror or str(error)) from error
            try:
                return await forker.start_child(reserved, argv[0], {"spawn": request}, fds, ours)
            except BaseException:
                close_all(ours)
                raise
            finally:
                close_all(theirs)

        try:
            return await start()
        except ForkerGone:
            # Nothing of this call may be started any more if it has been cancelled.
            await trio.lowlevel.checkpoint_if_cancelled()
        try:
            return await start()
        except ForkerGone as gone:
            raise SpawnError(argv[0], f"its launcher cannot serve: {gone.why}") from gone

    async def close(self) -> None:
        """End and reap all launchers. Bounded, idempotent, cannot be cancelled."""
        forkers = [*self._forkers.values(), *self._retired]
        self._forkers.clear()
        self._retired.clear()
        for forker in forkers:
            forker.end()
        for forker in forkers:
            await forker.close()

    async def _ready(self, policy: Policy, *, has_leaf: bool) -> Forker:
        """The launcher of `policy`, once it has greeted; raises SpawnError or ForkerGone."""
        forker = self._forkers.pop((policy, has_leaf), None)
        if forker is None or not forker.is_usable:
            # A retiring one ends by itself with its last child.
            self._retired = {old for old in (*self._retired, forker) if old is not None and not old.is_gone}
            excess = len(self._forkers) + 1 - self._max_launchers
            idle = [key for key, other in self._forkers.items() if other.is_idle]
            for key in idle[: max(0, excess)]:
                self._forkers.pop(key).end()
            # UTF-8 with surrogates, as the daemon's own strings are, whatever the locale makes of an interpreter.
            argv = [sys.executable, "-I", "-S", "-X", "utf8", str(START), "launcher", policy.to_json()]
            if has_leaf:
                argv.append("leaf")
            forker = Forker(self._family, argv, name=LAUNCHER, answer_s=self._answer_s)
        self._forkers[policy, has_leaf] = forker
        if forker.is_ready:
            return forker
        with trio.move_on_after(START_S) as limit:
            await forker.ready()
        if limit.cancelled_caught:
            forker.end()
            raise ForkerGone(f"it did not start within {START_S:g} s")
        return forker


@asynccontextmanager
async def open_launchers(family: Family, *, answer_s: float = ANSWER_S) -> AsyncIterator[Launchers]:
    """Launchers for `family`, ended when the block is left. Their children live on."""
    launchers = Launchers(family, answer_s=answer_s)
    try:
        yield launchers
    finally:
        await launchers.close()  # noqa: ASYNC102  # it shields and bounds itself
