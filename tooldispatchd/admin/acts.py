"""The changes that administrators make: they end calls, jobs and sessions, restart servers, and drain the daemon.

Each act is logged with who asked for it.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from tooldispatchd.admin.pieces import in_turns
from tooldispatchd.admin.servers import keepers_of
from tooldispatchd.admin.sessions import open_sessions, still_open
from tooldispatchd.agent.calls.agentcall import AgentCall
from tooldispatchd.agent.faults import SHOWN_NAME, unknown_target
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.session.administration import LEVELS, AdminChannel, Offer, RunningDaemon
from tooldispatchd.agent.session.session import Session
from tooldispatchd.calls.stages import Reason
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import AdminReq

CALL_ENDED: Final = Fault(Code.CANCELLED, "an administrator ended the call")
SESSION_ENDED: Final = Fault(Code.DRAINING, "an administrator ended the session")
NO_RELOAD: Final = Fault(Code.NOT_ALLOWED, "this daemon does not read its configuration anew")
# The fields that say of what, as the log names them: `session` and `level` are those of its own line there.
_TARGETS: Final = {
    "session": "of_session",
    "call": "call",
    "job": "job",
    "server": "server",
    "level": "to",
    "apply": "apply",
}


def lacks(field: str, ask: str) -> Fault:
    """A line that does not say of what."""
    return Fault(Code.INVALID_REQUEST, f"{ask} needs {field}", {"source": field})


def level_fault(level: str | None) -> Fault | None:
    """The fault where this is no level of the log."""
    return None if level in LEVELS else Fault(Code.INVALID_REQUEST, f"level is one of {', '.join(LEVELS)}")


def targets_of(asked: AdminReq) -> dict[str, object]:
    """The fields of the log that say of what."""
    said = {shown: getattr(asked, name) for name, shown in _TARGETS.items()}
    named = {name: value for name, value in said.items() if value is not None and value is not False}
    return {name: value[:SHOWN_NAME] if isinstance(value, str) else value for name, value in named.items()}


class Acts:
    """The changes of one daemon; each gives what was done, or why it was not."""

    def __init__(self, daemon: RunningDaemon, latest: Callable[[], Runtime]) -> None:
        self._daemon = daemon
        self._latest = latest

    def note(self, asked: AdminReq, channel: AdminChannel) -> None:
        """Log who asks for what."""
        visitor = channel.visitor
        who = {"uid": visitor.uid, "pid": visitor.pid, "profiles": channel.administrators or None}
        self._latest().setup.log.info("daemon administered", ask=asked.ask, **targets_of(asked), **who)

    async def end(self, asked: AdminReq) -> bytes | Fault:
        """End a session, or a call or a job of one."""
        if asked.session is None:
            return lacks("session", "end")
        session = self._latest().state.opened.get(asked.session)
        if not isinstance(session, Session):
            return unknown_target("session", asked.session)
        if asked.call is None and asked.job is None:
            session.abort(SESSION_ENDED)
            return b"{}"
        call = _call_of(session, asked)
        if call is None:
            return unknown_target("job", asked.job) if asked.call is None else unknown_target("call", asked.call)
        # One that is ending already has no more time for it.
        call.hurry(0)
        call.stop(CALL_ENDED, Reason.CANCELLED)
        session.flush()
        return b"{}"

    async def restart(self, asked: AdminReq) -> bytes | Fault:
        """End the connections to a server, in all sessions or in one, and open others at once."""
        if asked.server is None:
            return lacks("server", "restart")
        runtime = self._latest()
        sessions = open_sessions(runtime.state)
        if asked.session is not None:
            sessions = [each for each in sessions if each.number == asked.session]
        shared = list(runtime.services.sharing) if asked.session is None else []
        found = keepers_of(asked.server, (), shared)
        async for session in in_turns(still_open(sessions, runtime.state)):
            found += keepers_of(asked.server, (session,), ())
        # One to which there is no connection now may have one in the next session.
        if not found and asked.server not in runtime.setup.catalog.servers:
            return unknown_target("server", asked.server)
        restarted = 0
        async for keeper in in_turns(found):
            restarted += keeper.restart()
        return msgspec.json.encode({"restarted": restarted, "left": len(found) - restarted})

    async def drain(self, _asked: AdminReq) -> bytes | Fault:
        """Have the daemon take no more requests, and end when what runs has ended."""
        self._daemon.stop()
        return b"{}"

    async def take_over(self, asked: AdminReq) -> bytes | Offer | Fault:
        """Give the places to the daemon that asks, and end; or tell which there are."""
        offer = self._daemon.offer()
        if isinstance(offer, Fault) or asked.apply:
            return offer
        return msgspec.json.encode({"names": [name for _, name in offer.handed]})

    async def level(self, asked: AdminReq) -> bytes | Fault:
        """Set the level of the log."""
        fault = level_fault(asked.level)
        if fault is not None or asked.level is None:
            return fault or lacks("level", "level")
        before = self._daemon.log_output.level
        self._daemon.log_output.set_level(asked.level)
        await self.tell_sessions()
        return msgspec.json.encode({"level": asked.level, "before": before})

    async def tell_sessions(self) -> None:
        """Have all sessions find out whether anybody hears of single calls from now on."""
        state = self._latest().state
        async for session in in_turns(still_open(open_sessions(state), state)):
            session.look_who_hears()

    async def reload(self, asked: AdminReq) -> bytes | Fault:
        """Have the configuration read anew."""
        if self._daemon.reload is None:
            return NO_RELOAD
        done = await self._daemon.reload(bool(asked.apply))
        return done if isinstance(done, Fault) else msgspec.json.encode(done)


def _call_of(session: Session, asked: AdminReq) -> AgentCall | None:
    for call in session.in_flight or ():
        if asked.call is not None and call.key == asked.call:
            return call
        if asked.call is None and call.job is not None and call.job.id == asked.job:
            return call
    return None
