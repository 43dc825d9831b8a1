"""What a link's other tasks tell the connection's owner while it waits in `turn`: to look, or that the server is gone.

tasks of the link ── ring, lose ──▶ Bell ── wait ──▶ the owner
"""

import math

import trio

from tooldispatchd.providers.mcp.link import LinkError


class Bell:
    """Wakes one waiting task. A loss stays: the first one counts, and each later `wait` raises it."""

    __slots__ = ("_event", "_loss")

    def __init__(self) -> None:
        self._event = trio.Event()
        self._loss: tuple[str, dict[str, object]] | None = None

    @property
    def is_lost(self) -> bool:
        """Whether the server is gone."""
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
