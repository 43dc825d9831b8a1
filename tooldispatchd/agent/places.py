"""Places that tasks wait for, shared fairly between owners: the waiting half of `calls.gate`."""

from collections.abc import AsyncIterator, Hashable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import trio

from tooldispatchd.calls.gate import Gate, Turns


class FairLimiter:
    """At most `number` tasks are inside; those that wait are let in by turns."""

    def __init__(self, number: int) -> None:
        self._gate: Gate[trio.Event] = Gate(number)

    def of(self, turns: Turns) -> AbstractAsyncContextManager[None]:
        """A place for one task: entering waits for it, leaving gives it back."""
        return self._place(*turns)

    @asynccontextmanager
    async def _place(self, channel: Hashable, owner: Hashable) -> AsyncIterator[None]:
        let_in = trio.Event()
        if not self._gate.enter(channel, owner, let_in):
            await self._wait(channel, owner, let_in)
        try:
            yield
        finally:
            self._leave(channel, owner)

    async def _wait(self, channel: Hashable, owner: Hashable, let_in: trio.Event) -> None:
        try:
            await let_in.wait()
        except trio.Cancelled:
            # It may have been let in at the very moment at which it was cancelled.
            if let_in.is_set():
                self._leave(channel, owner)
            else:
                self._gate.withdraw(channel, owner, let_in)
            raise

    def _leave(self, channel: Hashable, owner: Hashable) -> None:
        following = self._gate.leave(channel, owner)
        if following is not None:
            following.set()
