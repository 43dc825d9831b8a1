"""Programs that serve several calls of one caller in turn: a line with one JSON value in, such a line out, and again.

    started ──▶ busy ──▶ answered ──┬──▶ idle ──▶ busy …
                  │                 └──▶ has served its number of calls ──▶ stdin closed, TERM, KILL
                  │                      idle: it ends, speaks, or is one too many ──▶ ended
                  └── cancelled, or no answer that can be trusted (`turns`) ──▶ KILL

The rule: what serves one caller never serves another, and nothing that has begun to fail is asked again.

What an idle child costs the daemon is its descriptors (five, and an epoll set), two kilobytes and one watch: one task
looks at all idle children of all sessions, and is woken only when one of them ends or speaks. Its stderr and its
updates are not read meanwhile: a child that floods them waits for its next call, and what is in the pipes by then is
dropped.
"""

import contextlib
import select
import signal
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final

import trio

from tooldispatchd.calls.outcome import Unread, Update
from tooldispatchd.children.spawn import KILL_S, Child, SpawnError
from tooldispatchd.providers.process.running import ChildStarter, Command, ProgramValue
from tooldispatchd.providers.process.turns import POLITE_S, TERM_S, WHY, Flaw, Passed, ReusedChild, Turn
from tooldispatchd.wire.faults import Code, Fault

# Of one tool of one session: as many as run at once on a small machine, so that an agent that keeps them all busy does
# not start new ones again and again, because some have answered at the same time.
MAX_IDLE_EACH: Final = 8
# In the whole daemon: at the 10 to 30 MiB of a small interpreter they hold one or two gigabytes at most.
MAX_IDLE: Final = 64
# Children that are being asked to end at once. Where more do not listen, further ones are killed.
MAX_LEAVING: Final = 64

During = Callable[[Child], AbstractAsyncContextManager[None]]


class IdleChildren:
    """The idle children of all sessions; one for the daemon, whose task and those that end children live in `home`.

    At most `most` are kept: the one that has been idle longest is ended for another.
    """

    def __init__(self, home: trio.Nursery, *, most: int = MAX_IDLE) -> None:
        self._home = home
        self._most = most
        # By the descriptor of each one's own epoll set, the longest idle first.
        self._idle: dict[int, ReusedChild] = {}
        self._epoll: select.epoll | None = None
        self._leaving = 0

    def __len__(self) -> int:
        return len(self._idle)

    def add(self, kept: ReusedChild) -> None:
        """A child idles from now on; raises OSError where the kernel has no room to watch it."""
        if self._epoll is None:
            self._epoll = select.epoll()
            self._home.start_soon(self._watch, self._epoll)
        self._epoll.register(kept.streams, select.EPOLLIN)
        self._idle[kept.streams.fileno()] = kept
        if len(self._idle) > self._most:
            oldest = next(iter(self._idle.values()))
            oldest.owner.take_out(oldest)
            self.end(oldest)

    def remove(self, kept: ReusedChild) -> None:
        """A child idles no longer."""
        del self._idle[kept.streams.fileno()]
        if self._epoll is not None:
            self._epoll.unregister(kept.streams)

    def end(self, kept: ReusedChild) -> None:
        """Ask a child that does not idle to end, and see to it that it does."""
        if self._leaving < MAX_LEAVING:
            self._leaving += 1
            self._home.start_soon(self._stop, kept)
        else:
            self.kill(kept)

    def kill(self, kept: ReusedChild) -> None:
        """End a child that does not idle at once."""
        self._home.start_soon(kept.kill)

    async def _stop(self, kept: ReusedChild) -> None:
        try:
            await kept.stop()
        finally:
            self._leaving -= 1

    async def _watch(self, epoll: select.epoll) -> None:
        """End each idle child that ends or speaks; runs until cancelled."""
        try:
            while True:
                await trio.lowlevel.wait_readable(epoll)
                for fd, _ in epoll.poll(0):
                    kept = self._idle[fd]
                    if (seen := kept.look()) is not None:
                        kept.owner.take_out(kept)
                        kept.owner.lose(kept, seen)
        finally:
            self._epoll = None
            epoll.close()


class Reused:
    """The children of one tool in one session, each of which serves up to `calls` calls, one at a time.

    `gone` is awaited with each child once it has been reaped, to remove what was made for it; it is not cancelled, and
    bounds itself.
    """

    def __init__(
        self, idle_children: IdleChildren, *, calls: int, gone: Callable[[Child], Awaitable[None]] | None = None
    ) -> None:
        self._idle_children = idle_children
        self._calls = calls
        self._gone = gone
        # The one that was used last stands at the end and is taken first: it is warm, and the others may grow old.
        self._idle: list[ReusedChild] = []
        self._busy: set[ReusedChild] = set()
        self._living: set[ReusedChild] = set()  # all of them
        self._has_spoken = False
        self._is_closed = False

    async def run(
        self,
        start: ChildStarter,
        command: Command,
        line: bytes | bytearray,
        *,
        update: Callable[[Update], None] | None = None,
        during: During | None = None,
        passed: Passed | None = None,
    ) -> ProgramValue | Unread | Fault:
        """Have `line` (one JSON value and a newline) answered by an idle child, or by one that `start` starts.

        `start` is asked for `command` with a pipe for updates, or raises SpawnError. Updates go to `update` as in
        `run_command`, and are dropped without it. `during` is entered with the child as it is asked, without a
        checkpoint, and left when it has answered or is reaped, before it may serve another call; it is entered with
        another one too where the first ended and had read nothing.
        `passed` is as in `run_command`, of the child that it is called with; a child's processor time is that of all of
        its calls.

        Every failure is a `tool_failed` fault, and the child is gone with it; so it is where this is cancelled. Where a
        child spoke unasked while it was idle, the next call fails: what was taken for an answer perhaps was none.
        """
        while self._idle and not self._has_spoken:
            kept = self._idle[-1]
            self.take_out(kept)
            seen = kept.look()
            if seen is None:
                kept.wake()
                turn = Turn(kept, line, update, command)
                if turn.begin():
                    outcome = await self._serve(turn, during, passed)
                    if not turn.is_unread:
                        return outcome
                    continue
            # Nothing of this call has been read, so that another child may serve it.
            self.lose(kept, seen)
        if self._has_spoken:
            self._has_spoken = False
            return Fault(Code.TOOL_FAILED, f"'{command.argv[0]}' {WHY[Flaw.UNASKED]}")
        try:
            kept = await self._start(start, command)
        except SpawnError as error:
            return Fault(Code.TOOL_FAILED, str(error))
        turn = Turn(kept, line, update, command)
        turn.begin()
        return await self._serve(turn, during, passed)

    async def close(self) -> None:
        """End every child, killing those that serve a call; bounded but for `gone`, cannot be cancelled.

        Calls that come later are refused.
        """
        self._is_closed = True
        for kept in self._busy:
            kept.child.signal_group(signal.SIGKILL)
        for kept in list(self._idle):
            self.take_out(kept)
            self._idle_children.end(kept)
        with trio.move_on_after(POLITE_S + TERM_S + KILL_S, shield=True):
            for kept in list(self._living):
                await kept.gone.wait()

    def take_out(self, kept: ReusedChild) -> None:
        """A child idles no longer."""
        self._idle.remove(kept)
        self._idle_children.remove(kept)

    def lose(self, kept: ReusedChild, seen: Flaw | None) -> None:
        """A child that idled has `seen` its end, or is to; it is ended at once."""
        self._has_spoken |= seen is Flaw.UNASKED
        self._idle_children.kill(kept)

    async def has_gone(self, kept: ReusedChild) -> None:
        """A child has been reaped."""
        self._living.discard(kept)
        if self._gone is not None:
            await self._gone(kept.child)

    async def _start(self, start: ChildStarter, command: Command) -> ReusedChild:
        child = await start(command.argv, env=command.env, with_updates=True)
        try:
            kept = ReusedChild(child, self, calls=self._calls)
        except OSError as error:
            # They shield and bound themselves, as does every way to end a child.
            await child.kill()  # noqa: ASYNC120  # as above
            if self._gone is not None:
                await self._gone(child)  # noqa: ASYNC120  # as above
            raise SpawnError(command.argv[0], f"it cannot be watched: {error.strerror}") from error
        self._living.add(kept)
        if self._is_closed:
            await kept.kill()
            raise SpawnError(command.argv[0], "its session has ended")
        return kept

    async def _serve(self, turn: Turn, during: During | None, passed: Passed | None) -> ProgramValue | Unread | Fault:
        kept = turn.kept
        self._busy.add(kept)
        try:
            async with contextlib.nullcontext() if during is None else during(kept.child):
                outcome = await self._ask(turn, passed)
        finally:
            self._busy.discard(kept)
        if isinstance(outcome, ProgramValue | Unread):
            self._rest(kept)
        return outcome

    async def _ask(self, turn: Turn, passed: Passed | None) -> ProgramValue | Unread | Fault:
        """What came of a call; its child is gone where that is no value."""
        kept, outcome = turn.kept, None
        try:
            await turn.run()
            outcome = turn.outcome()
        finally:
            if not isinstance(outcome, ProgramValue | Unread):
                ended = await kept.child.kill()  # noqa: ASYNC102  # as above
                if outcome is None:
                    outcome = turn.fault_of(ended, passed)
                await kept.leave()  # noqa: ASYNC102  # as above
        return outcome

    def _rest(self, kept: ReusedChild) -> None:
        kept.calls -= 1
        if kept.calls == 0 or self._is_closed:
            self._idle_children.end(kept)
            return
        kept.rest()
        try:
            self._idle_children.add(kept)
        except OSError:
            # The call has its answer; the next one starts a child of its own.
            self._idle_children.end(kept)
            return
        self._idle.append(kept)
        if len(self._idle) > MAX_IDLE_EACH:
            oldest = self._idle[0]
            self.take_out(oldest)
            self._idle_children.end(oldest)
