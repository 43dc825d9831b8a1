"""One channel as its agent sees it, without I/O: which bytes to send, and which request each line answers.

    hello, call, … ─▶ Ticket          take ─▶ bytes to send
    bytes ─▶ receive ─▶ events        `Answered` has the ticket of the request that it answers

An answer is matched to its request: a call by its id, a ping by its `t`, any other question by the number of its line
if it was refused, else by its port and its agent, oldest first. Lines that answer nothing are dropped. Tools in a line
are decoded late, since their form depends on the request. Not thread-safe; both clients use it and add the waiting.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Literal, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tooldispatchd.client.errors import ClientError, FaultError, fault_of
from tooldispatchd.client.shown import (
    PLAIN,
    ShownReady,
    ShownTools,
    ShownToolsChanged,
    Switches,
    is_plain,
    read_changed,
    read_ready,
    read_tools,
)
from tooldispatchd.wire.lines import LineCutter, LongLine
from tooldispatchd.wire.messages import (
    AdminNote,
    AdminResp,
    ApproveReq,
    Ask,
    Bye,
    EventLine,
    FaultLine,
    Parsed,
    Ping,
    Pong,
    Ready,
    ReadyLine,
    ServerNote,
    ToolResp,
    Tools,
    ToolsChanged,
    ToolsChangedLine,
    ToolsLine,
    ToolUpdate,
)

# The largest answer that a daemon with its default limits gives, in JSON: a quote or a newline takes two bytes.
MAX_LINE_BYTES: Final = 2 * 64 * 1024 * 1024 + 1024

# Answers to questions; a call is answered by `ToolResp`.
Reply = ReadyLine | ToolsLine | Parsed | Pong | Bye
Asked = ApproveReq | Ask | Ping
Told = ToolsChangedLine | ToolUpdate | EventLine | ServerNote | AdminNote
Line = Reply | ToolResp | AdminResp | Told | Asked | FaultLine
ReadT = TypeVar("ReadT")

# A daemon that reads no more may have lines for us for this long.
LAST_WORDS_S: Final = 5.0

Ticket = int


class Call(msgspec.Struct, frozen=True):
    """One call to be made: `input` is any value that msgspec can write as JSON, or `Raw` JSON, or left out.

    `deadline_ms` is the most time for waiting and running; `background` starts a job, and the answer is its name;
    `traceparent` is W3C Trace Context; `content` is the kind of content of the answer, if it is not the session's.
    `turn` says which turn of the model it belongs to, `max_bytes` and `max_tokens` what its window has left.
    """

    name: str
    input: object = UNSET
    deadline_ms: float | None = None
    background: bool = False
    traceparent: str | None = None
    content: str | None = None
    turn: str | float | None = None
    max_bytes: int | None = None
    max_tokens: int | None = None


class WrittenCalls(msgspec.Struct, frozen=True):
    """The calls in what a model wrote, and of whatever was meant as one and is none `detail`, `at` and `excerpt`."""

    calls: list[Call]
    malformed: list[dict[str, object]]


Answer = Ready | ShownReady | ToolResp | Tools | ShownTools | WrittenCalls | AdminResp | Pong | Bye
AnswerT = TypeVar("AnswerT", Ready, ShownReady, ToolResp, Tools, ShownTools, WrittenCalls, AdminResp, Pong, Bye)


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's answer to `approve_req`: `remember` has it hold for this input later on, or for all of the tool."""

    allow: bool
    reason: str | None = None
    remember: bool | Literal["tool"] = False


class Refusal(msgspec.Struct, frozen=True):
    """An agent's answer to an `ask` that it declines."""

    why: str


# Answers of an agent without a callback: the daemon must not wait for an answer that will not come.
NO_VERDICT: Final = Verdict(allow=False, reason="nobody is there to approve it")
NO_ANSWER: Final = Refusal("nobody is there to answer")


def answers(*, approves: bool, asks: bool) -> Sequence[str] | None:
    """The `answers` of a `hello`; None, which leaves them out, where the agent answers nothing."""
    found = [*(["approve"] if approves else []), *(["sampling", "elicitation"] if asks else [])]
    return found or None


class Answered(msgspec.Struct, frozen=True):
    """The answer to a ticket, or its fault; an error that a tool reports is an answer, with `is_error`."""

    ticket: Ticket
    answer: Answer | FaultError


class Updated(msgspec.Struct, frozen=True):
    ticket: Ticket
    update: ToolUpdate


Event = Answered | Updated | ToolsChanged | ShownToolsChanged | EventLine | ServerNote | AdminNote | ApproveReq | Ask


# The port that answers a question, and the agent that asked.
_Answerer = tuple[str, str | None]


class _Waiting(msgspec.Struct, frozen=True):
    """A request without an answer yet; `answerer` is None for a call. `shown` if it asked for a provider's form."""

    ticket: Ticket
    line: int
    answerer: _Answerer | None = None
    shown: bool = False


class _Port(msgspec.Struct):
    port: str = msgspec.field(name="__port")


_PONG: Final = ("pong", None)
_ANSWERERS: Final = ("ready", "tools", "parsed", "bye", "pong")
_FOREIGN: Final = "the daemon sent a line that is not of the protocol"
_KNOWN: Final = frozenset(kind.__struct_config__.tag for kind in Line.__args__)
_encode: Final = msgspec.json.Encoder().encode
_decode_fields: Final = msgspec.json.Decoder(dict[str, object]).decode
_decode_call: Final = msgspec.json.Decoder(Call).decode
_decode_t: Final = msgspec.json.Decoder(int).decode
_decode_port: Final = msgspec.json.Decoder(_Port).decode
_decode_line: Final = msgspec.json.Decoder(Line).decode


class PendingRequests:
    """The requests of a channel that have no answer yet.

    `lost` says why nothing more can be asked, once the channel has ended; `unsent_bytes` is the size of the next
    `take`. `is_shared`: another process writes to the channel too, as `run` does. Then the daemon's line numbers are
    not ours, and a fault without an id is for the oldest question of its agent.
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
        # By the line's number on the channel, which a `fault` names.
        self._waiting: dict[int, _Waiting] = {}
        self._calls: dict[Ticket, _Waiting] = {}
        # What an administrator has asked for; answered by its id too.
        self._admin: dict[Ticket, _Waiting] = {}
        # The other questions, oldest first.
        self._questions: dict[_Answerer, deque[_Waiting]] = {}
        # Whether the tools of each agent that was opened here come in a provider's form.
        self._shown: dict[str | None, bool] = {}
        self._last_words: FaultError | None = None

    def renewed(self) -> "PendingRequests":
        """The conversation on the next channel to the daemon; it continues the numbers of tickets."""
        following = PendingRequests(max_line_bytes=self._max_line_bytes, is_shared=self._is_shared)
        # Tickets of the last channel must not be taken for new ones.
        following._ticket = self._ticket
        return following

    # --- what the agent says ---

    def hello(self, agent: str | None, **fields: object) -> Ticket:
        """Open a session; answered by `Ready`, and by `ShownReady` where `schemas` is a provider's form.

        `fields` are those of `hello`; None leaves one out.
        """
        return self._question("ready", agent, {"__port": "hello", "agent": agent, **fields})

    def tools(
        self, agent: str | None, *, schemas: str | None, tags: Switches | None = None, tools: Switches | None = None
    ) -> Ticket:
        """Ask for the tools; answered by `Tools`, and by `ShownTools` where `schemas` is a provider's form.

        Without a form the plain one is asked for, whatever `hello` said: `run` may have opened the session. `tags` and
        `tools` are switched for this list alone.
        """
        return self._list("tools", agent, schemas=schemas, tags=tags, tools=tools)

    def select(self, agent: str | None, *, tags: Switches | None, tools: Switches | None) -> Ticket:
        """Switch tags and tools on and off; answered as `tools`."""
        return self._list("select", agent, schemas=None, tags=tags, tools=tools)

    def _list(
        self, port: str, agent: str | None, *, schemas: str | None, tags: Switches | None, tools: Switches | None
    ) -> Ticket:
        fields = {"__port": port, "agent": agent, "schemas": schemas or PLAIN, "tags": tags, "tools": tools}
        return self._question("tools", agent, fields)

    def parse(self, agent: str | None, text: str) -> Ticket:
        """Ask for the calls in what a model wrote; answered by `WrittenCalls`."""
        return self._question("parsed", agent, {"__port": "parse", "agent": agent, "text": text})

    def ping(self) -> Ticket:
        """Answered by `Pong`."""
        return self._question("pong", None, {"__port": "ping", "t": self._ticket + 1})

    def bye(self, agent: str | None) -> Ticket:
        """End a session; answered by `Bye` when its teardown is complete."""
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
            "content": call.content,
            "turn": call.turn,
            "max_bytes": call.max_bytes,
            "max_tokens": call.max_tokens,
            "input": _written(call.input),
        }
        self._calls[ticket] = self._ask(fields, None)
        return ticket

    def admin(self, ask: str, fields: Mapping[str, object]) -> Ticket:
        """Ask the daemon about itself, or change it; answered by `AdminResp`. `fields` are those of `admin_req`."""
        ticket = self._ticket + 1
        self._admin[ticket] = self._ask({"__port": "admin_req", "id": str(ticket), "ask": ask, **fields}, None)
        return ticket

    def cancel(self, agent: str | None, ticket: Ticket) -> None:
        """Cancel a call, which is still answered. No effect on one that has its answer."""
        if ticket in self._calls and self.lost is None:
            self._say({"__port": "tool_cancel", "id": str(ticket), "agent": agent})

    def cancel_all(self, agent: str | None, *, only_waiting: bool) -> None:
        """Cancel every call and every job of an agent, or those that do not run yet; the calls are still answered."""
        self._reply({"__port": "tool_cancel", "waiting" if only_waiting else "all": True, "agent": agent})

    def background(self, agent: str | None, call: Ticket | str) -> None:
        """Make a job of a call, by its ticket or its id in an event; the answer names the job, unless too late."""
        self._reply({"__port": "tool_background", "id": str(call), "agent": agent})

    def approve(self, asked: ApproveReq, verdict: Verdict) -> None:
        fields = {"allow": verdict.allow, "reason": verdict.reason, "remember": verdict.remember or None}
        self._reply({"__port": "approve_resp", "id": asked.id, "agent": asked.agent, **fields})

    def reply(self, asked: Ask, result: object) -> None:
        """Answer an `ask` with any JSON, or with a `Refusal`."""
        field = {"refuse": result.why} if isinstance(result, Refusal) else {"result": _written(result)}
        self._reply({"__port": "ask_resp", "id": asked.id, "agent": asked.agent, **field})

    def take(self) -> bytes:
        """The lines to send, once."""
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
        # After the end of the channel the daemon waits for no answer.
        if self.lost is None:
            self._say(fields)

    def _say(self, fields: Mapping[str, object]) -> None:
        """Queue a line. Changes nothing where the fields cannot be encoded or the channel has ended."""
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
        """The events of the lines that `chunk` completes; a line that is not of the protocol ends the conversation."""
        events: list[Event] = []
        # One bad line ends it: after that no answer could be trusted to be for the right request.
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
        """End the conversation: what waits gets no answer, and nothing can be asked any more. Idempotent."""
        if self.lost is None:
            self.lost = why if self._last_words is None else f"{why}; it last said: {self._last_words}"
            self.take()
            self._waiting.clear()
            self._calls.clear()
            self._admin.clear()
            self._questions.clear()
            self._shown.clear()

    def _hear(self, line: bytes | bytearray | LongLine) -> Event | None:
        """The event of one line; None if nothing waits for it. Raises `ClientError` for one that no daemon writes."""
        if isinstance(line, LongLine):
            raise ClientError("the daemon sent a line that is too long")
        line = bytes(line)
        said = _read_line(line)
        if said is None or isinstance(said, EventLine | ServerNote | AdminNote | ApproveReq | Ask):
            return said
        if isinstance(said, ToolResp | AdminResp):
            asked = self._calls if isinstance(said, ToolResp) else self._admin
            waiting = asked.pop(ticket_of(said.id), None)
            if waiting is None:
                return None
            del self._waiting[waiting.line]
            return Answered(waiting.ticket, fault_of(said) if isinstance(said, ToolResp) and said.fault else said)
        if isinstance(said, FaultLine):
            return self._fault(said, FaultError(_decoded(partial(_decode_fields, line))))
        if isinstance(said, ToolUpdate):
            call = ticket_of(said.id)
            return Updated(call, said) if call in self._calls else None
        if isinstance(said, ToolsChangedLine):
            # None for an agent that was opened elsewhere (`run`): nothing here asked to be told.
            shown = self._shown.get(said.agent)
            return None if shown is None else _decoded(partial(read_changed, said, shown=shown))
        if isinstance(said, Ping):
            self._reply({"__port": "pong"} if said.t is UNSET else {"__port": "pong", "t": said.t})
            return None
        if isinstance(said, Pong):
            try:
                ticket = None if isinstance(said.t, UnsetType) else _decode_t(said.t)
            except msgspec.DecodeError:
                return None
            # Pongs come in the order of their pings.
            first = self._questions.get(_PONG)
            return self._close(_PONG, said) if first and first[0].ticket == ticket else None
        return self._close((str(said.__struct_config__.tag), said.agent), said)

    def _close(self, answerer: _Answerer, said: Reply) -> Event | None:
        """Take the oldest question that this answers, and decode the tools of the answer."""
        questions = self._questions.get(answerer)
        if not questions:
            return None
        waiting = questions[0]
        self._forget(waiting)
        if isinstance(said, ReadyLine):
            # The form of an agent's tools is remembered while its session is open.
            self._shown[said.agent] = waiting.shown
            return Answered(waiting.ticket, _decoded(partial(read_ready, said, shown=waiting.shown)))
        if isinstance(said, ToolsLine):
            return Answered(waiting.ticket, _decoded(partial(read_tools, said, shown=waiting.shown)))
        if isinstance(said, Parsed):
            return Answered(waiting.ticket, _decoded(partial(_written_calls, said)))
        if isinstance(said, Bye):
            self._shown.pop(said.agent, None)
        return Answered(waiting.ticket, said)

    def _fault(self, said: FaultLine, fault: FaultError) -> Event | None:
        """The request that a fault answers; without a line number, the `hello` of a refused session."""
        waiting = None if said.id is None else self._admin.get(ticket_of(said.id))
        if waiting is None:
            waiting = self._refused(said)
        if waiting is None or (said.id is not None and ticket_of(said.id) != waiting.ticket):
            self._last_words = fault
            return None
        self._forget(waiting)
        return Answered(waiting.ticket, fault)

    def _refused(self, said: FaultLine) -> _Waiting | None:
        if self._is_shared:
            return None if said.id is not None else self._oldest(said.agent, _ANSWERERS)
        return self._oldest(said.agent, ("ready",)) if said.line is None else self._waiting.get(said.line)

    def _oldest(self, agent: str | None, ports: tuple[str, ...]) -> _Waiting | None:
        questions = (self._questions.get((port, agent)) for port in ports)
        return min((waiting[0] for waiting in questions if waiting), key=lambda first: first.line, default=None)

    def _forget(self, waiting: _Waiting) -> None:
        del self._waiting[waiting.line]
        self._calls.pop(waiting.ticket, None)
        self._admin.pop(waiting.ticket, None)
        if waiting.answerer is not None:
            questions = self._questions[waiting.answerer]
            questions.remove(waiting)
            if not questions:
                del self._questions[waiting.answerer]


def ticket_of(call_id: str) -> Ticket:
    """The ticket with this id; 0, which no ticket has, for an id that is not ours."""
    # No more digits than a counter ever has: parsing a number takes quadratic time.
    return int(call_id) if len(call_id) <= 18 and call_id.isascii() and call_id.isdigit() else 0


def _written_calls(said: Parsed) -> WrittenCalls:
    return WrittenCalls([_decode_call(call) for call in said.calls], [_decode_fields(each) for each in said.malformed])


def _written(value: object) -> object:
    """A value for `_say`, which leaves out fields that are None."""
    return None if isinstance(value, UnsetType) else Raw(b"null") if value is None else value


def _read_line(line: bytes) -> Line | None:
    """The message; None for a blank line and for a port of a later version. Raises `ClientError` for anything else."""
    if not line.strip():
        return None
    try:
        said: Line = _decode_line(line)
    except msgspec.ValidationError as error:
        # A known port with wrong fields is no daemon's; an unknown one may be of a later version.
        if _decoded(partial(_decode_port, line)).port in _KNOWN:
            raise ClientError(_FOREIGN) from error
        return None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ClientError(_FOREIGN) from error
    return said


def _decoded(read: Callable[[], ReadT]) -> ReadT:
    """The result of `read`, with its failures to decode as `ClientError`."""
    try:
        return read()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ClientError(_FOREIGN) from error
