"""The connection that one session, or all that share it, has to a server; and the next one after that.

The agent layer sees one server with one offer, whichever connection serves it. A call belongs to the connection that
took it, and ends with it: it is never tried again. Only a lazy server that was not called yet holds calls, until it is
open. A keeper that opens one connection and no other costs a call nothing but its way through `start`.
"""

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, Literal, Protocol

import msgspec
import trio

from tooldispatchd.calls.backoff import Backoff
from tooldispatchd.calls.connection import ConnectionState
from tooldispatchd.calls.keeping import KeeperEvent, KeeperMachine, KeeperState, ServerCounts
from tooldispatchd.calls.outcome import Outcome
from tooldispatchd.providers.mcp.answers import PendingCall
from tooldispatchd.providers.mcp.connection import Connection
from tooldispatchd.providers.mcp.logmessages import BoundLog
from tooldispatchd.providers.mcp.remembered import ToolLists, key_of
from tooldispatchd.providers.mcp.server import Server, ServerOffer, unavailable
from tooldispatchd.wire.faults import Code, Fault

Restart = Literal["never", "backoff"]
# Makes a connection that is still to be run; it calls what it is given when its tools have changed.
Make = Callable[[Callable[[], None]], Connection]

# When to try again a server that is being opened anew this very moment.
SOON_S: Final = 1.0
RESTARTED: Final = "an administrator restarts it"


def ignore(_fault: Fault | None) -> None:
    """Nobody wants to hear of it."""


class ServerHandle(Protocol):
    """A server as the agent layer sees it: a `Keeper`, or a session's view of a shared one."""

    @property
    def keeper(self) -> "Keeper":
        """What has its connections."""

    @property
    def server(self) -> Server:
        """The server, as it is configured."""

    @property
    def offer(self) -> ServerOffer:
        """What it offers now; replaced as a whole when that changes."""

    @property
    def fault(self) -> Fault | None:
        """Why it cannot be called now."""

    def start(self, call: PendingCall) -> Outcome | None:
        """Queue a call, which `flush` sends; its outcome where nothing is to be sent, a fault where it cannot be."""

    def cancel(self, call: PendingCall, reason: str) -> None:
        """Stop waiting for a call."""

    def expire(self, call: PendingCall) -> None:
        """A call ran longer than the server may take."""

    def flush(self) -> None:
        """Send what is queued."""

    def hear(self, changed: Callable[[], None]) -> None:
        """Have another be told when the tools have changed."""

    def close(self) -> None:
        """Release the server. Idempotent."""


class Keeper:
    """The connections to `server` one after the other, each made by `make`; it lives as long as `run` runs.

    With `restart` "backoff" each that ended, or failed to open, is followed by another, unless all `is_ending` by then.
    One that is `lazy` opens with its first call, where `lists` knows its tools. `offer` is that of the latest
    connection that opened, or of the list. `batch_done` is called after calls were ended here (a connection has its
    own), `changed` when the tools have changed, once `run` has called `settled`. Who wants to hear of connections sets
    `moved`: it is called with None when one has opened, with the fault when one failed to, or has ended by itself. How
    it moves, `calls.keeping` says.
    """

    __slots__ = (
        "_backoff",
        "_batch_done",
        "_changed",
        "_connection",
        "_held",
        "_is_ending",
        "_is_restarted",
        "_key",
        "_lists",
        "_log",
        "_lost",
        "_machine",
        "_make",
        "_opened_at",
        "_retry_at",
        "_to_settle",
        "_wake",
        "connections",
        "moved",
        "offer",
        "server",
    )

    def __init__(
        self,
        server: Server,
        make: Make,
        *,
        lazy: bool,
        restart: Restart,
        lists: ToolLists,
        counts: ServerCounts,
        log: BoundLog,
        batch_done: Callable[[], None],
        changed: Callable[[], None],
        is_ending: Callable[[], bool],
    ) -> None:
        self.server = server
        self.offer = ServerOffer()
        self.moved: Callable[[Fault | None], None] = ignore
        self._make = make
        self._log = log
        self._batch_done = batch_done
        self._changed = changed
        self._is_ending = is_ending
        self._lists = lists
        # Nobody would ever look for the list of a server that always runs.
        self._key = key_of(server) if lazy else None
        self._backoff = Backoff() if restart == "backoff" else None
        self._machine = KeeperMachine(counts)
        # The latest one; also while it ends.
        self._connection: Connection | None = None
        self._opened_at: float | None = None
        # Why the latest connection is not there, until the next one is; and when that begins to open.
        self._lost: Fault | None = None
        self._retry_at: float | None = None
        # How many there have been.
        self.connections = 0
        # The latest one is ended so that there is another.
        self._is_restarted = False
        self._to_settle: Callable[[], None] | None = None
        # Calls that wait while the server is ASLEEP or WAKING; they are bounded by their agents' in flight.
        self._held: dict[PendingCall, None] = {}
        # Ends the sleep, and the wait for the next connection.
        self._wake = trio.Event()

    @property
    def fault(self) -> Fault | None:
        """Why it cannot be called now; None while it can, and before it is known."""
        lost = self._lost or (self._connection.fault if self._connection is not None else None)
        # A tool that must be there and is not is no end that passes by itself.
        if lost is None or self._backoff is None or self._is_over() or lost.code is Code.MISSING_TOOL:
            return lost
        name, reason = self.server.name, str(lost.extras.get("reason", lost.detail))
        after_s = SOON_S if self._retry_at is None else max(self._retry_at - trio.current_time(), 0.0)
        extras = {**lost.extras, "server": name, "reason": reason, "retry_after_ms": round(after_s * 1000)}
        return Fault(Code.SERVER_UNAVAILABLE, f"server {name} is not available, and is opened anew: {reason}", extras)

    @property
    def has_ended(self) -> bool:
        """Whether it will never be called again: its last connection has ended, or is ending."""
        is_lost = self._backoff is None and self._connection is not None and self._connection.fault is not None
        return self._is_over() or (is_lost and not self._is_restarted)

    @property
    def keeper(self) -> "Keeper":
        """This one: it is nobody's view."""
        return self

    @property
    def state(self) -> KeeperState:
        """Where it stands."""
        return self._machine.state

    @property
    def connection(self) -> Connection | None:
        """The latest one, while it is there."""
        return self._connection

    @property
    def opened_at(self) -> float | None:
        """When the latest connection opened, on trio's clock; None where it has not."""
        return self._opened_at

    # --- the owner ---------------------------------------------------------------------------------------------------

    async def run(self, settled: Callable[[], None]) -> None:
        """Own the connections. `settled` is called once it is known which tools there are, or that there are none.

        Returns when the last one is gone: after `close`, or where it ended and is not opened anew. May be cancelled at
        any time, and then leaves nothing either.
        """
        self._to_settle = settled
        try:
            known = None if self._key is None else self._lists.get(self._key, trio.current_time())
            if known is not None and not self._is_over():
                self.offer = known
                self._machine.apply(KeeperEvent.KNOWN)
                self._settle()
                await self._wake.wait()
                if not self._is_over():
                    self._wake = trio.Event()
            while not self._is_over():
                connection = self._connection = self._make(self._listed_anew)
                self.connections += 1
                self._opened_at = self._retry_at = None
                try:
                    await connection.run(partial(self._answered, connection))
                finally:
                    self._machine.apply(KeeperEvent.LOST)
                    self._lost = connection.fault
                self._tell_lost()
                await self._pause()
        finally:
            self.close()
            self._settle()
            # `fault` is known. The references back to this are dropped: without a cycle all is freed at once.
            self._connection = None
            self.moved = ignore
            del self._batch_done, self._changed, self._make

    def hear(self, changed: Callable[[], None]) -> None:
        """Have another be told when the tools have changed."""
        self._changed = changed

    def _tell_lost(self) -> None:
        """The connection has ended; one that never opened was told of then."""
        if self._opened_at is not None and self._lost is not None and not self._is_over():
            self.moved(self._lost)

    async def _pause(self) -> None:
        """After the end of a connection: wait for the time of the next one, or end."""
        if self._is_restarted and not self._is_over():
            self._is_restarted, self._wake = False, trio.Event()
            self._machine.apply(KeeperEvent.RETRY)
            return
        if self._backoff is not None and not self._is_over() and not self._is_ending():
            now = trio.current_time()
            lived_s = 0.0 if self._opened_at is None else now - self._opened_at
            asked_ms = self._lost.extras.get("retry_after_ms") if self._lost is not None else None
            asked_s = asked_ms / 1000 if isinstance(asked_ms, int | float) else 0.0
            wait_s = self._backoff.wait_s(lived_s, random.random(), asked_s=asked_s)  # noqa: S311  # it hides nothing
            self._retry_at = now + wait_s
            self._log.info("connection opens anew", after_s=round(wait_s, 3))
            with trio.move_on_at(self._retry_at):
                await self._wake.wait()
            if not self._is_over():
                self._wake = trio.Event()
        self._is_restarted = False
        # While the daemon drains, no call would come for another connection.
        is_last = self._backoff is None or self._is_over() or self._is_ending()
        self._machine.apply(KeeperEvent.CLOSE if is_last else KeeperEvent.RETRY)

    def _is_over(self) -> bool:
        return self._machine.state is KeeperState.ENDED

    def _settle(self) -> None:
        settled, self._to_settle = self._to_settle, None
        if settled is not None:
            settled()

    def _answered(self, connection: Connection) -> None:
        """A connection is open, or failed to open; so the calls that were held get it, or the reason why not."""
        is_news = False
        if connection.state is ConnectionState.OPEN:
            self._machine.apply(KeeperEvent.OPENED)
            self._opened_at = trio.current_time()
            self._lost = None
            is_news = self._take_offer(connection.offer)
            self.moved(None)
        else:
            self._machine.apply(KeeperEvent.LOST)
            self._lost = connection.fault
            if self._lost is not None and not self._is_over():
                self.moved(self._lost)
            if connection.offer.listed:
                # For the refusal, which proposes the nearest of these names.
                found = connection.offer
                self.offer = msgspec.structs.replace(self.offer, listed=found.listed, left_out=found.left_out)
            if self._key is not None and self._lost is not None and self._lost.code is Code.MISSING_TOOL:
                # Later sessions must be refused too, and not be shown what is there no more.
                self._lists.forget(self._key)
        if self._to_settle is not None:
            self._settle()
        elif is_news:
            self._changed()
        if not self._held:
            return
        for call in self._taken():
            outcome = connection.start(call)
            if outcome is not None:
                call.finish(outcome.ran(may_have=False) if isinstance(outcome, Fault) else outcome)
        connection.flush()
        self._batch_done()

    def _listed_anew(self) -> None:
        """The open connection has another list of tools."""
        connection = self._connection
        is_open = connection is not None and self._machine.state is KeeperState.OPEN
        if connection is not None and is_open and self._take_offer(connection.offer) and self._to_settle is None:
            self._changed()

    def _take_offer(self, offer: ServerOffer) -> bool:
        """Have the connection's offer; whether it has other tools than before."""
        if self._key is not None:
            self._lists.keep(self._key, offer, trio.current_time())
        self._lists.introductions.keep(self.server, offer)
        before, self.offer = self.offer, offer
        return before.tools != offer.tools

    def restart(self) -> bool:
        """End the connection, or the wait for the next one, and open another at once; whether there will be one."""
        if self._is_over() or self._is_ending() or self._connection is None:
            return False
        self._is_restarted = True
        self._connection.close(RESTARTED)
        self._wake.set()
        return True

    def close(self) -> None:
        """Release the server: `run` returns when nothing of it is left. Calls that wait get a fault. Idempotent."""
        self._machine.apply(KeeperEvent.CLOSE)
        self._wake.set()
        if self._connection is not None:
            self._connection.close()
        fault = self._lost or unavailable(self.server, "its session is over")
        if self._connection is None:
            self._lost = fault
        if self._held:
            for call in self._taken():
                call.finish(fault.ran(may_have=False))
            self._batch_done()

    # --- calls -------------------------------------------------------------------------------------------------------

    def start(self, call: PendingCall) -> Outcome | None:
        """As `Connection.start`, by the connection that is open; the first call of a lazy server opens it."""
        state = self._machine.state
        if state is KeeperState.OPEN:
            assert self._connection is not None
            outcome = self._connection.start(call)
            return self.fault or outcome if isinstance(outcome, Fault) else outcome
        if state is not KeeperState.ASLEEP and state is not KeeperState.WAKING:
            return self.fault or unavailable(self.server, "it is still starting")
        self._held[call] = None
        self._machine.apply(KeeperEvent.CALLED)
        self._wake.set()
        return None

    def _taken(self) -> Iterator[PendingCall]:
        """The held calls in the order they came, each held no more; the end of one may cancel another."""
        while self._held:
            call = next(iter(self._held))
            del self._held[call]
            yield call

    def cancel(self, call: PendingCall, reason: str) -> None:
        """Stop waiting for `call`; its `done` is not called. One that was not sent yet never is."""
        if call in self._held:
            del self._held[call]
        elif self._connection is not None:
            self._connection.cancel(call, reason)

    def expire(self, call: PendingCall) -> None:
        """As `Connection.expire`; a call that waits for a server to open says nothing of how it answers."""
        if call in self._held:
            del self._held[call]
        elif self._connection is not None:
            self._connection.expire(call)

    def flush(self) -> None:
        if self._connection is not None:
            self._connection.flush()
