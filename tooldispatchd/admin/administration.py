"""Answer administrators: each line gets one answer or fault, now or when its list is made.

    line ─▶ take ─┬─▶ an act: done and answered at once
                  └─▶ a view: made in a task, in turns, of so many at a time

Lines of a channel are answered in the order in which what they ask for is done.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import msgspec
import trio
from msgspec import Raw

from tooldispatchd.admin.pieces import Listing, in_turns
from tooldispatchd.admin.sessions import call_views, open_sessions, session_view, still_open
from tooldispatchd.admin.status import status_view
from tooldispatchd.agent.faults import SHOWN_NAME, queue_full
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.session.administration import AdminChannel, RunningDaemon
from tooldispatchd.catalog.names import nearest
from tooldispatchd.metrics.rendering import pieces
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import AdminReq, AdminResp
from tooldispatchd.wire.session import DUPLICATE

# Views that one channel may have asked for and that are not answered yet.
MAX_OPEN: Final = 16

View = Callable[[AdminReq], Awaitable[bytes]]


class Administration:
    """The `AdminSide` of a daemon."""

    def __init__(self, daemon: RunningDaemon, latest: Callable[[], Runtime]) -> None:
        self._daemon = daemon
        self._latest = latest
        # One view at a time is made: none needs to be there sooner than the others.
        self._making = trio.CapacityLimiter(1)
        # The ids that are in use, by channel.
        self._open: dict[AdminChannel, set[str]] = {}
        self._views: dict[str, View] = {
            "status": self._status,
            "sessions": self._sessions,
            "calls": self._calls,
            "metrics": self._metrics,
        }

    # --- lines ---

    def take(self, asked: AdminReq, channel: AdminChannel, *, line: int) -> None:
        """Answer a line, now or later."""
        ids = self._open.setdefault(channel, set())
        refusal: Fault | None = None
        if asked.id in ids:
            refusal = DUPLICATE
        elif asked.ask not in self._views:
            refusal = self._unknown(asked.ask)
        elif len(ids) >= MAX_OPEN:
            refusal = queue_full("admin")
        if refusal is not None:
            channel.refuse(asked, refusal, line=line)
            return
        ids.add(asked.id)
        self._latest().services.home.start_soon(partial(self._show, asked, channel, line=line))

    def owes(self, channel: AdminChannel) -> bool:
        """Whether a line of the channel is not answered yet."""
        return bool(self._open.get(channel))

    def dismiss(self, channel: AdminChannel) -> None:
        """End the subscriptions of a channel that is no administrator's any more; what it asked for is answered."""

    def forget(self, channel: AdminChannel) -> None:
        """The channel is no more: what is being made for it is not sent."""
        self._open.pop(channel, None)

    def _unknown(self, ask: str) -> Fault:
        close = nearest(ask[:SHOWN_NAME], self._views)
        also = "" if close is None else f"; did you mean {close}?"
        detail = f"nothing of this name can be asked for{also}"
        return Fault(Code.INVALID_REQUEST, detail, {"source": ask[:SHOWN_NAME]})

    async def _show(self, asked: AdminReq, channel: AdminChannel, *, line: int) -> None:
        try:
            async with self._making:
                value: bytes | Fault = await self._views[asked.ask](asked)
        except Exception as error:  # noqa: BLE001  # guard: the channel's, which asked for it
            incident = self._latest().setup.log.incident("view failed", error)
            value = Fault(Code.INTERNAL_ERROR, f"a defect of the daemon, incident {incident}", {"incident": incident})
        ids = self._open.get(channel)
        if ids is None:
            return
        ids.discard(asked.id)
        if isinstance(value, bytes) and (crowding := channel.crowding(len(value))) is not None:
            value = crowding
        if isinstance(value, Fault):
            channel.refuse(asked, value, line=line)
        else:
            channel.say(AdminResp(asked.id, Raw(value)))
        channel.answered()

    # --- views ---

    async def _status(self, _asked: AdminReq) -> bytes:
        view = await status_view(self._daemon, self._latest(), open_sessions(self._latest().state))
        return self._masked(msgspec.json.encode(view))

    async def _sessions(self, _asked: AdminReq) -> bytes:
        state = self._latest().state
        listing = Listing(self._latest().setup.catalog.masker)
        now = trio.current_time()
        await listing.fill(still_open(open_sessions(state), state), lambda session: (session_view(session, now),))
        return _lists(sessions=listing)

    async def _calls(self, asked: AdminReq) -> bytes:
        state = self._latest().state
        listing = Listing(self._latest().setup.catalog.masker)
        now = trio.current_time()
        wanted = open_sessions(state)
        if asked.session is not None:
            wanted = [session for session in wanted if session.number == asked.session]
        await listing.fill(still_open(wanted, state), lambda session: call_views(session, now))
        return _lists(calls=listing)

    async def _metrics(self, _asked: AdminReq) -> bytes:
        text = "".join([piece async for piece in in_turns(pieces(self._daemon, self._latest()))])
        return self._masked(msgspec.json.encode({"text": text}))

    def _masked(self, value: bytes) -> bytes:
        return self._latest().setup.catalog.masker.mask_bytes(value)


def _lists(**listings: Listing) -> bytes:
    """An object with these lists, and how much was left out of them."""
    left_out = sum(listing.left_out for listing in listings.values())
    parts = [b'"%s":%s' % (name.encode(), listing.json) for name, listing in listings.items()]
    return b"{%s}" % b",".join([*parts, *([b'"left_out":%d' % left_out] if left_out else [])])
