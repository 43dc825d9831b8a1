"""The tasks of the trio client, and its channels, one after the other.

    nursery of `connect` ─┬─ read    wakes the tasks that await answers, starts a task for each question
                          ├─ write   sends the queued lines in order; no other task sends
                          └─ one for each question that a callback is answering

Only one task writes, so that cancelling a caller never leaves half a line behind. When a channel has ended, the next
request may open another (`Renewal`). A request that was made on the old one is never repeated: it may have run.
"""

import os
import socket
import stat
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
import trio

from tooldispatchd.client.conversation import (
    LAST_WORDS_S,
    NO_ANSWER,
    NO_VERDICT,
    Answer,
    Answered,
    AnswerT,
    Event,
    PendingRequests,
    Ticket,
    Updated,
    Verdict,
)
from tooldispatchd.client.errors import FaultError, lost_error
from tooldispatchd.client.shown import (
    OnShownChanged,
    OnToolsChanged,
    ShownReady,
    ShownToolsChanged,
    is_plain,
)
from tooldispatchd.wire.messages import (
    ApproveReq,
    Ask,
    EventLine,
    Ready,
    ServerNote,
    ToolResp,
    ToolsChanged,
    ToolUpdate,
)

READ_BYTES: Final = 65_536
# As much as a daemon keeps unread on its side.
MAX_UNSENT_BYTES: Final = 1024 * 1024
# Four times what a daemon asks of one agent at once.
MAX_QUESTIONS: Final = 1024

OnApprove = Callable[[ApproveReq], Awaitable[Verdict]]
OnAsk = Callable[[Ask], Awaitable[object]]
OnUpdate = Callable[[ToolUpdate], object]
OnEvent = Callable[[EventLine], object]
OnServerNote = Callable[[ServerNote], object]


class Callbacks(msgspec.Struct, frozen=True):
    """The callbacks of one agent. An exception of a callback ends the channel, as any task's error would."""

    approve: OnApprove | None = None
    ask: OnAsk | None = None
    tools_changed: OnToolsChanged | OnShownChanged | None = None
    event: OnEvent | None = None
    server_note: OnServerNote | None = None


class _Waiter:
    """One task that awaits one answer; `found` is None where the channel ended first."""

    __slots__ = ("done", "found", "on_update")

    def __init__(self, on_update: OnUpdate | None) -> None:
        self.done = trio.Event()
        self.found: Answer | FaultError | None = None
        self.on_update = on_update


class ClientExchange:
    """One conversation over one stream, and the tasks that await answers."""

    def __init__(self, stream: trio.abc.Stream, conversation: PendingRequests, nursery: trio.Nursery) -> None:
        self.conversation = conversation
        self.callbacks: dict[str | None, Callbacks] = {}
        self._stream = stream
        self._nursery = nursery
        self._waiters: dict[Ticket, _Waiter] = {}
        self._questions = 0
        self._write_error: str | None = None
        self._said = trio.Event()
        self._sent = trio.Event()
        self._over = trio.Event()

    async def room(self) -> None:
        """Wait while too much is unsent: a daemon that does not read delays callers instead of filling our memory."""
        while self.conversation.unsent_bytes > MAX_UNSENT_BYTES:
            await self._sent.wait()

    async def answer(
        self, ticket: Ticket, kind: type[AnswerT], *, agent: str | None, on_update: OnUpdate | None = None
    ) -> AnswerT:
        """Await the answer to a request that was just queued; raises `FaultError` and `ClientError`."""
        waiter = self._waiters[ticket] = _Waiter(on_update)
        self._said.set()
        try:
            await waiter.done.wait()
        finally:
            # Still in the table: this task was cancelled.
            if self._waiters.pop(ticket, None) is not None:
                self.conversation.cancel(agent, ticket)
                self._said.set()
        if waiter.found is None:
            raise lost_error(self.conversation.lost, is_call=kind is ToolResp)
        if isinstance(waiter.found, FaultError):
            raise waiter.found
        assert isinstance(waiter.found, kind), "a ticket is answered by its own port"
        return waiter.found

    def say(self) -> None:
        """Send what was just queued, and wait for no answer."""
        self._said.set()

    def lose(self, why: str) -> None:
        """End the channel: all waiting tasks are woken, and later requests fail."""
        self.conversation.end(why)
        # Emptied first: a woken task that is still in the table would cancel its call.
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters.values():
            waiter.done.set()
        self._said.set()
        self._sent.set()
        self._over.set()

    # --- the two tasks ---

    async def read(self) -> None:
        why = "the daemon closed the channel"
        try:
            while self.conversation.lost is None and (chunk := await self._stream.receive_some(READ_BYTES)):
                for event in self.conversation.receive(bytes(chunk)):
                    self._handle(event)
                # A ping among them has queued its answer.
                self._said.set()
        except trio.BrokenResourceError as error:
            why = f"cannot read from the daemon: {_reason(error)}"
        self.lose(self._write_error or why)

    async def write(self) -> None:
        while not self._over.is_set():
            # Before `take`: lines that are queued during the send set it, and are sent in the next round.
            self._said = trio.Event()
            lines = self.conversation.take()
            try:
                await self._stream.send_all(lines)
            except trio.BrokenResourceError as error:
                self._write_error = f"cannot write to the daemon: {_reason(error)}"
                # There may still be lines that the daemon wrote before it stopped reading.
                with trio.move_on_after(LAST_WORDS_S):
                    await self._over.wait()
                self.lose(self._write_error)
                return
            # All that wait for room look again: whoever comes first may fill it.
            self._sent.set()
            self._sent = trio.Event()
            await self._said.wait()

    # --- what came ---

    def _handle(self, event: Event) -> None:
        if isinstance(event, Answered):
            waiter = self._waiters.pop(event.ticket, None)
            if waiter is not None:
                waiter.found = event.answer
                waiter.done.set()
        elif isinstance(event, Updated):
            waiter = self._waiters.get(event.ticket)
            if waiter is not None and waiter.on_update is not None:
                waiter.on_update(event.update)
        elif isinstance(event, EventLine):
            on_event = self.callbacks.get(event.agent, Callbacks()).event
            if on_event is not None:
                on_event(event)
        elif isinstance(event, ServerNote):
            on_note = self.callbacks.get(event.agent, Callbacks()).server_note
            if on_note is not None:
                on_note(event)
        elif isinstance(event, ToolsChanged | ShownToolsChanged):
            changed = self.callbacks.get(event.agent, Callbacks()).tools_changed
            if changed is not None:
                changed(event.tools)  # type: ignore[arg-type]  # in the form that its hello asked for
        elif isinstance(event, ApproveReq | Ask):
            self._take_question(event)

    def _take_question(self, question: ApproveReq | Ask) -> None:
        if self._questions < MAX_QUESTIONS:
            # A task of its own: a callback may ask a person, and answers must be read meanwhile.
            self._questions += 1
            self._nursery.start_soon(self._ask, question)
        else:
            self._reply(question, NO_ANSWER)

    async def _ask(self, question: ApproveReq | Ask) -> None:
        callbacks = self.callbacks.get(question.agent, Callbacks())
        try:
            if isinstance(question, ApproveReq):
                self._reply(question, NO_VERDICT if callbacks.approve is None else await callbacks.approve(question))
            else:
                self._reply(question, NO_ANSWER if callbacks.ask is None else await callbacks.ask(question))
        finally:
            self._questions -= 1

    def _reply(self, question: ApproveReq | Ask, said: object) -> None:
        if isinstance(question, Ask):
            self.conversation.reply(question, said)
        else:
            self.conversation.approve(question, said if isinstance(said, Verdict) else NO_VERDICT)
        self._said.set()


class Opened(msgspec.Struct, frozen=True):
    """The fields of an agent's `hello`, and the channel on which it was last said."""

    fields: dict[str, object]
    exchange: ClientExchange


class Renewal:
    """The current channel of a client; `dial` gives the stream of the next one, None if there may be none."""

    exchange: ClientExchange

    def __init__(self, stream: trio.abc.Stream, dial: Callable[[], Awaitable[trio.abc.Stream]] | None) -> None:
        self.opened: dict[str | None, Opened] = {}
        self._stream = stream
        self._dial = dial
        # Of several tasks that find the channel ended, one opens the next.
        self._turn = trio.Lock()

    def start(self, nursery: trio.Nursery, conversation: PendingRequests) -> None:
        """Start the tasks of the stream; must be called first."""
        self._nursery = nursery
        self.exchange = ClientExchange(self._stream, conversation, nursery)
        nursery.start_soon(self.exchange.read)
        nursery.start_soon(self.exchange.write)

    async def channel(self) -> ClientExchange:
        """An open channel if one can be had, with room to send. Raises `ClientError`."""
        dial = self._dial
        if dial is not None:
            # Let the reader run: it may have an end of the channel to report.
            for _ in range(2):
                await trio.lowlevel.checkpoint()
            if self.exchange.conversation.lost is not None:
                async with self._turn:
                    last = self.exchange
                    # Another task may have opened it while this one waited.
                    if last.conversation.lost is not None:
                        stream = await dial()
                        await self.aclose()
                        self._stream = stream
                        self.start(self._nursery, last.conversation.renewed())
                        # Agents that have not said `hello` again may be asked as soon as they do.
                        self.exchange.callbacks = last.callbacks
        exchange = self.exchange
        await exchange.room()
        return exchange

    async def session(self, agent: str | None) -> ClientExchange:
        """As `channel`, with the agent's `hello` repeated if the channel is a new one. Raises `FaultError` too."""
        exchange = await self.channel()
        before = self.opened.get(agent)
        if before is not None and before.exchange is not exchange:
            async with self._turn:
                before = self.opened.get(agent)
                if before is not None and before.exchange is not exchange:
                    await self.greet(exchange, agent, before.fields)
        return exchange

    async def greet(self, exchange: ClientExchange, agent: str | None, fields: dict[str, object]) -> Ready | ShownReady:
        """Open an agent's session, and remember the fields."""
        said = exchange.conversation.hello(agent, **fields)
        ready: Ready | ShownReady
        if is_plain(fields["schemas"]):
            ready = await exchange.answer(said, Ready, agent=agent)
        else:
            ready = await exchange.answer(said, ShownReady, agent=agent)
        self.opened[agent] = Opened(fields, exchange)
        return ready

    def end(self) -> None:
        """End the channel, and open no other."""
        self._dial = None
        self.exchange.lose("the channel is closed")

    async def aclose(self) -> None:
        await trio.aclose_forcefully(self._stream)


def stream_on(read_fd: int, write_fd: int) -> trio.abc.Stream:
    """A stream that reads one descriptor and writes the other, and closes both; raises `OSError` if one is not open."""
    # Both before either is wrapped: closing a wrapper would close the descriptor of a caller that gets an error.
    modes = [(fd, os.fstat(fd).st_mode) for fd in (read_fd, write_fd)]
    answers, requests = (
        trio.SocketStream(trio.socket.from_stdlib_socket(socket.socket(fileno=fd)))
        if stat.S_ISSOCK(mode)
        else trio.lowlevel.FdStream(fd)
        for fd, mode in modes
    )
    return trio.StapledStream(requests, answers)


def _reason(error: trio.BrokenResourceError) -> str:
    cause = error.__cause__
    return (cause.strerror if isinstance(cause, OSError) else None) or str(cause or error)
