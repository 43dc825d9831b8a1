"""Calls of Python tools: a fork of a warm parent for each, or a worker that lives on.

    run ──▶ worker, or new pipes ── call written ──▶ forked ──▶ answered ──▶ killed ──▶ Value | Fault
                            ▲                                        │
                            └──── gone before it had read the call ──┘

How long a call may take and how many run at once are the caller's decisions. A call is begun at most once: another
child is asked only where the kernel says that the first did not read it.
"""

import os
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import msgspec
import trio

from tooldispatchd.calls.outcome import Unread
from tooldispatchd.children.control import ForkerGone
from tooldispatchd.children.descriptors import close_all
from tooldispatchd.children.family import Family
from tooldispatchd.children.procstat import resident_bytes
from tooldispatchd.children.scratch import Scratches
from tooldispatchd.children.spawn import Exit, SpawnError
from tooldispatchd.children.tail import STDERR_TAIL_BYTES
from tooldispatchd.forked.python.frames import FrameKind, frame, prefix
from tooldispatchd.providers.python.endings import Ending, Remains, judge, not_started
from tooldispatchd.providers.python.environment import NoParentError, WarmEnvironment
from tooldispatchd.providers.python.idle import SPARE_S, IdleWorkers, WorkerKey
from tooldispatchd.providers.python.peer import NOBODY, UNKNOWN, WorkerPipes
from tooldispatchd.providers.python.tool import CallHeader, CallSide, PythonTool, ReturnedValue, WarmKey
from tooldispatchd.wire.faults import Fault
from tooldispatchd.wire.lines import framed

# Children in a row that are gone before they have read a call: then it is the call's own doing, or the machine's.
TRIES: Final = 4

# How often a worker's memory is looked at, in calls.
CALLS_PER_LOOK: Final = 64


class WarmTool:
    """A tool, its environment, and the key of its workers."""

    __slots__ = ("environment", "is_kept", "key", "tool")

    def __init__(self, tool: PythonTool, environment: WarmEnvironment) -> None:
        self.tool = tool
        self.environment = environment
        self.is_kept = True
        self.key = WorkerKey.of(tool) if tool.resident else None

    def key_of(self, call: CallHeader) -> WorkerKey | None:
        """That of the workers which may serve the call; None where a fork does."""
        if self.key is None or not self.tool.is_sessions_own:
            return self.key
        return self.key._replace(session=call.session, workspace=call.workspace)


class Warm:
    """All environments of a daemon; `open_warm` makes it."""

    def __init__(
        self, family: Family, scratches: Scratches | None, nursery: trio.Nursery, *, spare_s: float = SPARE_S
    ) -> None:
        self._family = family
        self._scratches = scratches
        self._nursery = nursery
        self._environments: dict[WarmKey, WarmEnvironment] = {}
        self._places: dict[PythonTool, WarmTool] = {}
        self.workers = IdleWorkers(nursery, self._end, spare_s=spare_s)

    async def run(
        self,
        tool: PythonTool,
        line: bytes | bytearray,
        call: CallHeader,
        side: CallSide = NOBODY,
        *,
        leaf: str | None = None,
    ) -> ReturnedValue | Unread | Fault:
        """Call the tool once with `line` (one JSON value), which has been checked against its schema.

        `call` is what the function is told, with a scratch directory that is the caller's to remove; a worker that is
        restricted to files has one of its own in its place. `leaf` is a cgroup that the child enters, which no worker
        does.

        When this returns or is cancelled, the child of the call is killed, unless it is a worker that can serve
        another. It is also reaped, unless there was an answer: then that is not kept waiting for the kernel to take the
        child's memory apart. Raises OSError where the kernel has no descriptors left.
        """
        place = self._place(tool)
        key = place.key_of(call)
        call = msgspec.structs.replace(call, function=tool.function)
        frames = framed(
            frame(FrameKind.CALL, msgspec.json.encode(call)) + prefix(FrameKind.INPUT, len(line)), line, b""
        )
        tries = TRIES + (0 if key is None else self.workers.count(key))
        while True:
            tries -= 1
            try:
                ending, remains = await self._try(place, key, frames, leaf, side)
            except (NoParentError, SpawnError) as error:
                return not_started(tool, error.why).ran(may_have=False)
            if not ending.is_unread or not tries:
                return judge(tool, ending, remains)

    def keep(self, tools: Sequence[PythonTool]) -> None:
        """From now on these tools alone are called: children that wait for calls of others end, running calls go on.

        Their parents, once started, know all of them; a tool that was not named here has its parent replaced.
        """
        kept = set(tools)
        before = {key: environment.is_warm for key, environment in self._environments.items()}
        called = {key._replace(code="") for key, is_warm in before.items() if is_warm}
        sharing: dict[WarmKey, list[PythonTool]] = {}
        for tool in kept:
            self._place(tool)
            sharing.setdefault(tool.surroundings, []).append(tool)
        for tool, place in list(self._places.items()):
            if tool not in kept:
                place.is_kept = False
                del self._places[tool]
        for worker in self.workers.drop({place.key for place in self._places.values()}):
            self._nursery.start_soon(self._end, worker)
        for surroundings, environment in list(self._environments.items()):
            environment.keep(own := sharing.get(surroundings, []))
            if surroundings not in before and surroundings._replace(code="") in called:
                # The same with other code: whoever called that before calls it soon.
                self.start(own[:1])
            if environment.is_idle:
                del self._environments[surroundings]

    def start(self, tools: Iterable[PythonTool]) -> None:
        """Start the parents of these tools; where one cannot be had, the first call is told why."""

        async def begin(place: WarmTool) -> None:
            with suppress(NoParentError, SpawnError, OSError):
                await place.environment.parent(place.tool)

        for place in {place.environment: place for place in map(self._place, tools)}.values():
            self._nursery.start_soon(begin, place)

    def waiting(self, tool: PythonTool) -> list[int]:
        """The pids of its workers that wait for a call: those of all sessions, or of none."""
        return [peer.child.pid for peer in self.workers.waiting(WorkerKey.of(tool)) if peer.child is not None]

    async def end_session(self, session: int) -> None:
        """End the workers of a session, which has no calls any more; bounded, cannot be cancelled."""
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                for worker in self.workers.close(session):
                    nursery.start_soon(self._end, worker)

    async def close(self) -> None:
        """End all that waits for calls, then the parents; bounded, cannot be cancelled. There must be no calls."""
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                for place in self._places.values():
                    place.is_kept = False
                for worker in self.workers.drop(()):
                    nursery.start_soon(self._end, worker)
            async with trio.open_nursery() as nursery:
                for environment in self._environments.values():
                    nursery.start_soon(environment.close)

    def _place(self, tool: PythonTool) -> WarmTool:
        place = self._places.get(tool)
        if place is None:
            surroundings = tool.surroundings
            environment = self._environments.get(surroundings)
            if environment is None:
                environment = self._environments[surroundings] = WarmEnvironment(self._family, self._nursery)
            place = self._places[tool] = WarmTool(tool, environment)
        return place

    async def _try(
        self,
        place: WarmTool,
        key: WorkerKey | None,
        frames: bytes | bytearray,
        leaf: str | None,
        side: CallSide,
    ) -> tuple[Ending, Remains]:
        """Have one child serve the call; how that ended, and how the child did.

        With `key` that is a worker. Raises NoParentError, or SpawnError where no child can be had.
        """
        tool = place.tool
        peer = (self.workers.take(tool, key) if key is not None else None) or WorkerPipes(tool.max_output_bytes)
        exited = UNKNOWN
        is_fit = False
        try:
            peer.begin(frames, side)
            if peer.child is None:
                if key is not None and tool.has_own_scratch and self._scratches is not None:
                    peer.scratch = self._scratches.make(tool.policy.uid, tool.policy.gid)
                await fork_child(place, peer, leaf, key)
            ending = await peer.finish()
            if ending.error is not None and ending.error.kind == "import" and peer.parent is not None:
                place.environment.failed(peer.parent, tool.function)
            is_fit = key is not None and is_fit_for_more(place, peer, ending)
        except trio.Cancelled:
            if tool.stop_s and side.grace is not None:
                with side.grace.given(tool.stop_s):
                    # `given` shields and bounds it.
                    side.grace.said |= said_at_the_end(await peer.stop(), peer.stderr)  # noqa: ASYNC102  # as said
            raise
        finally:
            if not is_fit:
                exited = await self._end(peer)  # noqa: ASYNC102  # it shields and bounds itself
        # A worker's output is this call's until the next one begins, which may be as soon as it waits.
        # A worker's processor time is that of all its calls, and says nothing of this one.
        remains = Remains(exited, peer.stderr, None if key is not None else peer.cpu)
        if is_fit and key is not None:
            self.workers.put(key, peer)
        return ending, remains

    async def _end(self, peer: WorkerPipes) -> Exit:
        """End a child and remove the directory that was its own; bounded, cannot be cancelled."""
        try:
            return await peer.end()
        finally:
            scratch, peer.scratch = peer.scratch, None
            if scratch is not None and self._scratches is not None:
                with trio.CancelScope(shield=True):
                    await self._scratches.remove(scratch)


async def fork_child(place: WarmTool, peer: WorkerPipes, leaf: str | None, key: WorkerKey | None) -> None:
    """Have the peer's child forked, which with `key` is a worker.

    Where the parent dies meanwhile the peer has none, and its socket tells the rest. Raises NoParentError, or
    SpawnError.
    """
    tool = place.tool
    parent = await place.environment.parent(tool)
    fds = list(peer.theirs)
    try:
        if leaf is not None:
            fds.append(os.open(f"{leaf}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC))
        workspace = None if key is None else key.workspace
        child = await parent.fork(tool, fds, is_worker=key is not None, scratch=peer.scratch, workspace=workspace)
        peer.attach(child, parent)
    except ForkerGone:
        place.environment.lost(parent)
    except SpawnError:
        if not parent.forker.is_gone:
            raise
        place.environment.lost(parent)
    finally:
        close_all(fds[2:])
        peer.hand_over()


def is_fit_for_more(place: WarmTool, worker: WorkerPipes, ending: Ending) -> bool:
    """Whether a worker that has just answered may serve another call."""
    tool = place.tool
    if not ending.is_answer or ending.is_leaving or not place.is_kept:
        return False
    if ending.error is not None and ending.error.kind in {"import", "confine"}:
        return False
    if worker.child is None or worker.calls >= tool.max_forks or not worker.serves(tool):
        return False
    return worker.calls % CALLS_PER_LOOK > 0 or resident_bytes(worker.child.pid) <= tool.max_rss


def said_at_the_end(ending: Ending, stderr: str) -> dict[str, object]:
    """What is told of a call that was given time to end itself: what it returned, and what it printed."""
    said: dict[str, object] = {}
    if ending.value is not None:
        said["stdout_tail"] = bytes(ending.value[-STDERR_TAIL_BYTES:]).decode(errors="ignore")
    if stderr:
        said["stderr_tail"] = stderr
    return said


@asynccontextmanager
async def open_warm(
    family: Family, scratches: Scratches | None = None, *, spare_s: float = SPARE_S
) -> AsyncIterator[Warm]:
    """Warm parents for the family, each started with the first call that needs it; all are gone when the block is left.

    There must be no calls by then. Without `scratches` no worker has a directory of its own.
    """
    async with trio.open_nursery() as nursery:
        warm = Warm(family, scratches, nursery, spare_s=spare_s)
        try:
            yield warm
        finally:
            nursery.cancel_scope.cancel()
            await warm.close()  # noqa: ASYNC102  # it shields and bounds itself
