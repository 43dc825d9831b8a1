"""Sessions and their calls, as they are shown: values for a reader, without inputs and outputs."""

import math
import time
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from tooldispatchd.agent.calls.agentcall import AgentCall
from tooldispatchd.agent.faults import SHOWN_NAME
from tooldispatchd.agent.runtime import DaemonState
from tooldispatchd.agent.session.session import Session
from tooldispatchd.calls.stages import CallState

# The states of a call that does not run yet, by what it waits for; at one of its steps it waits for that.
_STAGES: Final = {CallState.LINED: "order", CallState.HELD: "opening", CallState.ASKING: "approval"}


class SessionView(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One session: ages in seconds; `oldest_call_s` is missing where no call is in flight.

    `program` is that of the process that connected.
    """

    number: int
    profile: str
    uid: int
    state: str
    opened_at: float
    in_flight: int
    waiting: int
    jobs: int
    answered: int
    faults: int
    agent: str | None = None
    program: str | None = None
    pid: int | None = None
    oldest_call_s: float | None = None
    parent: int | None = None
    root: int | None = None
    depth: int | None = None


class CallView(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One call in flight: `waiting` at a `stage`, `running`, or `stopping`.

    `above` is the session of the call that its agent serves; `doing` what a chain is at.
    """

    session: int
    id: str
    tool: str
    state: str
    began_at: float
    age_s: float
    profile: str
    agent: str | None = None
    program: str | None = None
    pid: int | None = None
    provider: str | None = None
    kind: str | None = None
    stage: str | None = None
    doing: str | None = None
    queued_s: float | None = None
    deadline_in_s: float | None = None
    job: str | None = None
    above: int | None = None
    child: int | None = None


def open_sessions(state: DaemonState) -> list[Session]:
    """All of them now, in the order in which they opened; they may close meanwhile."""
    return [each for each in state.opened.values() if isinstance(each, Session)]


def still_open(sessions: Iterable[Session], state: DaemonState) -> Iterator[Session]:
    """Those of a list that have not closed until they are looked at."""
    return (each for each in sessions if each.number in state.opened)


def session_view(session: Session, now: float) -> SessionView:
    """The session at `now`, on trio's clock."""
    lineage, calls = session.lineage, list(session.in_flight or ())
    oldest = min((call.started_at for call in calls), default=None)
    return SessionView(
        number=session.number,
        agent=session.machine.agent,
        profile=session.profile,
        program=session.visitor.command,
        uid=session.visitor.uid,
        pid=session.visitor.pid,
        state=session.machine.state.value,
        opened_at=round(session.opened_at, 3),
        in_flight=len(calls),
        waiting=sum(not call.is_running for call in calls),
        jobs=sum(call.job is not None for call in calls),
        answered=session.answered,
        faults=session.faults,
        oldest_call_s=None if oldest is None else _seconds(now - oldest),
        parent=None if lineage is None else lineage.parent,
        root=None if lineage is None else lineage.account.number,
        depth=None if lineage is None else lineage.depth,
    )


def calls_in_flight(sessions: Iterable[Session]) -> Iterator[tuple[Session, AgentCall] | None]:
    """The calls of these sessions; those that have ended before they are looked at are left out. None is between."""
    for session in sessions:
        yield None
        for call in list(session.in_flight or ()):
            yield None if call.state is CallState.ENDED else (session, call)


def call_view(session: Session, call: AgentCall, now: float) -> CallView:
    """A call of the session at `now`, on trio's clock."""
    lineage = session.lineage
    plan = call.plan
    age_s = now - call.started_at
    return CallView(
        session=session.number,
        id=call.id,
        # Whatever its agent called it.
        tool=call.name[:SHOWN_NAME],
        state=_state_of(call),
        began_at=round(time.time() - age_s, 3),
        age_s=_seconds(age_s),
        profile=session.profile,
        agent=session.machine.agent,
        program=session.visitor.command,
        pid=session.visitor.pid,
        provider=None if plan is None else plan.provider,
        kind=None if plan is None else plan.kind,
        stage=None if call.is_running else _stage_of(call),
        doing=None if call.doing is None else call.doing[:SHOWN_NAME],
        queued_s=None if call.ran_at is None else _seconds(call.ran_at - call.started_at),
        deadline_in_s=_seconds(call.ends_at - now) if call.ends_at < math.inf else None,
        job=None if call.job is None else call.job.id,
        above=None if lineage is None or lineage.serves is None else lineage.parent,
        child=call.child,
    )


def _state_of(call: AgentCall) -> str:
    if call.state is CallState.STOPPING:
        return "stopping"
    return "running" if call.is_running else "waiting"


def _stage_of(call: AgentCall) -> str:
    named = _STAGES.get(call.state)
    if named is not None or call.plan is None or not call.taken:
        return named or "order"
    return call.plan.steps[call.taken - 1].order.name.lower()


def _seconds(seconds: float) -> float:
    return round(seconds, 3)
