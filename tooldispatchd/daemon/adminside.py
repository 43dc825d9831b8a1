"""The door to the wing that answers administrators: it is loaded with their first line, and costs nothing before.

Its modules are loaded one after the other, other tasks having their turns between: all of it at once would hold the
loop for twenty milliseconds. Lines that come meanwhile wait.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Final

import trio

from tooldispatchd.agent.faults import queue_full
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.session.administration import AdminChannel, AdminSide, RunningDaemon
from tooldispatchd.wire.messages import AdminReq

# Each before those that need it.
MODULES: Final = (
    "pieces",
    "keys",
    "sessions",
    "servers",
    "tools",
    "status",
    "views",
    "acts",
    "logreaders",
    "administration",
)
# Of all channels, while it is loaded.
MAX_WAITING: Final = 64


class AdminDoor:
    """The `AdminSide` of a daemon, from its first line on."""

    def __init__(self, daemon: RunningDaemon, latest: Callable[[], Runtime]) -> None:
        self._daemon: Final = daemon
        self._latest: Final = latest
        self._side: AdminSide | None = None
        self._waiting: list[tuple[AdminChannel, Callable[[AdminSide], None]]] = []

    def take(self, asked: AdminReq, channel: AdminChannel, *, line: int) -> None:
        """Answer a line of a channel that may administer the daemon, now or later."""
        if self._side is not None:
            self._side.take(asked, channel, line=line)
            return
        if len(self._waiting) >= MAX_WAITING:
            channel.refuse(asked, queue_full("admin"), line=line)
            return
        self._waiting.append((channel, lambda side: side.take(asked, channel, line=line)))
        if len(self._waiting) == 1:
            self._latest().services.home.start_soon(self._load)

    async def _load(self) -> None:
        for module in MODULES:
            import_module(f"tooldispatchd.admin.{module}")
            await trio.lowlevel.checkpoint()
        from tooldispatchd.admin.administration import Administration  # noqa: PLC0415  # few daemons are ever asked

        side = Administration(self._daemon, self._latest)
        waiting, self._waiting, self._side = self._waiting, [], side
        for channel, take in waiting:
            take(side)
            channel.answered()

    def owes(self, channel: AdminChannel) -> bool:
        """Whether a line of the channel is not answered yet."""
        if self._side is not None:
            return self._side.owes(channel)
        return any(one is channel for one, _ in self._waiting)

    def dismiss(self, channel: AdminChannel) -> None:
        """End the subscriptions of a channel that is no administrator's any more; what it asked for is answered."""
        if self._side is not None:
            self._side.dismiss(channel)

    def forget(self, channel: AdminChannel) -> None:
        """The channel is no more."""
        self._waiting = [each for each in self._waiting if each[0] is not channel]
        if self._side is not None:
            self._side.forget(channel)
