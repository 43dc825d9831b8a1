"""Stands in for all that is behind the machines: tools are Python functions, and a call that waits ends when told.

Of what a daemon adds to the machines it does the least with which a conversation can be held: it opens one session,
looks tools up, checks inputs in the plainest way. It has no clock, no task and no process.
"""

import difflib
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw, UnsetType

from tooldispatchd.wire.channel import ChannelMachine
from tooldispatchd.wire.decode import Refused
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import (
    PROTOCOL,
    Bye,
    ByeSaid,
    Hello,
    Message,
    NestedReq,
    Ready,
    Request,
    ShortReq,
    ToolCancel,
    Tools,
    ToolsReq,
    ToolView,
)
from tooldispatchd.wire.session import Event, SessionMachine, State, body_of, fault_line

MAX_LINE_BYTES: Final = 8 * 1024 * 1024
NO_SCHEMA: Final = Raw(b"{}")
DESCRIPTIONS: Final = {"echo": "Give the text back.", "same": "Give the query back."}


class Tool(msgspec.Struct, frozen=True):
    """`wrong` says where an input breaks the tool's type; a tool without `run` never ends, one that `waits` later."""

    wrong: Callable[[object], list[str]]
    run: Callable[[object], object] | None
    waits: bool = False
    missing: object = msgspec.UNSET
    is_wrapped: bool = True


def of_type(*types: type) -> Callable[[object], list[str]]:
    return lambda value: [] if type(value) in types else [""]


def query(value: object) -> list[str]:
    if not isinstance(value, dict) or type(value.get("text")) is not str:
        return [""]
    return [] if type(value.get("limit", 0)) is int else ["/limit"]


def same(value: object) -> object:
    return value


def double(value: object) -> object:
    assert isinstance(value, int)
    return value * 2


def upper(value: object) -> object:
    assert isinstance(value, str)
    return value.upper()


def broken_promise(value: object) -> object:
    return Fault(Code.INVALID_OUTPUT, "5 is no string", {"violations": [{"path": "", "message": "no string"}]})


def anything(value: object) -> list[str]:
    return []


# The tools of protocol/transcripts/tooldispatchd.toml.
TOOLS: Final[dict[str, Tool]] = {
    "echo": Tool(of_type(str), same),
    "same": Tool(query, same, missing={}, is_wrapped=False),
    "twice": Tool(of_type(int), lambda value: [value, value]),
    "forget": Tool(anything, lambda value: None),
    "nothing": Tool(of_type(type(None)), same, missing=None),
    "maybe": Tool(of_type(dict), same, missing={}, is_wrapped=False),
    "double": Tool(of_type(int), double),
    "liar": Tool(anything, broken_promise, waits=True),
    "upper": Tool(of_type(str), upper, waits=True),
    "stuck": Tool(anything, None, waits=True),
    "slow": Tool(of_type(str), same, waits=True),
    "hidden": Tool(of_type(str), same),
}
PROFILES: Final = {"default": [name for name in TOOLS if name != "hidden"], "small": ["echo", "same"]}


class Answerer:
    """A channel machine, the session machine behind it, and the calls that wait to be ended."""

    def __init__(self) -> None:
        self.channel = ChannelMachine(MAX_LINE_BYTES)
        self.session: SessionMachine | None = None
        self.is_closed = False
        self._profile = "default"
        self._waiting: dict[str, tuple[Tool, object, str | None]] = {}
        self._says_bye = False

    # --- what comes ---

    def receive(self, chunk: bytes) -> None:
        for message in self.channel.receive(chunk):
            self._take(message)

    def end(self) -> None:
        for message in self.channel.end():
            self._take(message)
        if self.session is None:
            self.is_closed = True
        elif self.session.state is not State.CLOSED:
            self.session.apply(Event.ENDED)
            self._settle()

    def finish_one(self) -> bool:
        """End the call that waits longest, of those that ever end; whether there was one."""
        for call_id, (tool, value, agent) in self._waiting.items():
            if tool.run is not None:
                self._answer(call_id, tool.run(value), agent)
                return True
        return False

    def _answer(self, call_id: str, result: object, agent: str | None) -> None:
        assert self.session is not None
        del self._waiting[call_id]
        fault = isinstance(result, Fault)
        content = result.content() if isinstance(result, Fault) else encode(result)
        self.session.answer(call_id, content, is_error=fault, fault=fault, agent=agent)
        self._settle()

    def _settle(self) -> None:
        assert self.session is not None
        if self.session.state is State.DRAINING and not self.session.live:
            self.session.apply(Event.TORN_DOWN)
            if self._says_bye:
                self.channel.outgoing.append(Bye())
            self.is_closed = True

    # --- lines ---

    def _take(self, message: Message | Refused) -> None:
        match message:
            case Refused():
                self._own().refuse(message, line=self.channel.line)
            case Hello():
                self._greet(message)
            case ToolsReq():
                self._list_tools(message)
            case ToolCancel():
                if message.id in self._waiting:
                    self._answer(message.id, Fault(Code.CANCELLED, "the call was cancelled"), message.agent)
            case ByeSaid():
                self._bye(message)
            case ShortReq() | NestedReq():
                self._request(self._open_by_line(), message)

    def _own(self) -> SessionMachine:
        return SessionMachine(self.channel.outgoing) if self.session is None else self.session

    def _open(self, profile: str) -> SessionMachine:
        if self.session is None:
            self._profile = profile
            self.session = SessionMachine(self.channel.outgoing)
            self.session.apply(Event.OPENED)
        return self.session

    def _open_by_line(self) -> SessionMachine:
        session = self._open("default")
        session.begin()
        return session

    def _greet(self, hello: Hello) -> None:
        profile = hello.profile or "default"
        if self.session is not None:
            self.session.greet(line=self.channel.line)
        elif (
            hello.agent or hello.token or not isinstance(hello.spec, UnsetType) or hello.schemas not in {None, "plain"}
        ):
            self._fault(Fault(Code.INVALID_REQUEST, "not yet available"), hello.agent)
        elif profile not in PROFILES:
            self._fault(Fault(Code.UNKNOWN_PROFILE, "no such profile"))
            self.is_closed = True
        elif self._open(profile).greet(line=self.channel.line):
            self.channel.outgoing.append(Ready(profile, PROTOCOL, self._views(), []))

    def _list_tools(self, message: ToolsReq) -> None:
        if message.agent is not None:
            self._fault(Fault(Code.UNKNOWN_AGENT, "no such agent"), message.agent)
        elif message.schemas not in {None, "plain"}:
            self._fault(Fault(Code.INVALID_REQUEST, "not yet available"))
        else:
            self._open_by_line()
            self.channel.outgoing.append(Tools(self._views()))

    def _bye(self, message: ByeSaid) -> None:
        if message.agent is not None:
            self._fault(Fault(Code.UNKNOWN_AGENT, "no such agent"), message.agent)
        else:
            self._says_bye = True
            self.end()

    def _request(self, session: SessionMachine, request: Request) -> None:
        if not session.is_taken(request, line=self.channel.line):
            return
        body = body_of(request)
        found = self._find(body)
        if isinstance(found, Fault):
            session.reply_fault(request, found)
            return
        value = read(found, body.input)
        if isinstance(value, Fault):
            session.reply_fault(request, value)
        elif found.waits:
            session.start(request)
            self._waiting[body.id] = (found, value, body.agent)
        else:
            assert found.run is not None
            session.reply(request, encode(found.run(value)), is_error=False)

    def _find(self, body: ShortReq) -> Tool | Fault:
        allowed = PROFILES[self._profile]
        if body.agent is not None:
            return Fault(Code.UNKNOWN_AGENT, "no such agent")
        if body.background:
            return Fault(Code.INVALID_REQUEST, "not yet available")
        if body.name in allowed:
            return TOOLS[body.name]
        if body.name in TOOLS:
            return Fault(Code.NOT_ALLOWED, "not for this agent", {"source": body.name})
        close = difflib.get_close_matches(body.name, allowed, n=1)
        extras: dict[str, object] = {"source": body.name}
        if close:
            extras["did_you_mean"] = close[0]
        return Fault(Code.UNKNOWN_TOOL, "no such tool", extras)

    def _views(self) -> list[ToolView]:
        return [ToolView(name, DESCRIPTIONS.get(name, ""), NO_SCHEMA) for name in PROFILES[self._profile]]

    def _fault(self, fault: Fault, agent: str | None = None) -> None:
        self.channel.outgoing.append(fault_line(fault, line=self.channel.line, agent=agent))


def read(tool: Tool, raw: Raw | UnsetType) -> object:
    """The value of an input, or the fault that it is."""
    value = tool.missing if isinstance(raw, UnsetType) else msgspec.json.decode(raw)
    if tool.is_wrapped and isinstance(value, dict) and list(value) == ["input"]:
        value = value["input"]
    wrong = [{"path": path, "message": "wrong"} for path in tool.wrong(value)]
    return Fault(Code.INVALID_INPUT, "the input is wrong", {"violations": wrong}) if wrong else value


def encode(value: object) -> str:
    return msgspec.json.encode(value).decode()
