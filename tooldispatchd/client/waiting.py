"""The waiting of the blocking client: who waits for what on a channel, and who is asked meanwhile."""

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import msgspec

from tooldispatchd.client.conversation import (
    Answer,
    Answered,
    Changed,
    Event,
    FailedTicket,
    PendingRequests,
    Ticket,
    Updated,
    Verdict,
)
from tooldispatchd.client.duplex import Duplex
from tooldispatchd.client.errors import ClientError, FaultError, lost_error
from tooldispatchd.client.questions import NO_ANSWER, NO_VERDICT
from tooldispatchd.client.shown import OnShownChanged, OnToolsChanged, ShownReady, ShownTools, ShownToolsChanged
from tooldispatchd.wire.messages import ApproveReq, Ask, Bye, Pong, Ready, ToolResp, Tools, ToolsChanged
from tooldispatchd.wire.messages import ToolUpdate as Update

# How long a daemon that reads no more may go on speaking.
LAST_WORDS_S: Final = 5.0

AnswerT = TypeVar("AnswerT", Ready, ShownReady, ToolResp, Tools, ShownTools, Pong, Bye)
OnApprove = Callable[[ApproveReq], Verdict]
OnAsk = Callable[[Ask], object]
OnUpdate = Callable[[Update], object]


class Callbacks(msgspec.Struct, frozen=True):
    """Whom to ask on behalf of one agent."""

    approve: OnApprove | None = None
    ask: OnAsk | None = None
    tools_changed: OnToolsChanged | OnShownChanged | None = None


class SaidHello(msgspec.Struct, frozen=True):
    """What the `hello` of an agent said, and on which channel it last did."""

    fields: dict[str, object]
    channel: int


class Waiting:
    """One conversation over one pair of descriptors; with `again`, which gives another pair, as many as it takes."""

    def __init__(
        self,
        duplex: Duplex,
        conversation: PendingRequests,
        timeout_s: float,
        again: Callable[[], Duplex] | None = None,
    ) -> None:
        self.conversation = conversation
        self.hellos: dict[str | None, SaidHello] = {}
        self.channel = 1
        self._again = again
        self.callbacks: dict[str | None, Callbacks] = {}
        self._duplex = duplex
        self._timeout_s = timeout_s
        self._heard: deque[Event] = deque()
        self._done: dict[Ticket, Answer | FaultError | ClientError] = {}
        # Those whose answers somebody will ask for: the agent, and whom an update is for.
        self._expected: dict[Ticket, tuple[str | None, OnUpdate | None]] = {}
        self._last_words_until: float | None = None

    def expect(self, ticket: Ticket, agent: str | None, on_update: OnUpdate | None) -> None:
        """Keep the answer of a call for who will ask for it."""
        self._expected[ticket] = (agent, on_update)

    def renew(self) -> None:
        """Have another channel where the last one is lost and there may be one; raises `ClientError`.

        What was asked on the last one has no answer: it may have been done, and is not asked again.
        """
        if self._again is None:
            return
        # A channel that has ended since looks well until it is read.
        while self.conversation.lost is None and self._duplex.has_heard:
            self._exchange(time.monotonic() + self._timeout_s)
        if self.conversation.lost is None:
            return
        while self._heard:
            self._handle(self._heard.popleft())
        for ticket in self._expected:
            self._done.setdefault(ticket, lost_error(self.conversation.lost, is_call=True))
        duplex = self._again()
        self._duplex.close()
        self._duplex, self._last_words_until = duplex, None
        self.conversation = self.conversation.renewed()
        self.channel += 1

    def flush(self) -> None:
        """Write all that was said, taking what comes meanwhile."""
        until = time.monotonic() + self._timeout_s
        self._write()
        while self._duplex.has_unsent and self.conversation.lost is None:
            self._exchange(until)

    def question(self, ticket: Ticket, kind: type[AnswerT]) -> AnswerT:
        """As `answer`, for what is asked and waited for in one step."""
        self.expect(ticket, None, None)
        return self.answer(ticket, kind)

    def answer(self, ticket: Ticket, kind: type[AnswerT]) -> AnswerT:
        """Wait for the answer to one ticket; raises `FaultError` and `ClientError`, and then wants it no more."""
        if ticket not in self._expected:
            raise ValueError(f"no answer is owed to ticket {ticket}")
        try:
            self.ended((ticket,), are_calls=kind is ToolResp)
            found = self.take(ticket, kind)
        except BaseException:
            self.abandon(ticket)
            raise
        if isinstance(found, FaultError):
            raise found
        return found

    def ended(self, tickets: Iterable[Ticket], *, are_calls: bool = True) -> list[Ticket]:
        """Wait until one or more of `tickets` have their answers; those that have."""
        until = time.monotonic() + self._timeout_s
        while not (ended := [ticket for ticket in tickets if ticket in self._done]):
            if not self._heard:
                if self.conversation.lost is not None:
                    raise lost_error(self.conversation.lost, is_call=are_calls)
                self._exchange(until)
            while self._heard:
                self._handle(self._heard.popleft())
        return ended

    def take(self, ticket: Ticket, kind: type[AnswerT]) -> AnswerT | FaultError:
        """The answer of a ticket that has ended."""
        del self._expected[ticket]
        found = self._done.pop(ticket)
        if isinstance(found, ClientError):
            raise found
        assert isinstance(found, kind | FaultError), "a ticket is answered by its own port"
        return found

    def abandon(self, ticket: Ticket) -> None:
        """Wait no more for an answer; a call is cancelled, which is said with whatever is said next."""
        agent, _ = self._expected.pop(ticket, (None, None))
        if self._done.pop(ticket, None) is None:
            self.conversation.cancel(agent, ticket)
            self._write()

    def close(self) -> None:
        """End the channel."""
        self.conversation.end("the channel is closed")
        self._duplex.close()

    # --- moving bytes ---

    def _write(self) -> None:
        self._duplex.write(self.conversation.take())

    def _exchange(self, until: float) -> None:
        self._write()
        if self._duplex.write_error is not None and self._last_words_until is None:
            self._last_words_until = time.monotonic() + LAST_WORDS_S
        try:
            chunk = self._duplex.exchange(min(until, self._last_words_until or until))
        except TimeoutError:
            if self._duplex.write_error is None:
                raise ClientError(f"the daemon did not answer within {self._timeout_s:g} s") from None
            chunk = None
        except OSError as error:
            self.conversation.end(f"cannot read from the daemon: {error.strerror}")
            return
        if chunk is None:
            why = self._duplex.write_error
            self.conversation.end(f"cannot write to the daemon: {why}" if why else "the daemon closed the channel")
        else:
            self._heard.extend(self.conversation.receive(chunk))
            self._write()

    # --- what came ---

    def _handle(self, event: Event) -> None:
        if isinstance(event, Answered | FailedTicket):
            if event.ticket in self._expected:
                self._done[event.ticket] = event.answer if isinstance(event, Answered) else event.fault
        elif isinstance(event, Updated):
            _, on_update = self._expected.get(event.ticket, (None, None))
            if on_update is not None:
                on_update(event.update)
        else:
            self._ask(event)

    def _ask(self, event: Changed | ApproveReq | Ask) -> None:
        callbacks = self.callbacks.get(event.agent, Callbacks())
        if isinstance(event, ToolsChanged | ShownToolsChanged):
            if callbacks.tools_changed is not None:
                callbacks.tools_changed(event.tools)  # type: ignore[arg-type]  # in the form that its hello asked for
        elif isinstance(event, ApproveReq):
            verdict = NO_VERDICT
            try:
                verdict = verdict if callbacks.approve is None else callbacks.approve(event)
            finally:
                # A callback that raises has approved nothing; the call must not wait for it.
                self.conversation.approve(event, verdict)
                self.flush()
        else:
            result: object = NO_ANSWER
            try:
                result = result if callbacks.ask is None else callbacks.ask(event)
            finally:
                self.conversation.reply(event, result)
                self.flush()
