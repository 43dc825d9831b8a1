"""One call on a child that serves several in turn: its line goes in, one line comes out, or the child is lost.

    asked ──▶ one line, and nothing else ──▶ Value: the child may be asked again
      └── too long, more than it, too early, none, no JSON ──▶ Fault: nobody can tell which line answers which any more

What a program writes later than its answer cannot always be told from its next one: that it writes nothing is what it
promises that is declared for this. An answer that it wrote before its end is one.
"""

import contextlib
import fcntl
import os
import select
import sys
import termios
from collections.abc import Callable, Iterator
from enum import Enum, auto
from functools import partial
from typing import Final, Protocol

import trio

from tooldispatchd.calls.outcome import Unread, UnreadableError, Update
from tooldispatchd.catalog.arguments import Output
from tooldispatchd.catalog.schemas import ACCEPT, is_light
from tooldispatchd.children.procstat import ProcessorTime, processor_time
from tooldispatchd.children.spawn import Child, Exit
from tooldispatchd.children.tail import STDERR_TAIL_BYTES, Tail
from tooldispatchd.providers.process import endings
from tooldispatchd.providers.process.exchange import CHUNK_BYTES, LOOKS, UPDATES_CHUNK_BYTES, ready_or_due
from tooldispatchd.providers.process.limits import passed_limit
from tooldispatchd.providers.process.reading import read_output
from tooldispatchd.providers.process.running import Command, ProgramValue
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
    """One child, and the epoll set in which its pipes and its end are for as long as it lives."""

    __slots__ = ("calls", "child", "epoll", "gone", "owner")

    def __init__(self, child: Child, owner: ChildOwner, *, calls: int) -> None:
        self.child = child
        self.owner = owner
        self.calls = calls  # that it may yet serve
        self.gone = trio.Event()
        self.epoll = select.epoll()
        for fd in (child.pidfd, child.stdout, child.stderr, child.updates):
            if fd >= 0:
                self.epoll.register(fd, select.EPOLLIN)

    def rest(self) -> None:
        """Be woken by stdout and by its end only."""
        for fd in (self.child.stderr, self.child.updates):
            if fd >= 0:
                self.epoll.unregister(fd)

    def look(self) -> Flaw | None:
        """What it did while it rested, and should not have."""
        ready = [fd for fd, _ in self.epoll.poll(0)]
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
                self.epoll.register(fd, select.EPOLLIN)
                for _ in _chunks(fd):
                    pass

    def close(self, fd: int) -> None:
        """Close a pipe that is at its end: it would be ready for ever.

        Closing alone need not take it out of the set: a child that is just being started holds a copy until its exec
        is done, and its number may be another pipe's by then.
        """
        self.epoll.unregister(fd)
        if fd == self.child.stdout:
            self.child.close_stdout()
        elif fd == self.child.stderr:
            self.child.close_stderr()
        else:
            self.child.close_updates()

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
        """It has been reaped; cannot be cancelled."""
        self.epoll.close()
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
        self._command = command
        self._max = self._room = command.max_output_bytes
        self._pending = memoryview(line)
        self._updates = None if update is None else UpdateLines(update)
        self._line = bytearray()
        self._errors = Tail(STDERR_TAIL_BYTES)
        self._length = len(line)
        self._cpu: ProcessorTime | None = None
        self.is_unread = False
        """Whether the child ended by itself and had read nothing."""
        self._is_answered = False
        self._flaw: Flaw | None = None

    def begin(self) -> bool:
        """Write what the pipe takes; false where the child can have read nothing, for nobody holds the other end."""
        length = len(self._pending)
        is_open = self._write()
        if is_open and self._pending:
            self.kept.epoll.register(self._child.stdin, select.EPOLLOUT)
        return is_open or len(self._pending) < length

    async def run(self) -> None:
        """Serve the pipes until there is an answer, or will be none."""
        while not self._is_over:
            await ready_or_due(self.kept.epoll, self._updates)
            self._serve_ready()
        if self._flaw is Flaw.ENDED:
            with trio.move_on_after(END_S):
                await self._child.exited()

    def outcome(self) -> ProgramValue | Unread | Fault | None:
        """How the call ends, and the rest of its updates; None where the child's own end tells."""
        updates, flaw = self._updates, self._flaw
        if updates is not None:
            for chunk in _chunks(self._child.updates):
                updates.take(chunk)
            updates.end()
        if flaw is None and not is_light(self._line, ACCEPT):
            fault = partial(endings.no_answer, self._command.argv[0], self._errors)
            return Unread(self._line, Output.JSON, self._max, fault)
        if flaw is None:
            try:
                value = read_output(Output.JSON, self._line, max_bytes=self._max)
                return ProgramValue(value, 0 if updates is None else updates.skipped)
            except UnreadableError as error:
                self._hear()
                return endings.no_answer(self._command.argv[0], self._errors, error)
        if flaw is Flaw.ENDED and self._child.has_exited():
            self._note_end()
            return None
        self._hear()
        if flaw is Flaw.LONG:
            return endings.too_much(self._command.argv[0], self._errors, max_output_bytes=self._max)
        return endings.no_answer(self._command.argv[0], self._errors, UnreadableError(WHY[flaw]))

    def fault_of(self, ended: Exit, passed: Passed | None) -> Fault:
        """The fault of a call whose child ended by itself, now that it is reaped."""
        command, errors = self._command, self._errors
        if ended.code == 0:
            return endings.no_answer(command.argv[0], errors, UnreadableError("exited before it had answered"))
        ended = endings.unwrapped(ended) if command.is_wrapped else ended
        limit = (None if passed is None else passed(self._child)) or passed_limit(
            command.limits, ended, errors.text(), cpu=self._cpu, is_wrapped=command.is_wrapped
        )
        return endings.failed(command.argv[0], ended, errors, limits=command.limits, limit=limit)

    def _note_end(self) -> None:
        self._hear()
        if self._command.limits.cpu_s is not None:
            # The kernel tells it until the child is reaped.
            self._cpu = processor_time(self._child.pid)
        unread = bytearray(4)
        fcntl.ioctl(self._child.stdin, termios.FIONREAD, unread)
        is_whole = int.from_bytes(unread, sys.byteorder) == self._length - len(self._pending)
        self.is_unread = is_whole and not self._line

    @property
    def _is_over(self) -> bool:
        return self._is_answered or self._flaw is not None

    def _serve_ready(self) -> None:
        # What follows the first event mostly comes while that is served, and looking is cheaper than waiting.
        for _ in range(LOOKS):
            ready = [fd for fd, _ in self.kept.epoll.poll(0)]
            for fd in ready:
                self._serve(fd)
            if self._child.pidfd in ready:
                # An answer that it wrote before its end is one.
                for chunk in _chunks(self._child.stdout):
                    self._take(chunk)
                if not self._is_over:
                    self._flaw = Flaw.ENDED
            if self._is_over or not ready:
                return

    def _serve(self, fd: int) -> None:
        child = self._child
        if fd == child.pidfd:
            return
        if fd == child.stdin:
            if not self._write() or not self._pending:
                self.kept.epoll.unregister(fd)
            return
        is_stdout = fd == child.stdout
        try:
            chunk = os.read(fd, CHUNK_BYTES if fd != child.updates else UPDATES_CHUNK_BYTES)
        except BlockingIOError:
            return
        if is_stdout:
            self._take(chunk)
        elif fd == child.stderr:
            self._errors.add(chunk)
        elif self._updates is not None:
            self._updates.take(chunk)
        if not chunk:
            self.kept.close(fd)
            if is_stdout and not self._is_over:
                self._flaw = Flaw.ENDED

    def _take(self, chunk: bytes) -> None:
        line, newline, more = chunk.partition(b"\n")
        self._line += line
        self._room -= len(line)
        if self._is_answered or more:
            self._flaw = Flaw.MORE
        elif self._room < 0:
            self._flaw = Flaw.LONG
        elif newline:
            self._is_answered = not self._pending
            if self._pending:
                self._flaw = Flaw.EARLY

    def _write(self) -> bool:
        """Whether somebody holds the other end."""
        try:
            written = os.write(self._child.stdin, self._pending)
        except BlockingIOError:
            return True
        except BrokenPipeError:
            return False
        self._pending = self._pending[written:]
        return True

    def _hear(self) -> None:
        for chunk in _chunks(self._child.stderr):
            self._errors.add(chunk)


def _chunks(fd: int) -> Iterator[bytes]:
    """What lies in a pipe, but never more than it holds; nothing where it is closed.

    There may be more without end: the child's, or another process's that got the other end from it.
    """
    if fd < 0:
        return
    left = fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ)
    with contextlib.suppress(BlockingIOError):
        while left > 0 and (chunk := os.read(fd, CHUNK_BYTES)):
            left -= len(chunk)
            yield chunk
