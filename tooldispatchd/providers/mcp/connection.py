"""One session's connection to one MCP server: a single owner task, and calls that need none.

    run ── slot ── spawn ── initialize ── tools/list ── settled ── read until it ends ── stop, reap
                                                                     ▲
    call, cancel, expire, flush, close: plain functions, from any task of the loop

A call is an entry in the pending table; the owner, which reads the server's output, completes it in place. Who waits
how long is the caller's: its deadline calls `expire` or `cancel`. What the world does becomes state, never an exception
out of `run`; a connection that ended stays ended.
"""

import math
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

import trio
from msgspec import Raw, UnsetType

from tooldispatchd.calls.connection import ConnectionEvent, ConnectionMachine, ConnectionState
from tooldispatchd.calls.outcome import Outcome, Update
from tooldispatchd.children.family import Family
from tooldispatchd.children.spawn import KILL_S, Child, Exit, SpawnError
from tooldispatchd.providers.mcp.answers import Answers, Call, Exchange
from tooldispatchd.providers.mcp.content import error_in, error_words
from tooldispatchd.providers.mcp.greeting import INITIALIZE, Greeting, read_greeting
from tooldispatchd.providers.mcp.listing import Listing
from tooldispatchd.providers.mcp.messages import call_line, call_line_with_meta, notification_line, request_line
from tooldispatchd.providers.mcp.pipes import MAX_REST_CHUNKS, Pipes
from tooldispatchd.providers.mcp.server import McpTool, Server
from tooldispatchd.providers.updates import Held
from tooldispatchd.wire.faults import Code, Fault

# A process's descriptors close microseconds before its exit can be seen; the exit is the better reason to give.
EXIT_NOTICE_S: Final = 0.02
# What a fault tells of stderr; a stack trace says most at its end.
STDERR_BYTES: Final = 4096
# Compiling a tool's schemas takes 50 µs, and 100 ms where they are as large and entangled as they may be: so it is time
# that is counted between two turns of the loop. Other agents wait so long meanwhile.
LISTING_TURN_S: Final = 0.002

LIVING: Final = frozenset({ConnectionState.OPENING, ConnectionState.OPEN})


class Log(Protocol):
    """A bound structured logger."""

    def debug(self, event: str, **fields: object) -> object:
        """Log `event` for those who look closely."""

    def info(self, event: str, **fields: object) -> object:
        """Log `event`."""


# Places for servers that open at once in the whole daemon; entering waits for one.
Slots = AbstractAsyncContextManager[object]


class HandshakeError(Exception):
    """Why a server cannot be used; `why` follows its name."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Connection:
    """A connection of one session to `server`; its life is the time in which `run` runs.

    `tools` by the server's own names, `said_name` (what the server calls itself, if anything), `instructions` and
    `warnings` (of tools that were left out) are there once `run` has called `settled`. `fault` says why it failed, was
    refused (`missing_tool`) or ended. `batch_done` is called after each turn in which calls were completed.
    """

    def __init__(
        self, server: Server, *, family: Family, opening: Slots, log: Log, batch_done: Callable[[], None]
    ) -> None:
        self.tools: dict[str, McpTool] = {}
        self.said_name: str | None = None
        self.instructions: str | None = None
        self.warnings: list[str] = []
        self.fault: Fault | None = None
        self.server = server
        self._family = family
        self._opening = opening
        self._log = log
        self._batch_done = batch_done
        self._machine = ConnectionMachine()
        self._answers = Answers(server, send=self._queue)
        self._pending = self._answers.pending
        self._living = trio.CancelScope()
        self._child: Child | None = None
        self._pipes: Pipes | None = None
        self._stage = "initialize"
        self._calls = 0

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
        to_settle = [settled]
        try:
            with self._living:
                await self._open()
                to_settle.pop()()
                while self._is_living():
                    await self._turn()
        finally:
            try:
                self.close()
                for settle in to_settle:
                    settle()
            finally:
                # Also when one of those who were told has a defect: the server must not outlive this task.
                with trio.move_on_after(self.server.polite_s + self.server.term_s + KILL_S, shield=True):
                    await self._stop()

    async def _open(self) -> None:
        async with self._opening:
            with trio.move_on_after(self.server.handshake_s) as limit:
                try:
                    await self._handshake()
                except HandshakeError as error:
                    self._lose(error.why)
            if limit.cancelled_caught:
                self._lose(f"it did not answer {self._stage} within {self.server.handshake_s:g} s")

    async def _handshake(self) -> None:
        self._spawn()
        greeting = read_greeting(await self._request("initialize", INITIALIZE))
        if isinstance(greeting, str):
            raise HandshakeError(greeting)
        self._queue(notification_line("notifications/initialized"))
        self.flush()
        self.said_name = greeting.name
        self.instructions = greeting.instructions
        listing = await self._list(greeting)
        if self.state is not ConnectionState.OPENING:
            # It ended in the very turn that brought its last answer, and has its fault: nothing has waited since.
            return None
        missing = listing.missing()
        self.warnings = listing.all_warnings()
        if missing is not None:
            detail = f"server {self.server.name} does not offer the whitelisted tool {missing}"
            extras: dict[str, object] = {"server": self.server.name, "tool": missing}
            return self._end(ConnectionEvent.FAILED, Fault(Code.MISSING_TOOL, detail, extras))
        self.tools = listing.tools
        self._machine.apply(ConnectionEvent.OPENED)
        self._log.debug("connection opened", server=self.server.name, revision=greeting.revision, tools=len(self.tools))
        return None

    def _spawn(self) -> None:
        server = self.server
        try:
            self._child = self._family.spawn(server.argv, env=server.env, cwd=server.cwd)
            self._pipes = Pipes(self._child)
        except SpawnError as error:
            raise HandshakeError(f"{error.argv0} cannot be started: {error.why}") from error
        except OSError as error:
            raise HandshakeError(f"its pipes cannot be watched: {error}") from error

    async def _list(self, greeting: Greeting) -> Listing:
        listing = Listing(self.server)
        cursor: str | None = None
        self._stage = "tools/list"
        while greeting.has_tools:
            page = listing.read_page(await self._request("tools/list", {"cursor": cursor} if cursor else {}))
            if page is None:
                raise HandshakeError("its list of tools cannot be read")
            tools, cursor = page
            await self._add_all(tools, listing)
            if cursor is None:
                break
        return listing

    async def _add_all(self, tools: list[Raw], listing: Listing) -> None:
        """Read the tools in short turns, between which the handshake's limit and the end of the server are noticed."""
        turn_ends = trio.current_time() + LISTING_TURN_S
        for raw in tools:
            listing.add(raw)
            if trio.current_time() >= turn_ends:
                await trio.lowlevel.checkpoint()
                turn_ends = trio.current_time() + LISTING_TURN_S

    async def _request(self, method: str, params: dict[str, object]) -> Raw:
        exchange = Exchange()
        self._queue(request_line(self._pending.add(exchange), method, params))
        self.flush()
        while exchange.reply is None:
            await self._turn()
        reply = exchange.reply
        if isinstance(reply, Fault):
            raise HandshakeError(f"its answer to {method} is too large")
        error = error_in(reply)
        if error is not None:
            raise HandshakeError(f"it refused {method}: {error_words(error)[0]}")
        if isinstance(reply.result, UnsetType):
            raise HandshakeError(f"its answer to {method} holds no result")
        return reply.result

    async def _turn(self) -> None:
        """Wait for the server to do something, and deal with all of it."""
        child, pipes = self._child, self._pipes
        assert child is not None
        assert pipes is not None
        ended: str | None = None
        for fd, events in await pipes.wait(self._answers.due):
            if fd == child.stdout:
                chunk = pipes.read_output()
                if chunk:
                    await self._take(chunk)
                elif chunk is not None:
                    ended = ended or "it closed its output"
            elif fd == child.stderr:
                pipes.read_errors()
            elif fd == child.pidfd:
                ended = "it ended"
            elif events & pipes.CLOSED:
                ended = ended or "it closed its input"
            else:
                self.flush()
        if self._answers.due < math.inf:
            self._tell_updates()
        if ended is not None:
            await self._bury(child, pipes, ended)

    async def _take(self, chunk: bytes) -> None:
        if await self._answers.take(chunk):
            self._batch_done()
        # The server's own requests were answered into the queue.
        self.flush()

    def _tell_updates(self) -> None:
        now = trio.current_time()
        if self._answers.due <= now:
            self._answers.tell_updates(now)
            self._batch_done()

    async def _bury(self, child: Child, pipes: Pipes, ended: str) -> None:
        """Take what a server that is ending has still said, then give it up."""
        for _ in range(MAX_REST_CHUNKS):
            chunk = pipes.read_output()
            if not chunk:
                break
            await self._take(chunk)
        with trio.move_on_after(EXIT_NOTICE_S):
            await child.exited()
        pipes.read_errors()
        exit_ = await child.kill() if child.has_exited() else None
        self._lose(ended if exit_ is None else _exit_words(exit_))

    async def _stop(self) -> None:
        """Stop the server with all that it started, and reap it; `Child.stop` cannot be cut short and is bounded."""
        child, pipes = self._child, self._pipes
        exit_: Exit | None = None
        try:
            if child is not None:
                async with trio.open_nursery() as nursery:
                    if pipes is not None:
                        nursery.start_soon(pipes.discard)
                    exit_ = await child.stop(polite_s=self.server.polite_s, term_s=self.server.term_s)
                    nursery.cancel_scope.cancel()
        finally:
            if pipes is not None:
                pipes.close()
            self._machine.apply(ConnectionEvent.GONE)
            self._log_end(exit_)

    # --- calls -------------------------------------------------------------------------------------------------------

    def call(
        self,
        tool: McpTool,
        arguments: bytes,
        done: Callable[[Outcome], None],
        *,
        traceparent: str | None = None,
        update: Callable[[Update], None] | None = None,
    ) -> int | Fault:
        """Queue a call of `tool` with `arguments`, a compact JSON object; `flush` sends it.

        `tool` is one of `tools`, or one of them with another output and `Result`. The result is the
        request's number, or why there can be none. `done` gets the outcome exactly once, from the owner's turn or
        from whichever function ends the connection, unless the request is cancelled or expires before. `update` gets
        the server's progress before that, as `updates` merges it; it must neither raise nor call the connection.
        `traceparent` is passed on as it is.
        """
        if self._machine.state is not ConnectionState.OPEN:
            return self.fault or self._fault(Code.SERVER_UNAVAILABLE, "it is still starting")
        self._calls += 1
        if update is None and traceparent is None:
            number = self._pending.add(Call(tool, done))
            self._queue(call_line(number, tool.name, arguments))
            return number
        meta: dict[str, object] = {}
        number = self._pending.add(Call(tool, done, None if update is None else Held(update)))
        if update is not None:
            meta["progressToken"] = number
        if traceparent is not None:
            meta["traceparent"] = traceparent
        self._queue(call_line_with_meta(number, tool.name, arguments, meta))
        return number

    def flush(self) -> None:
        """Send what is queued, as far as the server takes it now; the rest goes as it reads on."""
        if self._pipes is not None and self._is_living() and not self._pipes.flush():
            self._lose("it does not read its input")

    def cancel(self, request: int, reason: str) -> None:
        """Wait for `request` no more and tell the server; its `done` is not called. The connection lives on."""
        if self._pending.take(request) is not None:
            self._queue(notification_line("notifications/cancelled", {"requestId": request, "reason": reason}))
            self.flush()

    def expire(self, request: int) -> None:
        """`request` ran longer than the server's `call_s`: cancel it, and give up a server that hangs."""
        if request in self._pending:
            self.cancel(request, "timeout")
            self._lose(f"a call took longer than {self.server.call_s:g} s")

    def close(self) -> None:
        """Ask the owner to end the connection. Calls that still wait get `connection_dead`."""
        if self._is_living():
            never_up = self.state is ConnectionState.OPENING
            code = Code.SERVER_UNAVAILABLE if never_up else Code.CONNECTION_DEAD
            self._end(ConnectionEvent.CLOSE, self._fault(code, "its session is over"))

    # --- ends --------------------------------------------------------------------------------------------------------

    def _lose(self, why: str) -> None:
        """The server failed: to come up, or while it served. Nothing where the connection has ended already."""
        if self.state is ConnectionState.OPENING:
            self._end(ConnectionEvent.FAILED, self._fault(Code.SERVER_UNAVAILABLE, why))
        elif self.state is ConnectionState.OPEN:
            self._end(ConnectionEvent.DIED, self._fault(Code.CONNECTION_DEAD, why))

    def _end(self, event: ConnectionEvent, fault: Fault) -> None:
        """Leave the living states: nothing is sent any more, and everything that waits is told `fault`."""
        self._machine.apply(event)
        self.fault = fault
        if self._pipes is not None:
            self._pipes.drop()
        self._living.cancel()
        waiting = [entry for entry in self._pending.drain() if isinstance(entry, Call)]
        for entry in waiting:
            entry.finish(fault)
        if waiting:
            self._batch_done()

    def _is_living(self) -> bool:
        return self._machine.state in LIVING

    def _queue(self, line: bytes) -> None:
        if self._pipes is not None and self._is_living():
            self._pipes.queue(line)

    def _fault(self, code: Code, why: str) -> Fault:
        name = self.server.name
        extras: dict[str, object] = {"server": name, "reason": why}
        stderr_tail = self._stderr_tail()
        if stderr_tail:
            extras["stderr_tail"] = stderr_tail
        what = (
            f"server {name} is not available"
            if code is Code.SERVER_UNAVAILABLE
            else f"the connection to {name} is dead"
        )
        return Fault(code, f"{what}: {why}", extras)

    def _stderr_tail(self) -> str:
        if self._pipes is None:
            return ""
        return self._pipes.tail.text().encode()[-STDERR_BYTES:].decode(errors="ignore")

    def _log_end(self, exit_: Exit | None) -> None:
        server = self.server.name
        self._log.info(
            "connection ended",
            server=server,
            reason=self.fault.extras.get("reason") if self.fault else None,
            exit_code=exit_.code if exit_ else None,
            signal=exit_.signal if exit_ else None,
            calls=self._calls,
            skipped_lines=self._answers.skipped,
            ignored_answers=self._answers.ignored,
        )
        self._log.debug("stderr ended", server=server, stderr_tail=self._stderr_tail())


def _exit_words(exit_: Exit) -> str:
    return f"it was ended by signal {exit_.signal}" if exit_.signal is not None else f"it exited with code {exit_.code}"
