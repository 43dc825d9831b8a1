"""One agent's session as a state machine: which requests it takes, and that each gets exactly one answer.

    OPENING ──opened──▶ OPEN ──ended──▶ DRAINING ──torn_down──▶ CLOSED
       └──────ended, gone, refused────────▶┘  (opened: it stays, and `ready` is still said)

`SessionMachine` holds the ids in flight and the form each request was written in. It says nothing about what a tool
is: the caller runs the call and brings its end. Lines to the agent go into the channel's `outgoing`.
"""

from enum import StrEnum
from functools import cache
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tooldispatchd.wire.decode import Form, Refused, form_of
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import (
    MAX_VALUE_BYTES,
    NOTHING_BESIDE,
    Beside,
    CallMeta,
    ContentKind,
    EventKind,
    Hello,
    NestedReq,
    NestedResp,
    Outgoing,
    QuotedText,
    Request,
    ServerNote,
    ShortReq,
    ShortResp,
    Switched,
    ToolReq,
    ToolResp,
    ToolsChangedLine,
    ToolUpdate,
)

# The kinds of questions that an agent may say in `hello` that it answers.
ANSWERS: Final = frozenset({"approve", "sampling", "elicitation", "url", "roots", "ui"})
# Of the protocol, as `ready` says it.
EDITION: Final = "1.5"
# Capabilities that every session has.
ALWAYS: Final = {
    "content": True,
    "forms": True,
    "auth": True,
    "limits": True,
    "short": True,
    "select": True,
    "sizes": True,
    "search": True,
}
# The kinds of events that an agent may ask for.
EVENTS: Final[frozenset[str]] = frozenset(EventKind)
# What an agent may ask for by name in `hello`.
VALUE: Final = "value"
SERVERS: Final = "servers"
OPENING: Final = "opening"

DUPLICATE: Final = Fault(Code.DUPLICATE_ID, "this id is in flight already; the first request is unharmed")


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


class Asked(msgspec.Struct, frozen=True, gc=False):
    """What an agent asked for in `hello`."""

    meta: bool
    """Beside its answers, as `value` and `details` are."""
    value: bool
    details: bool
    content: ContentKind | None
    """The kind of content of its answers."""
    updates: bool
    """Of its calls and tools."""
    events: frozenset[str]
    """The kinds of events that it is told of."""
    order: str | None
    """Of its calls."""
    schemas: str | None
    """The form of its tools' schemas."""
    answers: frozenset[str]
    """The kinds of questions that it can be asked."""
    select: Switched | None
    """Which of its tools are on and off."""
    servers: bool
    """To speak with its servers beyond their tools."""
    opening: bool
    """To be told beforehand what is known of servers that are still starting."""
    max_output: int | None
    """How much of an answer it takes whole."""

    @property
    def wants_more(self) -> bool:
        """Whether its answers are not plain."""
        return self.meta or self.value or self.details or self.content is not None or self.max_output is not None


def _asked_in(hello: Hello) -> Asked:
    return Asked(
        meta=not isinstance(hello.meta, UnsetType) and bytes(hello.meta) == b"true",
        value=hello.capabilities is not None and VALUE in hello.capabilities,
        details=bool(hello.details),
        content=hello.content,
        updates=bool(hello.updates),
        events=EVENTS if hello.events is True else EVENTS.intersection(hello.events or ()),
        order=hello.order,
        schemas=hello.schemas,
        answers=ANSWERS.intersection(hello.answers or ()),
        select=hello.select,
        servers=hello.capabilities is not None and SERVERS in hello.capabilities,
        opening=hello.capabilities is not None and OPENING in hello.capabilities,
        max_output=hello.max_output,
    )


ASKED_NOTHING: Final = _asked_in(Hello())


class SessionMachine:
    """The requests of one session that wait for their answers, and the lines to its agent.

    `live` maps the id of each call in flight to the form of its request. `outgoing` is the channel's list of lines to
    send, shared with the channel's other sessions. `asked` is what the agent asked for in `hello`. `is_quick` says that
    requests are accepted, their answers plain, and that nobody else is to hear of them or to come first. `opening_line`
    is the line that opened the session, or a later `hello` that was taken, `hello_id` that one's id.
    """

    __slots__ = (
        "_is_begun",
        "accepts",
        "agent",
        "asked",
        "hello_id",
        "is_gone",
        "is_greeted",
        "is_quick",
        "live",
        "opening_line",
        "outgoing",
        "refusal",
        "state",
    )

    def __init__(self, outgoing: list[Outgoing], *, agent: str | None = None) -> None:
        self.state = State.OPENING
        self.agent = agent
        self.outgoing = outgoing
        self.live: dict[str, Form] = {}
        self._is_begun = False
        # Kept beside the state because every request asks for it.
        self.accepts = self.is_quick = True
        self.is_greeted = False
        self.is_gone = False
        self.refusal: Fault | None = None
        self.asked = ASKED_NOTHING
        self.opening_line = 0
        self.hello_id: str | None = None

    def apply(self, event: Event) -> None:
        """Move on; raises `RuntimeError`, naming both, for an event that the state has no entry for."""
        state = TRANSITIONS.get((self.state, event))
        if state is None:
            raise RuntimeError(f"session is {self.state} and cannot take {event}")
        self.state = state
        self.accepts = state in {State.OPENING, State.OPEN}
        self.is_quick = self.is_quick and self.accepts
        if event is Event.GONE:
            self.is_gone = True

    def greet(self, hello: Hello, *, line: int) -> bool:
        """Whether `hello` opens this session; one that comes after other lines changes nothing and is told so."""
        if self._is_begun:
            fault = Fault(Code.INVALID_REQUEST, "a session is opened by its first line; this hello changes nothing")
            self.outgoing.append(fault_line(fault, line=line, line_id=hello.id, agent=self.agent))
            return False
        self._is_begun = self.is_greeted = True
        self.opening_line, self.hello_id = line, hello.id
        asked = _asked_in(hello)
        # Thousands of idle agents ask for nothing.
        self.asked = ASKED_NOTHING if asked == ASKED_NOTHING else asked
        self.is_quick = self.is_quick and not asked.wants_more
        return True

    def begin(self, line: int) -> None:
        """A line that is no `hello` has opened the session: none will be taken any more."""
        self._is_begun = True
        self.opening_line = line

    def refuse_opening(self, fault: Fault) -> None:
        """Say why the session does not open, in the place of `ready` where a `hello` waits for that."""
        told = fault_line(fault, line=self.opening_line, line_id=self.hello_id, agent=self.agent)
        self.outgoing.append(told)

    def is_taken(self, request: Request, *, line: int) -> bool:
        """Whether `request` may be run; if not, its failure is among the outgoing lines already."""
        body = body_of(request)
        if body.id in self.live:
            self.outgoing.append(fault_line(DUPLICATE, line=line, line_id=body.id, agent=body.agent))
            return False
        if not self.accepts:
            self.reply_fault(request, self.refusal or Fault(Code.DRAINING, "the session takes no more requests"))
        return self.accepts

    def refuse(self, refused: Refused, *, line: int) -> None:
        """Tell the failure of a line that is no message: as an answer where it is a request with an id."""
        if refused.form is None or refused.id is None:
            self.outgoing.append(fault_line(refused.fault, line=line, line_id=refused.id, agent=refused.agent))
        elif refused.id in self.live:
            self.outgoing.append(fault_line(DUPLICATE, line=line, line_id=refused.id, agent=refused.agent))
        else:
            content, beside = _told(refused.fault, refused.kind or self.asked.content)
            form, agent = refused.form, refused.agent
            self.outgoing.append(
                _answer(form, refused.id, content, is_error=True, fault=True, agent=agent, beside=beside)
            )

    def start(self, request: Request) -> None:
        """A call that does not end at once is in flight from here on, until `answer`."""
        if type(request) is ToolReq:
            self.live[request.id] = Form.PLAIN
        else:
            self.live[body_of(request).id] = form_of(request)

    def answer(
        self,
        call_id: str,
        content: str | QuotedText,
        *,
        is_error: bool,
        fault: bool,
        beside: Beside = NOTHING_BESIDE,
    ) -> None:
        """The one answer to a call in flight; a second is a defect and raises `KeyError`."""
        form = self.live.pop(call_id)
        if self.is_gone:
            return
        if form is Form.PLAIN and beside is NOTHING_BESIDE and type(content) is str:
            self.outgoing.append(ToolResp(call_id, content, is_error, fault, self.agent))
        else:
            answer = _answer(form, call_id, content, is_error=is_error, fault=fault, agent=self.agent, beside=beside)
            self.outgoing.append(answer)

    def reply(
        self, request: Request, content: str, *, is_error: bool, fault: bool = False, beside: Beside = NOTHING_BESIDE
    ) -> None:
        """The answer to a request that was never in flight: it ended in the moment it came."""
        if type(request) is ToolReq and beside is NOTHING_BESIDE:
            self.outgoing.append(ToolResp(request.id, content, is_error, fault, request.agent))
            return
        form, body = form_of(request), body_of(request)
        answer = _answer(form, body.id, content, is_error=is_error, fault=fault, agent=body.agent, beside=beside)
        self.outgoing.append(answer)

    def update(self, update: ToolUpdate) -> None:
        """Tell how far a call is, where the agent asked for it and the call is in flight; else nothing."""
        if self.asked.updates and update.id in self.live and not self.is_gone:
            self.outgoing.append(update)

    def tools_changed(self, tools: list[Raw], prompt: str | None = None) -> None:
        """Tell an agent that asked for updates which tools it has now."""
        if self.asked.updates and self.state in {State.OPEN, State.DRAINING} and not self.is_gone:
            self.outgoing.append(ToolsChangedLine(tools, self.agent, prompt))

    def note(self, server: str, method: str, params: Raw) -> None:
        """Tell an agent what one of its servers says, which it asked for; before `ready` nothing."""
        asks = self.asked.servers or "url" in self.asked.answers
        if asks and self.state in {State.OPEN, State.DRAINING} and not self.is_gone:
            self.outgoing.append(ServerNote(server, method, params, self.agent))

    def reply_fault(self, request: Request, fault: Fault) -> None:
        """Answer a request that becomes no call."""
        content, beside = _told(fault, body_of(request).content or self.asked.content)
        self.reply(request, content, is_error=True, fault=True, beside=beside)


def body_of(request: Request) -> ShortReq:
    """The fields of a request, in whichever form it was written."""
    return request.msg if isinstance(request, NestedReq) else request


def capabilities_of(machine: SessionMachine, *, agents: bool, jobs: bool, workspace: bool, admin: bool) -> Raw:
    """What `ready` says of the capabilities: each that the daemon knows, and whether this session has it."""
    asked = machine.asked
    beside = asked.meta, asked.value, asked.details
    also = bool(asked.events), asked.servers, workspace, admin
    return _capabilities(agents, jobs, asked.updates, bool(asked.answers - {"ui"}), *beside, *also)


@cache
def _capabilities(*has: bool) -> Raw:
    names = ("agents", "jobs", "updates", "questions", "meta", "value", "details", "events", "servers", "workspace")
    return Raw(msgspec.json.encode(dict(zip((*names, "admin"), has, strict=True)) | ALWAYS))


def value_of(content: str | QuotedText) -> Raw | UnsetType:
    """A content that is compact JSON, as a value; not of a long one, which the agent has once already."""
    # A quoted text is longer than that.
    return Raw(content.encode()) if isinstance(content, str) and len(content) <= MAX_VALUE_BYTES else UNSET


def beside_fault(fault: Fault, kind: ContentKind | None, meta: CallMeta | None) -> Beside:
    """Give what stands beside a fault: the kind of its content, and the fault as JSON where its content is a text."""
    if kind is ContentKind.TEXT:
        return Beside(meta, Raw(fault.content().encode()), kind)
    return Beside(meta, kind=None if kind is None else ContentKind.JSON)


def _told(fault: Fault, kind: ContentKind | None) -> tuple[str, Beside]:
    """Give the content of an answer that tells a fault in the kind that was asked for, and what stands beside it."""
    if kind is None:
        return fault.content(), NOTHING_BESIDE
    return fault.text() if kind is ContentKind.TEXT else fault.content(), beside_fault(fault, kind, None)


def _answer(
    form: Form,
    call_id: str,
    content: str | QuotedText,
    *,
    is_error: bool,
    fault: bool,
    agent: str | None,
    beside: Beside = NOTHING_BESIDE,
) -> Outgoing:
    made = ToolResp if form is Form.PLAIN else ShortResp
    parts = beside.meta, beside.value, beside.kind, beside.blocks, beside.details, beside.job
    # A quoted text is a string too, once it is written.
    answer = made(call_id, content, is_error, fault, agent, *parts)  # type: ignore[arg-type]
    return NestedResp(answer) if form is Form.NESTED else answer


def fault_line(fault: Fault, *, line: int, line_id: str | None = None, agent: str | None = None) -> dict[str, object]:
    """A `fault` line: the fault's fields, and the line that it is about, 0 for none, with its id and its agent."""
    fields: dict[str, object] = {"__port": "fault", **fault.fields(), "line": line}
    places = {"id": line_id, "agent": agent}
    fields.update((key, value) for key, value in places.items() if value is not None)
    return fields
