"""The tasks of the trio client: one reads, one writes, and each that awaits an answer is woken by it.

    nursery of `connect` ─┬─ read    lines to who awaits them, questions to tasks of their own
                          ├─ write   what was said, in its order; no other task sends
                          └─ one for each question that a callback is thinking about

Nobody else writes, so a task that is cancelled leaves no half of a line behind.
"""

import os
import socket
import stat
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import msgspec
import trio

from tooldispatchd.client.conversation import (
    Answer,
    Answered,
    Event,
    FailedTicket,
    PendingRequests,
    Ticket,
    Updated,
    Verdict,
)
from tooldispatchd.client.errors import FaultError, lost_error
from tooldispatchd.client.questions import NO_ANSWER, NO_VERDICT
from tooldispatchd.client.shown import OnShownChanged, OnToolsChanged, ShownReady, ShownTools, ShownToolsChanged
from tooldispatchd.wire.messages import (
    ApproveReq,
    Ask,
    Bye,
    Pong,
    Ready,
    ToolResp,
    Tools,
    ToolsChanged,
    ToolUpdate,
)

READ_BYTES: Final = 65_536
# As much as a daemon lets lie unread on its side.
MAX_UNSENT_BYTES: Final = 1024 * 1024
# How long a daemon that reads no more may go on speaking.
LAST_WORDS_S: Final = 5.0
# Four times what a daemon asks of one agent at once.
MAX_QUESTIONS: Final = 1024

AnswerT = TypeVar("AnswerT", Ready, ShownReady, ToolResp, Tools, ShownTools, Pong, Bye)
OnApprove = Callable[[ApproveReq], Awaitable[Verdict]]
OnAsk = Callable[[Ask], Awaitable[object]]
OnUpdate = Callable[[ToolUpdate], object]


class Callbacks(msgspec.Struct, frozen=True):
    """Whom to ask on behalf of one agent. What a callback raises ends the channel, as any task's error would."""

    approve: OnApprove | None = None
    ask: OnAsk | None = None
    tools_changed: OnToolsChanged | OnShownChanged | None = None


class _Waiter:
    """One task that awaits one answer; `found` is None where the channel ended first."""

    __slots__ = ("done", "found", "on_update")

    def __init__(self, on_update: OnUpdate | None) -> None:
        self.done = trio.Event()
        self.found: Answer | FaultError | None = None
        self.on_update = on_update


class ClientExchange:
    """One conversation over one stream, and who awaits what."""

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
        """Wait until more may be said: a daemon that does not read holds up those who speak, not our memory."""
        while self.conversation.unsent_bytes > MAX_UNSENT_BYTES:
            await self._sent.wait()

    async def answer(
        self, ticket: Ticket, kind: type[AnswerT], *, agent: str | None, on_update: OnUpdate | None = None
    ) -> AnswerT:
        """Await the answer to what was just said; raises `FaultError` and `ClientError`."""
        waiter = self._waiters[ticket] = _Waiter(on_update)
        self._said.set()
        try:
            await waiter.done.wait()
        finally:
            # Who is cancelled is in the table still.
            if self._waiters.pop(ticket, None) is not None:
                self.conversation.cancel(agent, ticket)
                self._said.set()
        if waiter.found is None:
            raise lost_error(self.conversation.lost, is_call=kind is ToolResp)
        if isinstance(waiter.found, FaultError):
            raise waiter.found
        assert isinstance(waiter.found, kind), "a ticket is answered by its own port"
        return waiter.found

    def lose(self, why: str) -> None:
        """The channel is no more: everyone who waits is told at once, and so is everyone who asks later."""
        self.conversation.end(why)
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters.values():
            waiter.done.set()
        self._said.set()
        self._sent.set()
        self._over.set()

    # --- the two tasks ---

    async def read(self) -> None:
        """Hear the daemon until the channel ends."""
        why = "the daemon closed the channel"
        try:
            while self.conversation.lost is None and (chunk := await self._stream.receive_some(READ_BYTES)):
                for event in self.conversation.receive(bytes(chunk)):
                    self._handle(event)
                self._said.set()
        except trio.BrokenResourceError as error:
            why = f"cannot read from the daemon: {_reason(error)}"
        self.lose(self._write_error or why)

    async def write(self) -> None:
        """Send what is said until the channel ends."""
        while not self._over.is_set():
            self._said = trio.Event()
            lines = self.conversation.take()
            try:
                await self._stream.send_all(lines)
            except trio.BrokenResourceError as error:
                self._write_error = f"cannot write to the daemon: {_reason(error)}"
                # What the daemon said before it stopped reading may lie there still.
                with trio.move_on_after(LAST_WORDS_S):
                    await self._over.wait()
                self.lose(self._write_error)
                return
            self._sent.set()
            self._sent = trio.Event()
            await self._said.wait()

    # --- what came ---

    def _handle(self, event: Event) -> None:
        if isinstance(event, Answered | FailedTicket):
            waiter = self._waiters.pop(event.ticket, None)
            if waiter is not None:
                waiter.found = event.answer if isinstance(event, Answered) else event.fault
                waiter.done.set()
        elif isinstance(event, Updated):
            waiter = self._waiters.get(event.ticket)
            if waiter is not None and waiter.on_update is not None:
                waiter.on_update(event.update)
        elif isinstance(event, ToolsChanged | ShownToolsChanged):
            changed = self.callbacks.get(event.agent, Callbacks()).tools_changed
            if changed is not None:
                changed(event.tools)  # type: ignore[arg-type]  # in the form that its hello asked for
        elif self._questions < MAX_QUESTIONS:
            self._questions += 1
            self._nursery.start_soon(self._ask, event)
        else:
            self._reply(event, NO_ANSWER)

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


def stream_on(read_fd: int, write_fd: int) -> trio.abc.Stream:
    """A stream that reads one descriptor and writes the other, and closes both; raises `OSError` if one is not open."""
    are_sockets = [stat.S_ISSOCK(os.fstat(fd).st_mode) for fd in (read_fd, write_fd)]
    answers, requests = map(_one_way, (read_fd, write_fd), are_sockets)
    return trio.StapledStream(requests, answers)


def _one_way(fd: int, is_socket: bool) -> trio.abc.Stream:  # noqa: FBT001  # said by position in one place, above
    if is_socket:
        return trio.SocketStream(trio.socket.from_stdlib_socket(socket.socket(fileno=fd)))
    return trio.lowlevel.FdStream(fd)


def _reason(error: trio.BrokenResourceError) -> str:
    cause = error.__cause__
    return (cause.strerror if isinstance(cause, OSError) else None) or str(cause or error)
