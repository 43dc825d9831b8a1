"""Places that tasks wait for, shared fairly between owners: the waiting half of `calls.gate`."""

from collections.abc import AsyncIterator, Hashable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import trio

from tooldispatchd.calls.gate import Gate


class Places:
    """At most `number` tasks are inside; those that wait are let in owner by owner."""

    def __init__(self, number: int) -> None:
        self._gate: Gate[trio.Event] = Gate(number)

    def of(self, owner: Hashable) -> AbstractAsyncContextManager[None]:
        """A place for one task of `owner`: entering waits for it, leaving gives it back."""
        return self._place(owner)

    @asynccontextmanager
    async def _place(self, owner: Hashable) -> AsyncIterator[None]:
        let_in = trio.Event()
        if not self._gate.enter(owner, None, let_in):
            await self._wait(owner, let_in)
        try:
            yield
        finally:
            self._leave()

    async def _wait(self, owner: Hashable, let_in: trio.Event) -> None:
        try:
            await let_in.wait()
        except trio.Cancelled:
            # It may have been let in at the very moment at which it was cancelled.
            if let_in.is_set():
                self._leave()
            else:
                self._gate.withdraw(owner, None, let_in)
            raise

    def _leave(self) -> None:
        following = self._gate.leave()
        if following is not None:
            following.set()
