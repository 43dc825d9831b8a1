"""Who stands behind a channel: its lines go to its session, and its ends become the session's.

bytes ─▶ ChannelMachine ─▶ Host ─▶ Session        the channel's own session opens with its first line
              ▲                       │
              └──── outgoing lines ◀──┘
"""

from collections.abc import Callable
from typing import Final

from msgspec import UnsetType

from tooldispatchd.agent.faults import DRAINING, too_many
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.session import Session
from tooldispatchd.catalog.profiles import DEFAULT_PROFILE
from tooldispatchd.front.channel import Outlet
from tooldispatchd.wire.channel import ChannelMachine
from tooldispatchd.wire.decode import Refused
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import (
    Bye,
    ByeSaid,
    Hello,
    Message,
    NestedReq,
    Request,
    ShortReq,
    ToolCancel,
    ToolReq,
    ToolsReq,
)
from tooldispatchd.wire.session import SessionMachine, fault_line

# What one turn serves: as many requests as take half a millisecond, a refusal counting for several. The answers of a
# turn are sent before the next, so they are what a channel may pile up over its cap.
TURN: Final = 256
DEAR: Final = 8


class Host:
    """One channel's lines and ends."""

    __slots__ = (
        "_is_closed",
        "_is_left",
        "_is_reading",
        "_machine",
        "_on_closed",
        "_outlet",
        "_runtime",
        "_said_bye",
        "_session",
    )

    def __init__(self, runtime: Runtime, outlet: Outlet, on_closed: Callable[["Host"], None]) -> None:
        self._runtime = runtime
        self._outlet = outlet
        self._on_closed = on_closed
        self._machine = ChannelMachine(runtime.limits.max_line_bytes)
        self._session: Session | None = None
        self._is_left = False
        self._is_closed = False
        self._is_reading = False
        self._said_bye = False

    # --- the channel's side ---

    @property
    def is_crowded(self) -> bool:
        """Whether unread answers of all channels have reached their bound, and some of them are this one's."""
        return self._outlet.is_crowded

    def received(self, chunk: bytes) -> None:
        """Serve the lines that `chunk` completes, a turn's worth of them now."""
        self._machine.feed(chunk)
        self.resume()

    def resume(self) -> None:
        """Serve the lines of one turn, and answer in one write what can be answered at once."""
        machine = self._machine
        session = self._session
        crowded = self._outlet.is_crowded
        self._is_reading = True
        try:
            left = TURN
            for message in machine.messages():
                if session is not None and type(message) is ToolReq and not crowded:
                    session.request(message, line=machine.line)
                    left -= 1
                else:
                    left -= self._take(message)
                    session = self._session
                # A session that has just ended still says so to what was asked in the same breath.
                if left <= 0 or (self._is_left and self._session is None):
                    break
        finally:
            self._is_reading = False
        self._send()
        if self._is_left:
            self._close()
        elif machine.has_lines:
            self._outlet.again()

    def ended(self) -> None:
        """No more requests: the session finishes what runs, then the channel closes."""
        if self._is_left:
            return
        # What follows `bye` without a newline was never said to its end.
        for message in () if self._said_bye else self._machine.end():
            self._take(message)
        self.drain()

    def gone(self, why: str) -> None:
        """Nobody can be answered any more."""
        self._runtime.log.debug("channel gone", why=why)
        if self._is_left:
            self._close()
        elif self._session is None:
            self._leave()
        else:
            self._session.gone()

    def flush(self) -> None:
        """Send the outgoing lines, and what the session's servers are owed; while a chunk is read, at its end."""
        if not self._is_reading:
            self._send()

    def _send(self) -> None:
        if self._session is not None:
            self._session.toolset.flush()
        lines = self._machine.take()
        if lines:
            self._outlet.write(lines)

    # --- the daemon's side ---

    def drain(self) -> None:
        """Take no more requests; what runs is finished."""
        if self._session is None:
            self._leave()
        else:
            self._session.end()
            self.flush()

    def abandon(self) -> None:
        """End what still runs; the channel closes when nothing of the session is left."""
        if self._session is None:
            self._leave()
        else:
            self._session.abandon()

    def closed(self) -> None:
        """Nothing of the session is left: neither does its channel stay."""
        if self._said_bye:
            self._machine.outgoing.append(Bye())
        self._leave()

    def _leave(self) -> None:
        """Close the channel; while a chunk is read, when what was said in it has been sent."""
        if not self._is_left:
            self._is_left = True
            if not self._is_reading:
                self._send()
                self._close()

    def _close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._outlet.close()
            self._on_closed(self)

    # --- lines ---

    def _take(self, message: Message | Refused) -> int:
        """Serve any line: the first opens the session, whatever it is. Returns the line's share of the turn."""
        if isinstance(message, Hello):
            self._greet(message)
        elif isinstance(message, ToolReq | ShortReq | NestedReq):
            self._request(message)
            return 2
        elif isinstance(message, Refused):
            self._own_machine().refuse(message, line=self._machine.line)
            return DEAR
        elif isinstance(message, ToolsReq):
            self._list_tools(message)
            return TURN
        elif isinstance(message, ToolCancel):
            if self._session is not None and message.agent is None:
                self._session.cancel(message.id)
        elif isinstance(message, ByeSaid):
            self._bye(message)
        return 1

    def _greet(self, hello: Hello) -> None:
        if self._session is not None:
            self._session.machine.greet(line=self._machine.line)
            return
        later = _not_yet(hello)
        if later is not None:
            self._fault(Fault(Code.INVALID_REQUEST, f"{later} is not yet available"), agent=hello.agent)
            return
        refusal = self._refusal(hello.profile or DEFAULT_PROFILE)
        if refusal is not None:
            self._fault(refusal)
            self._leave()
            return
        self._open(hello.profile or DEFAULT_PROFILE, is_greeted=True)

    def _request(self, request: Request) -> None:
        session = self._session or self._open_by_line()
        if isinstance(session, Fault):
            self._lobby(session).is_taken(request, line=self._machine.line)
        elif self._outlet.is_crowded:
            session.machine.reply_fault(request, too_many(self._runtime.limits.buffered_bytes))
        else:
            session.request(request, line=self._machine.line)

    def _list_tools(self, message: ToolsReq) -> None:
        if message.agent is not None:
            self._fault(Fault(Code.UNKNOWN_AGENT, "no session is open for this agent"), agent=message.agent)
        elif message.schemas not in {None, "plain"}:
            self._fault(Fault(Code.INVALID_REQUEST, "schemas other than plain are not yet available"))
        else:
            session = self._session or self._open_by_line()
            if isinstance(session, Fault):
                self._fault(session)
            else:
                session.list_tools()

    def _bye(self, message: ByeSaid) -> None:
        if message.agent is not None:
            self._fault(Fault(Code.UNKNOWN_AGENT, "no session is open for this agent"), agent=message.agent)
            return
        self._said_bye = True
        if self._session is None:
            self._machine.outgoing.append(Bye())
        self.drain()

    # --- opening ---

    def _refusal(self, profile: str) -> Fault | None:
        if self._runtime.is_draining:
            return DRAINING
        if profile in self._runtime.catalog.profiles:
            return None
        return Fault(Code.UNKNOWN_PROFILE, "no such profile")

    def _open_by_line(self) -> Session | Fault:
        refusal = self._refusal(DEFAULT_PROFILE)
        return refusal or self._open(DEFAULT_PROFILE, is_greeted=False)

    def _open(self, profile: str, *, is_greeted: bool) -> Session:
        machine = SessionMachine(self._machine.outgoing)
        if is_greeted:
            machine.greet(line=self._machine.line)
        else:
            machine.begin()
        self._runtime.sessions += 1
        session = Session(self._runtime, self, machine, profile=profile, number=self._runtime.sessions)
        self._session = session
        session.open()
        return session

    def _own_machine(self) -> SessionMachine:
        return SessionMachine(self._machine.outgoing) if self._session is None else self._session.machine

    def _lobby(self, refusal: Fault) -> SessionMachine:
        """A session that answers every request with the same fault, because none could be opened."""
        machine = SessionMachine(self._machine.outgoing)
        machine.refusal = refusal
        return machine

    def _fault(self, fault: Fault, *, agent: str | None = None) -> None:
        self._machine.outgoing.append(fault_line(fault, line=self._machine.line, agent=agent))


def _not_yet(hello: Hello) -> str | None:
    """What a `hello` asks for that this version does not have."""
    if hello.agent is not None:
        return "a named agent"
    if hello.token is not None:
        return "a token"
    if not isinstance(hello.spec, UnsetType):
        return "spec"
    if hello.schemas not in {None, "plain"}:
        return "another form of schemas than plain"
    return None
