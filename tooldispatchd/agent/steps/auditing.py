"""Tells the audit of each call of a session, at its very end: the account that is kept of it, outermost of all steps.

A session without an audit has none of this, and its calls cost what they did. With one, an inline call is answered in
the moment it comes, as without.
"""

import time
from typing import Final, Protocol

from msgspec import Raw, UnsetType

from tooldispatchd.agent.calls.agentcall import AgentCall
from tooldispatchd.agent.calls.call import Plan
from tooldispatchd.agent.session.lineage import Lineage
from tooldispatchd.calls.endedcall import EndedCall, SessionCaller, StoreFailure
from tooldispatchd.calls.outcome import Answer, Outcome, content_in, utf8_size
from tooldispatchd.calls.trace import is_traceparent
from tooldispatchd.wire.faults import Fault
from tooldispatchd.wire.messages import QuotedText, ShortReq
from tooldispatchd.wire.session import SessionMachine

AuditedCall = ShortReq | AgentCall
# How much of an id and of a name is recorded: an agent may ask for a tool by a name of megabytes.
SHOWN: Final = 256


class AuditSink(Protocol):
    """Where records go: the audit's `Recorder`."""

    @property
    def payload_chars(self) -> int:
        """How much of an answer is wanted, 0 where none is."""

    @property
    def lost(self) -> int:
        """How many calls there was no room for."""

    @property
    def waiting(self) -> int:
        """How many records are not written yet."""

    @property
    def failure(self) -> StoreFailure | None:
        """Why nothing is written at present."""

    def put(self, ended: EndedCall) -> None:
        """Have the call recorded; never waits."""


class AuditedSession(Protocol):
    """`Session`, as its audit names it."""

    machine: SessionMachine
    number: int
    lineage: Lineage | None
    profile: str


class SessionAudit:
    """The audit of one session's calls."""

    __slots__ = ("_caller", "_sink")

    def __init__(self, sink: AuditSink, caller: SessionCaller) -> None:
        self._sink = sink
        self._caller = caller

    def note(self, call: AuditedCall, outcome: Outcome, took_s: float = 0.0, plan: Plan | None = None) -> None:
        """A call has ended so, or a request that became none."""
        raw: Raw | UnsetType | bytes | bytearray | None = call.input
        waited_s, trace = 0.0, call.traceparent
        if isinstance(call, AgentCall):
            ran_at = call.ran_at
            waited_s = took_s if ran_at is None else min(took_s, ran_at - call.started_at)
            raw = call.line or raw
            bytes_in = call.bytes_in
        else:
            trace = trace if trace is not None and is_traceparent(trace) else None
            bytes_in = len(raw) if isinstance(raw, Raw) else 0
        if isinstance(raw, Raw):
            # A view of the line that it came in.
            raw = bytes(raw)
        wanted, details, code = self._sink.payload_chars, None, None
        if isinstance(outcome, Fault):
            code = outcome.code.value
        else:
            details = outcome.details
        approval, cache = _marks_of(call)
        self._sink.put(
            EndedCall(
                self._caller,
                time.time() - took_s,
                call.id[:SHOWN],
                call.name[:SHOWN],
                None if plan is None else plan.provider,
                raw or None,
                bytes_in,
                utf8_size(content_in(outcome)),
                waited_s,
                took_s,
                isinstance(outcome, Answer) and outcome.is_error,
                code,
                trace,
                approval,
                cache,
                details,
                _beginning(outcome, wanted) if wanted else None,
            )
        )


def audit_of(sink: AuditSink | None, uid: int, session: AuditedSession) -> SessionAudit | None:
    """The audit of a session of that user; None where there is none."""
    if sink is None:
        return None
    lineage, number = session.lineage, session.number
    root = number if lineage is None else lineage.account.number
    return SessionAudit(sink, SessionCaller(session.profile, session.machine.agent, uid, number, root))


def audit_refused(sink: AuditSink | None, uid: int, body: ShortReq, fault: Fault) -> None:
    """Record a request for which no session could be opened."""
    if sink is not None:
        SessionAudit(sink, SessionCaller(None, body.agent, uid)).note(body, fault)


def _marks_of(call: AuditedCall) -> tuple[str | None, str | None]:
    """How the call was approved, and whether its answer was kept: what the steps that did it have left on the call."""
    lookup = call.lookup if isinstance(call, AgentCall) else None
    cache = None if lookup is None else "miss" if lookup.age_s is None else "hit"
    approval = call.approval if isinstance(call, AgentCall) else None
    if approval is None:
        return None, cache
    return f"{approval.by} sha256:{approval.sha256}{' remembered' if approval.remembered else ''}", cache


def _beginning(outcome: Outcome, chars: int) -> str:
    content = content_in(outcome)
    if isinstance(content, QuotedText):
        return bytes(memoryview(content.literal)[1 : chars + 1]).decode(errors="replace")
    return content[:chars]
