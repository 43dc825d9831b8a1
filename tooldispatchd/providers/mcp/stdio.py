"""A server that is a child of the daemon: spawned, spoken to over its pipes, and stopped with all that it started.

open ── spawn ──▶ turn … turn ──the server ends──▶ LinkError      what it had said is taken first
                    └──────────── close ─────────▶ stopped, reaped
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final, Protocol

import trio

from tooldispatchd.children.family import Family
from tooldispatchd.children.pipes import rest
from tooldispatchd.children.procstat import ProcessorTime, processor_time
from tooldispatchd.children.spawn import KILL_S, Child, Exit, SpawnError
from tooldispatchd.providers.mcp.dialects import Dialect
from tooldispatchd.providers.mcp.link import Inbox, LinkError
from tooldispatchd.providers.mcp.messages import Outgoing
from tooldispatchd.providers.mcp.pipes import Pipes
from tooldispatchd.providers.mcp.server import Server

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


class StdioWay:
    """A command, of which each link is one run."""

    needs_tasks = False
    is_http = False
    may_probe = True

    def __init__(self, server: Server, family: Family, house: Callable[[], Housing] | None = None) -> None:
        self.origin: Hashable = (server.argv, server.cwd)
        self.close_s = server.polite_s + server.term_s + KILL_S + (0 if house is None else CLEAR_S)
        self._house = house
        self._server = server
        self._family = family

    def link(self, inbox: Inbox, nursery: trio.Nursery | None) -> "StdioLink":  # noqa: ARG002  # it needs no tasks
        """A new link, not yet opened."""
        return StdioLink(self._server, self._family, inbox, None if self._house is None else self._house())

    def older(self) -> None:
        """There is no other way to speak to a child."""
        return


class StdioLink:
    """One run of the server's command."""

    __slots__ = ("_child", "_exit", "_family", "_housing", "_inbox", "_pipes", "_server", "_tail", "dialect")

    def __init__(self, server: Server, family: Family, inbox: Inbox, housing: Housing | None = None) -> None:
        self.dialect: Dialect | None = None
        self._server = server
        self._family = family
        self._housing = housing
        self._inbox = inbox
        self._child: Child | None = None
        self._pipes: Pipes | None = None
        self._exit: Exit | None = None
        self._tail = ""

    async def open(self) -> None:
        """Spawn. Raises `LinkError`."""
        server = self._server
        try:
            if self._housing is None:
                self._child = self._family.spawn(server.argv, env=server.env, cwd=server.cwd)
            else:
                self._child = await self._housing.start(server.argv, server.env)
            self._pipes = Pipes(self._child, self._inbox.share)
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
        ended: str | None = None
        await pipes.wait(until)
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
            elif events & pipes.CLOSED:
                ended = ended or "it closed its input"
            else:
                pipes.flush()
        if ended is not None:
            await self._bury(child, pipes, ended)

    async def _bury(self, child: Child, pipes: Pipes, ended: str) -> None:
        """Take what a server that is ending has still said, then give it up."""
        for chunk in rest(child.stdout):
            await self._inbox.take_chunk(chunk)
        if not child.has_exited():
            with trio.move_on_after(EXIT_NOTICE_S):
                await child.exited()
        for chunk in rest(child.stderr):
            pipes.tail.add(chunk)
        # The kernel tells it until the child is reaped.
        cpu = None if self._housing is None else processor_time(child.pid)
        # At once and without a task of its own: others wait while many servers die.
        exit_ = self._exit = child.reap() if child.has_exited() else None
        passed = None
        if exit_ is not None and self._housing is not None:
            passed = self._housing.passed(exit_, pipes.tail.text(), cpu)
        why = ended if exit_ is None else _exit_words(exit_)
        if passed is None:
            raise LinkError(why)
        raise LinkError(f"{why}: it passed {passed[1]}", {"limit": passed[0]})

    def wake(self) -> None:
        """Whatever is to be noticed came in the owner's own turn."""

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
        try:
            if child is not None and self._exit is None:
                async with trio.open_nursery() as nursery:
                    if pipes is not None:
                        nursery.start_soon(pipes.discard)
                    self._exit = await child.stop(polite_s=self._server.polite_s, term_s=self._server.term_s)
                    nursery.cancel_scope.cancel()
        finally:
            if pipes is not None:
                self._tail = self.stderr_tail
                self._pipes = None
                pipes.close()
            if self._housing is not None:
                with trio.CancelScope(shield=True):
                    await self._housing.clear()

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


def _exit_words(exit_: Exit) -> str:
    return f"it was ended by signal {exit_.signal}" if exit_.signal is not None else f"it exited with code {exit_.code}"
