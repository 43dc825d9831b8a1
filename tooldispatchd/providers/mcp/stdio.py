"""A server that is a child of the daemon: spawned, spoken to over its pipes, and stopped with all that it started.

open ── spawn ──▶ turn … turn ──the server ends──▶ LinkError      what it had said is taken first
                    └──────────── close ─────────▶ stopped, reaped

Its pipes and its pidfd stand behind one epoll set, and that stands in the front's: what a server says is mostly dealt
with in the front's turn, with all that is ready then. All else (its end, its errors, what takes a checker) is its
owner's task's, which waits for that: a turn of a task for each answer costs as much as the rest of a call. Writing
never waits: what the pipe does not take stays queued and goes out as the pipe drains; a line is never cut short while
the pipe lives.
"""

import select
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final, Protocol

import trio

from tooldispatchd.calls.memory import Holding, Share
from tooldispatchd.children.family import Family
from tooldispatchd.children.pipes import ChildPipes, rest, write
from tooldispatchd.children.procstat import ProcessorTime, processor_time
from tooldispatchd.children.spawn import KILL_S, Child, Exit, SpawnError
from tooldispatchd.children.tail import Tail
from tooldispatchd.providers.mcp.dialects import Dialect
from tooldispatchd.providers.mcp.link import MAX_QUEUED_BYTES, Bell, Inbox, LinkError
from tooldispatchd.providers.mcp.messages import Outgoing
from tooldispatchd.providers.mcp.server import Server
from tooldispatchd.wire.backlog import Backlog
from tooldispatchd.wire.faults import Fault

# A process's descriptors close microseconds before its exit can be seen; the exit is the better reason to give.
EXIT_NOTICE_S: Final = 0.02
# What a housing is left in, at most: a cgroup's last process is killed, and what lies in a directory is removed.
CLEAR_S: Final = 15.0


class Housing(Protocol):
    """What one child is shut in by, and has to itself."""

    async def start(self, argv: Sequence[str], env: Mapping[str, str]) -> Child:
        """The child. Raises SpawnError."""

    def passed(self, ended: Exit, stderr: str, cpu: ProcessorTime | None) -> tuple[str, str] | None:
        """The limit that made a child end, and in words what it allowed; None where nothing says so."""

    async def clear(self) -> None:
        """Leave nothing of it, when the child is dead or was never started. Bounds itself."""


class PipeWatch(Protocol):
    """`Front`, as a link uses it."""

    def watch(self, fd: int, interest: int, ready: Callable[[int], None], *, owner: "StdioLink") -> None: ...
    def change(self, fd: int, interest: int) -> None: ...
    def forget(self, fd: int) -> None: ...


class ChildPlace(Protocol):
    """The place of one child among those that there may be."""

    def take(self) -> Fault | None:
        """Have the place; why there is none, where there is none."""

    def leave(self) -> None:
        """Give it back. Idempotent."""


class Pipes(ChildPipes):
    """The daemon's ends of one child's pipes; `tail` keeps the end of what it wrote to stderr."""

    def __init__(self, child: Child, share: Share) -> None:
        super().__init__(child.pidfd, child.stdout, child.stderr)
        # Its errors alone are asked for, which tell that the other end is closed.
        self.watch(child.stdin, 0)
        self._child = child
        self._share = share
        self._leaving = Backlog()
        self._waiting = Holding(share)  # for the pipe to have room
        self.tail = Tail()

    def read_errors(self) -> None:
        """Move a chunk of what lies in stderr into the tail."""
        chunk = self.read(self._child.stderr)
        if chunk == b"":
            self._child.close_pipe(self._child.stderr)
        self.tail.add(chunk or b"")

    def hear_rest(self) -> None:
        """Move all that lies in stderr into the tail."""
        for chunk in rest(self._child.stderr):
            self.tail.add(chunk)

    def queue(self, line: bytes | bytearray) -> None:
        """Hold `line` for the next `flush`."""
        self._leaving.add(line)

    def flush(self) -> bool:
        """Write what the pipe takes now; whether what is left is within the bound.

        A pipe whose other end is closed drops all; `wait` tells of it by an error on stdin.
        """
        leaving = self._leaving
        while leaving:
            first = leaving.first()
            try:
                written = write(self._child.stdin, first)
            except OSError:
                self.drop()
                return True
            is_full = written < len(first)
            # Nothing can be added to a buffer while a view of it exists.
            del first
            if written:
                self._share.let_go(leaving.drop(written))
            if is_full:
                self.watch(self._child.stdin, select.EPOLLOUT)
                return len(leaving) <= MAX_QUEUED_BYTES and self._waiting.resize(len(leaving))
        self.watch(self._child.stdin, 0)
        if self._waiting.held:
            self._waiting.resize(0)
        return True

    def drop(self) -> None:
        """Forget what is queued."""
        for piece in self._leaving.take_all():
            self._share.let_go(piece)
        self._waiting.resize(0)

    async def discard(self) -> None:
        """Read and forget what the server writes, until cancelled: one that waits for room could not end politely."""
        while True:
            await self.wait()
            for fd in self.ready():
                if self._child.pidfd < 0:
                    # Reaped in this very turn. A process between its start and its exec may hold copies of the pipes,
                    # so that the set tells of descriptors that are closed here.
                    return
                if fd == self._child.stderr:
                    self.read_errors()
                elif fd != self._child.stdout or not self.read(fd):
                    # The exit, the end of the output, an input that is closed: told once, they would be told for ever.
                    self.unwatch(fd)


class StdioWay:
    """A command, of which each link is one run."""

    needs_tasks = False
    is_http = False
    may_probe = True

    def __init__(
        self,
        server: Server,
        family: Family,
        *,
        house: Callable[[], Housing] | None = None,
        place: Callable[[], ChildPlace] | None = None,
        watch: PipeWatch | None = None,
    ) -> None:
        self.origin: Hashable = (server.argv, server.cwd)
        self.close_s = server.polite_s + server.term_s + KILL_S + (0 if house is None else CLEAR_S)
        self._house = house
        self._place = place
        self._watch = watch
        self._server = server
        self._family = family

    def link(self, inbox: Inbox, nursery: trio.Nursery | None) -> "StdioLink":  # noqa: ARG002  # it needs no tasks
        """A new link, not yet opened."""
        housing = None if self._house is None else self._house()
        place = None if self._place is None else self._place()
        return StdioLink(self._server, self._family, inbox, housing=housing, place=place, watch=self._watch)

    def older(self) -> None:
        """There is no other way to speak to a child."""
        return


class StdioLink:
    """One run of the server's command."""

    # fmt: off
    __slots__ = (
        "_bell", "_child", "_exit", "_family", "_housing", "_inbox", "_is_shut", "_pipes", "_place", "_server", "_tail",
        "_watch", "dialect", "is_read_beside",
    )
    # fmt: on

    def __init__(
        self,
        server: Server,
        family: Family,
        inbox: Inbox,
        *,
        housing: Housing | None = None,
        place: ChildPlace | None = None,
        watch: PipeWatch | None = None,
    ) -> None:
        self.is_read_beside = watch is not None
        self._watch = watch
        # For the owner, where something is not dealt with in the front's turn; the end of the output is noted.
        self._bell = Bell()
        self._is_shut = False
        self.dialect: Dialect | None = None
        self._server = server
        self._family = family
        self._housing = housing
        self._place = place
        self._inbox = inbox
        self._child: Child | None = None
        self._pipes: Pipes | None = None
        self._exit: Exit | None = None
        self._tail = ""

    async def open(self) -> None:
        """Spawn. Raises `LinkError`."""
        server = self._server
        refusal = None if self._place is None else self._place.take()
        if refusal is not None:
            raise LinkError(refusal.detail, refusal.extras)
        try:
            if self._housing is None:
                self._child = self._family.spawn(server.argv, env=server.env, cwd=server.cwd, held=server.held)
            else:
                self._child = await self._housing.start(server.argv, server.env)
            self._pipes = Pipes(self._child, self._inbox.share)
            if self._watch is not None:
                self._watch.watch(self._pipes.fileno(), select.EPOLLIN, self._look, owner=self)
        except SpawnError as error:
            raise LinkError(f"{error.argv0} cannot be started: {error.why}") from error
        except OSError as error:
            raise LinkError(f"its pipes cannot be watched: {error}") from error

    async def greeted(self) -> None:
        """Everything goes over the pipes that are there."""

    def send(self, message: Outgoing) -> None:
        """Queue a message."""
        if self._pipes is not None:
            self._pipes.queue(message.line)

    def flush(self) -> bool:
        """Write what the pipe takes now; whether what is left is within the bound."""
        return self._pipes is None or self._pipes.flush()

    async def turn(self, until: float) -> None:
        """Wait for the server to do something, or for the time, and deal with all of it."""
        child, pipes = self._child, self._pipes
        assert child is not None
        assert pipes is not None
        if self._watch is None:
            await pipes.wait(until)
        else:
            await self._bell.wait(until)
            await self._inbox.take_rest()
        ended = "it closed its output" if self._is_shut else None
        for fd, events in pipes.ready().items():
            if fd == child.stdout:
                chunk = pipes.read(fd)
                if chunk:
                    await self._inbox.take_chunk(chunk)
                elif chunk is not None:
                    ended = ended or "it closed its output"
            elif fd == child.stderr:
                pipes.read_errors()
            elif fd == child.pidfd:
                ended = "it ended"
            elif events & select.EPOLLERR:
                # An error on the input is all that tells that its other end is closed.
                ended = ended or "it closed its input"
            else:
                pipes.flush()
        if ended is not None:
            await self._bury(child, pipes, ended)
        if self._watch is not None:
            self._watch.change(pipes.fileno(), select.EPOLLIN)

    def _look(self, _mask: int) -> None:
        """Take what the server has said where that is all; leave the rest to the owner, and read nothing meanwhile."""
        child, pipes, watch = self._child, self._pipes, self._watch
        assert child is not None
        assert pipes is not None
        assert watch is not None
        ready = pipes.ready()
        if not ready:
            return
        if len(ready) == 1 and child.stdout in ready and (chunk := pipes.read(child.stdout)) is not None:
            self._is_shut = not chunk
            try:
                if chunk and self._inbox.take_now(chunk):
                    return
            except LinkError as error:
                self._bell.lose(error.why, error.extras)
        # It may be closed by what was said.
        if self._pipes is not None:
            watch.change(pipes.fileno(), 0)
        self._bell.ring()

    def abort(self, why: str) -> None:
        """End the link after a defect in what was done with what the server said."""
        self._bell.lose(why)

    async def _bury(self, child: Child, pipes: Pipes, ended: str) -> None:
        """Take what a server that is ending has still said, then give it up."""
        for chunk in rest(child.stdout):
            await self._inbox.take_chunk(chunk)
        if not child.has_exited():
            with trio.move_on_after(EXIT_NOTICE_S):
                await child.exited()
        pipes.hear_rest()
        # The kernel tells it until the child is reaped.
        cpu = None if self._housing is None else processor_time(child.pid)
        # At once and without a task of its own: others wait while many servers die.
        exit_ = self._exit = child.reap() if child.has_exited() else None
        passed = None
        if exit_ is not None and self._housing is not None:
            passed = self._housing.passed(exit_, pipes.tail.text(), cpu)
        why = ended
        if exit_ is not None:
            is_signal = exit_.signal is not None
            why = f"it was ended by signal {exit_.signal}" if is_signal else f"it exited with code {exit_.code}"
        if passed is None:
            raise LinkError(why)
        raise LinkError(f"{why}: it passed {passed[1]}", {"limit": passed[0]})

    def wake(self) -> None:
        """Let the owner look, who has no need of it where all comes in its own turn."""
        self._bell.ring()

    def give_up(self, number: int) -> bool:  # noqa: ARG002  # one pipe carries all requests
        """Nothing here belongs to one request alone."""
        return False

    def drop(self) -> None:
        """Forget what is queued."""
        if self._pipes is not None:
            self._pipes.drop()

    async def close(self) -> None:
        """Stop the server with all that it started, and reap it; `Child.stop` cannot be cut short and is bounded."""
        child, pipes = self._child, self._pipes
        self._child = None
        if self._watch is not None and pipes is not None:
            self._watch.forget(pipes.fileno())
        try:
            if child is not None and self._exit is None:
                async with trio.open_nursery() as nursery:
                    if pipes is not None:
                        nursery.start_soon(pipes.discard)
                    times = {"polite_s": self._server.polite_s, "term_s": self._server.term_s}
                    self._exit = await child.stop(**times, hear=lambda: None if pipes is None else pipes.hear_rest())
                    nursery.cancel_scope.cancel()
        finally:
            if self._place is not None:
                self._place.leave()
            if pipes is not None:
                self._tail = self.stderr_tail
                self._pipes = None
                pipes.close()
            if self._housing is not None:
                with trio.CancelScope(shield=True):
                    await self._housing.clear()

    @property
    def pid(self) -> int | None:
        return None if self._child is None or self._exit is not None else self._child.pid

    @property
    def stderr_tail(self) -> str:
        """What it wrote to stderr: the end, and where that is cut, the beginning."""
        if self._pipes is None:
            return self._tail
        return self._pipes.tail.excerpt()

    @property
    def ended(self) -> dict[str, object]:
        """Its exit code or signal."""
        return {
            "exit_code": self._exit.code if self._exit else None,
            "signal": self._exit.signal if self._exit else None,
        }
