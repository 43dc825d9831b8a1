"""One connection to one MCP server: a single owner task, and calls that need none.

    run ── slot ── handshake ── settled ── turns, and lists again ── until it ends ── leave nothing
                                              ▲
    start, cancel, expire, flush, close: plain functions, from any task of the loop

    call ─▶ Connection ── Dialect ─▶ Link ══ server
    done ◀──────────── Answers ◀──────┘

A call is an entry in the table of pending requests; `Answers` completes it in place, in whichever task reads the
server's answer. How long to wait is the caller's decision: its deadline calls `expire` or `cancel`. Failures of the
server become state, never an exception out of `run`; a connection that ended stays ended.
"""

import math
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final

import msgspec
import trio
from msgspec import Raw

from tooldispatchd.calls.connection import ConnectionEvent, ConnectionMachine, ConnectionState
from tooldispatchd.calls.memory import Share
from tooldispatchd.calls.outcome import Outcome
from tooldispatchd.calls.refusals import Refusals, is_logged
from tooldispatchd.checkers.pool import Running
from tooldispatchd.children.tail import telling_line
from tooldispatchd.providers.mcp.answers import Answers, PendingCall, PendingRequest
from tooldispatchd.providers.mcp.asking import NOBODY, AgentSide, InputRound, ServerRequests, capabilities
from tooldispatchd.providers.mcp.dialects import Dialect, Modern
from tooldispatchd.providers.mcp.greeting import Greeting
from tooldispatchd.providers.mcp.handshake import Handshake, HandshakeError
from tooldispatchd.providers.mcp.link import Link, LinkError, Transport
from tooldispatchd.providers.mcp.logmessages import BoundLog, log_message, printable
from tooldispatchd.providers.mcp.messages import Incoming, InputRequired, Outgoing
from tooldispatchd.providers.mcp.remembered import Eras
from tooldispatchd.providers.mcp.server import Result, Server, ServerOffer, call_failed
from tooldispatchd.providers.mcp.subscription import Subscription
from tooldispatchd.wire.faults import Code, Fault

# A server that says all the time that its tools have changed is asked this often.
LIST_AGAIN_S: Final = 1.0
# A line of an error.
MAX_LAST_CHARS: Final = 200
# How a server exits whose input was closed; the last one is what a shell makes of the TERM that comes next.
_GOOD_CODES: Final = frozenset({None, 0, 128 + signal.SIGTERM})

# Places for servers that open at once in the whole daemon; entering waits for one.
Slots = AbstractAsyncContextManager[object]


class Connection:
    """A connection to `server`, reached by `way`; it lives as long as `run` runs, and its memory is counted on `share`.

    `offer` is there once `run` has called `settled`, and is replaced as a whole when the server lists other tools.
    `fault` says why the connection failed, was refused (`missing_tool`) or ended. `batch_done` is called after each
    turn in which calls were completed, `changed` when the tools have changed since. By `unavailable` it is counted, for
    the log, how often a server of its name did not come up.
    """

    def __init__(
        self,
        server: Server,
        *,
        way: Transport,
        eras: Eras,
        opening: Slots,
        checkers: Running,
        log: BoundLog,
        share: Share,
        batch_done: Callable[[], None],
        changed: Callable[[], None] = lambda: None,
        agent: AgentSide = NOBODY,
        unavailable: Refusals | None = None,
    ) -> None:
        self.offer = ServerOffer()
        # That it speaks, once it is open.
        self.revision: str | None = None
        self.fault: Fault | None = None
        self.server = server
        self.share = share
        self.checkers = checkers
        self.dialect: Dialect | None = None
        self._way = way
        self._eras = eras
        self._opening = opening
        self._log = log
        self._unavailable = unavailable or Refusals()
        self._batch_done = batch_done
        self._changed = changed
        self._agent = agent
        self._machine = ConnectionMachine()
        self._living = trio.CancelScope()
        self._asked = ServerRequests(server, agent, log, send=self._reply)
        self._answers = Answers(
            server,
            share,
            asked=self._asked,
            more=self._more,
            checkers=checkers,
            taken=self._taken,
            log=log,
        )
        self._pending = self._answers.pending
        self._nursery: trio.Nursery | None = None
        self._link: Link | None = None
        # Where there is no handshake that settles what is told.
        self._subscription: Subscription | None = None
        # Until when the owner's turn waits, and whether anything waits for a flush.
        self._until = math.inf
        self._has_queued = False
        self._calls = 0
        self._has_failed = False
        # When the list of tools expires by the server's own word, and when it may be asked for again.
        self._list_ends = math.inf
        self._list_from = 0.0
        # Calls that wait for no answer of the server: for a new list, for the agent's words, or to be told of the end.
        self._between: dict[PendingCall, None] = {}

    @property
    def state(self) -> ConnectionState:
        return self._machine.state

    @property
    def in_flight(self) -> int:
        """How many calls the server has not answered; a subscription that is open is none."""
        return sum(isinstance(entry, PendingCall) for _, entry in self._pending.entries())

    @property
    def pid(self) -> int | None:
        """The server's process, where it is a child of ours."""
        return None if self._link is None else self._link.pid

    # --- the owner ---------------------------------------------------------------------------------------------------

    async def run(self, settled: Callable[[], None]) -> None:
        """Own the connection: open it, call `settled` once it is open or failed, serve, and leave nothing behind.

        Returns when the server is gone and reaped: after `close`, after its death, or after it failed to open. May be
        cancelled at any time, and then does the same.
        """
        if not self._way.needs_tasks:
            return await self._own(settled)
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            await self._own(settled)
            nursery.cancel_scope.cancel()
        return None

    async def _own(self, settled: Callable[[], None]) -> None:
        to_settle = [settled]
        self._link = self._way.link(self._answers, self._nursery)
        handshake = Handshake(self.server, self._way, self, self._eras)
        try:
            with self._living:
                greeting = await self._open(handshake)
                to_settle.pop()()
                if greeting is not None:
                    await self._serve(handshake, greeting)
        finally:
            try:
                self.close()
                for settle in to_settle:
                    settle()
            finally:
                # Also when `settled` or a call's `done` raises: the server must not outlive this task.
                await self._close_link()  # noqa: ASYNC102  # it shields and bounds itself
                self._machine.apply(ConnectionEvent.GONE)
                self._log_end()
                # Half-read input, and all references back to this: without a cycle it is freed at once.
                self._answers.renew()
                self._link = self._nursery = self._subscription = None
                del self._answers, self._asked

    async def _open(self, handshake: Handshake) -> Greeting | None:
        server = self.server
        async with self._opening:
            with trio.move_on_after(server.handshake_s) as limit:
                try:
                    greeting = await handshake.greet(capabilities(self._agent, server.name))
                    found = await handshake.list_all(greeting)
                except LinkError as error:
                    self._lose(error.why, error.extras)
            if limit.cancelled_caught:
                noise = f"; it wrote {self._answers.strays}" if self._answers.stray else ""
                self._lose(f"it did not answer {handshake.stage} within {server.handshake_s:g} s{noise}")
            if self.state is not ConnectionState.OPENING:
                # It failed, or ended in the very turn that brought its last answer, and has its fault.
                return None
            if found.missing is not None:
                self.offer = msgspec.structs.replace(found, tools={})
                why = found.why_missing(found.missing)
                detail = f"server {server.name} does not offer the whitelisted tool {found.missing}{why}"
                extras: dict[str, object] = {"server": server.name, "tool": found.missing}
                self._end(ConnectionEvent.FAILED, Fault(Code.MISSING_TOOL, detail, extras))
                return None
            self._adopt(found)
            self.revision = greeting.revision
            self._machine.apply(ConnectionEvent.OPENED)
        self._log.debug("connection opened", server=server.name, revision=greeting.revision, tools=len(found.tools))
        return greeting

    def _adopt(self, found: ServerOffer) -> None:
        self.offer = found
        self._list_ends = trio.current_time() + found.ttl_s if found.ttl_s > 0 else math.inf

    async def _serve(self, handshake: Handshake, greeting: Greeting) -> None:
        """Turn until the connection ends; list again when the server has said that its tools changed."""
        asked, subscription = self._asked, None
        hears = partial(self._agent.hears, self.server.name)
        if isinstance(self.dialect, Modern) and (greeting.tools_list_changed or hears()):
            subscription = self._subscription = Subscription(
                self._listen,
                self._hear_no_more,
                self._list_soon,
                greeting=greeting,
                hears=hears,
                log_from=self.dialect.log_from,
            )
        try:
            while self._is_living():
                look_at = math.inf if subscription is None else subscription.look(trio.current_time())
                await self.turn(min(self._list_from, look_at) if asked.wants_list else look_at)
                if asked.wants_list and trio.current_time() >= self._list_from and self._is_living():
                    await self._list_again(handshake, greeting)
        except LinkError as error:
            self._lose(error.why, error.extras)

    async def _list_again(self, handshake: Handshake, greeting: Greeting) -> None:
        self._asked.wants_list = False
        self._list_from = trio.current_time() + LIST_AGAIN_S
        before = self.offer
        try:
            # Not cut short by cancelling, as answers to calls come in the same turns.
            self._adopt(await handshake.list_all(greeting, trio.current_time() + self.server.handshake_s))
        except HandshakeError as error:
            self._log.warning("tools not listed again", reason=error.why)
            self._adopt(before)
        if not self._is_living():
            return
        if before.tools != self.offer.tools:
            self._changed()
        for call in [call for call in self._between if call.round is None]:
            # By the new list, which may say otherwise what goes into the headers; all else stays as it was called.
            listed = self.offer.tools.get(call.tool.name, call.tool)
            call.tool = msgspec.structs.replace(call.tool, params=listed.params)
            self._send_call(call)
        self.flush()

    # --- calls -------------------------------------------------------------------------------------------------------

    def start(self, call: PendingCall) -> Outcome | None:
        """Queue a call, which `flush` sends; its outcome where nothing is to be sent, a fault where it cannot be.

        Its `done` is called from the owner's turn, or from whichever function ends the connection.
        """
        if self._machine.state is not ConnectionState.OPEN:
            return self.fault or self._fault(Code.SERVER_UNAVAILABLE, "it is still starting")
        self._calls += 1
        if self._subscription is not None and call.tool.result is Result.WHOLE:
            outcome = self._subscription.take(call)
            if outcome is not None:
                # Not in the owner's turn, which begins when the server says something.
                self._subscription.look(trio.current_time())
                return outcome
        self._send_call(call)
        if self._list_ends < math.inf and trio.current_time() >= self._list_ends:
            self._list_soon()
        return None

    def _send_call(self, call: PendingCall, answered: dict[str, object] | None = None) -> None:
        assert self.dialect is not None
        number = call.number = self._pending.add(call)
        call.skipped, meta = self._answers.skipped, call.meta
        if call.held is not None or call.extend is not None:
            meta = {"progressToken": number, **(meta or {})}
        message = self.dialect.call(number, call.tool, call.arguments, meta=meta, answered=answered)
        # A large line holds its arguments, so that they are not kept twice.
        call.arguments = message.arguments
        if self._between:
            self._between.pop(call, None)
        self.send(message)

    def _more(self, call: PendingCall, required: InputRequired | None) -> None:
        """A call needs another request: with what the server wants to know, or by a new list of tools."""
        call.rounds += 1
        self._between[call] = None
        if required is None:
            self._list_soon()
            return
        done = partial(self._next_round, call, required)
        call.round = InputRound(self._asked.relay, required, done, number=call.rounds, origin=call.origin)
        call.round.begin()

    def _next_round(self, call: PendingCall, required: InputRequired, answered: dict[str, Raw] | str) -> None:
        """The agent has said what the server wants to know; or a text says why not."""
        call.round = None
        if call not in self._between:
            return
        if not isinstance(answered, str):
            self._send_call(call, required.answered(answered))
            self.flush()
            return
        del self._between[call]
        call.finish(call_failed(self.server, answered))
        self._batch_done()

    def _list_soon(self) -> None:
        self._list_ends = math.inf
        self._asked.wants_list = True
        self._wake()

    def cancel(self, call: PendingCall, reason: str) -> None:
        """Stop waiting for `call` and tell the server; its `done` is not called. The connection lives on."""
        if call in self._between:
            del self._between[call]
            if call.round is not None:
                call.round.withdraw()
        elif self._link is not None and self._pending.get(call.number) is call:
            self._pending.take(call.number)
            call.noise = self._answers.noise_since(call)
            self._tell_cancelled(call.number, reason)

    def expire(self, call: PendingCall) -> None:
        """`call` ran longer than the server's `call_s`: cancel it, and give up a server that hangs.

        It does not hang where the call waits for the agent's words, or told of progress in the last half of that time.
        """
        server = self.server
        is_waiting = self._pending.get(call.number) is call
        if is_waiting:
            self._log.warning("call timed out", server=server.name, tool=call.tool.name, after_s=server.call_s)
        self.cancel(call, "timeout")
        is_silent = trio.current_time() - call.heard_at > server.call_s / 2
        if is_waiting and is_silent and server.dies_of_timeouts:
            noise = f"; {call.noise}" if call.noise else ""
            self._lose(f"a call took longer than {server.call_s:g} s{noise}")

    # --- requests ----------------------------------------------------------------------------------------------------

    def send(self, message: Outgoing) -> None:
        """Queue a message; `flush` sends it."""
        assert self._link is not None
        if self.server.traced:
            log_message(self._log, "message sent", message, len(message.line) - 1)
        self._has_queued = True
        self._link.send(message)

    def flush(self) -> None:
        """Send what is queued, as far as the server takes it now; the rest goes as it reads on."""
        self._has_queued = False
        if self._link is not None and self._is_living() and not self._link.flush():
            self._lose("it does not read its input")

    def _reply(self, message: Outgoing) -> None:
        """Send at once: an agent that was asked answers in no turn of the owner."""
        if self._is_living():
            self.send(message)
            self.flush()

    def _ask(self, method: str, params: dict[str, object]) -> PendingRequest:
        assert self.dialect is not None
        request = PendingRequest()
        request.number = self._pending.add(request)
        self.send(self.dialect.request(request.number, method, params))
        self.flush()
        return request

    def _listen(self, notifications: dict[str, object]) -> PendingRequest:
        return self._ask("subscriptions/listen", {"notifications": notifications})

    def _hear_no_more(self, request: PendingRequest) -> None:
        """End a request to listen, in the place of which there is another."""
        if self._pending.take(request.number) is not None:
            self._tell_cancelled(request.number, "superseded")

    def _tell_cancelled(self, number: int, reason: str) -> None:
        # Where the link's way of ending the request says it, the server needs no further word.
        if self._link is not None and not self._link.give_up(number) and self.dialect is not None:
            params: dict[str, object] = {"requestId": number, "reason": reason}
            self._reply(self.dialect.notification("notifications/cancelled", params))

    async def request(self, method: str, params: dict[str, object], until: float = math.inf) -> Incoming | Fault | None:
        """A request of the connection itself, and its answer; None where there is none at the time `until`.

        Raises `LinkError`. A caller that must go on after that time bounds it so, and not by cancelling: a turn that is
        cancelled may lose what it was about to deal with, which others wait for.
        """
        request = self._ask(method, params)
        try:
            while request.reply is None and trio.current_time() < until:
                await self.turn(until)
        finally:
            if self._pending.take(request.number) is not None and self._link is not None:
                # The server is not told: some of these must never be cancelled, and none of them is work.
                self._link.give_up(request.number)
        return request.reply

    # --- turns -------------------------------------------------------------------------------------------------------

    def _due(self) -> float:
        """When something is to be told, in trio's time."""
        answers, asked = self._answers.due, self._asked.due
        # Asked several times in each turn: `min` takes twice the time.
        return answers if answers < asked else asked

    async def turn(self, until: float = math.inf) -> None:
        """Wait for the server to do something, and deal with all of it. Raises `LinkError` once the server is gone."""
        due = self._due()
        self._until = until if until < due else due
        await self.link.turn(self._until)
        if self._due() == math.inf:
            return
        now = trio.current_time()
        if self._answers.due <= now:
            self._answers.tell_updates(now)
            self._batch_done()
        if self._asked.due <= now:
            self._asked.tell(now)
            self.flush()

    def _taken(self) -> None:
        """A piece of input was dealt with, in whichever task of the link read it."""
        answers = self._answers
        if answers.has_completed:
            answers.has_completed = False
            self._batch_done()
        # Without tasks of the link's own this is the owner's turn, which ends by itself.
        if self.link.is_read_beside and (answers.has_replied or self._asked.wants_list or self._due() < self._until):
            answers.has_replied = False
            self._wake()
        if self._has_queued:
            # The answers led to further calls.
            self.flush()

    def _wake(self) -> None:
        if self._link is not None:
            self._link.wake()

    # --- links -------------------------------------------------------------------------------------------------------

    @property
    def link(self) -> Link:
        assert self._link is not None
        return self._link

    async def renew(self, way: Transport) -> None:
        """Leave the link for one by `way`, which is opened. Raises `LinkError`."""
        await self._close_link()
        self._answers.renew()
        self._asked.renew()
        self._way = way
        self._link = way.link(self._answers, self._nursery)
        # A connection that was ended meanwhile needs no new server.
        await trio.lowlevel.checkpoint_if_cancelled()
        await self._link.open()

    async def _close_link(self) -> None:
        with trio.move_on_after(self._way.close_s, shield=True):
            await self.link.close()

    # --- ends --------------------------------------------------------------------------------------------------------

    def close(self, why: str = "its session is over") -> None:
        """Ask the owner to end the connection. Calls that still wait get `connection_dead`."""
        if self._is_living():
            never_up = self.state is ConnectionState.OPENING
            code = Code.SERVER_UNAVAILABLE if never_up else Code.CONNECTION_DEAD
            self._end(ConnectionEvent.CLOSE, self._fault(code, why))

    def _lose(self, why: str, extras: dict[str, object] | None = None) -> None:
        """The server failed: to come up, or while it served. Nothing where the connection has ended already."""
        if self.state is ConnectionState.OPENING:
            self._end(ConnectionEvent.FAILED, self._fault(Code.SERVER_UNAVAILABLE, why, extras))
        elif self.state is ConnectionState.OPEN:
            self._end(ConnectionEvent.DIED, self._fault(Code.CONNECTION_DEAD, why, extras))

    def _end(self, event: ConnectionEvent, fault: Fault) -> None:
        """Leave the living states: nothing is sent any more, and everything that waits is told `fault`."""
        self._machine.apply(event)
        self._has_failed = event is not ConnectionEvent.CLOSE
        self.fault = fault
        self._asked.close()
        if self._link is not None:
            self._link.drop()
        self._between.update((entry, None) for entry in self._pending.drain() if isinstance(entry, PendingCall))
        self._living.cancel()
        if not self._between:
            return
        # One by one: the end of one call may cancel another.
        while self._between:
            call = next(iter(self._between))
            del self._between[call]
            if call.round is not None:
                call.round.withdraw()
            call.finish(fault)
        self._batch_done()

    def _is_living(self) -> bool:
        # Asked several times in each turn, where the hash of a member of an enum costs more than comparing.
        state = self._machine.state
        return state is ConnectionState.OPEN or state is ConnectionState.OPENING

    def _fault(self, code: Code, why: str, extras: dict[str, object] | None = None) -> Fault:
        name = self.server.name
        shown: dict[str, object] = {"server": name, "reason": why, **(extras or {})}
        last = ""
        if self._link is not None and self._link.stderr_tail:
            shown["stderr_tail"] = self._link.stderr_tail
            # Why a server that exited with a code says it did: a warning shows one line of a fault.
            said = telling_line(self._link.stderr_tail) if self._link.ended.get("exit_code") else ""
            last = f" ({printable(said, MAX_LAST_CHARS)})" if said else ""
        is_unavailable = code is Code.SERVER_UNAVAILABLE
        what = f"server {name} is not available" if is_unavailable else f"the connection to {name} is dead"
        return Fault(code, f"{what}: {why}{last}", shown)

    def _log_end(self) -> None:
        """Log how it ended: a warning where the server failed, or ended badly when it was asked to."""
        server, ended, stderr = self.server.name, self.link.ended, self.link.stderr_tail
        is_bad = self._has_failed or ended.get("exit_code") not in _GOOD_CODES
        lately: dict[str, int] = {}
        if self._has_failed and self.fault is not None and self.fault.code is not Code.CONNECTION_DEAD:
            # It never came up: each session that is opened would write what it was.
            lately["lately"] = count = self._unavailable.note(server, trio.current_time())
            if not is_logged(count):
                return
        (self._log.warning if is_bad else self._log.info)(
            "connection ended",
            server=server,
            reason=self.fault.extras.get("reason", self.fault.detail) if self.fault else None,
            **ended,
            calls=self._calls,
            skipped_lines=self._answers.skipped,
            ignored_answers=self._answers.ignored,
            **lately,
            **({"stderr_tail": stderr} if is_bad and stderr else {}),
        )
        if stderr and not is_bad:
            self._log.debug("stderr ended", server=server, stderr_tail=stderr)
