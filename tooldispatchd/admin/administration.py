"""Answer administrators: each line gets one answer or fault, now or when its list is made.

line ─▶ take ─┬─▶ what is done: in a task; a change waits for nobody who only looks
              ├─▶ what is shown: in a task, in turns, one at a time
              ├─▶ `log`: a subscription, which has its id until `stop`, or until the channel loses its right
              └─▶ `stop`
"""

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Final

import msgspec
import trio
from msgspec import Raw

from tooldispatchd.admin.acts import Acts, level_fault, unknown_target
from tooldispatchd.admin.logreaders import LogSubscription
from tooldispatchd.admin.views import Views
from tooldispatchd.agent.faults import SHOWN_NAME, queue_full
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.session.administration import NO_ADMINISTRATOR, AdminChannel, Offer, RunningDaemon
from tooldispatchd.catalog.names import nearest
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import AdminReq, AdminResp
from tooldispatchd.wire.session import DUPLICATE

# Lines of one channel that are not answered yet, and subscriptions.
MAX_OPEN: Final = 16
# Of all channels; each costs a line of its own for each line that it reads.
MAX_SUBSCRIPTIONS: Final = 64
LOG: Final = "log"
STOP: Final = "stop"

NOT_PASSED: Final = Fault(Code.NOT_ALLOWED, "descriptors go over a Unix socket alone, to a peer that reads its answers")

Made = bytes | Offer | Fault


class _Asking:
    """What one channel has asked for: ids of lines that are not answered yet, and subscriptions by theirs."""

    def __init__(self) -> None:
        self.open: Final[set[str]] = set()
        self.subscriptions: Final[dict[str, LogSubscription]] = {}


class Administration:
    """The `AdminSide` of a daemon."""

    def __init__(self, daemon: RunningDaemon, latest: Callable[[], Runtime]) -> None:
        self._log = daemon.log_output
        self._latest = latest
        # No view needs to be there sooner than the others, and each looks at all sessions.
        self._viewing = trio.CapacityLimiter(1)
        self._asking: dict[AdminChannel, _Asking] = {}
        views = Views(daemon, latest)
        self._views: Final[dict[str, Callable[[AdminReq], Awaitable[Made]]]] = {
            "status": views.status,
            "sessions": views.sessions,
            "calls": views.calls,
            "servers": views.servers,
            "tools": views.tools,
            "config": views.config,
            "metrics": views.metrics,
        }
        self._acts = acts = Acts(daemon, latest)
        self._changes: Final[dict[str, Callable[[AdminReq], Awaitable[Made]]]] = {
            "end": acts.end,
            "restart": acts.restart,
            "drain": acts.drain,
            "level": acts.level,
            "reload": acts.reload,
            "take_over": acts.take_over,
        }

    # --- lines ---

    def take(self, asked: AdminReq, channel: AdminChannel, *, line: int) -> None:
        """Answer a line, now or later."""
        asking = self._asking.setdefault(channel, _Asking())
        if asked.id in asking.open or asked.id in asking.subscriptions:
            channel.refuse(asked, DUPLICATE, line=line)
        elif asked.ask == STOP:
            self._answer(asked, channel, self._stop(asked, asking), line=line)
        elif len(asking.open) + len(asking.subscriptions) >= MAX_OPEN:
            channel.refuse(asked, queue_full("admin"), line=line)
        elif (make := self._made(asked, channel, asking)) is None:
            channel.refuse(asked, self._unknown(asked.ask), line=line)
        else:
            asking.open.add(asked.id)
            self._latest().services.home.start_soon(partial(self._make, make, asked, channel, line=line))

    def _made(self, asked: AdminReq, channel: AdminChannel, asking: _Asking) -> Callable[[], Awaitable[Made]] | None:
        if asked.ask == LOG:
            return partial(self._subscribe, asked, channel, asking)
        if asked.ask in self._changes:
            return partial(self._changes[asked.ask], asked)
        view = self._views.get(asked.ask)
        return None if view is None else partial(self._in_order, view, asked)

    def owes(self, channel: AdminChannel) -> bool:
        """Whether a line of the channel is not answered yet."""
        asking = self._asking.get(channel)
        return asking is not None and bool(asking.open)

    def dismiss(self, channel: AdminChannel) -> None:
        """End the subscriptions of a channel that is no administrator's any more; what it asked for is answered."""
        asking = self._asking.get(channel)
        if asking is not None:
            self._end(asking, list(asking.subscriptions))

    def forget(self, channel: AdminChannel) -> None:
        """The channel is no more: what is being made for it is not sent."""
        self.dismiss(channel)
        self._asking.pop(channel, None)

    def _unknown(self, ask: str) -> Fault:
        close = nearest(ask[:SHOWN_NAME], [*self._views, *self._changes, LOG, STOP])
        also = "" if close is None else f"; did you mean {close}?"
        detail = f"nothing of this name can be asked for{also}"
        return Fault(Code.INVALID_REQUEST, detail, {"source": ask[:SHOWN_NAME]})

    async def _make(
        self,
        make: Callable[[], Awaitable[Made]],
        asked: AdminReq,
        channel: AdminChannel,
        *,
        line: int,
    ) -> None:
        """Do or show what was asked for, and answer."""
        if asked.ask in self._changes:
            self._acts.note(asked, channel)
        made = await self._guarded(make)
        asking = self._asking.get(channel)
        if asking is None:
            return
        asking.open.discard(asked.id)
        self._answer(asked, channel, made, line=line)
        channel.answered()
        subscription = asking.subscriptions.get(asked.id)
        if subscription is not None:
            await self._guarded(partial(self._serve, subscription, asking))

    async def _in_order(self, view: Callable[[AdminReq], Awaitable[Made]], asked: AdminReq) -> Made:
        async with self._viewing:
            return await view(asked)

    async def _guarded(self, make: Callable[[], Awaitable[Made]]) -> Made:
        try:
            return await make()
        except Exception as error:  # noqa: BLE001  # guard: the channel's, which asked for it
            incident = self._latest().setup.log.incident("administration failed", error)
            return Fault(Code.INTERNAL_ERROR, f"a defect of the daemon, incident {incident}", {"incident": incident})

    def _answer(self, asked: AdminReq, channel: AdminChannel, made: Made | None, *, line: int) -> None:
        if isinstance(made, Offer):
            made = self._pass_on(asked, channel, made)
        if made is None:
            return
        crowding = channel.crowding(len(made)) if isinstance(made, bytes) else made
        if crowding is not None:
            channel.refuse(asked, crowding, line=line)
        elif isinstance(made, bytes):
            channel.say(AdminResp(asked.id, Raw(made)))

    def _pass_on(self, asked: AdminReq, channel: AdminChannel, offer: Offer) -> Fault | None:
        """Answer with descriptors; why that cannot be done."""
        value = msgspec.json.encode({"names": [name for _, name in offer.handed]})
        line = msgspec.json.encode(AdminResp(asked.id, Raw(value))) + b"\n"
        if not channel.hand(line, [fd for fd, _ in offer.handed]):
            return NOT_PASSED
        offer.passed()
        return None

    # --- subscriptions ---

    async def _subscribe(self, asked: AdminReq, channel: AdminChannel, asking: _Asking) -> Made:
        level = asked.level or "info"
        fault = level_fault(level)
        if fault is not None:
            return fault
        if sum(1 for _ in self._subscriptions()) >= MAX_SUBSCRIPTIONS:
            return queue_full("admin")
        if channel.is_closed or not channel.may_administer:
            # The right has ended since it was asked for, and with it what was subscribed to.
            return NO_ADMINISTRATOR
        subscription = asking.subscriptions[asked.id] = LogSubscription(asked, channel, level)
        self._log.attach(subscription)
        # Who has the answer hears of each call that comes after it.
        await self._acts.tell_sessions()
        return b"{}"

    async def _serve(self, subscription: LogSubscription, asking: _Asking) -> Made:
        try:
            await subscription.run()
        finally:
            # Its right has ended, unless it was ended itself: then its id may be another's by now.
            if asking.subscriptions.get(subscription.id) is subscription:
                self._end(asking, [subscription.id])
        await self._acts.tell_sessions()
        return b""

    def _stop(self, asked: AdminReq, asking: _Asking) -> Made:
        if asked.of is None or asked.of not in asking.subscriptions:
            return unknown_target("subscription", asked.of or "")
        self._end(asking, [asked.of])
        return b"{}"

    def _end(self, asking: _Asking, ids: list[str]) -> None:
        for each in ids:
            subscription = asking.subscriptions.pop(each)
            self._log.detach(subscription)
            subscription.end()

    def _subscriptions(self) -> Iterator[LogSubscription]:
        return (one for asking in self._asking.values() for one in asking.subscriptions.values())
