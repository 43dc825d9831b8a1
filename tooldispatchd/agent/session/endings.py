"""What is kept of each call of a session that has ended, beside its answer: counts, a record, and the latest ones."""

from time import time
from typing import Final, Protocol

import trio

from tooldispatchd.agent.calls.agentcall import AgentCall
from tooldispatchd.agent.calls.call import Plan
from tooldispatchd.agent.faults import SHOWN_NAME
from tooldispatchd.agent.log import Log
from tooldispatchd.agent.runtime import DaemonState
from tooldispatchd.agent.session.entrance import Visitor
from tooldispatchd.agent.session.lineage import Lineage
from tooldispatchd.agent.steps.auditing import AuditedCall, SessionAudit
from tooldispatchd.calls.outcome import Outcome, log_fields
from tooldispatchd.calls.recent import RecentCaller
from tooldispatchd.calls.refusals import is_logged
from tooldispatchd.calls.tally import LastFault
from tooldispatchd.wire.faults import Fault
from tooldispatchd.wire.session import SessionMachine

# Of a fault's sentence; secrets are masked in it before, and once more where it is shown.
SHOWN_DETAIL: Final = 256


class EndingSession(Protocol):
    """`Session`, as its ended calls are told apart."""

    number: int
    profile: str
    machine: SessionMachine
    lineage: Lineage | None
    visitor: Visitor
    audit: SessionAudit | None
    as_caller: RecentCaller | None
    """As its calls are told of when they have ended, once one has."""


def note_ended(
    session: EndingSession, state: DaemonState, call: AuditedCall, outcome: Outcome, *, took_s: float, plan: Plan | None
) -> None:
    """A request was answered, after so long; `plan` is None where no tool was found for it."""
    detail = None
    if isinstance(outcome, Fault):
        detail, number, agent = outcome.detail[:SHOWN_DETAIL], session.number, session.machine.agent
        fault = LastFault(round(time(), 3), call.name[:SHOWN_NAME], outcome.code.value, detail, number, agent)
        state.tallies.last_fault = fault
    # Whether anybody hears of single calls makes no difference: one that was answered in its moment is not kept.
    if plan is None or plan.now is None or isinstance(call, AgentCall):
        keep_ended(session, state, call, outcome, took_s, plan, detail)
    else:
        state.tallies.of(plan).note(outcome, took_s)
    if session.audit is not None:
        session.audit.note(call, outcome, took_s, plan)


def keep_ended(  # noqa: PLR0917  # called for each call that ends: a keyword costs as much as what it does
    session: EndingSession,
    state: DaemonState,
    call: AuditedCall,
    outcome: Outcome,
    took_s: float,
    plan: Plan | None,
    detail: str | None = None,
) -> None:
    """Count a call, and keep it among the latest; `detail` is the sentence of a fault."""
    if plan is None:
        kind = provider = None
        tally = state.tallies.none
    else:
        kind, provider = plan.kind, plan.provider
        tally = plan.tally or state.tallies.of(plan)
        plan.tally = tally
    word = tally.note(outcome, took_s)
    caller = session.as_caller
    if caller is None:
        caller = session.as_caller = _caller(session)
    # Whatever its agent called it.
    state.recent.note((caller, call.id, call.name[:SHOWN_NAME], kind, provider, time(), took_s, word, detail))


def log_ended(
    log: Log, state: DaemonState, call: AuditedCall, outcome: Outcome, *, took_s: float, plan: Plan | None
) -> None:
    """Log a request that was answered, and the traceback of a function that raised, which no MCP client is told."""
    if isinstance(outcome, Fault) and "exception" in outcome.extras:
        count = state.raised.note(call.name, trio.current_time())
        if is_logged(count):
            trace = outcome.extras.get("stderr_tail", "")
            log.warning("function raised", id=call.id, tool=call.name, traceback=trace, lately=count)
    if log.logs_calls:
        server = {"server": plan.provider} if plan is not None and plan.kind == "mcp" else {}
        fields = {"id": call.id, "tool": call.name, **server, **log_fields(outcome), "took_s": round(took_s, 6)}
        log.debug("call answered", **fields)


def _caller(session: EndingSession) -> RecentCaller:
    lineage = session.lineage
    return RecentCaller(
        session=session.number,
        profile=session.profile,
        agent=session.machine.agent,
        program=session.visitor.command,
        pid=session.visitor.pid,
        parent=None if lineage is None else lineage.parent,
        root=None if lineage is None else lineage.account.number,
    )
