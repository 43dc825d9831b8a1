"""One environment: the warm parent of all tools that share an interpreter, variables, a directory and a user.

    none ── first call ──▶ loading ──▶ warm ── worn, or a new tool ──▶ loading the next, while the old one serves
      ▲                       │         └── died ──▶ none
      └──── a wait, then the next call ◀── died, or what it imported failed

A worn parent starts no more children; it ends when the last of its children is reaped, so that these go on. A parent is
started by a task of the environment's own: a call that is cancelled must not cancel it for the others that wait.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import trio

from tooldispatchd import forked
from tooldispatchd.calls.backoff import Backoff
from tooldispatchd.children.control import ForkerGone
from tooldispatchd.children.family import WARM_PARENT, Family
from tooldispatchd.children.forker import Forker
from tooldispatchd.children.procstat import resident_bytes
from tooldispatchd.children.spawn import Child, SpawnError
from tooldispatchd.forked.policy import Policy
from tooldispatchd.forked.python.marking import room
from tooldispatchd.forked.python.warm import Errand, Load
from tooldispatchd.providers.python.tool import PythonTool

# By its place and not as a module: it runs where nothing of the daemon is installed.
PROGRAM: Final = Path(forked.__file__).with_name("start.py")

# Importing what a tool needs may be slow; longer than this it hangs.
LOAD_S: Final = 120.0

# How often a retired parent is looked at, whether it is gone.
RETIRED_S: Final = 0.5

# How often a parent's memory is looked at, in forks; reading it costs a fiftieth of one.
FORKS_PER_LOOK: Final = 16

# A child of ours has its socket and its stderr in the hands of its `WorkerPipes`.
NO_PIPES: Final = (-1, -1, -1)


class NoParentError(Exception):
    """No warm parent can be had: `why` in words."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class ParentLease:
    """One warm parent, and how worn it is."""

    def __init__(self, family: Family, forker: Forker, load: Load, policies: Sequence[Policy]) -> None:
        self.forker = forker
        self.began = trio.current_time()
        self.failed: set[str] = set()
        """Functions whose modules could not be imported."""
        self._family = family
        self._functions = frozenset(load.functions)
        self._policies = {policy: number for number, policy in enumerate(policies)}
        self._forks = 0
        self._rss = 0

    def serves(self, tool: PythonTool) -> bool:
        """Whether it can be asked, and knows the tool."""
        return self.forker.is_usable and tool.function in self._functions and tool.policy in self._policies

    def is_worn(self, tool: PythonTool) -> bool:
        """Whether another parent should take its place, by the bounds of the tool."""
        return self._forks >= tool.max_forks or self._rss > tool.max_rss

    async def fork(
        self, tool: PythonTool, fds: Sequence[int], *, is_worker: bool, scratch: str | None, workspace: str | None
    ) -> Child:
        """Fork a child, which has copies of `fds`; raises ForkerGone, or SpawnError where the kernel refuses.

        `scratch` and `workspace` are those of a worker.
        """
        self._forks += 1
        if self._forks % FORKS_PER_LOOK == 0:
            self._rss = resident_bytes(self.forker.pid)
        reserved = self._family.reserve(tool.function)
        number = self._policies[tool.policy]
        errand = Errand(number, is_worker, reserved.number, scratch, workspace)
        return await self.forker.start_child(reserved, tool.function, {"fork": tuple(errand)}, fds, NO_PIPES)


class WarmEnvironment:
    """The parents of one environment, of which one serves at a time."""

    def __init__(self, family: Family, nursery: trio.Nursery) -> None:
        self._family = family
        self._nursery = nursery
        # By function and policy, so that a tool that was configured anew takes its place.
        self._tools: dict[tuple[str, Policy], PythonTool] = {}
        self._parent: ParentLease | None = None
        self._loading: trio.Event | None = None
        self._backoff = Backoff()
        self._retry_at = -math.inf
        self._failure: NoParentError | None = None

    def keep(self, tools: Sequence[PythonTool]) -> None:
        """Forget all other tools; without any, the parent ends after its last child."""
        self._tools = {(tool.function, tool.policy): tool for tool in tools}
        if not tools:
            self._replace(None)

    async def parent(self, tool: PythonTool) -> ParentLease:
        """One that knows the tool; raises NoParentError where none can be had now."""
        while True:
            # The next parent is to know the tool, if this one does not. Again each time: `keep` may have been called
            # meanwhile.
            self._tools[tool.function, tool.policy] = tool
            parent = self._parent
            if parent is not None and parent.serves(tool):
                if tool.function not in parent.failed or trio.current_time() < self._retry_at:
                    if parent.is_worn(tool):
                        # It goes on until the next is ready.
                        self._load()
                    return parent
            elif self._failure is not None and self._loading is None and trio.current_time() < self._retry_at:
                raise self._failure
            await self._load().wait()
            if self._parent is None and self._failure is not None:
                raise self._failure

    @property
    def is_warm(self) -> bool:
        """Whether a parent serves its calls."""
        return self._parent is not None

    @property
    def is_idle(self) -> bool:
        """Whether it has no tool, and nothing that is to be ended."""
        return not self._tools and self._parent is None and self._loading is None

    def failed(self, parent: ParentLease, function: str) -> None:
        """Note that the parent could not import the function's module: after a while its next call has that retried."""
        if function not in parent.failed:
            parent.failed.add(function)
            self._wait(trio.current_time() - parent.began)

    def lost(self, parent: ParentLease) -> None:
        """Drop a parent that has died. As it had loaded all its modules, the next one may be started at once."""
        if self._parent is parent:
            self._replace(None)

    def _replace(self, parent: ParentLease | None) -> None:
        old, self._parent = self._parent, parent
        if old is not None:
            self._nursery.start_soon(retire, old.forker)

    def _load(self) -> trio.Event:
        """Have the next parent started; the event that is set when it is ready, or has failed."""
        if self._loading is None:
            self._loading = trio.Event()
            self._nursery.start_soon(self._start, self._loading)
        return self._loading

    async def _start(self, done: trio.Event) -> None:
        try:
            parent = await self._started()
        except NoParentError as error:
            self._wait()
            self._failure = error
        else:
            self._failure = None
            self._replace(parent)
            if not self._tools:
                self._replace(None)
        finally:
            self._loading = None
            done.set()

    def _wait(self, lived_s: float = 0.0) -> None:
        # Without jitter, by the middle of it: no other environment retries at the same time.
        self._retry_at = trio.current_time() + self._backoff.wait_s(lived_s, 0.5)

    async def _started(self) -> ParentLease:
        tools = list(self._tools.values())
        some = tools[0].surroundings
        policies = list(dict.fromkeys(tool.policy for tool in tools))
        load = Load(
            functions=tuple(dict.fromkeys(tool.function for tool in tools)),
            policies=tuple(policy.to_json() for policy in policies),
            path=some.path,
        )
        argv = (some.interpreter, "-P", "-s", str(PROGRAM), "warm", load.to_json())
        try:
            forker = Forker(self._family, argv, name=WARM_PARENT, env=dict((*some.env, room())), cwd=some.cwd)
        except SpawnError as error:
            raise NoParentError(str(error)) from error
        parent: ParentLease | None = None
        try:
            with trio.fail_after(LOAD_S):
                await forker.ready()
            parent = ParentLease(self._family, forker, load, policies)
        except ForkerGone as error:
            raise NoParentError(f"its warm parent did not start: {error.why}") from error
        except trio.TooSlowError as error:
            raise NoParentError(f"importing its modules took longer than {LOAD_S:g} s") from error
        finally:
            if parent is None:
                await forker.close()  # noqa: ASYNC102  # it shields and bounds itself
        return parent

    async def close(self) -> None:
        """Kill and reap the parent; its children must have been reaped. Bounded, cannot be cancelled."""
        if self._parent is not None:
            await self._parent.forker.close()


async def retire(forker: Forker) -> None:
    """Let a parent start no more children, and reap it when it has ended after the last of them, or when cancelled."""
    forker.retire()
    try:
        while not forker.is_gone:  # noqa: ASYNC110  # no event tells it, and nobody waits for it
            await trio.sleep(RETIRED_S)
    finally:
        await forker.close()  # noqa: ASYNC102  # it shields and bounds itself
