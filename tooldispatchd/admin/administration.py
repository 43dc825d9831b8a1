"""The door of the wing: what administrators may ask for, each by its name.

A change waits for nobody who only looks; what is shown is made in turns, one answer at a time.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from tooldispatchd.admin.acts import Acts
from tooldispatchd.admin.logreaders import LogReaders
from tooldispatchd.admin.views import Views
from tooldispatchd.agent.faults import SHOWN_NAME
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.session.administration import AdminChannel, AdminSubscription, Offer, RunningDaemon
from tooldispatchd.catalog.names import nearest
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import AdminReq

LOG: Final = "log"


class Administration:
    """The views of one daemon, its changes, and those who read its log."""

    def __init__(self, daemon: RunningDaemon, latest: Callable[[], Runtime]) -> None:
        # No view needs to be there sooner than the others, and each looks at all sessions.
        self._viewing = trio.CapacityLimiter(1)
        views = Views(daemon, latest)
        self._views: Final[dict[str, Callable[[AdminReq], Awaitable[bytes]]]] = {
            "status": views.status,
            "sessions": views.sessions,
            "calls": views.calls,
            "servers": views.servers,
            "tools": views.tools,
            "config": views.config,
            "metrics": views.metrics,
        }
        self._acts = acts = Acts(daemon, latest)
        self._changes: Final[dict[str, Callable[[AdminReq], Awaitable[bytes | Offer | Fault]]]] = {
            "end": acts.end,
            "restart": acts.restart,
            "drain": acts.drain,
            "level": acts.level,
            "reload": acts.reload,
            "take_over": acts.take_over,
        }
        self._readers = LogReaders(daemon.log_output, acts.tell_sessions)

    async def make(self, asked: AdminReq, channel: AdminChannel) -> bytes | Offer | AdminSubscription | Fault:
        """Do or show what is asked for: the value of the answer, or why there is none."""
        if asked.ask == LOG:
            return await self._readers.open(asked, channel)
        if asked.ask in self._changes:
            self._acts.note(asked, channel)
            return await self._changes[asked.ask](asked)
        if asked.ask not in self._views:
            return self._unknown(asked.ask)
        async with self._viewing:
            return await self._views[asked.ask](asked)

    def _unknown(self, ask: str) -> Fault:
        close = nearest(ask[:SHOWN_NAME], [*self._views, *self._changes, LOG, "stop"])
        also = "" if close is None else f"; did you mean {close}?"
        detail = f"nothing of this name can be asked for{also}"
        return Fault(Code.INVALID_REQUEST, detail, {"source": ask[:SHOWN_NAME]})
