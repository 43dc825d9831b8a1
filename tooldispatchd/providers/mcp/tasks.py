"""The tasks of one link, in a nursery that outlives it.

A connection may go through several links, so that leaving the nursery cannot be what ends their tasks: `cancel`, then
`ended`. A task here deals with all that the world does; what it raises is a defect, and the nursery's.
"""

from collections.abc import Awaitable, Callable

import trio


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
        """End all of them."""
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
