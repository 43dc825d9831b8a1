"""The tasks of one link, and the bell by which they wake the connection's owner, which waits in `turn`.

    Tasks.start ─▶ a task ── ring, lose ──▶ Bell ── wait ──▶ the owner

A connection may go through several links in one nursery, so that leaving the nursery cannot be what ends their tasks:
`cancel`, then `ended`. A task here handles every failure of the network; what it raises is a defect, and ends the
nursery.
"""

import math
from collections.abc import Awaitable, Callable

import trio

from tooldispatchd.providers.mcp.dialects import Dialect
from tooldispatchd.providers.mcp.link import Inbox, LinkError
from tooldispatchd.providers.mcp.server import Server


class Bell:
    """Wakes one waiting task. A loss stays: the first one counts, and each later `wait` raises it."""

    __slots__ = ("_event", "_loss")

    def __init__(self) -> None:
        self._event = trio.Event()
        self._loss: tuple[str, dict[str, object]] | None = None

    @property
    def is_lost(self) -> bool:
        return self._loss is not None

    def ring(self) -> None:
        """Let `wait` return: the one that waits now, or else the next."""
        self._event.set()

    def lose(self, why: str, extras: dict[str, object] | None = None) -> None:
        """The server is gone: `wait` raises that as a `LinkError`."""
        if self._loss is None:
            self._loss = why, extras or {}
        self._event.set()

    async def wait(self, until: float) -> None:
        """Wait for `ring`, or for the time `until`. Raises `LinkError` once the server is gone."""
        if not self.is_lost:
            with trio.move_on_at(until) if until < math.inf else trio.CancelScope():
                await self._event.wait()
            self._event = trio.Event()
        if self._loss is not None:
            why, extras = self._loss
            # A new one each time: an exception that is raised again keeps what it was raised through before.
            raise LinkError(why, extras)


class Tasks:
    """Tasks that end together; none is started after `cancel`, which `is_over` tells."""

    __slots__ = ("_has_ended", "_nursery", "_scopes", "is_over")

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._scopes: set[trio.CancelScope] = set()
        self.is_over = False
        self._has_ended = trio.Event()

    def start(self, work: Callable[[], Awaitable[None]], scope: trio.CancelScope | None = None) -> None:
        """Run `work` in a task of its own, which `scope` ends alone; nothing after `cancel`."""
        if self.is_over:
            return
        scope = scope or trio.CancelScope()
        self._scopes.add(scope)
        self._nursery.start_soon(self._run, work, scope)

    def cancel(self) -> None:
        self.is_over = True
        for scope in self._scopes:
            scope.cancel()
        self._look()

    async def ended(self) -> None:
        """Wait, after `cancel`, until none is left; the caller bounds it."""
        await self._has_ended.wait()

    async def _run(self, work: Callable[[], Awaitable[None]], scope: trio.CancelScope) -> None:
        try:
            with scope:
                await work()
        finally:
            self._scopes.remove(scope)
            self._look()

    def _look(self) -> None:
        if self.is_over and not self._scopes:
            self._has_ended.set()


class TaskLink:
    """What links have in common that read and write in tasks of their own: they wake their owner by a bell."""

    def __init__(self, server: Server, inbox: Inbox, nursery: trio.Nursery) -> None:
        assert server.reach is not None
        self.dialect: Dialect | None = None
        self._server = server
        self._reach = server.reach
        self._inbox = inbox
        self._bell = Bell()
        self._tasks = Tasks(nursery)

    async def turn(self, until: float) -> None:
        """As `Link.turn`; the messages are taken by the tasks."""
        await self._bell.wait(until)

    def wake(self) -> None:
        self._bell.ring()

    @property
    def pid(self) -> int | None:
        return None

    @property
    def stderr_tail(self) -> str:
        """None, as the server is elsewhere."""
        return ""
