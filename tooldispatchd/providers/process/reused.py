"""Programs that serve several calls of one caller in turn: a line with one JSON value in, such a line out, and again.

    started ──▶ busy ──▶ answered ──┬──▶ idle ──▶ busy …
                  │                 └──▶ has served its number of calls ──▶ stdin closed, TERM, KILL
                  │                      idle: it ends, speaks, or is one too many ──▶ ended
                  └── cancelled, or an answer that is too long, more than a line, too early, none, no JSON ──▶ KILL

The rule: a child that serves one caller never serves another, and one that has begun to fail is not asked again: its
lines could not be matched with calls any more. A program that is declared for this promises to write nothing behind its
answer, as that cannot always be told from the next answer.

An idle child costs the daemon its descriptors (five, and an epoll set), two kilobytes and one watch: one task
looks at all idle children of all sessions, and is woken only when one of them ends or speaks. Its stderr and its
updates are not read meanwhile: a child that floods them waits for its next call, and what is in the pipes by then is
dropped.
"""

import contextlib
import fcntl
import os
import select
import signal
import sys
import termios
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from enum import Enum, auto
from functools import partial
from typing import Final

import trio

from tooldispatchd.calls.outcome import Unread, UnreadableError
from tooldispatchd.catalog.outputs import Output
from tooldispatchd.catalog.schemas import ACCEPT, is_light
from tooldispatchd.children.endings import tails
from tooldispatchd.children.grace import Grace, ask_to_end
from tooldispatchd.children.pipes import rest
from tooldispatchd.children.procstat import ProcessorTime, processor_time
from tooldispatchd.children.spawn import KILL_S, Child, Exit, SpawnError
from tooldispatchd.children.tail import END_BYTES
from tooldispatchd.providers.process.reading import read_output
from tooldispatchd.providers.process.running import (
    ChildStarter,
    Command,
    ProgramValue,
    ended_badly,
    no_answer,
    too_much,
)
from tooldispatchd.providers.process.streams import ProgramStreams
from tooldispatchd.providers.updates import UpdateLines
from tooldispatchd.wire.faults import Code, Fault

Passed = Callable[[Child], str | None]
During = Callable[[Child], AbstractAsyncContextManager[None]]

# Of one tool of one session: as many as run at once on a small machine, so that an agent that keeps them all busy does
# not start new ones again and again, because some have answered at the same time.
MAX_IDLE_EACH: Final = 8
# In the whole daemon: at the 10 to 30 MiB of a small interpreter they hold one or two gigabytes at most.
MAX_IDLE: Final = 64
# Children that are being asked to end at once. Where more do not listen, further ones are killed.
MAX_LEAVING: Final = 64
# How long a child that has served its calls may take to end at the end of its input, and then after TERM. Only the end
# of a session waits for it, whose whole teardown has a few seconds.
POLITE_S: Final = 0.5
TERM_S: Final = 0.5
# Between the end of a program's stdout and its own lie microseconds; one that lives on is not waited for.
END_S: Final = 0.2


class Flaw(Enum):
    """Why a child cannot be asked again."""

    UNASKED = auto()
    LONG = auto()
    MORE = auto()
    EARLY = auto()
    ENDED = auto()


WHY: Final = {
    Flaw.UNASKED: "wrote to stdout while no call was running",
    Flaw.MORE: "wrote more than one line for one call",
    Flaw.EARLY: "answered before it had read its input",
    Flaw.ENDED: "closed its stdout before it had answered",
}


class ReusedChild:
    """One child, and the set in which its pipes and its end are for as long as it lives."""

    __slots__ = ("calls", "child", "gone", "owner", "streams")

    def __init__(self, child: Child, owner: "Reused", *, calls: int) -> None:
        self.child = child
        self.owner = owner
        self.calls = calls  # that it may yet serve
        self.gone = trio.Event()
        self.streams = ProgramStreams(child)

    def rest(self) -> None:
        """Watch stdout and its end only."""
        for fd in (self.child.stderr, self.child.updates):
            self.streams.unwatch(fd)
        self.streams.forget()

    def look(self) -> Flaw | None:
        """The flaw that it showed while it idled, if any."""
        ready = self.streams.ready()
        if not ready:
            return None
        if self.child.stdout in ready:
            try:
                if os.read(self.child.stdout, 1):
                    return Flaw.UNASKED
            except BlockingIOError:
                # Any process can open the other end of its own pipe: it took back what it had written.
                return Flaw.UNASKED
        return Flaw.ENDED

    def wake(self) -> None:
        """Watch all of its pipes again, and drop what it wrote to them since the last call."""
        for fd in (self.child.stderr, self.child.updates):
            if fd >= 0:
                self.streams.watch(fd)
                for _ in rest(fd):
                    pass

    async def stop(self) -> None:
        """Ask it to end, ever less politely, and reap it; bounded, cannot be cancelled."""
        try:
            await self.child.stop(polite_s=POLITE_S, term_s=TERM_S)
        finally:
            await self.leave()  # noqa: ASYNC102  # it shields itself

    async def kill(self) -> None:
        """KILL and reap it; bounded, cannot be cancelled."""
        try:
            await self.child.kill()
        finally:
            await self.leave()  # noqa: ASYNC102  # it shields itself

    async def leave(self) -> None:
        """Close the set of a child that has been reaped, and have its owner forget it; cannot be cancelled."""
        self.streams.close()
        try:
            with trio.CancelScope(shield=True):
                await self.owner.has_gone(self)
        finally:
            self.gone.set()


class Turn:
    """One call on one child: its line in, one line out."""

    def __init__(
        self, kept: ReusedChild, line: bytes | bytearray, updates: UpdateLines | None, command: Command
    ) -> None:
        self.kept = kept
        self._child = kept.child
        self._streams = kept.streams
        self._command = command
        self._room = command.max_output_bytes
        self._updates = updates
        self._asked = line
        self._line = bytearray()
        self._cpu: ProcessorTime | None = None
        self.is_unread = False
        """Whether the child ended by itself and had read nothing."""
        self._is_answered = False
        self._flaw: Flaw | None = None

    def begin(self) -> bool:
        """Write what the pipe takes; false where the other end is closed, and the child can have read nothing."""
        return self._streams.begin(self._asked, self._take, self._updates)

    async def run(self) -> None:
        """Serve the pipes until there is an answer, or will be none."""
        if await self._streams.serve():
            # An answer that it wrote before its end is one.
            for chunk in rest(self._child.stdout):
                self._take(chunk)
            if not self._is_answered and self._flaw is None:
                self._flaw = Flaw.ENDED
        if self._flaw is Flaw.ENDED:
            with trio.move_on_after(END_S):
                await self._child.exited()

    async def end_early(self, grace: Grace) -> None:
        """Give the child its time to end itself; it is killed then, whatever it says."""
        if self._command.stop_s > 0:
            with grace.given(self._command.stop_s):
                ask_to_end(self._child, is_wrapped=self._command.is_wrapped)
                await self._streams.serve()
        self._streams.drain()
        grace.said = tails(self._line, self._streams.errors.text())

    def outcome(self) -> ProgramValue | Unread | Fault | None:
        """The outcome of the call, and the rest of its updates; None where it depends on how the child ended."""
        flaw, command, streams = self._flaw, self._command, self._streams
        argv0, max_bytes = command.argv[0], command.max_output_bytes
        streams.drain_updates()
        if flaw is None and not is_light(self._line, ACCEPT):
            end = bytes(self._line[-END_BYTES:])
            return Unread(self._line, Output.JSON, max_bytes, partial(no_answer, argv0, streams.errors.text(), end))
        if flaw is None:
            try:
                return ProgramValue(read_output(Output.JSON, self._line, max_bytes=max_bytes))
            except UnreadableError as error:
                streams.hear()
                return no_answer(argv0, streams.errors.text(), self._line, error)
        streams.hear()
        if flaw is Flaw.ENDED and self._child.has_exited():
            if command.limits.cpu_s is not None:
                # The kernel tells it until the child is reaped.
                self._cpu = processor_time(self._child.pid)
            unread = bytearray(4)
            fcntl.ioctl(self._child.stdin, termios.FIONREAD, unread)
            written = len(self._asked) - len(streams.unwritten)
            self.is_unread = int.from_bytes(unread, sys.byteorder) == written and not self._line
            return None
        if flaw is Flaw.LONG:
            return too_much(command, streams.errors.text(), self._line)
        return no_answer(argv0, streams.errors.text(), self._line, UnreadableError(WHY[flaw]))

    def fault_of(self, ended: Exit, passed: Passed | None) -> Fault:
        """The fault of a call whose child ended by itself, now that it is reaped."""
        command, stderr = self._command, self._streams.errors.text()
        if ended.code == 0:
            return no_answer(command.argv[0], stderr, self._line, UnreadableError("exited before it had answered"))
        counted = None if passed is None else partial(passed, self._child)
        return ended_badly(command, ended, stderr, self._line, said=stderr, cpu=self._cpu, passed=counted)

    def _take(self, chunk: bytes) -> bool:
        line, newline, more = chunk.partition(b"\n")
        self._line += line
        self._room -= len(line)
        if not chunk:
            if not self._is_answered and self._flaw is None:
                self._flaw = Flaw.ENDED
        elif self._is_answered or more:
            self._flaw = Flaw.MORE
        elif self._room < 0:
            self._flaw = Flaw.LONG
        elif newline:
            self._is_answered = not self._streams.unwritten
            if not self._is_answered:
                self._flaw = Flaw.EARLY
        return self._is_answered or self._flaw is not None


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
        """Watch a child that idles from now on; raises OSError where the kernel has no room for that."""
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
        """Watch a child no longer."""
        del self._idle[kept.streams.fileno()]
        if self._epoll is not None:
            self._epoll.unregister(kept.streams)

    def end(self, kept: ReusedChild) -> None:
        """Ask a child that does not idle to end, and kill it if it does not."""
        if self._leaving < MAX_LEAVING:
            self._leaving += 1
            self._home.start_soon(self._stop, kept)
        else:
            self.kill(kept)

    def kill(self, kept: ReusedChild) -> None:
        """Kill a child that does not idle."""
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
        updates: UpdateLines | None = None,
        grace: Grace | None = None,
        during: During | None = None,
        passed: Passed | None = None,
    ) -> ProgramValue | Unread | Fault:
        """Have `line` (one JSON value and a newline) answered by an idle child, or by one that `start` starts.

        `start` is asked for `command` with a pipe for updates, or raises SpawnError; without `updates` they are
        dropped. `updates` and `grace` are as in `run_command`. `during` is entered
        with the child as it is asked, without a checkpoint, and left when it has answered or is reaped, before
        it may serve another call; it is entered with another one too where the first ended and had read
        nothing. `passed` is as in `run_command`, of the child that it is called with; a child's processor time
        is that of all of its calls.

        Every failure is a `tool_failed` fault, and the child is gone with it; so it is where this is cancelled. Where a
        child spoke unasked while it was idle, the next call fails: the answer before was perhaps none.
        """
        while self._idle and not self._has_spoken:
            kept = self._idle[-1]
            self.take_out(kept)
            seen = kept.look()
            if seen is None:
                kept.wake()
                turn = Turn(kept, line, updates, command)
                if turn.begin():
                    outcome = await self._serve(turn, during, passed, grace)
                    if not turn.is_unread:
                        return outcome
                    continue
            # Nothing of this call has been read, so that another child may serve it.
            self.lose(kept, seen)
        if self._has_spoken:
            self._has_spoken = False
            return Fault(Code.TOOL_FAILED, f"'{command.argv[0]}' {WHY[Flaw.UNASKED]}").ran(may_have=False)
        try:
            kept = await self._start(start, command)
        except SpawnError as error:
            return Fault(Code.TOOL_FAILED, str(error)).ran(may_have=False)
        turn = Turn(kept, line, updates, command)
        turn.begin()
        return await self._serve(turn, during, passed, grace)

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
        """Take a child out of those that idle."""
        self._idle.remove(kept)
        self._idle_children.remove(kept)

    def lose(self, kept: ReusedChild, seen: Flaw | None) -> None:
        """End a child that idled at once, because of what was `seen` of it."""
        self._has_spoken |= seen is Flaw.UNASKED
        self._idle_children.kill(kept)

    async def has_gone(self, kept: ReusedChild) -> None:
        """Forget a child that has been reaped."""
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

    async def _serve(
        self, turn: Turn, during: During | None, passed: Passed | None, grace: Grace | None
    ) -> ProgramValue | Unread | Fault:
        kept = turn.kept
        self._busy.add(kept)
        try:
            async with contextlib.nullcontext() if during is None else during(kept.child):
                outcome = await self._ask(turn, passed, grace or Grace())
        finally:
            self._busy.discard(kept)
        if isinstance(outcome, Fault):
            return outcome
        kept.calls -= 1
        if kept.calls == 0 or self._is_closed:
            self._idle_children.end(kept)
            return outcome
        kept.rest()
        try:
            self._idle_children.add(kept)
        except OSError:
            # The call has its answer; the next one starts a child of its own.
            self._idle_children.end(kept)
            return outcome
        self._idle.append(kept)
        if len(self._idle) > MAX_IDLE_EACH:
            oldest = self._idle[0]
            self.take_out(oldest)
            self._idle_children.end(oldest)
        return outcome

    async def _ask(self, turn: Turn, passed: Passed | None, grace: Grace) -> ProgramValue | Unread | Fault:
        """The outcome of a call; its child is gone where that is no value."""
        kept, outcome = turn.kept, None
        try:
            await turn.run()
            outcome = turn.outcome()
        except trio.Cancelled:
            # It shields and bounds itself.
            await turn.end_early(grace)  # noqa: ASYNC102, ASYNC120  # as above
            raise
        finally:
            if not isinstance(outcome, ProgramValue | Unread):
                ended = await kept.child.kill()  # noqa: ASYNC102  # as above
                if outcome is None:
                    outcome = turn.fault_of(ended, passed)
                await kept.leave()  # noqa: ASYNC102  # as above
        return outcome
