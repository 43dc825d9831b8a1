"""One connection to one MCP server: a single owner task, and calls that need none.

    run ── slot ── handshake ── settled ── turns, and lists again ── until it ends ── leave nothing
                                              ▲
    call, cancel, expire, flush, close: plain functions, from any task of the loop

A call is an entry in the pending table; whoever reads the server's answer completes it in place. Who waits how long is
the caller's: its deadline calls `expire` or `cancel`. What the world does becomes state, never an exception out of
`run`; a connection that ended stays ended.
"""

import math
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final

import msgspec
import trio
from msgspec import Raw

from tooldispatchd.calls.connection import ConnectionEvent, ConnectionMachine, ConnectionState
from tooldispatchd.calls.memory import Share
from tooldispatchd.calls.outcome import Outcome, Update
from tooldispatchd.checkers.pool import Running
from tooldispatchd.providers.mcp.answers import PendingCall
from tooldispatchd.providers.mcp.asking import NOBODY, AgentSide, capabilities
from tooldispatchd.providers.mcp.conversation import Conversation, Subscription
from tooldispatchd.providers.mcp.greeting import Greeting
from tooldispatchd.providers.mcp.handshake import Handshake, HandshakeError, ServerOffer
from tooldispatchd.providers.mcp.link import LinkError, Transport
from tooldispatchd.providers.mcp.logmessages import BoundLog
from tooldispatchd.providers.mcp.remembered import Eras
from tooldispatchd.providers.mcp.rounds import InputRequired, InputRound
from tooldispatchd.providers.mcp.server import McpTool, Server
from tooldispatchd.providers.updates import Held
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.lines import Text

# A server that says all the time that its tools have changed is asked this often.
LIST_AGAIN_S: Final = 1.0

# Places for servers that open at once in the whole daemon; entering waits for one.
Slots = AbstractAsyncContextManager[object]


class Connection:
    """A connection to `server`, reached by `way`; its life is the time in which `run` runs. It holds memory of `share`.

    `tools` by the server's own names, `listed` (the names of all that it has), `ttl_s` (for how many seconds that list
    is good; 0 where the server does not say), `said_name` (what the server calls itself, if anything), `instructions`
    and `warnings` (of tools that were left out) are there once `run` has called `settled`. `fault` says why it failed,
    was refused (`missing_tool`) or ended. `batch_done` is called after each turn in which calls were completed,
    `changed` when `tools` have changed since.
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
    ) -> None:
        self.tools: dict[str, McpTool] = {}
        self.listed: tuple[str, ...] = ()
        self.said_name: str | None = None
        self.instructions: str | None = None
        self.warnings: list[str] = []
        self.ttl_s = 0.0
        self.fault: Fault | None = None
        self.server = server
        self._way = way
        self._eras = eras
        self._opening = opening
        self._checkers = checkers
        self._log = log
        self._share = share
        self._batch_done = batch_done
        self._changed = changed
        self._agent = agent
        self._machine = ConnectionMachine()
        self._living = trio.CancelScope()
        self._talk: Conversation | None = None
        self._calls = 0
        self._has_failed = False
        # When the list of tools is outdated by what the server said of it, and when it may be asked for again.
        self._list_ends = math.inf
        self._list_from = 0.0
        # Calls that wait for no answer of the server: for a new list, for the agent's words, or to be told of the end.
        self._between: dict[PendingCall, None] = {}

    @property
    def state(self) -> ConnectionState:
        """Where the connection stands."""
        return self._machine.state

    # --- the owner ---------------------------------------------------------------------------------------------------

    async def run(self, settled: Callable[[], None]) -> None:
        """Own the connection: open it, call `settled` once whatever came of that, serve, and leave nothing behind.

        Returns when the server is gone and reaped: after `close`, after its death, or after it failed to open. May be
        cancelled at any time, and then does the same.
        """
        if not self._way.needs_tasks:
            return await self._own(settled, None)
        async with trio.open_nursery() as nursery:
            await self._own(settled, nursery)
            nursery.cancel_scope.cancel()
        return None

    async def _own(self, settled: Callable[[], None], nursery: trio.Nursery | None) -> None:
        to_settle = [settled]
        talk = self._talk = Conversation(
            self.server,
            self._way,
            nursery=nursery,
            agent=self._agent,
            batch_done=self._batch_done,
            more=self._more,
            checkers=self._checkers,
            log=self._log,
            share=self._share,
        )
        handshake = Handshake(self.server, self._way, talk, self._eras)
        try:
            with self._living:
                greeting = await self._open(handshake)
                to_settle.pop()()
                if greeting is not None:
                    await self._serve(talk, handshake, greeting)
        finally:
            try:
                self.close()
                for settle in to_settle:
                    settle()
            finally:
                # Also when one of those who were told has a defect: the server must not outlive this task.
                with trio.move_on_after(talk.close_s, shield=True):
                    await talk.close()
                self._machine.apply(ConnectionEvent.GONE)
                why = self.fault.extras.get("reason", self.fault.detail) if self.fault else None
                talk.log_end(why, calls=self._calls, has_failed=self._has_failed)
                self._talk = None
                talk.forget()

    async def _open(self, handshake: Handshake) -> Greeting | None:
        greeting: Greeting | None = None
        async with self._opening:
            with trio.move_on_after(self.server.handshake_s) as limit:
                try:
                    greeting = await handshake.greet(capabilities(self._agent))
                    self.said_name = greeting.name
                    self.instructions = greeting.instructions
                    self._opened(greeting, await handshake.list_all(greeting))
                except (HandshakeError, LinkError) as error:
                    self._lose(error.why, error.extras)
            if limit.cancelled_caught:
                self._lose(f"it did not answer {handshake.stage} within {self.server.handshake_s:g} s")
        return greeting if self.state is ConnectionState.OPEN else None

    def _opened(self, greeting: Greeting, found: ServerOffer) -> None:
        if self.state is not ConnectionState.OPENING:
            # It ended in the very turn that brought its last answer, and has its fault: nothing has waited since.
            return
        self.listed = found.listed
        self.warnings = found.warnings
        if found.missing is not None:
            detail = f"server {self.server.name} does not offer the whitelisted tool {found.missing}"
            extras: dict[str, object] = {"server": self.server.name, "tool": found.missing}
            self._end(ConnectionEvent.FAILED, Fault(Code.MISSING_TOOL, detail, extras))
            return
        self._adopt(found)
        self._machine.apply(ConnectionEvent.OPENED)
        self._log.debug("connection opened", server=self.server.name, revision=greeting.revision, tools=len(self.tools))

    def _adopt(self, found: ServerOffer) -> None:
        self.tools = found.tools
        self.listed = found.listed
        self.warnings = found.warnings
        self.ttl_s = found.ttl_s
        self._listed(trio.current_time())

    def _listed(self, now: float) -> None:
        self._list_ends = now + self.ttl_s if self.ttl_s > 0 else math.inf

    async def _serve(self, talk: Conversation, handshake: Handshake, greeting: Greeting) -> None:
        """Turn until the connection ends; list again when the server has said that its tools changed."""
        try:
            subscription = Subscription(talk) if _is_told_on_request(talk, greeting) else None
            while self._is_living():
                look_at = math.inf if subscription is None else subscription.look(trio.current_time())
                await talk.turn(min(self._list_from, look_at) if talk.asked.wants_list else look_at)
                if talk.asked.wants_list and trio.current_time() >= self._list_from and self._is_living():
                    await self._list_again(talk, handshake, greeting)
        except LinkError as error:
            self._lose(error.why, error.extras)

    async def _list_again(self, talk: Conversation, handshake: Handshake, greeting: Greeting) -> None:
        talk.asked.wants_list = False
        self._list_from = trio.current_time() + LIST_AGAIN_S
        before = self.tools
        try:
            # Not cut short by cancelling, as answers to calls come in the same turns.
            self._adopt(await handshake.list_all(greeting, trio.current_time() + self.server.handshake_s))
        except HandshakeError as error:
            self._log.warning("tools not listed again", reason=error.why)
            self._listed(trio.current_time())
        if not self._is_living():
            return
        if before != self.tools:
            self._changed()
        for call in [call for call in self._between if call.round is None]:
            # By the new list, which may say otherwise what goes into the headers; all else stays as it was called.
            listed = self.tools.get(call.tool.name, call.tool)
            call.tool = msgspec.structs.replace(call.tool, params=listed.params)
            self._send(call)
        talk.flush()

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
        """Queue a call of `tool` with `arguments`, a compact JSON object; `flush` sends it.

        `tool` is one of `tools`, or one of them with another output and `Result`. The result is the call that waits,
        or why there can be none. `done` gets the outcome exactly once, from the owner's turn or from whichever
        function ends the connection, unless the call is cancelled or expires before. `update` gets the server's
        progress before that, as `updates` merges it; it must neither raise nor call the connection. `traceparent` is
        passed on as it is.
        """
        held = None if update is None else Held(update)
        call = PendingCall(tool, done, held, arguments, None if traceparent is None else {"traceparent": traceparent})
        return self.start(call) or call

    def start(self, call: PendingCall) -> Fault | None:
        """Queue a call that was made before; why there can be none. As `call`."""
        if self._machine.state is not ConnectionState.OPEN:
            return self.fault or self._fault(Code.SERVER_UNAVAILABLE, "it is still starting")
        self._calls += 1
        self._send(call)
        if self._list_ends < math.inf and trio.current_time() >= self._list_ends:
            self._list_soon()
        return None

    def _send(self, call: PendingCall, answered: dict[str, object] | None = None) -> None:
        talk = self._talk
        assert talk is not None
        assert talk.dialect is not None
        self._between.pop(call, None)
        number = call.number = talk.answers.pending.add(call)
        meta = call.meta
        if call.held is not None:
            meta = {"progressToken": number, **(meta or {})}
        message = talk.dialect.call(number, call.tool, call.arguments, meta=meta, answered=answered)
        call.arguments = message.arguments
        talk.send(message)

    def _more(self, call: PendingCall, required: InputRequired | None) -> None:
        """A call needs another request: with what the server wants to know, or by a new list of tools."""
        talk = self._talk
        assert talk is not None
        call.rounds += 1
        self._between[call] = None
        if required is None:
            self._list_soon()
            return
        done = partial(self._next_round, call, required)
        call.round = InputRound(talk.asked.relay, required, done, number=call.rounds)
        call.round.begin()

    def _next_round(self, call: PendingCall, required: InputRequired, answered: dict[str, Raw] | str) -> None:
        """The agent has said what the server wants to know; or a text says why not."""
        call.round = None
        if call not in self._between:
            return
        if isinstance(answered, str):
            self._give_back(call, answered)
        else:
            self._send(call, required.answered(answered))
            self.flush()

    def _give_back(self, call: PendingCall, why: str) -> None:
        self._between.pop(call, None)
        detail = f"the call failed at server {self.server.name}: {why}"
        call.finish(Fault(Code.TOOL_FAILED, detail, {"server": self.server.name, "reason": why}))
        self._batch_done()

    def _list_soon(self) -> None:
        if self._talk is not None:
            self._list_ends = math.inf
            self._talk.asked.wants_list = True
            self._talk.link.wake()

    def flush(self) -> None:
        """Send what is queued, as far as the server takes it now; the rest goes as it reads on."""
        if self._talk is not None and self._is_living() and not self._talk.flush():
            self._lose("it does not read its input")

    def cancel(self, call: PendingCall, reason: str) -> None:
        """Wait for `call` no more and tell the server; its `done` is not called. The connection lives on."""
        if call in self._between:
            del self._between[call]
            if call.round is not None:
                call.round.withdraw()
        elif self._talk is not None and self._is_pending(call):
            self._talk.answers.pending.take(call.number)
            self._talk.give_up(call.number, reason)

    def expire(self, call: PendingCall) -> None:
        """`call` ran longer than the server's `call_s`: cancel it, and give up a server that hangs.

        One that waits for the agent's words does not hang.
        """
        is_hanging = self._is_pending(call)
        if is_hanging:
            server = self.server
            self._log.warning("call timed out", server=server.name, tool=call.tool.name, after_s=server.call_s)
        self.cancel(call, "timeout")
        if is_hanging and self.server.dies_of_timeouts:
            self._lose(f"a call took longer than {self.server.call_s:g} s")

    def _is_pending(self, call: PendingCall) -> bool:
        return self._talk is not None and self._talk.answers.pending.get(call.number) is call

    def close(self) -> None:
        """Ask the owner to end the connection. Calls that still wait get `connection_dead`."""
        if self._is_living():
            never_up = self.state is ConnectionState.OPENING
            code = Code.SERVER_UNAVAILABLE if never_up else Code.CONNECTION_DEAD
            self._end(ConnectionEvent.CLOSE, self._fault(code, "its session is over"))

    # --- ends --------------------------------------------------------------------------------------------------------

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
        if self._talk is not None:
            self._talk.drop()
            waiting = self._talk.answers.pending.drain()
            self._between.update((entry, None) for entry in waiting if isinstance(entry, PendingCall))
        self._living.cancel()
        if not self._between:
            return
        # One by one: whoever is told of a call's end may cancel another.
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
        if self._talk is not None and self._talk.link.stderr_tail:
            shown["stderr_tail"] = self._talk.link.stderr_tail
        what = (
            f"server {name} is not available"
            if code is Code.SERVER_UNAVAILABLE
            else f"the connection to {name} is dead"
        )
        last = "" if self._talk is None else self._talk.last_words
        return Fault(code, f"{what}: {why}{last}", shown)


def _is_told_on_request(talk: Conversation, greeting: Greeting) -> bool:
    return talk.dialect is not None and talk.dialect.is_modern and greeting.tools_list_changed
