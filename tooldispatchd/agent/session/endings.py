"""What is kept of each call of a session that has ended, beside its answer: counts, a record, and the latest ones."""

from time import time
from typing import Final, Protocol

from tooldispatchd.agent.calls.agentcall import AgentCall
from tooldispatchd.agent.calls.call import Plan
from tooldispatchd.agent.faults import SHOWN_NAME
from tooldispatchd.agent.runtime import DaemonState
from tooldispatchd.agent.session.entrance import Visitor
from tooldispatchd.agent.session.lineage import Lineage
from tooldispatchd.agent.steps.auditing import AuditedCall, SessionAudit
from tooldispatchd.calls.outcome import Outcome, log_fields
from tooldispatchd.calls.recent import RecentCall
from tooldispatchd.calls.tally import LastFault, outcome_word
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


def note_ended(
    session: EndingSession, state: DaemonState, call: AuditedCall, outcome: Outcome, *, took_s: float, plan: Plan | None
) -> None:
    """A request was answered, after so long; `plan` is None where no tool was found for it."""
    detail = None
    state.tallies.of(plan).note(outcome, took_s)
    if isinstance(outcome, Fault):
        detail, number, agent = outcome.detail[:SHOWN_DETAIL], session.number, session.machine.agent
        fault = LastFault(round(time(), 3), call.name[:SHOWN_NAME], outcome.code.value, detail, number, agent)
        state.tallies.last_fault = fault
    # Whether anybody hears of single calls makes no difference: one that was answered in its moment is not kept.
    if plan is None or plan.now is None or isinstance(call, AgentCall):
        state.recent.note(_recent(session, call, outcome, detail, took_s=took_s, plan=plan))
    if session.audit is not None:
        session.audit.note(call, outcome, took_s, plan)


def fields_of(call: AuditedCall, outcome: Outcome, *, took_s: float, plan: Plan | None) -> dict[str, object]:
    """The fields of the log for a request that was answered; with the server of its tool, as other lines have it."""
    server = {"server": plan.provider} if plan is not None and plan.kind == "mcp" else {}
    return {"id": call.id, "tool": call.name, **server, **log_fields(outcome), "took_s": round(took_s, 6)}


def _recent(
    session: EndingSession, call: AuditedCall, outcome: Outcome, detail: str | None, *, took_s: float, plan: Plan | None
) -> RecentCall:
    lineage = session.lineage
    return RecentCall(
        session=session.number,
        id=call.id,
        # Whatever its agent called it.
        tool=call.name[:SHOWN_NAME],
        ended_at=time(),
        took_s=took_s,
        outcome=outcome_word(outcome),
        profile=session.profile,
        agent=session.machine.agent,
        program=session.visitor.command,
        pid=session.visitor.pid,
        detail=detail,
        kind=None if plan is None else plan.kind,
        provider=None if plan is None else plan.provider,
        parent=None if lineage is None else lineage.parent,
        root=None if lineage is None else lineage.account.number,
    )
