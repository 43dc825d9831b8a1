"""The connection that one session, or all that share it, has to a server; and the next one after that.

    ASLEEP ──first call──▶ OPENING ──▶ OPEN ──▶ ENDED        restart = never
                              └──▶ AWAY ◀─┘                  restart = backoff: it waits, and opens anew
                                    └─▶ OPEN

What is above sees one server with one list of tools, whichever connection serves it. A call belongs to the connection
that took it, and ends with it: it is never tried again. Only a lazy server that nobody has called yet holds calls,
until it is open. A keeper that opens one connection and no other costs a call nothing but its way through `call`.
"""

import math
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, Literal, Protocol

import trio

from tooldispatchd.calls.backoff import Backoff
from tooldispatchd.calls.connection import ConnectionState
from tooldispatchd.calls.outcome import Outcome, Update
from tooldispatchd.providers.mcp.answers import PendingCall
from tooldispatchd.providers.mcp.connection import Connection
from tooldispatchd.providers.mcp.logmessages import BoundLog
from tooldispatchd.providers.mcp.remembered import ToolList, ToolLists, key_of
from tooldispatchd.providers.mcp.server import McpTool, Server
from tooldispatchd.providers.updates import Held
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.lines import Text

Restart = Literal["never", "backoff"]
# Makes a connection that is still to be run; it calls what it is given when its tools have changed.
Make = Callable[[Callable[[], None]], Connection]

# When to try again a server that is being opened anew this very moment.
SOON_S: Final = 1.0


class ServerHandle(Protocol):
    """A server as the agent layer sees it, be it the session's own or shared; as `Keeper`."""

    @property
    def server(self) -> Server:
        """What it is."""

    @property
    def tools(self) -> dict[str, McpTool]:
        """Its tools."""

    @property
    def listed(self) -> tuple[str, ...]:
        """The names of all that it has."""

    @property
    def said_name(self) -> str | None:
        """What it calls itself."""

    @property
    def instructions(self) -> str | None:
        """What it advises."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Of tools that were left out."""

    @property
    def fault(self) -> Fault | None:
        """Why it cannot be called now."""

    def call(
        self,
        tool: McpTool,
        arguments: Text,
        done: Callable[[Outcome], None],
        *,
        traceparent: str | None = None,
        update: Callable[[Update], None] | None = None,
    ) -> PendingCall | Fault:
        """Queue a call."""

    def cancel(self, call: PendingCall, reason: str) -> None:
        """Give a call up."""

    def expire(self, call: PendingCall) -> None:
        """A call ran longer than the server may take."""

    def flush(self) -> None:
        """Send what is queued."""

    def close(self) -> None:
        """Be done with it."""


def _nothing() -> None:
    """Nobody wants to know."""


class Keeper:
    """The connections to `server` one after the other, each made by `make`; its life is the time in which `run` runs.

    With `restart` "backoff" each that ended, or failed to open, is followed by another, unless all `is_ending` by then.
    One that is `lazy` opens with its first call, where `lists` knows its tools. `batch_done` is called after calls were
    ended here (a connection has its own), `changed` when `tools` have changed, once `run` has called `settled`.
    `tools`, `listed`, `said_name`, `instructions` and `warnings` are those of the latest connection that opened, or of
    the list; `listed` also of one that lacked a tool.
    """

    __slots__ = (
        "_backoff",
        "_batch_done",
        "_changed",
        "_connection",
        "_held",
        "_holds",
        "_is_closed",
        "_is_ending",
        "_key",
        "_lists",
        "_log",
        "_lost",
        "_make",
        "_open",
        "_opened_at",
        "_retry_at",
        "_to_settle",
        "_wake",
        "instructions",
        "listed",
        "said_name",
        "server",
        "tools",
        "warnings",
    )

    def __init__(
        self,
        server: Server,
        make: Make,
        *,
        lazy: bool,
        restart: Restart,
        lists: ToolLists,
        log: BoundLog,
        batch_done: Callable[[], None],
        changed: Callable[[], None],
        is_ending: Callable[[], bool],
    ) -> None:
        self.server = server
        self.tools: dict[str, McpTool] = {}
        self.listed: tuple[str, ...] = ()
        self.said_name: str | None = None
        self.instructions: str | None = None
        self.warnings: tuple[str, ...] = ()
        self._make = make
        self._log = log
        self._batch_done = batch_done
        self._changed = changed
        self._is_ending = is_ending
        self._lists = lists
        # Lists of servers that always run are of no use to anybody.
        self._key = key_of(server) if lazy else None
        self._backoff = Backoff() if restart == "backoff" else None
        # The latest one; and the same while it takes calls, as far as is known here.
        self._connection: Connection | None = None
        self._open: Connection | None = None
        self._opened_at: float | None = None
        # Why the latest connection is not there, until the next one is; and when that begins to open.
        self._lost: Fault | None = None
        self._retry_at: float | None = None
        self._to_settle: Callable[[], None] | None = None
        self._is_closed = False
        # Whether calls wait here, for a server that sleeps or wakes up; they are bounded by their agents' in flight.
        self._holds = False
        self._held: dict[PendingCall, None] = {}
        self._wake = trio.Event()

    # --- what is said of it ------------------------------------------------------------------------------------------

    @property
    def fault(self) -> Fault | None:
        """Why it cannot be called now; None while it can, and before it is known."""
        if self._open is not None and self._open.state is ConnectionState.OPEN:
            return None
        lost = self._lost or (self._connection.fault if self._connection is not None else None)
        # A tool that must be there and is not is no end that passes by itself.
        if lost is None or self._backoff is None or self._is_closed or lost.code is Code.MISSING_TOOL:
            return lost
        name, reason = self.server.name, str(lost.extras.get("reason", lost.detail))
        after_s = SOON_S if self._retry_at is None else max(self._retry_at - trio.current_time(), 0.0)
        extras = {**lost.extras, "server": name, "reason": reason, "retry_after_ms": round(after_s * 1000)}
        return Fault(Code.SERVER_UNAVAILABLE, f"server {name} is not available, and is opened anew: {reason}", extras)

    @property
    def has_ended(self) -> bool:
        """Whether it will never be called again: its last connection has ended, or is ending."""
        is_lost = self._backoff is None and self._connection is not None and self._connection.fault is not None
        return self._is_closed or is_lost

    # --- the owner ---------------------------------------------------------------------------------------------------

    async def run(self, settled: Callable[[], None]) -> None:
        """Own the connections. `settled` is called once it is known which tools there are, or that there are none.

        Returns when the last one is gone: after `close`, or where it ended and is not opened anew. May be cancelled at
        any time, and then leaves nothing either.
        """
        self._to_settle = settled
        try:
            known = None if self._key is None else self._lists.get(self._key, trio.current_time())
            if known is not None:
                self._adopt(known)
                self._holds = True
                self._settle()
                await self._wake.wait()
            while not self._is_closed:
                await self._live()
                await self._pause()
        finally:
            self.close()
            self._settle()
            # Why it ended is known; who made the connections, and is told of them, is let go of, and so freed at once.
            self._connection = None
            self._batch_done = self._changed = _nothing
            del self._make

    async def _live(self) -> None:
        connection = self._connection = self._make(self._listed_anew)
        self._opened_at = self._retry_at = None
        try:
            await connection.run(partial(self._answered, connection))
        finally:
            self._open = None
            self._lost = connection.fault

    async def _pause(self) -> None:
        """After the end of a connection: wait for the time of the next one, or end."""
        if self._backoff is not None and not self._is_closed and not self._is_ending():
            now = trio.current_time()
            lived_s = 0.0 if self._opened_at is None else now - self._opened_at
            asked_ms = self._lost.extras.get("retry_after_ms") if self._lost is not None else None
            asked_s = asked_ms / 1000 if isinstance(asked_ms, int | float) else 0.0
            wait_s = self._backoff.wait_s(lived_s, random.random(), asked_s=asked_s)  # noqa: S311  # it hides nothing
            self._retry_at = now + wait_s
            self._log.info("connection opens anew", after_s=round(wait_s, 3))
            with trio.move_on_at(self._retry_at):
                await self._wake.wait()
        # Nobody is there any more who would call what is opened anew.
        if self._backoff is None or self._is_ending():
            self._is_closed = True

    def _settle(self) -> None:
        settled, self._to_settle = self._to_settle, None
        if settled is not None:
            settled()

    def _answered(self, connection: Connection) -> None:
        """A connection is open, or failed to open."""
        is_news = False
        if connection.state is ConnectionState.OPEN:
            self._opened_at = trio.current_time()
            self._open, self._lost = connection, None
            is_news = self._take_list(connection)
        else:
            self._lost = connection.fault
            # For who was refused: the one that is meant may be among them.
            self.listed = connection.listed or self.listed
            if self._key is not None and self._lost is not None and self._lost.code is Code.MISSING_TOOL:
                # Who comes later must be refused too, and not be shown what is there no more.
                self._lists.forget(self._key)
        if self._to_settle is not None:
            self._settle()
        elif is_news:
            self._changed()
        self._let_go(connection)

    def _listed_anew(self) -> None:
        """The open connection has another list of tools."""
        connection = self._open
        if connection is not None and self._take_list(connection) and self._to_settle is None:
            self._changed()

    def _take_list(self, connection: Connection) -> bool:
        """Have the connection's list; whether it has other tools than before."""
        good_until = trio.current_time() + connection.ttl_s if connection.ttl_s > 0 else math.inf
        known = ToolList(
            connection.tools,
            connection.listed,
            connection.said_name,
            connection.instructions,
            tuple(connection.warnings),
            good_until,
        )
        if self._key is not None:
            self._lists.keep(self._key, known)
        before = self.tools
        self._adopt(known)
        return before != self.tools

    def _adopt(self, known: ToolList) -> None:
        self.tools = known.tools
        self.listed = known.listed
        self.said_name = known.said_name
        self.instructions = known.instructions
        self.warnings = known.warnings

    def close(self) -> None:
        """Be done with the server: `run` returns when nothing of it is left. Calls that wait get a fault."""
        if self._is_closed and not self._held:
            return
        self._is_closed = True
        self._wake.set()
        if self._connection is not None:
            self._connection.close()
        if self._lost is None and self._connection is None:
            self._lost = self._not_there("its session is over")
        self._drop_held(self._lost or self._not_there("its session is over"))

    # --- calls -------------------------------------------------------------------------------------------------------

    def call(
        self,
        tool: McpTool,
        arguments: Text,
        done: Callable[[Outcome], None],
        *,
        traceparent: str | None = None,
        update: Callable[[Update], None] | None = None,
    ) -> PendingCall | Fault:
        """As `Connection.call`, by the connection that is open; the first call of a lazy server opens it."""
        connection = self._open
        if connection is not None:
            made = connection.call(tool, arguments, done, traceparent=traceparent, update=update)
            if not isinstance(made, Fault):
                return made
        if not self._holds or self._is_closed:
            return self.fault or self._not_there("it is still starting")
        held = None if update is None else Held(update)
        meta: dict[str, object] | None = None if traceparent is None else {"traceparent": traceparent}
        call = PendingCall(tool, done, held, arguments=arguments, meta=meta)
        self._held[call] = None
        self._wake.set()
        return call

    def _let_go(self, connection: Connection) -> None:
        """Give the held calls to the connection that is open; or the reason why it is not."""
        self._holds = False
        self._wake = self._wake if self._is_closed else trio.Event()
        if not self._held:
            return
        for call in self._taken():
            fault = connection.start(call)
            if fault is not None:
                call.finish(fault)
        connection.flush()
        self._batch_done()

    def _drop_held(self, fault: Fault) -> None:
        self._holds = False
        if self._held:
            for call in self._taken():
                call.finish(fault)
            self._batch_done()

    def _taken(self) -> Iterator[PendingCall]:
        """The held calls in the order they came, each held no more; the end of one may cancel another."""
        while self._held:
            call = next(iter(self._held))
            del self._held[call]
            yield call

    def cancel(self, call: PendingCall, reason: str) -> None:
        """Wait for `call` no more; its `done` is not called. One that was not sent yet never is."""
        if call in self._held:
            del self._held[call]
        elif self._open is not None:
            self._open.cancel(call, reason)

    def expire(self, call: PendingCall) -> None:
        """As `Connection.expire`; who waits for a server that still opens says nothing of how it answers."""
        if call in self._held:
            del self._held[call]
        elif self._open is not None:
            self._open.expire(call)

    def flush(self) -> None:
        """Send what is queued."""
        if self._open is not None:
            self._open.flush()

    def _not_there(self, why: str) -> Fault:
        name = self.server.name
        extras: dict[str, object] = {"server": name, "reason": why}
        return Fault(Code.SERVER_UNAVAILABLE, f"server {name} is not available: {why}", extras)
