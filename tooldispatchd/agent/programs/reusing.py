"""The children of one session that serve several of its calls in turn, with what each of them has to itself.

call ──▶ an idle child, or a new one (its channel, its directory, its cgroup) ──▶ answered ──▶ idle …
a child is gone ──▶ its channel ends, its directory and its cgroup are removed
the session ends ──▶ all of them
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

import msgspec
import trio

from tooldispatchd.agent.calls.call import Call, CallContext
from tooldispatchd.agent.programs.programs import ChildSurroundings, Lent, Program, Programs, SurroundingsError
from tooldispatchd.calls.outcome import Unread
from tooldispatchd.children.spawn import Child
from tooldispatchd.providers.process.reused import IdleChildren, Reused
from tooldispatchd.providers.process.running import ProgramValue
from tooldispatchd.providers.updates import UpdateLines
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.lines import framed

# Opens a channel for a child that is an agent; why there is none, or None for any other child.
Lend = Callable[[], Awaitable[Lent | Fault | None]]


class _Kept(msgspec.Struct, frozen=True):
    """A child's own channel, directory and cgroup."""

    lent: Lent | None
    around: ChildSurroundings | None


class _RefusedError(Exception):
    """No child was started, for a reason that is the call's fault already."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.detail)
        self.fault = fault


class Reusers:
    """The reused children of all sessions; one for the daemon."""

    def __init__(self, programs: Programs, home: trio.Nursery) -> None:
        self._programs = programs
        self._idle = IdleChildren(home)
        self._by_session: dict[CallContext, Reusing] = {}

    async def run(
        self,
        program: Program,
        call: Call,
        lend: Lend,
        updates: UpdateLines | None,
    ) -> ProgramValue | Unread | Fault:
        """Have a child of the call's session serve it; `lend` gives a new child its channel."""
        context = call.context
        reusing = self._by_session.get(context)
        if reusing is None:
            reusing = self._by_session[context] = Reusing(self._programs, self._idle)
            context.session.keep(partial(self._live, context, reusing), reusing.end)
        return await reusing.run(program, call, lend, updates)

    async def _live(self, context: CallContext, reusing: "Reusing") -> None:
        try:
            await reusing.live()
        finally:
            del self._by_session[context]


class Reusing:
    """The reused children of one session; `live` is its task."""

    def __init__(self, programs: Programs, idle: IdleChildren) -> None:
        self._programs = programs
        self._idle = idle
        self._reused: dict[int, Reused] = {}
        self._kept: dict[Child, _Kept] = {}
        self._ending = trio.Event()

    async def live(self) -> None:
        """Stay as long as the session does; when this returns no child is left."""
        try:
            await self._ending.wait()
        finally:
            # Each bounds itself.
            with trio.CancelScope(shield=True):
                async with trio.open_nursery() as nursery:
                    for reused in self._reused.values():
                        nursery.start_soon(reused.close)

    def end(self) -> None:
        """Let `live` return. Idempotent."""
        self._ending.set()

    async def run(
        self,
        program: Program,
        call: Call,
        lend: Lend,
        updates: UpdateLines | None,
    ) -> ProgramValue | Unread | Fault:
        """Have a child serve `call`; it is gone where it failed, and where this is cancelled."""
        # A profile's plans live as long as the daemon, and each has its program.
        key, program = id(program), program.at(call.context.workspace)
        reused = self._reused.get(key)
        if reused is None:
            assert program.reuse is not None
            reused = self._reused[key] = Reused(self._idle, calls=program.reuse, gone=self._gone)
        try:
            return await reused.run(
                partial(self._start, program, lend),
                program.command,
                framed(b"", call.sent_line, b"\n"),
                updates=updates,
                grace=call.grace,
                during=partial(self._serving, call),
                passed=self._passed,
            )
        except _RefusedError as refused:
            return refused.fault.ran(may_have=False)

    async def _start(
        self,
        program: Program,
        lend: Lend,
        argv: Sequence[str],
        /,
        *,
        env: Mapping[str, str],
        with_updates: bool,
    ) -> Child:
        """A `ChildStarter`; raises `_RefusedError` too."""
        programs = self._programs
        lent = await lend()
        if isinstance(lent, Fault):
            raise _RefusedError(lent)
        child: Child | None = None
        around: ChildSurroundings | None = None
        try:
            whole = dict(env) | ({} if lent is None else lent.env)
            launch = programs.directly(program, lent)
            if program.policy is not None:
                around = programs.surround(program.policy, programs.make_scratch)
                programs.bring(program, program.policy, around, lent)
                whole |= around.env(program.policy) | program.home
                launch = programs.shut_in(program, program.policy, around, lent)
            child = await launch(argv, env=whole, with_updates=with_updates)
        except SurroundingsError as error:
            raise _RefusedError(Fault(Code.TOOL_FAILED, str(error))) from error
        finally:
            if child is None:
                await self._clear(_Kept(lent, around))  # noqa: ASYNC102  # it shields and bounds itself
        self._kept[child] = _Kept(lent, around)
        return child

    @asynccontextmanager
    async def _serving(self, call: Call, child: Child) -> AsyncIterator[None]:
        lent = self._kept[child].lent
        if lent is not None:
            lent.wake(call)
        try:
            yield
        finally:
            # Before the child may serve another call, whose own calls would be waited for too.
            if lent is not None:
                await lent.rest()  # noqa: ASYNC102  # it shields and bounds itself

    def _passed(self, child: Child) -> str | None:
        around = self._kept[child].around
        return None if around is None or around.leaf is None else around.leaf.passed()

    async def _gone(self, child: Child) -> None:
        await self._clear(self._kept.pop(child))

    async def _clear(self, kept: _Kept) -> None:
        with trio.CancelScope(shield=True):
            if kept.lent is not None:
                await kept.lent.close()
            if kept.around is not None:
                await self._programs.clear(kept.around)
