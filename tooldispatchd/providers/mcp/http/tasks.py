"""The tasks of one link, which wake the connection's owner by a bell.

    Tasks.start ─▶ a task ── ring, lose ──▶ Bell ── wait ──▶ the owner, in `turn`

A connection may go through several links in one nursery, so that leaving the nursery cannot be what ends their tasks:
`cancel`, then `ended`. A task here handles every failure of the network; what it raises is a defect, and ends the
nursery.
"""

from collections.abc import Awaitable, Callable

import trio

from tooldispatchd.providers.mcp.dialects import Dialect
from tooldispatchd.providers.mcp.link import Bell, Inbox
from tooldispatchd.providers.mcp.server import Server


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
        self.is_read_beside = True
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
