"""Calls that are answered in the moment they come, in the background or for an agent that hears what they took."""

from collections.abc import Callable
from time import perf_counter
from typing import Protocol

from msgspec import UnsetType

from tooldispatchd.agent.calls.agentcall import AgentCall
from tooldispatchd.agent.calls.beside import beside_of, in_kind, wanted_kind
from tooldispatchd.agent.calls.call import Plan
from tooldispatchd.agent.calls.checking import HEAVY
from tooldispatchd.agent.calls.sessionchannel import SessionCalls, SessionChannel
from tooldispatchd.agent.faults import queue_full, ran_at_once
from tooldispatchd.agent.session.events import Events
from tooldispatchd.calls.outcome import Answer, Outcome, content_in, utf8_size
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import Request, ShortReq
from tooldispatchd.wire.session import SessionMachine, body_of


class AnsweringSession(Protocol):
    """`Session`, as such a call uses it."""

    machine: SessionMachine
    events: Events | None

    def note_end(
        self, call: ShortReq | AgentCall, outcome: Outcome, took_s: float = 0.0, plan: Plan | None = None
    ) -> None: ...
    def incident(self, tool: str, error: Exception) -> Fault: ...


def answer_at_once(
    session: AnsweringSession,
    channel: SessionChannel,
    request: Request,
    plan: Plan,
    *,
    part_bytes: int,
    calls: Callable[[], SessionCalls],
) -> bool:
    """Run the plan's function and answer with what it gives; false where the input is too heavy for that.

    No part of the answer may have more than `part_bytes`; `calls` gives the session's, for a job.
    """
    assert plan.now is not None
    body = body_of(request)
    dropped: list[str] = []
    began = perf_counter()
    try:
        content = plan.now(body.input, dropped)
    except Exception as error:  # noqa: BLE001  # guard: a defect in one call is that call's fault alone
        content = session.incident(body.name, error)
    machine, kind = session.machine, wanted_kind(body, session.machine)
    most = machine.asked.max_output
    if content is HEAVY or (most is not None and isinstance(content, str) and utf8_size(content) > most):
        # Inline tools have no effects: the call runs anew, by the steps of its plan.
        return False
    outcome: Outcome = ran_at_once(content) if isinstance(content, Fault) else Answer(content)
    outcome = in_kind(outcome, kind, part_bytes)
    result, job = outcome, None
    if isinstance(outcome, Answer) and body.background:
        # A tool that answers at once leaves nothing behind.
        outcome = queue_full("jobs").ran(may_have=False)
        if (job := calls().jobs.open(body.name)) is not None:
            beside = beside_of(result, kind, machine, gives_json=False, meta=None)
            calls().jobs.finish(job, result, beside)
            outcome = Answer(job.content())
    elif isinstance(outcome, Answer) and (crowding := channel.crowding(outcome.size)) is not None:
        outcome = ran_at_once(crowding)
    elif isinstance(outcome, Answer):
        channel.has_answered(outcome.size)
    took_s = perf_counter() - began
    session.note_end(body, outcome, took_s, plan)
    _send_events(session.events, body, plan, outcome if isinstance(outcome, Fault) else result, took_s)
    is_fault = isinstance(outcome, Fault)
    said = content_in(outcome, kind)
    assert isinstance(said, str)
    came, went = 0 if isinstance(body.input, UnsetType) else len(body.input), utf8_size(said)
    meta = plan.meta(took_s, 0, bytes_in=came, bytes_out=went, dropped=dropped) if machine.asked.meta else None
    gives_json = plan.gives_json and not body.background
    job_id = None if job is None else job.id
    beside = beside_of(outcome, kind, machine, gives_json=gives_json, meta=meta, job=job_id)
    machine.reply(request, said, is_error=is_fault, fault=is_fault, beside=beside)
    if job is not None and session.events is not None:
        session.events.job_done(job)
    return True


def _send_events(events: Events | None, body: ShortReq, plan: Plan, outcome: Outcome, took_s: float) -> None:
    """Tell whoever wants to hear of it of a call that began and ended in one step, before its answer."""
    if events is None:
        return
    names: dict[str, object] = {"id": body.id}
    if not isinstance(outcome, Fault) or outcome.code is not Code.INVALID_INPUT:
        events.tool_started(names, body.name, provider=plan.provider, queued_s=0.0)
    events.tool_finished(names, body.name, outcome, took_s=took_s)
