"""One channel as its agent sees it, without I/O: what to send, and what each line of the daemon is about.

    hello, call, … ─▶ Ticket          take ─▶ bytes to send
    bytes ─▶ receive ─▶ events        `Answered` and `FailedTicket` bear the ticket of what they answer

Every answer that the protocol owes finds its ticket: a call by its id, a ping by its `t`, any other question by the
number of its line where it was refused, else by its port and its agent, oldest first. What nobody waits for is passed
over. `PendingRequests` is not thread-safe; the two clients stand on it and add the waiting.
"""

from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tooldispatchd.client.errors import ClientError, FaultError, fault_of
from tooldispatchd.client.reading import Reply, decoded, read_as, read_line
from tooldispatchd.client.shown import (
    PLAIN,
    ShownReady,
    ShownTools,
    ShownToolsChanged,
    is_plain,
    read_changed,
    read_ready,
    read_tools,
)
from tooldispatchd.wire.lines import LineCutter, LongLine
from tooldispatchd.wire.messages import (
    ApproveReq,
    Ask,
    Bye,
    FaultLine,
    Ping,
    Pong,
    Ready,
    ReadyLine,
    ToolResp,
    Tools,
    ToolsChanged,
    ToolsChangedLine,
    ToolsLine,
    ToolUpdate,
)

# The largest answer that a daemon with its default limits gives, in JSON: a quote or a newline takes two bytes.
MAX_LINE_BYTES: Final = 2 * 64 * 1024 * 1024 + 1024

Ticket = int
Answer = Ready | ShownReady | ToolResp | Tools | ShownTools | Pong | Bye


class Call(msgspec.Struct, frozen=True):
    """One call to be made: `input` is any value that msgspec can write as JSON, or `Raw` JSON, or left out.

    `deadline_ms` is the most time for waiting and running; `background` starts a job, and the answer is its name;
    `traceparent` is W3C Trace Context.
    """

    name: str
    input: object = UNSET
    deadline_ms: float | None = None
    background: bool = False
    traceparent: str | None = None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent says to `approve_req`: `remember` asks the daemon not to ask for the like again."""

    allow: bool
    reason: str | None = None
    remember: bool = False


class Refusal(msgspec.Struct, frozen=True):
    """What an agent says to an `ask` that it does not answer, and why."""

    why: str


class Answered(msgspec.Struct, frozen=True):
    """What a ticket waited for has come; a call's own error is one too, with `is_error`."""

    ticket: Ticket
    answer: Answer


class FailedTicket(msgspec.Struct, frozen=True):
    """The daemon answered a ticket with a fault."""

    ticket: Ticket
    fault: FaultError


class Updated(msgspec.Struct, frozen=True):
    """How far a call is."""

    ticket: Ticket
    update: ToolUpdate


Changed = ToolsChanged | ShownToolsChanged
Event = Answered | FailedTicket | Updated | Changed | ApproveReq | Ask


# The port that answers a question, and the agent that asked.
_Answerer = tuple[str, str | None]


class _Waiting(msgspec.Struct, frozen=True):
    """A line that is owed an answer; a call's is found by its id. `shown` where it asked for a provider's form."""

    ticket: Ticket
    line: int
    answerer: _Answerer | None = None
    shown: bool = False


_PONG: Final = ("pong", None)
_encode: Final = msgspec.json.Encoder().encode
_decode_fields: Final = msgspec.json.Decoder(dict[str, object]).decode
_decode_t: Final = msgspec.json.Decoder(int).decode


class PendingRequests:
    """What was asked and is not answered yet.

    `lost` is why nothing more can be asked, once the channel has ended; `unsent_bytes` is what `take` would give.
    `is_shared` where somebody else writes to the channel too, as `run` does: the daemon then counts other lines than
    ours, and a fault without an id is for the oldest question of its agent.
    """

    def __init__(self, *, max_line_bytes: int = MAX_LINE_BYTES, is_shared: bool = False) -> None:
        self.lost: str | None = None
        self._is_shared = is_shared
        self._max_line_bytes = max_line_bytes
        self._cutter = LineCutter(max_line_bytes)
        self._out: list[bytes] = []
        self.unsent_bytes = 0
        self._line = 0
        self._ticket = 0
        # Each line that waits for an answer, by its number on the channel: what a `fault` names.
        self._waiting: dict[int, _Waiting] = {}
        self._calls: dict[Ticket, _Waiting] = {}
        # The other questions, oldest first.
        self._questions: dict[_Answerer, deque[_Waiting]] = {}
        # Of each agent whose session was opened here, whether its tools come in a provider's form.
        self._shown: dict[str | None, bool] = {}
        self._last_words: FaultError | None = None

    def renewed(self) -> "PendingRequests":
        """The conversation on the next channel to the daemon; its tickets follow these."""
        following = PendingRequests(max_line_bytes=self._max_line_bytes, is_shared=self._is_shared)
        following._ticket = self._ticket
        return following

    # --- what the agent says ---

    def hello(self, agent: str | None, **fields: object) -> Ticket:
        """Open a session; answered by `Ready`, and by `ShownReady` where `schemas` is a provider's form.

        `fields` are those of `hello`; None leaves one out.
        """
        return self._question("ready", agent, {"__port": "hello", "agent": agent, **fields})

    def tools(self, agent: str | None, *, schemas: str | None) -> Ticket:
        """Ask for the tools; answered by `Tools`, and by `ShownTools` where `schemas` is a provider's form.

        No form is the plain one, whichever the session was opened with: who opened it may have been another (`run`).
        """
        return self._question("tools", agent, {"__port": "tools", "agent": agent, "schemas": schemas or PLAIN})

    def ping(self) -> Ticket:
        """See whether the daemon is there; answered by `Pong`."""
        return self._question("pong", None, {"__port": "ping", "t": self._ticket + 1})

    def bye(self, agent: str | None) -> Ticket:
        """End a session; answered by `Bye` when nothing of it is left."""
        return self._question("bye", agent, {"__port": "bye", "agent": agent})

    def call(self, agent: str | None, call: Call) -> Ticket:
        """Call a tool; answered by `ToolResp`. Raises what msgspec raises for an input that is no JSON."""
        ticket = self._ticket + 1
        fields = {
            "__port": "tool_req",
            "id": str(ticket),
            "agent": agent,
            "name": call.name,
            "deadline_ms": call.deadline_ms,
            "background": call.background or None,
            "traceparent": call.traceparent,
            "input": _written(call.input),
        }
        self._calls[ticket] = self._ask(fields, None)
        return ticket

    def cancel(self, agent: str | None, ticket: Ticket) -> None:
        """Want a call no more: it is still answered. One that has been answered is left alone."""
        if ticket in self._calls and self.lost is None:
            self._say({"__port": "tool_cancel", "id": str(ticket), "agent": agent})

    def approve(self, asked: ApproveReq, verdict: Verdict) -> None:
        """Answer an `approve_req`."""
        fields = {"allow": verdict.allow, "reason": verdict.reason, "remember": verdict.remember or None}
        self._reply({"__port": "approve_resp", "id": asked.id, "agent": asked.agent, **fields})

    def reply(self, asked: Ask, result: object) -> None:
        """Answer an `ask`, with any JSON or with a `Refusal`."""
        field = {"refuse": result.why} if isinstance(result, Refusal) else {"result": _written(result)}
        self._reply({"__port": "ask_resp", "id": asked.id, "agent": asked.agent, **field})

    def take(self) -> bytes:
        """The lines to send; there are none until more is said."""
        lines = b"".join(self._out)
        self._out.clear()
        self.unsent_bytes = 0
        return lines

    def _question(self, answer: str, agent: str | None, fields: Mapping[str, object]) -> Ticket:
        waiting = self._ask(fields, (answer, agent), shown=not is_plain(fields.get("schemas")))
        self._questions.setdefault((answer, agent), deque()).append(waiting)
        return waiting.ticket

    def _ask(self, fields: Mapping[str, object], answerer: _Answerer | None, *, shown: bool = False) -> _Waiting:
        self._say(fields)
        self._ticket += 1
        waiting = self._waiting[self._line] = _Waiting(self._ticket, self._line, answerer, shown)
        return waiting

    def _reply(self, fields: Mapping[str, object]) -> None:
        # Who asked is gone with the channel, and waits for nothing.
        if self.lost is None:
            self._say(fields)

    def _say(self, fields: Mapping[str, object]) -> None:
        """Nothing has changed where the fields cannot be encoded, or nobody listens any more."""
        if self.lost is not None:
            raise ClientError(self.lost)
        line = _encode({name: value for name, value in fields.items() if value is not None})
        if b"\n" in line:
            # Only `Raw` can bring one in: JSON may stand on several lines, a request may not.
            line = _encode(msgspec.json.decode(line))
        self._out.append(line + b"\n")
        self.unsent_bytes += len(line) + 1
        self._line += 1

    # --- what the daemon says ---

    def receive(self, chunk: bytes) -> list[Event]:
        """What the lines that `chunk` completes are about; a line that no daemon says ends the conversation."""
        events: list[Event] = []
        for line in self._cutter.cut(chunk) if self.lost is None else ():
            try:
                event = self._hear(line)
            except ClientError as error:
                self.end(str(error))
                break
            if event is not None:
                events.append(event)
        return events

    def end(self, why: str) -> None:
        """The channel is no more: nothing that waits will be answered, and nothing can be asked; `lost` says why."""
        if self.lost is None:
            self.lost = why if self._last_words is None else f"{why}; it last said: {self._last_words}"
            self.take()
            self._waiting.clear()
            self._calls.clear()
            self._questions.clear()
            self._shown.clear()

    def _hear(self, line: bytes | bytearray | LongLine) -> Event | None:
        """What one line is about; None where nobody waits for it. Raises `ClientError` for what no daemon says."""
        if isinstance(line, LongLine):
            raise ClientError("the daemon sent a line that is too long")
        line = bytes(line)
        said = read_line(line)
        if said is None:
            return None
        if isinstance(said, ToolResp):
            return self._answered(said)
        if isinstance(said, FaultLine):
            return self._fault(said, FaultError(read_as(_decode_fields, line)))
        if isinstance(said, ToolUpdate):
            call = _ticket_of(said.id)
            return Updated(call, said) if call in self._calls else None
        if isinstance(said, ApproveReq | Ask):
            return said
        if isinstance(said, ToolsChangedLine):
            return self._changed(said)
        if isinstance(said, Ping):
            self._reply({"__port": "pong"} if said.t is UNSET else {"__port": "pong", "t": said.t})
            return None
        if isinstance(said, Pong):
            return self._ponged(said)
        return self._close((str(said.__struct_config__.tag), said.agent), said)

    def _answered(self, answer: ToolResp) -> Event | None:
        waiting = self._calls.pop(_ticket_of(answer.id), None)
        if waiting is None:
            return None
        del self._waiting[waiting.line]
        return FailedTicket(waiting.ticket, fault_of(answer)) if answer.fault else Answered(waiting.ticket, answer)

    def _ponged(self, pong: Pong) -> Event | None:
        try:
            ticket = 0 if isinstance(pong.t, UnsetType) else _decode_t(pong.t)
        except msgspec.DecodeError:
            return None
        # Pongs come in the order of their pings.
        first = self._questions.get(_PONG)
        return self._close(_PONG, pong) if first and first[0].ticket == ticket else None

    def _close(self, answerer: _Answerer, answer: Reply) -> Event | None:
        """The oldest question that this answers."""
        questions = self._questions.get(answerer)
        if not questions:
            return None
        waiting = questions[0]
        self._forget(waiting)
        return Answered(waiting.ticket, self._opened(answer, shown=waiting.shown))

    def _opened(self, said: Reply, *, shown: bool) -> Answer:
        """The answer with its tools decoded; in which form an agent gets them is kept for as long as it is open."""
        if isinstance(said, ReadyLine):
            self._shown[said.agent] = shown
            return decoded(partial(read_ready, said, shown=shown))
        if isinstance(said, ToolsLine):
            return decoded(partial(read_tools, said, shown=shown))
        if isinstance(said, Bye):
            self._shown.pop(said.agent, None)
        return said

    def _changed(self, said: ToolsChangedLine) -> Changed | None:
        """Nothing for an agent that was not opened here: nobody here asked to be told."""
        shown = self._shown.get(said.agent)
        return None if shown is None else decoded(partial(read_changed, said, shown=shown))

    def _fault(self, said: FaultLine, fault: FaultError) -> Event | None:
        """A fault is about a line that still waits; where it names none, about the `hello` of a refused session."""
        if self._is_shared:
            waiting = None if said.id is not None else self._oldest(said.agent, ("ready", "tools", "bye", "pong"))
        elif said.line is not None:
            waiting = self._waiting.get(said.line)
        else:
            waiting = self._oldest(said.agent, ("ready",))
        if waiting is None or (said.id is not None and _ticket_of(said.id) != waiting.ticket):
            self._last_words = fault
            return None
        self._forget(waiting)
        return FailedTicket(waiting.ticket, fault)

    def _oldest(self, agent: str | None, ports: tuple[str, ...]) -> _Waiting | None:
        questions = (self._questions.get((port, agent)) for port in ports)
        return min((waiting[0] for waiting in questions if waiting), key=lambda first: first.line, default=None)

    def _forget(self, waiting: _Waiting) -> None:
        del self._waiting[waiting.line]
        self._calls.pop(waiting.ticket, None)
        if waiting.answerer is not None:
            questions = self._questions[waiting.answerer]
            questions.remove(waiting)
            if not questions:
                del self._questions[waiting.answerer]


def _ticket_of(call_id: str) -> Ticket:
    """The ticket that an id stands for; 0, which none is, for one that is not ours."""
    # No more digits than a counter ever has: reading a number takes quadratic time.
    return int(call_id) if len(call_id) <= 18 and call_id.isascii() and call_id.isdigit() else 0


def _written(value: object) -> object:
    """A value as `_say` takes it, for whom None is what is left out."""
    return None if isinstance(value, UnsetType) else Raw(b"null") if value is None else value
