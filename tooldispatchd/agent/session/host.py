"""One channel's lines and ends: each line goes to the session that it names, and the channel's ends become theirs.

bytes ─▶ ChannelMachine ─▶ Host ─▶ Roster ─▶ sessions
              ▲                                 │
              └───────── outgoing lines ◀───────┘

    LISTENING ──end of input──▶ ENDED ──┐
        └───────────────────────────────┴──nobody is left──▶ CLOSED
        └── gone ──▶ DEAF ──nobody is left──▶ CLOSED      what was not served never is
"""

from collections.abc import Callable, Hashable, Sequence
from enum import Enum
from time import perf_counter
from typing import Final

import msgspec
import trio

from tooldispatchd.agent.calls.call import LARGE_BYTES
from tooldispatchd.agent.faults import DRAINING, TOO_LATE, too_many
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.session.administration import NO_ADMINISTRATOR, AdminSide
from tooldispatchd.agent.session.entrance import Entrance, Visitor
from tooldispatchd.agent.session.halfline import HalfLine
from tooldispatchd.agent.session.lineage import Lineage
from tooldispatchd.agent.session.roster import UNKNOWN_AGENT, Roster
from tooldispatchd.agent.session.session import Session
from tooldispatchd.agent.steps.auditing import audit_refused
from tooldispatchd.agent.tools.showing import parsed, refuse_form
from tooldispatchd.calls.lineallowance import LineAllowance
from tooldispatchd.calls.outcome import utf8_size
from tooldispatchd.calls.refusals import is_logged
from tooldispatchd.catalog.profiles import Profile
from tooldispatchd.front.channel import Channel, Outlet
from tooldispatchd.wire.channel import ChannelMachine
from tooldispatchd.wire.decode import Refused, id_of, refuse_unread
from tooldispatchd.wire.faults import Fault
from tooldispatchd.wire.heavy import HeavyLine
from tooldispatchd.wire.lines import HEAD_BYTES
from tooldispatchd.wire.messages import (
    AdminReq,
    ApproveResp,
    AskResp,
    Bye,
    ByeSaid,
    Hello,
    Message,
    NestedReq,
    Outgoing,
    Parse,
    Ping,
    Pong,
    PongSaid,
    Reply,
    Request,
    ShortReq,
    ToolBackground,
    ToolCancel,
    ToolReq,
    ToolsReq,
)
from tooldispatchd.wire.session import SessionMachine, State, body_of, fault_line

# One turn serves at most this many requests, a refusal counting for several. The answers of a
# turn are sent before the next; large ones end it, so that no more than one turn's pile up over the channel's cap.
TURN: Final = 256
# And for no longer than this, whatever the requests take; looked at from time to time. One request may take longer.
TURN_S: Final = 0.000_1
LOOKS: Final = 3  # one request in four looks at the clock
DEAR: Final = 8
# This many tools of a list are written in the time of one request.
TOOLS_A_REQUEST: Final = 4


class Hearing(Enum):
    """Whether the channel's lines are still served."""

    LISTENING = "listening"
    ENDED = "ended"  # no more bytes will come; what came is served
    DEAF = "deaf"  # nothing is served any more
    CLOSED = "closed"


class ChannelHost:
    """See the module. `latest` gives the generation that a session which opens now is of.

    `on_closed` is told that no agent is left here; of one that is staying it is told again when the channel closes.
    `entrance` is what the channel's listener admits, `visitor` the process at its other end. With a `lineage` it is the
    channel of an agent that another agent called (`subagents`).
    """

    __slots__ = (
        "_allowance",
        "_awaited",
        "_half",
        "_has_administered",
        "_hearing",
        "_heavy",
        "_is_reading",
        "_is_turn_over",
        "_machine",
        "_may_stay",
        "_on_closed",
        "_outlet",
        "_owed",
        "_read",
        "_roster",
        "_said_bye",
        "_services",
        "_state",
        "_unsent",
        "_was_half_refused",
        "gate_key",
        "latest",
        "share",
        "visitor",
    )

    def __init__(
        self,
        latest: Callable[[], Runtime],
        outlet: Outlet,
        on_closed: Callable[["ChannelHost"], None],
        *,
        entrance: Entrance,
        visitor: Visitor,
        lineage: Lineage | None = None,
    ) -> None:
        self.share = outlet.share
        runtime = latest()
        # A user who is a stranger here gets no more places by having more channels.
        own_key: Hashable = object() if runtime.state.open_sessions.is_at_home(visitor.uid) else visitor.uid
        self.gate_key = own_key if lineage is None else lineage.account.channel
        self.latest = latest
        self._services = runtime.services
        self._state = runtime.state
        self._owed = runtime.state.owed
        self._outlet = outlet
        self._on_closed = on_closed
        self._machine = ChannelMachine(runtime.setup.limits.max_line_bytes)
        self.visitor = visitor
        self._has_administered = False
        self._may_stay = self._state.is_draining
        self._half = HalfLine(self.share, self._machine)
        self._was_half_refused = False
        self._roster = Roster(latest, self, self._machine.outgoing, entrance, visitor, lineage=lineage)
        self._hearing = Hearing.LISTENING
        self._allowance = LineAllowance(runtime.setup.limits.lines_per_s, trio.current_time())
        self._is_reading = self._is_turn_over = False
        self._unsent = 0  # bytes of large answers among the outgoing lines
        # So many things must be done before further lines are looked at: one may be a line that a checker reads.
        self._awaited = 0
        self._heavy: trio.CancelScope | None = None  # ends that
        # The message that it read, or whose session has more tools to plan, until the next turn.
        self._read: list[Message | Refused | None] = []
        self._said_bye = False

    # --- the channel's side ---

    @property
    def is_behind(self) -> bool:
        """Whether some of what was sent has not been taken yet."""
        return self._outlet.is_behind

    def received(self, chunk: bytes) -> None:
        """Serve the lines that `chunk` completes, a turn's worth of them now."""
        if self._hearing is Hearing.LISTENING:
            self._state.bytes_in += len(chunk)
            unfinished = self._machine.feed(chunk)
            if unfinished != self._half.held and not self._half.hold(unfinished):
                self._note_refused_half()
            self.resume()

    def _note_refused_half(self) -> None:
        if not self._was_half_refused:
            # Once for each channel, and of a user's many for ever fewer: nobody must fill the log too.
            self._was_half_refused = True
            memory, who = self._state.memory, self.visitor
            count = self._state.unheld.note(who.uid, trio.current_time())
            if is_logged(count):
                shown = {"uid": who.uid, "pid": who.pid, "held": memory.held, "limit": memory.max_bytes}
                self.latest().setup.log.warning("line refused for want of memory", lately=count, **shown)

    def resume(self) -> None:
        """Serve the lines of one turn, and answer in one write what can be answered at once."""
        if self._awaited:
            return
        machine, roster, named = self._machine, self._roster, self._roster.named
        before = machine.line
        left = TURN if self._allowance.left >= TURN else self._refill()
        until = 0.0  # a short turn needs no clock
        is_slow = self._allowance.is_used_up or self._outlet.is_crowded
        self._is_reading = True
        try:
            while self._read and not self._is_turn_over:
                left -= self._take(self._read.pop())
            for message in () if self._awaited or self._read else machine.messages():
                session = None
                if type(message) is ToolReq and not is_slow:
                    session = roster.own if message.agent is None else named.get(message.agent)
                if session is not None:
                    session.request(message, line=machine.line)  # type: ignore[arg-type]  # as was just looked at
                    left -= 1
                    if left & LOOKS and not self._is_turn_over:
                        continue
                elif type(message) is HeavyLine:
                    self._read_heavy(message.line)
                    break
                else:
                    left -= self._take(message)  # type: ignore[arg-type]  # as above
                now = perf_counter()
                until = until or now + TURN_S
                if left <= 0 or self._is_turn_over or now > until:
                    break
        finally:
            self._is_reading = self._is_turn_over = False
            self._allowance.left -= machine.line - before
        self._go_on()

    def _refill(self) -> int:
        """Give the channel its lines of the time that has passed; how many of them this turn may serve."""
        allowance = self._allowance
        allowance.refill(self.latest().setup.limits.lines_per_s, trio.current_time())
        return TURN if allowance.is_used_up else min(TURN, int(allowance.left))

    def _read_heavy(self, line: bytes | bytearray) -> None:
        """Have a checker read a line that would take too long here; nothing behind it is looked at meanwhile."""
        if not self.share.draw(len(line)):
            self._read.append(refuse_unread(bytes(line[:HEAD_BYTES]), self.share.fault))
            return
        self._heavy = trio.CancelScope()
        self.hold()
        self._services.home.start_soon(self._await_heavy, line, self._heavy)

    async def _await_heavy(self, line: bytes | bytearray, scope: trio.CancelScope) -> None:
        limit = self.latest().setup.limits.max_line_bytes
        with scope:
            self._read.append(await self._services.checking.read_line(line, limit, turns=(self.gate_key, self)))
        if scope.cancelled_caught:
            self._read.append(refuse_unread(bytes(line[:HEAD_BYTES]), DRAINING))
        self.share.add(-len(line))
        self._heavy = None
        self.release()

    def hold(self) -> None:
        """Look at no further line until `release`, which is called as often."""
        self._awaited += 1
        self._is_turn_over = True
        self._outlet.pause()

    def release(self) -> None:
        """Go on with the lines."""
        self._awaited -= 1
        if not self._awaited:
            # In a turn of the channel's own, under its guard.
            self._outlet.again()

    def _go_on(self) -> None:
        """After a turn: send, and take another, or see what the end of the input means."""
        self._send()
        if self._awaited:
            return
        if self._has_lines:
            self._outlet.again()
        elif self._hearing is Hearing.ENDED:
            self.drain()
        elif self._roster.is_closing:
            self._close_if_empty()

    @property
    def _has_lines(self) -> bool:
        has_lines = self._machine.lines or self._read or self._awaited
        return bool(has_lines) and self._hearing in {Hearing.LISTENING, Hearing.ENDED}

    def ended(self) -> None:
        """No more bytes: when their lines are served the sessions finish what runs, then the channel closes."""
        if self._hearing is not Hearing.LISTENING:
            return
        self._hearing = Hearing.ENDED
        # A last line without a newline after the only agent's `bye` is incomplete.
        if self._roster.named or not self._said_bye:
            self._machine.end()
            self._half.drop()
        self.resume()

    def gone(self, why: str) -> None:
        """The peer has left: cancel all calls, and serve no line any more."""
        self.latest().setup.log.debug("channel gone", why=why)
        if self._hearing is not Hearing.CLOSED:
            self._hearing = Hearing.DEAF
        if self._admin is not None:
            self._admin.forget(self)
        self._stop_all(Session.gone)

    def flush(self) -> None:
        """Send the outgoing lines and servers' queued requests; while a chunk is read, at its end."""
        if not self._is_reading:
            self._send()

    def crowding(self, size: int) -> Fault | None:
        """Why an answer of `size` bytes cannot be sent now: there is no room for it, should it lie unread."""
        has_room = size <= LARGE_BYTES or self.share.has_room(self._unsent + size)
        return None if has_room and not self._outlet.is_crowded else self.share.fault

    def fit(self, content: str) -> str | Fault:
        """An answer that may not be taken at once, or why there is no room for it."""
        if (crowding := self.crowding(size := utf8_size(content))) is None:
            self.has_answered(size)
        return crowding or content

    def has_answered(self, size: int) -> None:
        """An answer of `size` bytes lies among the outgoing lines."""
        self._unsent += size
        self._is_turn_over = self._unsent >= self.latest().setup.limits.out_buffer_bytes

    def _send(self) -> None:
        while self._owed:
            self._owed.pop().flush()
        lines = self._machine.take()
        self._unsent = 0
        if type(lines) is list:
            for piece in lines:
                self._state.bytes_out += len(piece)
                self._outlet.write(piece)
        elif lines:
            self._state.bytes_out += len(lines)
            self._outlet.write(lines)  # type: ignore[arg-type]  # mypy does not take `type` for what it says

    # --- the daemon's side ---

    def renew(self, before: Entrance, entrance: Entrance) -> None:
        """The place that admitted `before` now admits others: so does its channel, if it came in there."""
        if self._roster.entrance is before:
            self._roster.entrance = entrance

    @property
    def sessions(self) -> list[Session]:
        """Those that are there now."""
        return list(self._roster)

    @property
    def is_staying(self) -> bool:
        """Whether the channel is kept for an administrator alone, while the daemon drains."""
        is_kept = self._may_stay and self._hearing is Hearing.LISTENING and self._roster.is_empty
        return is_kept and (self._has_administered or self._roster.sees_drain) and self.may_administer

    def drain(self) -> None:
        """Take no more requests; what runs is finished. Who administers the daemon here may look on until `abort`."""
        self._may_stay = True
        self._roster.is_closing = True
        for session in self._roster:
            session.drain()
        self.flush()
        self._close_if_empty()

    def abort(self) -> None:
        """End what still runs and refuse all requests; the channel closes when nothing of its sessions is left."""
        self._may_stay = False
        self._stop_all(Session.abort)

    def _stop_all(self, stop: Callable[[Session], None]) -> None:
        """Let nobody join, drop the line that a checker reads, and `stop` each session."""
        self._roster.is_closing = True
        if self._heavy is not None:
            self._heavy.cancel()
        for session in self._roster:
            stop(session)
        self._close_if_empty()

    # --- the side of what answers administrators ---

    @property
    def may_administer(self) -> bool:
        """Whether who speaks here may see what the daemon does, and change it."""
        return self._services.admin is not None and self._roster.may_administer

    @property
    def administrators(self) -> tuple[str, ...]:
        """The profiles of its sessions that make it an administrator's."""
        return self._roster.administrators

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be said on it any more."""
        return self._hearing in {Hearing.DEAF, Hearing.CLOSED}

    def say(self, line: Outgoing) -> None:
        """Send a line of no session, with the next flush."""
        self._machine.outgoing.append(line)

    def hand(self, line: bytes, fds: Sequence[int]) -> bool:
        """Send a line with descriptors, now; whether that could be done: over a socket whose peer reads its answers."""
        self.flush()
        return isinstance(self._outlet, Channel) and self._outlet.hand(line, fds)

    def answered(self) -> None:
        """Send the answer to the last line that was owed one; the channel may have waited for that."""
        self.flush()
        self._close_if_empty()

    def refuse(self, asked: AdminReq, fault: Fault, *, line: int) -> None:
        """Say why what was asked for in that line is not done."""
        self._machine.outgoing.append(fault_line(fault, line=line, line_id=asked.id))

    # --- the side of who called its agent ---

    def open_called(self, profile: Profile) -> Session | Fault | None:
        """The session of an agent that was called, before it has said anything; or why there is none.

        None says to ask once more after `search`.
        """
        return self._roster.open_called(profile)

    async def search(self) -> None:
        """Look for the workspace of the session that is to open."""
        if self._roster.search is not None:
            await self._roster.search.run()

    def closed(self, agent: str | None) -> None:
        """A session is torn down; after the last one the channel closes, if no other can open."""
        if self._has_administered and self._state.is_draining and self.may_administer:
            self._roster.sees_drain = True
        farewell = self._roster.closed(agent).farewell
        if farewell is not None:
            self._machine.outgoing.append(Bye(agent, farewell.id))
        if self._admin is not None and not self.may_administer:
            self._admin.dismiss(self)
        self.flush()
        self._close_if_empty()

    def _close_if_empty(self) -> None:
        """Close the channel where nobody can join, nobody is left, and what was said has been heard."""
        if self._hearing is Hearing.CLOSED or self._is_reading or self._has_lines:
            return
        admin = self._admin
        if self._roster.is_closing and self.is_staying:
            self._on_closed(self)
        elif self._roster.is_closing and self._roster.is_empty and (admin is None or not admin.owes(self)):
            self._hearing = Hearing.CLOSED
            if admin is not None:
                admin.forget(self)
            self._half.drop()
            self._send()
            self._outlet.close()
            self._on_closed(self)
            self._roster.forget()

    # --- lines ---

    def _take(self, message: Message | Refused | None) -> int:
        """Serve any line: the first opens the session, whatever it is. Returns the line's share of the turn."""
        if isinstance(message, ToolReq | ShortReq | NestedReq):
            self._request(message)
            return DEAR if self._allowance.is_used_up else 2
        if isinstance(message, ToolCancel | ToolBackground | ApproveResp | AskResp):
            self._pass_on(message)
        elif isinstance(message, ByeSaid):
            self._bye(message)
        elif self._allowance.is_used_up:
            return self._turn_down(message)
        elif isinstance(message, Hello):
            if not self._roster.greet(message, line=self._machine.line):
                self._put_off(message)
            session = self._roster.of(message.agent)
            return DEAR if session is None else DEAR + len(session.plans) // TOOLS_A_REQUEST
        elif isinstance(message, Refused):
            self._refuse_line(message)
            return DEAR
        elif isinstance(message, ToolsReq | Parse):
            self._answer(message)
            return TURN
        elif isinstance(message, Ping):
            self._machine.outgoing.append(Pong(message.t, message.id))
        elif isinstance(message, AdminReq):
            self._administer(message)
            return TURN
        return 1

    def _put_off(self, message: Message) -> None:
        """Take a line once more in the next turn: its session cannot open yet."""
        self._read.append(message)
        self._is_turn_over = True
        search = self._roster.search
        if search is not None and not search.is_over:
            self.hold()
            self._services.home.start_soon(self._await_search)

    async def _await_search(self) -> None:
        await self.search()
        self.release()

    def _turn_down(self, message: Message | Refused | None) -> int:
        """A line over the channel's limit that ends nothing. It takes a whole turn, which slows who goes on."""
        if isinstance(message, Refused):
            self._refuse_line(msgspec.structs.replace(message, fault=self._flooded))
        elif message is not None and not isinstance(message, PongSaid):
            self._state.refused_lines += 1
            self._fault(self._flooded, agent=getattr(message, "agent", None), line_id=id_of(message))
        return TURN

    @property
    def _flooded(self) -> Fault:
        return too_many("lines_per_s", self.latest().setup.limits.lines_per_s)

    def _request(self, request: Request) -> None:
        body = body_of(request)
        session: Session | Fault | None = self._roster.of(body.agent)
        if session is None:
            # Nothing is looked at in a line over the rate, so that it opens nothing.
            is_let_in = not self._allowance.is_used_up
            session = self._roster.open_silently(body.agent, line=self._machine.line) if is_let_in else self._flooded
        if session is None:
            self._put_off(request)
        elif isinstance(session, Fault):
            # Where no session could be opened nothing is in flight.
            SessionMachine(self._machine.outgoing).reply_fault(request, session)
            self._state.tallies.of(None).note(session, 0.0)
            audit_refused(self._services.audit, self.visitor.uid, body, session)
        elif self._allowance.is_used_up and body.id not in session.machine.live:
            session.refuse_request(request, self._flooded)
        elif self._outlet.is_crowded and body.id not in session.machine.live:
            session.refuse_request(request, self.share.fault)
        else:
            session.request(request, line=self._machine.line)

    def _refuse_line(self, refused: Refused) -> None:
        session = self._roster.of(refused.agent)
        machine = SessionMachine(self._machine.outgoing) if session is None else session.machine
        machine.refuse(refused, line=self._machine.line)
        self._state.refused_lines += 1

    def _answer(self, message: ToolsReq | Parse) -> None:
        """Answer what needs no call; a text is read without a session."""
        if isinstance(message, Parse):
            self._machine.outgoing.append(parsed(message))
            return
        agent, refusal = message.agent, refuse_form(message.schemas)
        if refusal is None:
            session = self._roster.of(agent) or self._roster.open_silently(agent, line=self._machine.line)
            if session is None:
                self._put_off(message)
                return
            refusal = session if isinstance(session, Fault) else session.list_tools(message)
        if refusal is not None:
            self._fault(refusal, agent=agent, line_id=message.id)

    def _administer(self, asked: AdminReq) -> None:
        admin = self._services.admin
        if admin is None or not self.may_administer:
            self.refuse(asked, NO_ADMINISTRATOR, line=self._machine.line)
        else:
            self._has_administered = True
            admin.take(asked, self, line=self._machine.line)

    @property
    def _admin(self) -> AdminSide | None:
        """What has taken lines of this channel."""
        return self._services.admin if self._has_administered else None

    def _pass_on(self, message: ToolCancel | ToolBackground | Reply) -> None:
        """A line about a call or a question of a session."""
        session, refusal = self._roster.of(message.agent), None
        if session is None and message.agent is not None:
            refusal = UNKNOWN_AGENT  # a slip; of an own session that never opened nothing can be meant
        elif isinstance(message, ToolBackground):
            refusal = TOO_LATE if session is None else session.promote(message.id)
        elif session is None:
            return
        elif isinstance(message, ToolCancel):
            session.cancel(message)
        else:
            session.take_reply(message)
        if refusal is not None:
            self._fault(refusal, agent=message.agent, line_id=id_of(message))

    def _bye(self, message: ByeSaid) -> None:
        session = self._roster.of(message.agent)
        has_said_bye = self._said_bye
        self._said_bye = self._said_bye or message.agent is None
        if session is not None and session.machine.state is not State.CLOSED:
            # Only the first is answered, when the session is torn down.
            session.farewell = session.farewell or message
            session.drain()
        elif message.agent is not None:
            self._fault(UNKNOWN_AGENT, agent=message.agent, line_id=message.id)
        elif not has_said_bye:
            self._machine.outgoing.append(Bye(id=message.id))
            self._roster.refuse_own()

    def _fault(self, fault: Fault, *, agent: str | None, line_id: str | None = None) -> None:
        self._machine.outgoing.append(fault_line(fault, line=self._machine.line, line_id=line_id, agent=agent))
