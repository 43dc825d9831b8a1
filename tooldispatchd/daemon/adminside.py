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
from tooldispatchd.wire.faults import Code, Fault
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
# What importing raises after an upgrade in place: a module is gone, is half written, or does not suit one that was
# loaded before.
UNLOADABLE: Final = (ImportError, SyntaxError, OSError, AttributeError, NameError, TypeError, ValueError)
# Of all channels, while it is loaded.
MAX_WAITING: Final = 64


class AdminDoor:
    """The `AdminSide` of a daemon, from its first line on."""

    def __init__(self, daemon: RunningDaemon, latest: Callable[[], Runtime]) -> None:
        self._daemon: Final = daemon
        self._latest: Final = latest
        self._side: AdminSide | None = None
        self._is_loading = False
        self._waiting: list[tuple[AdminReq, AdminChannel, int]] = []

    def take(self, asked: AdminReq, channel: AdminChannel, *, line: int) -> None:
        """Answer a line of a channel that may administer the daemon, now or later."""
        if self._side is not None:
            self._side.take(asked, channel, line=line)
            return
        if len(self._waiting) >= MAX_WAITING:
            channel.refuse(asked, queue_full("admin"), line=line)
            return
        self._waiting.append((asked, channel, line))
        if not self._is_loading:
            self._is_loading = True
            self._latest().services.home.start_soon(self._open)

    async def _open(self) -> None:
        """Load the wing for the lines that wait; where that fails they are refused, and the next line tries again."""
        try:
            self._side = await self._load()
        except UNLOADABLE as error:
            incident = self._latest().setup.log.incident("administration not loaded", error)
            detail = f"what answers administrators cannot be loaded, incident {incident}"
            self._serve(Fault(Code.INTERNAL_ERROR, detail, {"incident": incident}))
        else:
            self._serve(self._side)
        self._is_loading = False

    def _serve(self, served: AdminSide | Fault) -> None:
        """Give the lines that wait to the wing, or say why there is none."""
        while self._waiting:
            asked, channel, line = self._waiting.pop(0)
            if isinstance(served, Fault):
                channel.refuse(asked, served, line=line)
            else:
                served.take(asked, channel, line=line)
            channel.answered()

    async def _load(self) -> AdminSide:
        for module in MODULES:
            import_module(f"tooldispatchd.admin.{module}")
            await trio.lowlevel.checkpoint()
        from tooldispatchd.admin.administration import Administration  # noqa: PLC0415  # few daemons are ever asked

        return Administration(self._daemon, self._latest)

    def owes(self, channel: AdminChannel) -> bool:
        """Whether a line of the channel is not answered yet."""
        if self._side is not None and self._side.owes(channel):
            return True
        return any(one is channel for _, one, _ in self._waiting)

    def dismiss(self, channel: AdminChannel) -> None:
        """End the subscriptions of a channel that is no administrator's any more; what it asked for is answered."""
        if self._side is not None:
            self._side.dismiss(channel)

    def forget(self, channel: AdminChannel) -> None:
        """The channel is no more."""
        self._waiting = [each for each in self._waiting if each[1] is not channel]
        if self._side is not None:
            self._side.forget(channel)
