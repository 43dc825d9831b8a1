"""Who stands behind a channel: each line goes to the session that it names, and the channel's ends become theirs.

bytes ─▶ ChannelMachine ─▶ Host ─┬─▶ the channel's own session    opens with its first line, once
              ▲                  └─▶ named sessions               each opens with its `hello`, closes with its `bye`
              └─── outgoing lines ◀── all of them

The channel closes when nothing more can come on it and none of its sessions is left.
"""

from collections.abc import Callable
from typing import Final

import trio

from tooldispatchd.agent.entrance import Entrance, Visitor
from tooldispatchd.agent.faults import DRAINING, too_many
from tooldispatchd.agent.reception import leave, make_session, profile_of, profile_without_hello
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.session import Session
from tooldispatchd.catalog.profiles import Profile
from tooldispatchd.front.channel import Outlet
from tooldispatchd.wire.channel import ChannelMachine
from tooldispatchd.wire.decode import Refused
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import (
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
    Request,
    ShortReq,
    ToolCancel,
    ToolReq,
    ToolsReq,
)
from tooldispatchd.wire.session import SessionMachine, State, body_of, fault_line

# What one turn serves: as many requests as take half a millisecond, a refusal counting for several. The answers of a
# turn are sent before the next, so they are what a channel may pile up over its cap.
TURN: Final = 256
DEAR: Final = 8
# A person who mistypes a token has tried again by then; a program that guesses has got nowhere.
MAX_FAILURES: Final = 3

UNKNOWN_AGENT: Final = Fault(Code.UNKNOWN_AGENT, "no session is open for this agent")


class Host:
    """One channel's lines and ends. `entrance` is what its listener admits, `visitor` who is at its other end."""

    __slots__ = (
        "_allowance",
        "_counted_at",
        "_entrance",
        "_failures",
        "_has_ended",
        "_is_closed",
        "_is_ending",
        "_is_flooding",
        "_is_forced",
        "_is_reading",
        "_machine",
        "_named",
        "_on_closed",
        "_outlet",
        "_own",
        "_runtime",
        "_said_bye",
        "_visitor",
    )

    def __init__(
        self,
        runtime: Runtime,
        outlet: Outlet,
        on_closed: Callable[["Host"], None],
        *,
        entrance: Entrance,
        visitor: Visitor,
    ) -> None:
        self._runtime = runtime
        self._outlet = outlet
        self._on_closed = on_closed
        self._entrance = entrance
        self._visitor = visitor
        self._machine = ChannelMachine(runtime.limits.max_line_bytes)
        self._own: Session | None = None
        self._named: dict[str, Session] = {}
        self._failures = 0
        self._allowance = float(runtime.limits.lines_per_s)
        self._counted_at = trio.current_time()
        self._is_flooding = False
        self._has_ended = False  # no more bytes will come
        self._is_ending = False  # no session opens any more, and the channel closes after the last
        self._is_forced = False  # what was said and not looked at is of no interest
        self._is_closed = False
        self._is_reading = False
        self._said_bye = False

    # --- the channel's side ---

    @property
    def is_crowded(self) -> bool:
        """Whether unread answers of all channels have reached their bound, and some of them are this one's."""
        return self._outlet.is_crowded

    @property
    def is_behind(self) -> bool:
        """Whether some of what was sent has not been taken yet."""
        return self._outlet.is_behind

    def received(self, chunk: bytes) -> None:
        """Serve the lines that `chunk` completes, a turn's worth of them now."""
        self._machine.feed(chunk)
        self.resume()

    def resume(self) -> None:
        """Serve the lines of one turn, and answer in one write what can be answered at once."""
        machine = self._machine
        own, named = self._own, self._named
        before = machine.line
        is_slow = self._look_whether_flooding() or self._outlet.is_crowded
        self._is_reading = True
        try:
            left = TURN
            for message in machine.messages():
                if type(message) is ToolReq and not is_slow:
                    session = own if message.agent is None else named.get(message.agent)
                    if session is not None:
                        session.request(message, line=machine.line)
                        left -= 1
                        if left <= 0:
                            break
                        continue
                left -= self._take(message)
                own = self._own
                if left <= 0 or self._is_forced:
                    break
        finally:
            self._is_reading = False
            self._allowance -= machine.line - before
        self._go_on()

    def _go_on(self) -> None:
        """After a turn: send, and take another, or see what the end of the input means."""
        self._send()
        if self._machine.has_lines and not self._is_forced:
            self._outlet.again()
        elif self._has_ended:
            self.drain()
        else:
            self._leave_if_empty()

    def ended(self) -> None:
        """No more bytes: when their lines are served the sessions finish what runs, then the channel closes."""
        if self._is_forced:
            return
        self._has_ended = True
        # What follows `bye` without a newline was never said to its end.
        if not self._said_bye:
            self._machine.end()
        if not self._machine.has_lines:
            self.drain()
        elif not self._is_reading:
            self.resume()

    def gone(self, why: str) -> None:
        """Nobody can be answered any more: calls are cancelled, and lines that were not served never are."""
        self._runtime.log.debug("channel gone", why=why)
        self._is_ending = self._is_forced = True
        for session in self._sessions():
            session.gone()
        self._leave_if_empty()

    def flush(self) -> None:
        """Send the outgoing lines, and what servers are owed; while a chunk is read, at its end."""
        if not self._is_reading:
            self._send()

    def _send(self) -> None:
        self._runtime.flush()
        lines = self._machine.take()
        if lines:
            self._outlet.write(lines)

    def _look_whether_flooding(self) -> bool:
        """Give the channel its lines of the time that has passed; whether it has used up more than it had."""
        limit = self._runtime.limits.lines_per_s
        now = trio.current_time()
        # Whatever was sent, a second later there is room again.
        self._allowance = min(limit, max(-limit, self._allowance) + (now - self._counted_at) * limit)
        self._counted_at = now
        self._is_flooding = self._allowance <= 0
        return self._is_flooding

    # --- the daemon's side ---

    def drain(self) -> None:
        """Take no more requests; what runs is finished."""
        self._is_ending = True
        for session in self._sessions():
            session.end()
        self.flush()
        self._leave_if_empty()

    def abandon(self) -> None:
        """End what still runs; the channel closes when nothing of its sessions is left."""
        self._is_ending = self._is_forced = True
        for session in self._sessions():
            session.abandon()
        self._leave_if_empty()

    def closed(self, agent: str | None) -> None:
        """Nothing of that session is left; with the last one the channel closes, if nothing more can come."""
        session = self._own if agent is None else self._named.pop(agent)
        assert session is not None
        leave(self._runtime, self._visitor)
        if session.is_leaving:
            self._machine.outgoing.append(Bye(agent))
        has_own_ended = self._said_bye or (self._own is not None and self._own.machine.state is State.CLOSED)
        if has_own_ended and not self._named:
            # What the channel's own session owes has been said, and nobody else is there.
            self._is_ending = True
        self.flush()
        self._leave_if_empty()

    def _sessions(self) -> list[Session]:
        own = self._own
        return [*self._named.values()] if own is None else [own, *self._named.values()]

    def _leave_if_empty(self) -> None:
        """Close the channel where it is ending, no session is left, and what was said has been heard."""
        if not self._is_ending or self._is_closed or self._is_reading or self._named:
            return
        if self._own is not None and self._own.machine.state is not State.CLOSED:
            return
        if self._machine.has_lines and not self._is_forced:
            return
        self._is_closed = self._is_forced = True
        self._send()
        self._outlet.close()
        self._on_closed(self)

    # --- lines ---

    def _take(self, message: Message | Refused) -> int:
        """Serve any line: the first opens the session, whatever it is. Returns the line's share of the turn."""
        if isinstance(message, ToolReq | ShortReq | NestedReq):
            self._request(message)
            return DEAR if self._is_flooding else 2
        if self._is_flooding:
            return self._turn_down()
        if isinstance(message, Hello):
            self._greet(message)
            return DEAR
        if isinstance(message, Refused):
            self._refuse_line(message)
            return DEAR
        if isinstance(message, ToolsReq):
            self._list_tools(message)
            return TURN
        if isinstance(message, Ping):
            self._machine.outgoing.append(Pong(message.t))
        elif isinstance(message, ByeSaid):
            self._bye(message)
        elif not isinstance(message, PongSaid):
            self._pass_on(message)
        return 1

    def _turn_down(self) -> int:
        """A line that is no request, over the channel's limit. It takes a whole turn, which slows who goes on."""
        self._fault(too_many("lines_per_s", self._runtime.limits.lines_per_s))
        return TURN

    def _session_of(self, agent: str | None) -> Session | None:
        return self._own if agent is None else self._named.get(agent)

    def _request(self, request: Request) -> None:
        body = body_of(request)
        session = self._session_of(body.agent) or self._open_by_line(body.agent)
        if isinstance(session, Fault):
            self._lobby(session).is_taken(request, line=self._machine.line)
        elif self._is_flooding and body.id not in session.machine.live:
            session.machine.reply_fault(request, too_many("lines_per_s", self._runtime.limits.lines_per_s))
        elif self._outlet.is_crowded and body.id not in session.machine.live:
            session.machine.reply_fault(request, too_many("buffered_bytes", self._runtime.limits.buffered_bytes))
        else:
            session.request(request, line=self._machine.line)

    def _refuse_line(self, refused: Refused) -> None:
        session = self._session_of(refused.agent)
        machine = SessionMachine(self._machine.outgoing) if session is None else session.machine
        machine.refuse(refused, line=self._machine.line)

    def _pass_on(self, message: ToolCancel | ApproveResp | AskResp) -> None:
        session = self._session_of(message.agent)
        if session is None:
            # Nothing of an own session that never opened can be meant; a name that is not open may be a slip.
            if message.agent is not None:
                self._fault(UNKNOWN_AGENT, agent=message.agent)
        elif isinstance(message, ToolCancel):
            session.cancel(message.id)
        else:
            session.take_reply(message)

    def _list_tools(self, message: ToolsReq) -> None:
        if message.schemas not in {None, "plain"}:
            fault = Fault(Code.INVALID_REQUEST, "schemas other than plain are not yet available")
            self._fault(fault, agent=message.agent)
            return
        session = self._session_of(message.agent) or self._open_by_line(message.agent)
        if isinstance(session, Fault):
            self._fault(session, agent=message.agent)
        else:
            session.list_tools()

    def _bye(self, message: ByeSaid) -> None:
        session = self._session_of(message.agent)
        if session is not None and session.machine.state is not State.CLOSED:
            session.is_leaving = True
            self._said_bye = self._said_bye or message.agent is None
            session.end()
        elif message.agent is not None:
            self._fault(UNKNOWN_AGENT, agent=message.agent)
        else:
            self._machine.outgoing.append(Bye())
            self._said_bye = True
            self._is_ending = self._is_ending or not self._named

    # --- opening ---

    def _greet(self, hello: Hello) -> None:
        session = self._session_of(hello.agent)
        if session is not None:
            if hello.agent is not None and session.machine.state is State.DRAINING:
                self._fault(Fault(Code.DRAINING, "the agent's last session is being torn down"), agent=hello.agent)
            else:
                session.machine.greet(hello, line=self._machine.line)
            return
        is_over = self._is_ending or (hello.agent is None and self._said_bye)
        profile = DRAINING if is_over else profile_of(hello, self._runtime, self._entrance, self._visitor)
        if isinstance(profile, Profile):
            self._open(profile, hello)
            return
        self._fault(profile, agent=hello.agent)
        self._mind_refusal(profile, hello.agent)

    def _mind_refusal(self, refusal: Fault, agent: str | None) -> None:
        """A channel's own session that is refused ends its channel; for a wrong token it may try again."""
        if refusal.code is Code.NOT_AUTHENTICATED:
            self._failures += 1
            if self._failures >= MAX_FAILURES:
                self._is_forced = True
                self.drain()
        elif agent is None and refusal.code is not Code.INVALID_REQUEST and not self._named:
            self._is_ending = self._is_forced = True

    def _open_by_line(self, agent: str | None) -> Session | Fault:
        if agent is not None:
            return UNKNOWN_AGENT
        if self._said_bye or self._is_ending:
            return DRAINING
        profile = profile_without_hello(self._runtime, self._entrance, self._visitor)
        return profile if isinstance(profile, Fault) else self._open(profile, None)

    def _open(self, profile: Profile, hello: Hello | None) -> Session:
        agent = None if hello is None else hello.agent
        machine = SessionMachine(self._machine.outgoing, agent=agent)
        if hello is None:
            machine.begin()
        else:
            machine.greet(hello, line=self._machine.line)
        session = make_session(self._runtime, self, machine, profile, self._visitor)
        if agent is None:
            self._own = session
        else:
            self._named[agent] = session
        session.open()
        return session

    def _lobby(self, refusal: Fault) -> SessionMachine:
        """A session that answers every request with the same fault, because none could be opened."""
        machine = SessionMachine(self._machine.outgoing)
        machine.refusal = refusal
        return machine

    def _fault(self, fault: Fault, *, agent: str | None = None) -> None:
        self._machine.outgoing.append(fault_line(fault, line=self._machine.line, agent=agent))
