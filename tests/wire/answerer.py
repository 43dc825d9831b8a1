"""The reference model: all that is behind the machines, without a clock, a task or a process.

It does the least with which every conversation can be held: a channel with its own session and named ones, tools that
are Python functions (`toolbox`), calls and jobs that end when told (`calls`).
"""

from pathlib import Path
from typing import Final

import msgspec
from msgspec import UnsetType

from tests.wire.calls import Agent, too_many
from tests.wire.toolbox import FORMS, Configuration, Profile, narrow
from tooldispatchd.wire.channel import ChannelMachine
from tooldispatchd.wire.decode import Refused
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.heavy import HeavyLine, message_of, read_line
from tooldispatchd.wire.messages import (
    DEPTH,
    PROTOCOL,
    ApproveResp,
    AskResp,
    Bye,
    ByeSaid,
    Hello,
    Message,
    NestedReq,
    Ping,
    Pong,
    PongSaid,
    ReadyLine,
    Request,
    ShortReq,
    ToolCancel,
    ToolsLine,
    ToolsReq,
)
from tooldispatchd.wire.questions import Question
from tooldispatchd.wire.session import EDITION, SessionMachine, State, body_of, capabilities_of, fault_line

MAX_FAILURES: Final = 3
# What refuses a `hello`, and not its session.
MISTAKES: Final = frozenset({Code.INVALID_REQUEST, Code.UNSUPPORTED_VERSION})


def light(message: Message | Refused | HeavyLine | None) -> Message | Refused | None:
    """The message of a line, also of one that a checker would have to read."""
    if not isinstance(message, HeavyLine):
        return message
    return message_of(read_line(b"8388608", bytearray(message.line))[0], message.line)


UNKNOWN_AGENT: Final = Fault(Code.UNKNOWN_AGENT, "no session is open for this agent")
DRAINING: Final = Fault(Code.DRAINING, "the session is ending")


class Answerer:
    """A channel machine, the agents behind it, and when the channel ends."""

    def __init__(self, config: Path) -> None:
        self._config = Configuration(config)
        self.channel = ChannelMachine(self._config.limit("max_line_bytes"))
        self.is_closed = False
        self.told: list[object] = []  # what askers were told, in order
        self._own: Agent | None = None
        self._named: dict[str, Agent] = {}
        self._failures = 0
        self._is_ending = False
        self._said_bye = False
        # What the own session gets where it cannot be opened any more.
        self._refusal: Fault | None = None

    # --- what comes ---

    def receive(self, chunk: bytes) -> None:
        if self.is_closed:
            return
        self.channel.feed(chunk)
        for message in self.channel.messages():
            # What lies behind a goodbye or a refusal is answered too.
            self._take(light(message))

    def end(self) -> None:
        # A last line without its newline is ignored after the goodbye of the only agent.
        if self._named or not self._said_bye:
            self.channel.end()
        for message in self.channel.messages():
            self._take(light(message))
        self._drain()

    def finish_one(self) -> bool:
        """End one call that waits, or let the nearest limit pass; whether there was one."""
        agents = self._agents()
        if any(agent.finish_one() for agent in agents):
            self._settle()
            return True
        nearest = min(agents, key=Agent.next_limit_ms, default=None)
        if nearest is None or nearest.next_limit_ms() == float("inf"):
            return False
        nearest.expire_one()
        self._settle()
        return True

    def _agents(self) -> list[Agent]:
        return [*self._named.values()] if self._own is None else [self._own, *self._named.values()]

    def _drain(self) -> None:
        self._is_ending = True
        for agent in self._agents():
            agent.end()
        self._settle()

    def _settle(self) -> None:
        """Take leave of the agents that are done; with the last of them the channel ends, if nothing more can come."""
        for agent in self._agents():
            name = agent.machine.agent
            if agent.is_done():
                if agent.farewell is not None:
                    self.channel.outgoing.append(Bye(name, agent.farewell.id))
                if name is not None:
                    del self._named[name]
                is_over = self._refusal or (self._own is not None and self._own.machine.state is State.CLOSED)
                self._is_ending = self._is_ending or bool(is_over and not self._named)
        if self._is_ending and not self._named and (self._own is None or self._own.machine.state is State.CLOSED):
            self.is_closed = True

    # --- lines ---

    def _take(self, message: Message | Refused | None) -> None:
        is_flooding = self.channel.line > self._config.limit("lines_per_s")
        flooded = too_many("lines_per_s", self._config.limit("lines_per_s"))
        match message:
            case ShortReq() | NestedReq():
                self._request(message, flooded if is_flooding else None)
            case ToolCancel() | ApproveResp() | AskResp():
                self._pass_on(message)
            case ByeSaid():
                self._bye(message)
            case Refused() if is_flooding:
                self._refuse(Refused(flooded, message.id, message.form, message.agent))
            case None | PongSaid():
                pass
            case Hello() | ToolsReq() | Ping() if is_flooding:
                self._fault(flooded, getattr(message, "agent", None), message.id)
            case Ping():
                self.channel.outgoing.append(Pong(message.t, message.id))
            case Refused():
                self._refuse(message)
            case Hello():
                self._greet(message)
            case ToolsReq():
                self._list_tools(message)
        self._settle()

    def _refuse(self, refused: Refused) -> None:
        agent = self._agent(refused.agent)
        machine = SessionMachine(self.channel.outgoing) if agent is None else agent.machine
        machine.refuse(refused, line=self.channel.line)

    def _agent(self, name: str | None) -> Agent | None:
        return self._own if name is None else self._named.get(name)

    def _request(self, request: Request, refusal: Fault | None) -> None:
        body = body_of(request)
        agent = self._agent_or_own(body.agent)
        if isinstance(agent, Fault):
            SessionMachine(self.channel.outgoing).reply_fault(request, agent)
        elif refusal is not None and body.id not in agent.machine.live:
            agent.machine.reply_fault(request, refusal)
        else:
            agent.request(request, line=self.channel.line)

    def _agent_or_own(self, name: str | None) -> Agent | Fault:
        """The agent, or the own session opened by this very line."""
        agent = self._agent(name)
        if agent is not None:
            return agent
        if name is not None:
            return UNKNOWN_AGENT
        if self._refusal is not None or self._is_ending:
            return self._refusal or DRAINING
        profile = self._no_room() or self._config.admit(None, None)
        if isinstance(profile, Fault):
            return profile
        self._own = Agent(self._config, SessionMachine(self.channel.outgoing), profile)
        self._own.machine.begin(self.channel.line)
        return self._own

    def _list_tools(self, message: ToolsReq) -> None:
        if message.schemas not in {None, *FORMS}:
            self._fault(Fault(Code.INVALID_REQUEST, "no such form"), message.agent, message.id)
            return
        agent = self._agent_or_own(message.agent)
        if isinstance(agent, Fault):
            self._fault(agent, message.agent, message.id)
        elif isinstance(switched := agent.select(message), Fault):
            self._fault(switched, message.agent, message.id)
        else:
            form = message.schemas or agent.machine.asked.schemas or "plain"
            self.channel.outgoing.append(ToolsLine(agent.tools(form, switched), message.agent, message.id))

    def _pass_on(self, message: ToolCancel | ApproveResp | AskResp) -> None:
        agent = self._agent(message.agent)
        if agent is None:
            if message.agent is not None:
                self._fault(UNKNOWN_AGENT, message.agent)
        elif isinstance(message, ToolCancel):
            agent.cancel(message.id or "")
        else:
            agent.questions.take(message)

    def _bye(self, message: ByeSaid) -> None:
        agent = self._agent(message.agent)
        if agent is not None and agent.machine.state is not State.CLOSED:
            agent.farewell = agent.farewell or message
            self._said_bye = self._said_bye or message.agent is None
            agent.end()
        elif message.agent is not None:
            self._fault(UNKNOWN_AGENT, message.agent, message.id)
        elif not self._said_bye:
            self.channel.outgoing.append(Bye(id=message.id))
            self._said_bye = True
            self._refusal = self._refusal or DRAINING
            self._is_ending = self._is_ending or not self._named

    # --- opening ---

    def _greet(self, hello: Hello) -> None:
        agent = self._agent(hello.agent)
        if agent is not None:
            if agent.machine.state in {State.DRAINING, State.CLOSED}:
                self._fault(DRAINING, hello.agent, hello.id)
            else:
                agent.machine.greet(hello, line=self.channel.line)
            return
        is_over = self._is_ending or (hello.agent is None and self._refusal is not None)
        profile = DRAINING if is_over else self._profile_of(hello)
        if self._failures >= MAX_FAILURES:
            profile = Fault(Code.NOT_AUTHENTICATED, "no session is opened: not authenticated")
        if isinstance(profile, Profile):
            machine = SessionMachine(self.channel.outgoing, agent=hello.agent)
            machine.greet(hello, line=self.channel.line)
            self._open(Agent(self._config, machine, profile), profile)
        else:
            self._fault(profile, hello.agent, hello.id)
            self._mind_refusal(profile, hello.agent)

    def _profile_of(self, hello: Hello) -> Profile | Fault:
        if hello.protocol is not None and PROTOCOL not in hello.protocol:
            return Fault(Code.UNSUPPORTED_VERSION, "not that version", {"supported": [PROTOCOL]})
        profile = self._config.admit(hello.profile, hello.token)
        if isinstance(profile, Fault):
            return profile
        if hello.schemas not in {None, *FORMS}:
            return Fault(Code.INVALID_REQUEST, "no such form")
        refusal = self._no_room()
        if refusal is not None:
            return refusal
        if hello.workspace is not None:
            # No profile of the fixtures admits one.
            is_path = hello.workspace.startswith("/")
            wrong = Fault(Code.INVALID_REQUEST, "that is no path", {"source": "workspace"})
            return Fault(Code.NOT_ALLOWED, "no such workspace for this profile") if is_path else wrong
        return profile if isinstance(hello.spec, UnsetType) else narrow(profile, hello.spec)

    def _no_room(self) -> Fault | None:
        limit = self._config.limit("sessions")
        return too_many("sessions", limit) if len(self._agents()) >= limit else None

    def _open(self, agent: Agent, profile: Profile) -> None:
        name = agent.machine.agent
        if name is None:
            self._own = agent
        else:
            self._named[name] = agent
        machine, config = agent.machine, self._config
        limits = {"line": config.limit("max_line_bytes"), "in_flight": config.limit("in_flight", 256)}
        limits |= {"content": config.limit("max_content_bytes", 64 * 1024 * 1024), "depth": DEPTH}
        self.channel.outgoing.append(
            ReadyLine(
                profile.name,
                PROTOCOL,
                agent.tools(machine.asked.schemas or "plain"),
                [],
                capabilities_of(machine, agents=True, jobs=profile.jobs, workspace=False, admin=False),
                msgspec.Raw(msgspec.json.encode(limits)),
                name,
                agent.instructions,
                machine.hello_id,
                edition=EDITION,
            )
        )

    def _mind_refusal(self, refusal: Fault, name: str | None) -> None:
        if refusal.code is Code.NOT_AUTHENTICATED:
            self._failures += 1
            if self._failures == MAX_FAILURES:
                self._refusal = self._refusal or refusal
                is_open = self._own is not None and self._own.machine.state is not State.CLOSED
                self._is_ending = self._is_ending or not (is_open or self._named)
        elif name is None and refusal.code not in MISTAKES and not self._named:
            self._refusal = self._refusal or refusal
            self._is_ending = True

    def _fault(self, fault: Fault, agent: str | None = None, line_id: str | None = None) -> None:
        self.channel.outgoing.append(fault_line(fault, line=self.channel.line, line_id=line_id, agent=agent))

    # --- what only the daemon begins ---

    def do(self, verb: str, value: object) -> None:
        """A step that no agent can order: ask, withdraw a question, change the tools."""
        fields = value if isinstance(value, dict) else {}
        agent = self._agent(fields.get("agent"))
        assert agent is not None
        if verb == "daemon_withdraws":
            agent.questions.withdraw(fields["id"])
        elif verb == "daemon_changes_tools":
            agent.machine.tools_changed([msgspec.Raw(msgspec.json.encode(tool)) for tool in fields["tools"]])
        elif "kind" in fields:
            params = msgspec.Raw(msgspec.json.encode(fields["params"]))
            question = Question(fields["kind"], params, self.told.append)
            self._note(next(iter(agent.questions.ask(fields["server"], [question])), None))
        else:
            given = msgspec.Raw(msgspec.json.encode(fields["input"]))
            self._note(agent.questions.approve(fields["name"], given, fields["reason"], self.told.append))

    def _note(self, question: str | None) -> None:
        """A question that was not even asked is as good as one that nobody answers."""
        if question is None:
            self.told.append(None)
