"""The equipment with which the daemon runs programs: opened once a configuration needs it, and kept for all after it.

    scratch directories, cgroups, launchers ── where a program has bounds
    warm parents ───────────────────────────── where there are Python tools
    what sends traces ──────────────────────── where `[traces]` names a collector when the daemon starts
    connections to HTTP APIs ───────────────── where there are tools with `rest`
    the recorder of calls ──────────────────── where `[audit]` names a store when the daemon starts
    files with specs ───────────────────────── where there are agents that `agent_command` runs
    files with long answers ────────────────── from the first of them on

Its private directories do not outlive the daemon: the next one removes what a killed one has left.
"""

import fcntl
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final

import trio

from tooldispatchd.agent.calls.spool import MakeDirectory
from tooldispatchd.agent.calls.step import Step
from tooldispatchd.agent.log import Log
from tooldispatchd.agent.programs.programs import ProgramBounds
from tooldispatchd.agent.runtime import PythonPlanner, RestPlanner
from tooldispatchd.agent.setup import Setup
from tooldispatchd.agent.steps.auditing import AuditSink
from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.catalog.enforcement import programs
from tooldispatchd.catalog.masker import Masker
from tooldispatchd.catalog.statedirectory import find_state_directory
from tooldispatchd.children.family import Family
from tooldispatchd.children.launchers import open_launchers
from tooldispatchd.children.leaves import Leaves, LeavesError, delegated, open_leaves
from tooldispatchd.children.removal import LOCK, remove_tree
from tooldispatchd.children.scratch import open_scratches
from tooldispatchd.installation import needs
from tooldispatchd.privatefiles import create_private

SCRATCHES: Final = "tooldispatchd-scratch-"
TOOL_LISTS: Final = "tooldispatchd-tools-"
# Below the directory for state.
OUTPUTS: Final = "outputs"
SPOOL: Final = "daemon-"
# Other users' programs have theirs in them: they may pass through, and see nothing.
_MODE: Final = 0o711
# What killed daemons have left may be large, and a start waits for it: what takes longer is left to the next one.
SWEEP_S: Final = 1.0
# At the end nothing large should be left there.
REMOVE_S: Final = 1.0
AGENTS: Final = "tooldispatchd-agents-"
# The cgroup controller that counts each bound.
CONTROLLERS: Final = {"memory": "memory", "processes": "pids"}


class EquipmentError(Exception):
    """Something that the configuration needs cannot be had; the message says what and why."""


class EquipmentNeeds:
    """The needs of a configuration's programs. `controllers` are those of cgroups that are to count calls."""

    def __init__(self, catalog: Catalog) -> None:
        config = catalog.config
        asked = [program.asked for program in programs(config, catalog.profiles, catalog.servers)]
        named = {name for each in asked for name in ("memory", "processes") if getattr(each, name) is not None}
        self.controllers: Final = {
            CONTROLLERS[name] for name in named if catalog.enforceable.why_not(f"{name}_cgroup") is None
        }
        self.has_python: Final = any(spec.python is not None for spec in config.tools.values())
        self.has_bounds: Final = self.has_python or bool(asked)
        self.has_agents: Final = any(name in config.processes for name in catalog.profiles)


class Equipment:
    """All that was opened so far. It stays for later configurations, and what these need more is added.

    Each addition is open in a task of its own, until `close`.
    """

    def __init__(
        self, family: Family, environ: Mapping[str, str], log: Log, masker: Masker, nursery: trio.Nursery
    ) -> None:
        self.bounds: ProgramBounds | None = None
        self.python: PythonPlanner | None = None
        self.rest: RestPlanner | None = None
        # Where agents find the files with their tools.
        self.tool_lists: Path | None = None
        # What is there for as long as the daemon runs: where calls are recorded, and what makes the directory for long
        # answers, which few daemons ever need.
        self.audit: AuditSink | None = None
        self.make_spool: MakeDirectory | None = None
        # What each call that waits takes, whatever its tool.
        self.steps: tuple[Step, ...] = ()
        self._family = family
        self._environ = environ
        self._log = log
        self._masker = masker
        self._nursery = nursery
        # For each addition what ends it, and what is set when it has ended.
        self._added: list[tuple[trio.Event, trio.Event]] = []

    async def suit(self, setup: Setup) -> None:
        """Add what the catalog's programs need more. Raises `EquipmentError`; what is there is not touched."""
        if not self._lacks(setup.catalog):
            return
        try:
            await self._nursery.start(self._hold, setup)
        except BaseExceptionGroup as group:
            # What was opened before it has nurseries of its own.
            wrong, others = group.split(EquipmentError)
            if wrong is None or others is not None:
                raise
            raise _first(wrong) from group

    async def close(self) -> None:
        """Close what was opened last first; cannot be cancelled, and each bounds itself. There must be no calls."""
        with trio.CancelScope(shield=True):
            for end, ended in reversed(self._added):
                end.set()
                await ended.wait()

    async def _hold(self, setup: Setup, task_status: trio.TaskStatus[None]) -> None:
        end, ended = trio.Event(), trio.Event()
        try:
            async with AsyncExitStack() as stack:
                await self._add(setup, stack)
                # It would stay for as long as what was opened.
                del setup
                self._added.append((end, ended))
                task_status.started()
                with trio.CancelScope(shield=True):
                    await end.wait()
        finally:
            ended.set()

    def _lacks(self, catalog: Catalog) -> bool:
        """Tell whether there is anything to be added; the first time there always is."""
        needs = EquipmentNeeds(catalog)
        return (
            not self._added
            or (needs.has_bounds and (self.bounds is None or (self.bounds.leaves is None and bool(needs.controllers))))
            or (needs.has_python and self.python is None)
            or (needs.has_agents and self.tool_lists is None)
            or (bool(catalog.apis) and self.rest is None)
        )

    async def _add(self, setup: Setup, stack: AsyncExitStack) -> None:
        catalog, needs = setup.catalog, EquipmentNeeds(setup.catalog)
        if not self._added:
            self.audit = stack.enter_context(_open_audit(setup, self._masker))
            self.make_spool = spool_below(self._environ, stack, made=lambda path: self._family.also_remove(str(path)))
            if setup.catalog.config.traces.endpoint is not None:
                self.steps = (stack.enter_context(_open_traces(setup)),)
        bounds, tool_lists, python, rest = self.bounds, self.tool_lists, self.python, self.rest
        if needs.has_bounds and bounds is None:
            # Not where the sockets lie: that is memory, and programs may write much.
            directory = _directory(SCRATCHES, {}, self._family, stack)
            leaves = await _leaves(needs.controllers, self._family, stack)
            scratches = await stack.enter_async_context(open_scratches(directory, self._family, left=self._left))
            bounds = ProgramBounds(scratches, await stack.enter_async_context(open_launchers(self._family)), leaves)
        elif bounds is not None and bounds.leaves is None and needs.controllers:
            raise EquipmentError("cgroups for calls can be made only when the daemon starts")
        if needs.has_agents and tool_lists is None:
            tool_lists = _directory(TOOL_LISTS, self._environ, self._family, stack)
        if needs.has_python and python is None:
            # Few daemons have such tools.
            from tooldispatchd.agent.programs.pythonplan import open_python_plans  # noqa: PLC0415  # as above

            assert bounds is not None
            python = await stack.enter_async_context(open_python_plans(self._family, bounds.scratches))
        if catalog.apis and rest is None:
            from tooldispatchd.agent.calls.restplan import open_rest_plans  # noqa: PLC0415  # as above

            rest = await stack.enter_async_context(open_rest_plans(self._log, self._masker, self._environ))
        # Whoever asked for it may have been cancelled. Then trio takes no notice of `started`, and waits for the task,
        # which would wait for `close`.
        await trio.lowlevel.checkpoint_if_cancelled()
        # All at once: an addition that fails leaves what there was.
        self.bounds, self.tool_lists, self.python, self.rest = bounds, tool_lists, python, rest

    def _left(self, path: str) -> None:
        self._log.warning("scratch directory left", path=path)


@asynccontextmanager
async def open_equipment(
    family: Family, environ: Mapping[str, str], log: Log, masker: Masker
) -> AsyncIterator[Equipment]:
    """Equipment, empty at first: `suit` it to a configuration before the family has children.

    `masker` is that of the daemon. Leave it once there are no calls.
    """
    async with trio.open_nursery() as nursery:
        equipment = Equipment(family, environ, log, masker, nursery)
        try:
            yield equipment
        finally:
            await equipment.close()  # noqa: ASYNC102  # it shields and bounds itself


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _open_traces(setup: Setup) -> AbstractContextManager[Step]:
    try:
        from tooldispatchd.agent.steps.traces import open_traces  # noqa: PLC0415  # a wing, of an extra
    except ImportError as error:
        raise EquipmentError(f"[traces] {needs('otel')}") from error
    return open_traces(setup.catalog.config.traces, setup.log)


@contextmanager
def _open_audit(setup: Setup, masker: Masker) -> Iterator[AuditSink | None]:
    """Open the audit, where the configuration names a store. Raises `EquipmentError`."""
    if setup.catalog.config.audit.store is None:
        yield None
        return
    from tooldispatchd.audit.door import AuditStoreError, open_audit  # noqa: PLC0415  # a wing

    with ExitStack() as stack:
        try:
            opened = open_audit(setup.catalog.config.audit, setup.log, masker=masker)
            recorder = stack.enter_context(opened)
        except AuditStoreError as error:
            raise EquipmentError(f"cannot record calls: {error}") from error
        yield recorder


def _directory(prefix: str, environ: Mapping[str, str], family: Family, stack: AsyncExitStack) -> Path:
    """A directory that is removed with the daemon, however that ends."""
    try:
        directory = stack.enter_context(open_private_directory(prefix, environ, mode=_MODE))
    except OSError as error:
        raise EquipmentError(f"cannot make a directory for what programs need: {error.strerror}") from error
    family.also_remove(str(directory))
    return directory


def spool_below(
    environ: Mapping[str, str], stack: AsyncExitStack | ExitStack, *, made: Callable[[Path], object]
) -> MakeDirectory | None:
    """The maker of the directory of stored answers, which lasts as long as the stack; None where there is no place.

    What killed daemons have left of theirs is removed now, and no other's. `made` is told of the new one.
    """
    state = find_state_directory(environ)
    if state is None:
        return None
    parent = Path(state) / OUTPUTS
    _sweep(parent, SPOOL)

    def make() -> Path:
        parent.mkdir(0o700, parents=True, exist_ok=True)
        directory = stack.enter_context(_private_directory(str(parent), SPOOL, 0o700))
        made(directory)
        return directory

    return make


async def _leaves(wanted: set[str], family: Family, stack: AsyncExitStack) -> Leaves | None:
    """Cgroups with these controllers, which count calls. They must give what the configuration was checked against."""
    if not wanted:
        return None
    try:
        leaves = await stack.enter_async_context(open_leaves(delegated()))
    except LeavesError as error:
        raise EquipmentError(str(error)) from error
    family.also_dissolve(leaves.tree)
    missing = wanted - leaves.controllers
    if missing:
        raise EquipmentError(f"the daemon's cgroup cannot give {' and '.join(sorted(missing))} to those in it")
    return leaves


@contextmanager
def open_private_directory(prefix: str, environ: Mapping[str, str], *, mode: int = 0o700) -> Iterator[Path]:
    """A new directory in `$RUNTIME_DIRECTORY`, else where temporary files are; its path has no symbolic links.

    Its name begins with `prefix`. Others that do, and that daemons of this user have left which were killed, are
    removed first. Raises OSError where it cannot be made.
    """
    parent = environ.get("RUNTIME_DIRECTORY", "").partition(":")[0] or tempfile.gettempdir()
    with _private_directory(parent, prefix, mode) as directory:
        _sweep(directory.parent, prefix)
        yield directory


@contextmanager
def _private_directory(parent: str, prefix: str, mode: int) -> Iterator[Path]:
    """A new directory of a name that no other has, and that is in use for as long as this daemon lives."""
    directory = Path(tempfile.mkdtemp(prefix=prefix, dir=parent)).resolve()
    with ExitStack() as stack:
        stack.callback(lambda: remove_tree(str(directory), until=time.monotonic() + REMOVE_S))
        directory.chmod(mode)
        # Locked before it has its name: a lock file that another daemon finds unlocked was left by a killed one. The
        # descriptor holds the lock: the kernel releases it however the daemon ends.
        unnamed = directory / f"{LOCK}-new"
        lock = create_private(unnamed)
        stack.callback(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unnamed.rename(directory / LOCK)
        # Another lock, on the directory itself, keeps systemd from ageing its content: tmpfiles.d(5).
        held = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        stack.callback(os.close, held)
        fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield directory


def _sweep(parent: Path, prefix: str) -> None:
    """Remove what daemons of this user have left that were killed."""
    until = time.monotonic() + SWEEP_S
    for left in parent.glob(f"{prefix}*"):
        # Leave another user's directory, one in use, and one that is just being made or removed.
        with suppress(OSError):
            if left.lstat().st_uid == os.geteuid() and not left.is_symlink():
                with (left / LOCK).open("r", encoding="ascii") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    remove_tree(str(left), until=until)


@contextmanager
def open_agent_specs(catalog: Catalog, environ: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The path of each agent's spec by its process's name, in a directory that no other user may read.

    No directory is made where there is no spec. Raises `EquipmentError`.
    """
    specs = catalog.agent_specs
    if not specs:
        yield {}
        return
    paths: dict[str, str] = {}
    with ExitStack() as stack:
        try:
            directory = stack.enter_context(open_private_directory(AGENTS, environ))
            for name, spec in specs.items():
                paths[name] = str(directory / f"{name}.json")
                # For programs of the daemon's user, such as its agents; read-only against accidents.
                with os.fdopen(create_private(paths[name], 0o400), "wb") as file:
                    file.write(spec)
        except OSError as error:
            why = f"cannot write what agents are told to {error.filename}: {error.strerror}"
            raise EquipmentError(why) from error
        yield paths
