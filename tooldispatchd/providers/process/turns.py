"""One call on a child that serves several in turn: its line goes in, one line comes out, or the child is lost.

    asked ──▶ one line, and nothing else ──▶ Value: the child may be asked again
      └── too long, more than it, too early, none, no JSON ──▶ Fault: nobody can tell which line answers which any more

What a program writes later than its answer cannot always be told from its next one: that it writes nothing is what it
promises that is declared for this. An answer that it wrote before its end is one.
"""

import fcntl
import os
import sys
import termios
from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from typing import Final, Protocol

import trio

from tooldispatchd.calls.outcome import Unread, UnreadableError, Update
from tooldispatchd.catalog.arguments import Output
from tooldispatchd.catalog.schemas import ACCEPT, is_light
from tooldispatchd.children.pipes import rest
from tooldispatchd.children.procstat import ProcessorTime, processor_time
from tooldispatchd.children.spawn import Child, Exit
from tooldispatchd.providers.process.reading import read_output
from tooldispatchd.providers.process.running import Command, ProgramValue, ended_badly, no_answer, too_much
from tooldispatchd.providers.process.streams import ProgramStreams
from tooldispatchd.providers.updates import UpdateLines
from tooldispatchd.wire.faults import Fault

Passed = Callable[[Child], str | None]

# How long a child that has served its calls may take to see the end of its input, and then to heed TERM. Nobody waits
# for it but a session that ends, whose whole teardown has a few seconds.
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


class ChildOwner(Protocol):
    """Whose a child is."""

    async def has_gone(self, kept: "ReusedChild") -> None:
        """It has been reaped; bounds itself."""

    def take_out(self, kept: "ReusedChild") -> None:
        """It idles no longer."""

    def lose(self, kept: "ReusedChild", seen: Flaw | None) -> None:
        """It idled, and is to be ended at once for what was `seen`."""


class ReusedChild:
    """One child, and the set in which its pipes and its end are for as long as it lives."""

    __slots__ = ("calls", "child", "gone", "owner", "streams")

    def __init__(self, child: Child, owner: ChildOwner, *, calls: int) -> None:
        self.child = child
        self.owner = owner
        self.calls = calls  # that it may yet serve
        self.gone = trio.Event()
        self.streams = ProgramStreams(child)

    def rest(self) -> None:
        """Be woken by stdout and by its end only."""
        for fd in (self.child.stderr, self.child.updates):
            self.streams.unwatch(fd)
        self.streams.forget()

    def look(self) -> Flaw | None:
        """What it did while it rested, and should not have."""
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
        self, kept: ReusedChild, line: bytes | bytearray, update: Callable[[Update], None] | None, command: Command
    ) -> None:
        self.kept = kept
        self._child = kept.child
        self._streams = kept.streams
        self._command = command
        self._room = command.max_output_bytes
        self._updates = None if update is None else UpdateLines(update)
        self._asked = line
        self._line = bytearray()
        self._cpu: ProcessorTime | None = None
        self.is_unread = False
        """Whether the child ended by itself and had read nothing."""
        self._is_answered = False
        self._flaw: Flaw | None = None

    def begin(self) -> bool:
        """Write what the pipe takes; false where the child can have read nothing, for nobody holds the other end."""
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

    def outcome(self) -> ProgramValue | Unread | Fault | None:
        """How the call ends, and the rest of its updates; None where the child's own end tells."""
        flaw, command, streams = self._flaw, self._command, self._streams
        argv0, max_bytes = command.argv[0], command.max_output_bytes
        streams.drain_updates()
        if flaw is None and not is_light(self._line, ACCEPT):
            return Unread(self._line, Output.JSON, max_bytes, partial(no_answer, argv0, streams.errors.text()))
        if flaw is None:
            try:
                value = read_output(Output.JSON, self._line, max_bytes=max_bytes)
                return ProgramValue(value, 0 if self._updates is None else self._updates.skipped)
            except UnreadableError as error:
                streams.hear()
                return no_answer(argv0, streams.errors.text(), error)
        streams.hear()
        if flaw is Flaw.ENDED and self._child.has_exited():
            self._note_end()
            return None
        if flaw is Flaw.LONG:
            return too_much(command, streams.errors.text())
        return no_answer(argv0, streams.errors.text(), UnreadableError(WHY[flaw]))

    def fault_of(self, ended: Exit, passed: Passed | None) -> Fault:
        """The fault of a call whose child ended by itself, now that it is reaped."""
        command, stderr = self._command, self._streams.errors.text()
        if ended.code == 0:
            return no_answer(command.argv[0], stderr, UnreadableError("exited before it had answered"))
        counted = None if passed is None else partial(passed, self._child)
        return ended_badly(command, ended, stderr, cpu=self._cpu, passed=counted)

    def _note_end(self) -> None:
        if self._command.limits.cpu_s is not None:
            # The kernel tells it until the child is reaped.
            self._cpu = processor_time(self._child.pid)
        unread = bytearray(4)
        fcntl.ioctl(self._child.stdin, termios.FIONREAD, unread)
        written = len(self._asked) - len(self._streams.unwritten)
        self.is_unread = int.from_bytes(unread, sys.byteorder) == written and not self._line

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
