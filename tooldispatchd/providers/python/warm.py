"""Calls of Python tools: a fork of a warm parent for each, a child forked ahead, or a worker that lives on.

    run ──▶ worker, child ahead, or new pipes ── call written ──▶ forked ──▶ answered ──▶ killed ──▶ Value | Fault
                            ▲                                        │
                            └──── gone before it had read the call ──┘

How long a call may take and how many run at once are the caller's decisions. A call is begun at most once: another
child is asked only where the kernel says that the first did not read it.
"""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec
import trio

from tooldispatchd.calls.outcome import Unread
from tooldispatchd.children.control import ForkerGone
from tooldispatchd.children.descriptors import close_all
from tooldispatchd.children.family import Family
from tooldispatchd.children.spawn import SpawnError
from tooldispatchd.children.tail import STDERR_TAIL_BYTES
from tooldispatchd.forked.python.frames import FrameKind, frame, prefix
from tooldispatchd.providers.python.endings import Ending, Remains, judge, not_started
from tooldispatchd.providers.python.environment import NoParentError, WarmEnvironment, resident_bytes
from tooldispatchd.providers.python.peer import NOBODY, UNKNOWN, WorkerPipes
from tooldispatchd.providers.python.tool import CallHeader, CallSide, PythonTool, ReturnedValue, WarmKey
from tooldispatchd.wire.faults import Fault
from tooldispatchd.wire.lines import framed

# Children in a row that are gone before they have read a call: then it is the call's own doing, or the machine's.
TRIES: Final = 4

# How long a worker may wait for a call beside others that are enough: a hundred thousand times what forking it took.
# There are never more than have run at once, which the places for processes bound.
SPARE_S: Final = 60.0

# How often a worker's memory is looked at, in calls.
CALLS_PER_LOOK: Final = 64


class WarmTool:
    """A tool: its environment, and its children that wait for a call, each in its peer."""

    __slots__ = ("environment", "expected", "is_kept", "tool", "waiting")

    def __init__(self, tool: PythonTool, environment: WarmEnvironment) -> None:
        self.tool = tool
        self.environment = environment
        self.waiting: list[WorkerPipes] = []
        self.expected = 0
        """How many are being forked ahead."""
        self.is_kept = True


class Warm:
    """All environments of a daemon; `open_warm` makes it."""

    def __init__(self, family: Family, nursery: trio.Nursery, *, spare_s: float = SPARE_S) -> None:
        self._family = family
        self._spare_s = spare_s
        self._nursery = nursery
        self._environments: dict[WarmKey, WarmEnvironment] = {}
        self._places: dict[PythonTool, WarmTool] = {}

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
        restricted to files has none. `leaf` is a cgroup that the child enters, unless it is a worker.

        When this returns or is cancelled, the child of the call is killed, unless it is a worker that can serve
        another. It is also reaped, unless there was an answer: then that is not kept waiting for the kernel to take the
        child's memory apart. Raises OSError where the kernel has no descriptors left.
        """
        place = self._place(tool)
        if tool.resident and tool.restricts_files:
            call = msgspec.structs.replace(call, scratch=None)
        frames = framed(
            frame(FrameKind.CALL, msgspec.json.encode(call)) + prefix(FrameKind.INPUT, len(line)), line, b""
        )
        tries = TRIES + len(place.waiting)
        while True:
            tries -= 1
            try:
                ending, remains = await self._try(place, frames, leaf, side)
            except (NoParentError, SpawnError) as error:
                return not_started(tool, error.why).ran(may_have=False)
            if not ending.is_unread or not tries:
                return judge(tool, ending, remains)

    def keep(self, tools: Sequence[PythonTool]) -> None:
        """From now on these tools alone are called: children that wait for calls of others end, running calls go on.

        Their parents, once started, know all of them; a tool that was not named here has its parent replaced.
        """
        kept = set(tools)
        for tool in tools:
            self._place(tool)
        for tool, place in list(self._places.items()):
            if tool not in kept:
                place.is_kept = False
                del self._places[tool]
                for peer in take_all(place):
                    self._nursery.start_soon(peer.end)
        for surroundings, environment in list(self._environments.items()):
            environment.keep([tool for tool in kept if tool.surroundings == surroundings])
            if environment.is_idle:
                del self._environments[surroundings]

    def waiting(self, tool: PythonTool) -> list[int]:
        """The pids of its children that wait for a call: forked ahead, or workers."""
        place = self._places.get(tool)
        return [peer.child.pid for peer in place.waiting if peer.child is not None] if place else []

    async def close(self) -> None:
        """End all that waits for calls, then the parents; bounded, cannot be cancelled. There must be no calls."""
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                for place in self._places.values():
                    place.is_kept = False
                    for peer in take_all(place):
                        nursery.start_soon(peer.end)
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
        frames: bytes | bytearray,
        leaf: str | None,
        side: CallSide,
    ) -> tuple[Ending, Remains]:
        """Have one child serve the call; how that ended, and how the child did.

        Raises NoParentError, or SpawnError where no child can be had.
        """
        tool = place.tool
        peer = self._take(place) or WorkerPipes(tool.max_output_bytes)
        exited = UNKNOWN
        is_fit = False
        try:
            if leaf is not None and peer.child is not None and not tool.resident:
                # One that has died goes nowhere.
                with suppress(ProcessLookupError):
                    Path(leaf, "cgroup.procs").write_text(str(peer.child.pid))
            peer.begin(frames, side)
            if peer.child is None:
                await fork_child(place, peer, leaf)
            if not tool.resident and place.is_kept:
                while len(place.waiting) + place.expected < tool.prefork:
                    place.expected += 1
                    self._nursery.start_soon(self._fork_one_ahead, place)
            ending = await peer.finish()
            if ending.error is not None and ending.error.kind == "import" and peer.parent is not None:
                place.environment.failed(peer.parent, tool.function)
            is_fit = tool.resident and is_fit_for_more(place, peer, ending)
        except trio.Cancelled:
            if tool.stop_s and side.grace is not None:
                with side.grace.given(tool.stop_s):
                    # `given` shields and bounds it.
                    side.grace.said |= said_at_the_end(await peer.stop(), peer.stderr)  # noqa: ASYNC102  # as said
            raise
        finally:
            if not is_fit:
                exited = await peer.end()  # noqa: ASYNC102  # it shields and bounds itself
        # A worker's output is this call's until the next one begins, which may be as soon as it waits.
        # A worker's processor time is that of all its calls, and says nothing of this one.
        remains = Remains(exited, peer.stderr, None if tool.resident else peer.cpu)
        if is_fit:
            peer.waits_since = now = trio.current_time()
            place.waiting.append(peer)
            # The last is taken first. So the first has waited longest, and it ends if it was not needed.
            if place.waiting[0].waits_since < now - self._spare_s:
                self._nursery.start_soon(place.waiting.pop(0).end)
        return ending, remains

    def _take(self, place: WarmTool) -> WorkerPipes | None:
        """A child that waits for a call. Those of worn parents are ended, or the parents would stay."""
        for peer in take_all(place):
            if has_current_parent(peer):
                place.waiting.append(peer)
            else:
                self._nursery.start_soon(peer.end)
        return place.waiting.pop() if place.waiting else None

    async def _fork_one_ahead(self, place: WarmTool) -> None:
        # Where none can be had now, the next call asks again, and is told why if that fails too.
        try:
            with suppress(NoParentError, SpawnError, OSError):
                peer = WorkerPipes(place.tool.max_output_bytes)
                try:
                    await fork_child(place, peer, None)
                finally:
                    if place.is_kept and peer.child is not None:
                        place.waiting.append(peer)
                    else:
                        await peer.end()  # noqa: ASYNC102  # it shields and bounds itself
        finally:
            place.expected -= 1


async def fork_child(place: WarmTool, peer: WorkerPipes, leaf: str | None) -> None:
    """Have the peer's child forked. Where the parent dies meanwhile the peer has none, and its socket tells the rest.

    Raises NoParentError, or SpawnError.
    """
    tool = place.tool
    parent = await place.environment.parent(tool)
    fds = list(peer.theirs)
    try:
        if leaf is not None:
            fds.append(os.open(f"{leaf}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC))
        peer.attach(await parent.fork(tool, fds), parent)
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
    if worker.child is None or worker.calls >= tool.max_forks or not has_current_parent(worker):
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


def has_current_parent(peer: WorkerPipes) -> bool:
    return peer.parent is not None and peer.parent.forker.is_usable


def take_all(place: WarmTool) -> list[WorkerPipes]:
    """Take all children that wait for a call of the tool."""
    peers, place.waiting = place.waiting, []
    return peers


@asynccontextmanager
async def open_warm(family: Family, *, spare_s: float = SPARE_S) -> AsyncIterator[Warm]:
    """Warm parents for the family, each started with the first call that needs it; all are gone when the block is left.

    There must be no calls by then.
    """
    async with trio.open_nursery() as nursery:
        warm = Warm(family, nursery, spare_s=spare_s)
        try:
            yield warm
        finally:
            nursery.cancel_scope.cancel()
            await warm.close()  # noqa: ASYNC102  # it shields and bounds itself
