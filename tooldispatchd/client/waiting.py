"""The waiting of the blocking client: requests without an answer, and callbacks for what comes meanwhile."""

import time
from collections import deque
from collections.abc import Callable, Iterable

import msgspec

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
    ticket_of,
)
from tooldispatchd.client.duplex import Duplex
from tooldispatchd.client.errors import ClientError, FaultError, lost_error
from tooldispatchd.client.shown import OnShownChanged, OnToolsChanged, ShownToolsChanged
from tooldispatchd.wire.messages import AdminNote, ApproveReq, Ask, EventLine, ServerNote, ToolResp, ToolsChanged
from tooldispatchd.wire.messages import ToolUpdate as Update

OnApprove = Callable[[ApproveReq], Verdict]
OnAsk = Callable[[Ask], object]
OnUpdate = Callable[[Update], object]
OnEvent = Callable[[EventLine], object]
OnServerNote = Callable[[ServerNote], object]


class Callbacks(msgspec.Struct, frozen=True):
    """The callbacks of one agent."""

    approve: OnApprove | None = None
    ask: OnAsk | None = None
    tools_changed: OnToolsChanged | OnShownChanged | None = None
    event: OnEvent | None = None
    server_note: OnServerNote | None = None


class SaidHello(msgspec.Struct, frozen=True):
    """The fields of an agent's `hello`, and the number of the channel on which it was last said."""

    fields: dict[str, object]
    channel: int


class Waiting:
    """One conversation over one channel; with `again`, which gives the next socket, over as many as it takes."""

    def __init__(
        self,
        duplex: Duplex,
        conversation: PendingRequests,
        timeout_s: float,
        again: Callable[[], int] | None = None,
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
        # Requests whose answers will be asked for: the agent, and the callback for updates.
        self._expected: dict[Ticket, tuple[str | None, OnUpdate | None]] = {}
        self._last_words_until: float | None = None
        # What subscriptions were told and nobody has taken yet.
        self._notes: dict[Ticket, deque[AdminNote]] = {}

    def expect(self, ticket: Ticket, agent: str | None, on_update: OnUpdate | None) -> None:
        """Keep the answer to this ticket when it comes: `answer` or `take` will ask for it."""
        self._expected[ticket] = (agent, on_update)

    def renew(self) -> None:
        """Open the next channel if the last one has ended and there may be another; raises `ClientError`.

        Requests on the last one end without an answer. They may have run, and are not repeated.
        """
        if self._again is None:
            return
        # An end of the channel shows only when it is read.
        while self.conversation.lost is None and self._duplex.has_heard:
            self._exchange(time.monotonic() + self._timeout_s)
        if self.conversation.lost is None:
            return
        # Answers that came before the end still count.
        while self._heard:
            self._handle(self._heard.popleft())
        for ticket in self._expected:
            self._done.setdefault(ticket, lost_error(self.conversation.lost, is_call=True))
        fd = self._again()
        self._duplex.close()
        self._duplex, self._last_words_until = Duplex(fd, fd), None
        self.conversation = self.conversation.renewed()
        # Each agent compares this with the channel of its `hello`.
        self.channel += 1

    def flush(self) -> None:
        """Write all queued lines, reading what comes meanwhile."""
        until = time.monotonic() + self._timeout_s
        self._write()
        while self._duplex.has_unsent and self.conversation.lost is None:
            self._exchange(until)

    def question(self, ticket: Ticket, kind: type[AnswerT]) -> AnswerT:
        """As `answer`, without a separate `expect`."""
        self.expect(ticket, None, None)
        return self.answer(ticket, kind)

    def answer(self, ticket: Ticket, kind: type[AnswerT]) -> AnswerT:
        """Wait for the answer to one ticket; raises `FaultError` and `ClientError`, and then abandons it."""
        if ticket not in self._expected:
            raise ValueError(f"no answer is expected for ticket {ticket}")
        try:
            self.ended((ticket,), are_calls=kind is ToolResp)
            found = self.take(ticket, kind)
        except BaseException:
            # Ctrl-C or an exception of a callback too: the daemon should not go on with the call.
            self.abandon(ticket)
            raise
        if isinstance(found, FaultError):
            raise found
        return found

    def ended(self, tickets: Iterable[Ticket], *, are_calls: bool = True) -> list[Ticket]:
        """Wait until one or more of `tickets` have answers, and return these."""
        until = time.monotonic() + self._timeout_s
        while not (ended := [ticket for ticket in tickets if ticket in self._done]):
            # A callback may have called a tool, and left events of others here.
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

    def subscribe(self, ticket: Ticket) -> None:
        """Keep what the subscription of this ticket is told, for `note`."""
        self._notes[ticket] = deque()

    def note(self, ticket: Ticket, within_s: float) -> AdminNote | None:
        """The next that a subscription is told; None where it is told nothing in this time. Raises `ClientError`."""
        notes, until = self._notes[ticket], time.monotonic() + within_s
        while not notes:
            if self.conversation.lost is not None:
                raise lost_error(self.conversation.lost, is_call=False)
            try:
                self._exchange(until)
            except ClientError:
                # It has passed.
                return None
            while self._heard:
                self._handle(self._heard.popleft())
        return notes.popleft()

    def unsubscribe(self, ticket: Ticket) -> None:
        """Keep nothing more of it."""
        del self._notes[ticket]

    def abandon(self, ticket: Ticket) -> None:
        """Give up a request; a call is cancelled, with the next bytes that are written."""
        agent, _ = self._expected.pop(ticket, (None, None))
        if self._done.pop(ticket, None) is None:
            self.conversation.cancel(agent, ticket)
            self._write()

    def close(self) -> None:
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
            # A ping among them has queued its answer.
            self._write()

    # --- what came ---

    def _handle(self, event: Event) -> None:
        if isinstance(event, Answered):
            if event.ticket in self._expected:
                self._done[event.ticket] = event.answer
        elif isinstance(event, Updated):
            _, on_update = self._expected.get(event.ticket, (None, None))
            if on_update is not None:
                on_update(event.update)
        elif isinstance(event, AdminNote):
            notes = self._notes.get(ticket_of(event.id))
            if notes is not None:
                notes.append(event)
        elif isinstance(event, EventLine | ServerNote | ToolsChanged | ShownToolsChanged):
            self._tell(event)
        elif isinstance(event, ApproveReq):
            approve = self.callbacks.get(event.agent, Callbacks()).approve
            verdict = NO_VERDICT
            try:
                verdict = verdict if approve is None else approve(event)
            finally:
                # A callback that raises has approved nothing; the call must not wait for an answer.
                self.conversation.approve(event, verdict)
                self.flush()
        else:
            ask = self.callbacks.get(event.agent, Callbacks()).ask
            result: object = NO_ANSWER
            try:
                result = result if ask is None else ask(event)
            finally:
                self.conversation.reply(event, result)
                self.flush()

    def _tell(self, event: EventLine | ServerNote | ToolsChanged | ShownToolsChanged) -> None:
        callbacks = self.callbacks.get(event.agent, Callbacks())
        if isinstance(event, EventLine):
            if callbacks.event is not None:
                callbacks.event(event)
        elif isinstance(event, ServerNote):
            if callbacks.server_note is not None:
                callbacks.server_note(event)
        elif callbacks.tools_changed is not None:
            callbacks.tools_changed(event.tools)  # type: ignore[arg-type]  # in the form that its hello asked for
