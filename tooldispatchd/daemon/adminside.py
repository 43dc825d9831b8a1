"""The door for administrators: each line gets one answer or fault, in a task of its own, under its channel's guard.

    line ─▶ take ─┬─▶ `stop`
                  └─▶ a task ─▶ the wing does or shows it ─▶ answer ─▶ notes of a subscription, until it is stopped, or
                                                                       until the channel loses its right

The wing, which knows what can be asked for, is loaded with the first line and costs nothing before.
"""

import sys
from collections.abc import Awaitable, Callable
from functools import partial
from importlib import import_module
from typing import Final, Protocol, TypeVar

import msgspec
import trio
from msgspec import Raw

from tooldispatchd.agent.faults import queue_full, unknown_target
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.session.administration import AdminChannel, AdminSubscription, Offer, RunningDaemon
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import AdminReq, AdminResp
from tooldispatchd.wire.session import DUPLICATE

# Lines of one channel that are not answered yet, and subscriptions.
MAX_OPEN: Final = 16
STOP: Final = "stop"
WING: Final = "tooldispatchd.admin.administration"

NOT_PASSED: Final = Fault(Code.NOT_ALLOWED, "descriptors go over a Unix socket alone, to a peer that reads its answers")

Made = bytes | AdminSubscription | Fault | None
DoneT = TypeVar("DoneT")


class AdminWing(Protocol):
    """`Administration`, which does or shows what is asked for."""

    async def make(self, asked: AdminReq, channel: AdminChannel) -> bytes | Offer | AdminSubscription | Fault:
        """The value of the answer as JSON, or descriptors that are one, or a subscription; or why there is none."""


class _Asking:
    """The demands of one channel: ids of lines that are not answered yet, and subscriptions by theirs."""

    def __init__(self) -> None:
        self.open: Final[set[str]] = set()
        self.subscriptions: Final[dict[str, AdminSubscription]] = {}


class AdminDoor:
    """The `AdminSide` of a daemon."""

    def __init__(self, daemon: RunningDaemon, latest: Callable[[], Runtime]) -> None:
        self._daemon: Final = daemon
        self._latest: Final = latest
        self._wing: AdminWing | None = None
        self._loading: Final = trio.Lock()
        self._asking: Final[dict[AdminChannel, _Asking]] = {}

    def take(self, asked: AdminReq, channel: AdminChannel, *, line: int) -> None:
        """Answer a line of a channel that may administer the daemon, now or later."""
        asking = self._asking.setdefault(channel, _Asking())
        if asked.id in asking.open or asked.id in asking.subscriptions:
            channel.refuse(asked, DUPLICATE, line=line)
        elif asked.ask == STOP:
            self._answer(asked, channel, self._stop(asked.of, asking), line=line)
        elif len(asking.open) + len(asking.subscriptions) >= MAX_OPEN:
            channel.refuse(asked, queue_full("admin"), line=line)
        else:
            asking.open.add(asked.id)
            self._latest().services.home.start_soon(partial(self._serve, asked, channel, asking, line=line))

    def owes(self, channel: AdminChannel) -> bool:
        """Tell whether a line of the channel is not answered yet, or something of a subscription is left to be sent."""
        asking = self._asking.get(channel)
        if asking is None:
            return False
        return bool(asking.open) or any(each.is_behind for each in asking.subscriptions.values())

    def dismiss(self, channel: AdminChannel) -> None:
        """End the subscriptions of a channel that is no administrator's any more; what it asked for is answered."""
        asking = self._asking.get(channel)
        while asking is not None and asking.subscriptions:
            asking.subscriptions.popitem()[1].end()

    def forget(self, channel: AdminChannel) -> None:
        """The channel is no more: what is being made for it is not sent."""
        self.dismiss(channel)
        asking = self._asking.pop(channel, None)
        if asking is not None:
            asking.open.clear()

    async def _serve(self, asked: AdminReq, channel: AdminChannel, asking: _Asking, *, line: int) -> None:
        made = await self._guarded(partial(self._make, asked, channel, asking))
        await self._guarded(partial(self._tell, made, asked, channel, asking, line=line))

    async def _guarded(self, work: Callable[[], Awaitable[DoneT]]) -> DoneT | Fault:
        try:
            return await work()
        except Exception as error:  # noqa: BLE001  # guard: the channel's, which asked for it
            incident = self._latest().setup.log.incident("administration failed", error)
            return Fault(Code.INTERNAL_ERROR, f"a defect of the daemon, incident {incident}", {"incident": incident})

    async def _make(self, asked: AdminReq, channel: AdminChannel, asking: _Asking) -> Made:
        made = await (await self._loaded()).make(asked, channel)
        return self._pass_on(asked, channel, asking, made) if isinstance(made, Offer) else made

    async def _loaded(self) -> AdminWing:
        """The wing. Raises whatever importing does, as after an upgrade in place; the next line tries again."""
        async with self._loading:
            if self._wing is None:
                if WING not in sys.modules:
                    # Some twenty milliseconds, or more where nothing is compiled yet, in which the loop goes on.
                    await trio.to_thread.run_sync(import_module, WING)
                from tooldispatchd.admin.administration import Administration  # noqa: PLC0415  # a wing

                self._wing = Administration(self._daemon, self._latest)
        return self._wing

    def _pass_on(self, asked: AdminReq, channel: AdminChannel, asking: _Asking, offer: Offer) -> Fault | None:
        """Answer with descriptors; why that cannot be done."""
        value = msgspec.json.encode({"names": [name for _, name in offer.handed]})
        line = msgspec.json.encode(AdminResp(asked.id, Raw(value))) + b"\n"
        if not channel.hand(line, [fd for fd, _ in offer.handed]):
            return NOT_PASSED
        asking.open.discard(asked.id)
        offer.passed()
        return None

    async def _tell(self, made: Made, asked: AdminReq, channel: AdminChannel, asking: _Asking, *, line: int) -> None:
        """Answer, unless the channel is no more."""
        is_owed = asked.id in asking.open
        asking.open.discard(asked.id)
        if is_owed:
            self._answer(asked, channel, made, line=line)
        if isinstance(made, AdminSubscription):
            if not is_owed:
                made.end()
            await self._follow(made, asked, channel, asking)
        else:
            channel.answered()

    async def _follow(self, made: AdminSubscription, asked: AdminReq, channel: AdminChannel, asking: _Asking) -> None:
        """See a subscription to its end."""
        asking.subscriptions[asked.id] = made
        try:
            channel.answered()
            await made.run()
        finally:
            made.end()
            # Where it was ended by `stop`, its id may be another's by now.
            if asking.subscriptions.get(asked.id) is made:
                del asking.subscriptions[asked.id]

    def _answer(self, asked: AdminReq, channel: AdminChannel, made: Made, *, line: int) -> None:
        value = made if isinstance(made, bytes) else b"{}"
        refusal = made if isinstance(made, Fault) else channel.crowding(len(value))
        if refusal is not None:
            channel.refuse(asked, refusal, line=line)
        else:
            channel.say(AdminResp(asked.id, Raw(value)))

    def _stop(self, name: str | None, asking: _Asking) -> Fault | None:
        subscription = None if name is None else asking.subscriptions.pop(name, None)
        if subscription is None:
            return unknown_target("subscription", name or "")
        subscription.end()
        return None
