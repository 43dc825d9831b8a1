"""One agent's session as a state machine: which requests it takes, and that each gets exactly one answer.

    OPENING ──opened──▶ OPEN ──ended──▶ DRAINING ──torn_down──▶ CLOSED
       └──────ended, gone, refused────────▶┘  (opened: it stays, and `ready` is still said)

`SessionMachine` holds the ids in flight and the form each request was written in. It says nothing about what a tool
is: the caller runs the call and brings its end. Lines to the agent go into the channel's `outgoing`.
"""

from enum import StrEnum
from typing import Final

from msgspec import Raw, UnsetType

from tooldispatchd.wire.decode import Form, Refused, form_of
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import (
    CallMeta,
    Hello,
    NestedReq,
    NestedResp,
    Outgoing,
    QuotedText,
    Request,
    ShortReq,
    ShortResp,
    ToolReq,
    ToolResp,
    ToolsChangedLine,
    ToolUpdate,
)

# The kinds of questions that an agent may say in `hello` that it answers.
ANSWERS: Final = frozenset({"approve", "sampling", "elicitation"})
# One object for all sessions that answer nothing.
NOTHING: Final[frozenset[str]] = frozenset()


class State(StrEnum):
    """Where a session is in its life."""

    OPENING = "opening"
    OPEN = "open"
    DRAINING = "draining"
    CLOSED = "closed"


class Event(StrEnum):
    """What moves a session on."""

    OPENED = "opened"  # every server has answered or failed
    REFUSED = "refused"  # it may not open
    ENDED = "ended"  # no more requests: end of input, `bye`, or the daemon drains
    GONE = "gone"  # nobody can be answered any more
    TORN_DOWN = "torn_down"  # nothing of it is left


TRANSITIONS: Final[dict[tuple[State, Event], State]] = {
    (State.OPENING, Event.OPENED): State.OPEN,
    (State.OPENING, Event.REFUSED): State.DRAINING,
    (State.OPENING, Event.ENDED): State.DRAINING,
    (State.OPENING, Event.GONE): State.DRAINING,
    (State.OPEN, Event.ENDED): State.DRAINING,
    (State.OPEN, Event.GONE): State.DRAINING,
    # A session whose input ended while its servers were starting still opens: its requests wait for them.
    (State.DRAINING, Event.OPENED): State.DRAINING,
    (State.DRAINING, Event.REFUSED): State.DRAINING,
    (State.DRAINING, Event.ENDED): State.DRAINING,
    (State.DRAINING, Event.GONE): State.DRAINING,
    (State.DRAINING, Event.TORN_DOWN): State.CLOSED,
}


class SessionMachine:
    """The requests of one session that wait for their answers, and the lines to its agent.

    `live` maps the id of each call in flight to the form of its request. `outgoing` is the channel's list of lines to
    send, shared with the channel's other sessions. What the agent asked for in `hello`: `wants_meta` in its answers,
    `wants_updates` of its calls and tools; `schemas` is the form of its tools' schemas; `answers` is what it can be
    asked.
    """

    __slots__ = (
        "_is_begun",
        "accepts",
        "agent",
        "answers",
        "is_gone",
        "is_greeted",
        "live",
        "outgoing",
        "refusal",
        "schemas",
        "state",
        "wants_meta",
        "wants_updates",
    )

    def __init__(self, outgoing: list[Outgoing], *, agent: str | None = None) -> None:
        self.state = State.OPENING
        self.agent = agent
        self.outgoing = outgoing
        self.live: dict[str, Form] = {}
        self._is_begun = False
        # Kept beside the state because every request asks for it.
        self.accepts = True
        self.is_greeted = False
        self.is_gone = False
        self.refusal: Fault | None = None
        self.wants_meta = False
        self.wants_updates = False
        self.schemas: str | None = None
        self.answers: frozenset[str] = NOTHING

    def apply(self, event: Event) -> None:
        """Move on; raises `RuntimeError`, naming both, for an event that the state has no entry for."""
        state = TRANSITIONS.get((self.state, event))
        if state is None:
            raise RuntimeError(f"session is {self.state} and cannot take {event}")
        self.state = state
        self.accepts = self.accepts and state in {State.OPENING, State.OPEN}
        if event is Event.GONE:
            self.is_gone = True

    def greet(self, hello: Hello, *, line: int) -> bool:
        """Whether `hello` opens this session; one that comes after other lines changes nothing and is told so."""
        if self._is_begun:
            fault = Fault(Code.INVALID_REQUEST, "a session is opened by its first line; this hello changes nothing")
            self.outgoing.append(fault_line(fault, line=line, agent=self.agent))
            return False
        self._is_begun = self.is_greeted = True
        self.wants_meta = not isinstance(hello.meta, UnsetType) and bytes(hello.meta) == b"true"
        self.wants_updates = bool(hello.updates)
        self.schemas = hello.schemas
        self.answers = ANSWERS.intersection(hello.answers or ()) or NOTHING
        return True

    def begin(self) -> None:
        """A line that is no `hello` has opened the session: none will be taken any more."""
        self._is_begun = True

    def is_taken(self, request: Request, *, line: int) -> bool:
        """Whether `request` may be run; if not, its failure is among the outgoing lines already."""
        body = body_of(request)
        if body.id in self.live:
            fault = Fault(Code.DUPLICATE_ID, "this id is in flight already; the first request is unharmed")
            self.outgoing.append(fault_line(fault, line=line, call_id=body.id, agent=body.agent))
            return False
        if self.refusal is not None:
            self.reply(request, self.refusal.content(), is_error=True, fault=True)
            return False
        if not self.accepts:
            self.reply_fault(request, Fault(Code.DRAINING, "the session takes no more requests"))
            return False
        return True

    def refuse(self, refused: Refused, *, line: int) -> None:
        """Tell the failure of a line that is no message: as an answer where it is a request with an id."""
        if refused.id is None:
            self.outgoing.append(fault_line(refused.fault, line=line, agent=refused.agent))
        elif refused.id in self.live:
            fault = Fault(Code.DUPLICATE_ID, "this id is in flight already; the first request is unharmed")
            self.outgoing.append(fault_line(fault, line=line, call_id=refused.id, agent=refused.agent))
        else:
            answer = ShortResp(refused.id, refused.fault.content(), is_error=True, fault=True, agent=refused.agent)
            self.outgoing.append(_in_form(refused.form, answer))

    def start(self, request: Request) -> None:
        """A call that does not end at once is in flight from here on, until `answer`."""
        self.live[body_of(request).id] = form_of(request)

    def answer(
        self, call_id: str, content: str | QuotedText, *, is_error: bool, fault: bool, meta: CallMeta | None = None
    ) -> None:
        """The one answer to a call in flight; a second is a defect and raises `KeyError`."""
        form = self.live.pop(call_id)
        if not self.is_gone:
            # A quoted text is a string too, once it is written.
            answer = ShortResp(call_id, content, is_error, fault, self.agent, meta)  # type: ignore[arg-type]
            self.outgoing.append(_in_form(form, answer))

    def reply(
        self, request: Request, content: str, *, is_error: bool, fault: bool = False, meta: CallMeta | None = None
    ) -> None:
        """The answer to a request that was never in flight: it ended in the moment it came."""
        if type(request) is ToolReq:
            self.outgoing.append(ToolResp(request.id, content, is_error, fault, request.agent, meta))
            return
        body = body_of(request)
        answer = ShortResp(body.id, content, is_error, fault, body.agent, meta)
        self.outgoing.append(_in_form(form_of(request), answer))

    def update(self, update: ToolUpdate) -> None:
        """Tell how far a call is, where the agent asked for it and the call is in flight; else nothing."""
        if self.wants_updates and update.id in self.live and not self.is_gone:
            self.outgoing.append(update)

    def tools_changed(self, tools: list[Raw]) -> None:
        """Tell an agent that asked for updates which tools it has now."""
        if self.wants_updates and self.is_greeted and self.state in {State.OPEN, State.DRAINING} and not self.is_gone:
            self.outgoing.append(ToolsChangedLine(tools, self.agent))

    def reply_fault(self, request: Request, fault: Fault) -> None:
        self.reply(request, fault.content(), is_error=True, fault=True)


def body_of(request: Request) -> ShortReq:
    """The fields of a request, in whichever form it was written."""
    return request.msg if isinstance(request, NestedReq) else request


def _in_form(form: Form, answer: ShortResp) -> Outgoing:
    if form is Form.PLAIN:
        return ToolResp(answer.id, answer.content, answer.is_error, answer.fault, answer.agent, answer.meta)
    return answer if form is Form.SHORT else NestedResp(answer)


def fault_line(
    fault: Fault, *, line: int | None = None, call_id: str | None = None, agent: str | None = None
) -> dict[str, object]:
    """A `fault` line: the fault's fields, and where it belongs."""
    fields: dict[str, object] = {"__port": "fault", **fault.fields()}
    places = {"line": line, "id": call_id, "agent": agent}
    fields.update((key, value) for key, value in places.items() if value is not None)
    return fields
