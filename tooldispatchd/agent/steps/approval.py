"""Somebody is asked whether a call may run: the channel of whoever came in from outside, or an approver's.

    decided before ─▶ goes on, or refused
    nobody answers such questions ─▶ refused, at once
    asked ─▶ allowed: goes on │ denied, gone, `limits.approve_s` over: refused │ the call ends: taken back

Who answers sees the input that was checked, and its SHA-256; nothing after this changes it. The digest is of the JSON
as it stands in the question, without spaces and with each key once.
"""

import hashlib
import math
from functools import partial
from typing import Final

import trio
from msgspec import Raw

from tooldispatchd.agent.calls.agentcall import AgentCall
from tooldispatchd.agent.calls.call import Call, Plan
from tooldispatchd.agent.session.approvers import AskedSession, answerer
from tooldispatchd.calls.decisions import Approval, not_approved
from tooldispatchd.calls.stages import ASIDE, CallEvent, Waits
from tooldispatchd.catalog.hookspec import MAX_HOOK_BYTES
from tooldispatchd.front.timer import Deferred
from tooldispatchd.wire.faults import Fault
from tooldispatchd.wire.messages import ApproveResp, Caller, Reply

# An agent's author reads it, or whoever wrote the profile.
NOBODY: Final = (
    "nobody is there to be asked: its agent does not answer `approve` (an MCP client: `elicitation`), "
    "and no `approver` of its profile is there"
)


def approve(call: Call, value: Raw, reason: str, *, limit_s: float) -> Fault | Waits | None:
    """Go on where it was decided so for this input, `value`; else ask, and wait for so long."""
    assert call.plan is not None
    context, tool = call.context, call.plan.name
    if len(value) > MAX_HOOK_BYTES:
        return not_approved(tool, "its input is too large to be looked at")
    digest = hashlib.sha256(value).hexdigest()
    decided = context.decisions.find(_definition_of(call.plan), digest)
    if isinstance(decided, Fault):
        return decided
    if decided is not None:
        call.approval = decided
        return None
    approver = context.session.approver()
    if approver is None:
        return not_approved(tool, NOBODY)
    return _Asking(call, approver, digest, limit_s).begin(value, reason)


def _definition_of(plan: Plan) -> tuple[str, bytes]:
    """Name a tool with the digest of its definition: command, server and schemas."""
    return plan.name, plan.definition()


class _Asking:
    """One question, from when it is asked until it is answered, or not."""

    __slots__ = ("_approver", "_by", "_call", "_digest", "_entry", "_limit_s", "_question", "_tool")

    def __init__(self, call: Call, approver: AskedSession, digest: str, limit_s: float) -> None:
        self._call = call
        self._tool = call.name if call.plan is None else call.plan.name
        self._approver = approver
        self._by = answerer(approver)
        self._digest = digest
        self._limit_s = limit_s

    def begin(self, value: Raw, reason: str) -> Fault | Waits:
        """Ask; or why nobody can be asked now."""
        call, context = self._call, self._call.context
        # A session is known by its machine.
        is_own = self._approver.machine is context.calls.machine
        caller = None if is_own else Caller(context.profile, context.agent)
        # The agent is told of its job first, by whose name the question calls it.
        call.announce()
        # Whoever came in asks itself, and its own agents ask it: nobody else is kept from asking.
        turns = None if self._approver.number == context.account.number else context.turns
        known_as = call.request.known_as if is_own and isinstance(call.request, AgentCall) else None
        asked = self._approver.questions.approve(
            self._tool, value, reason, self._told, sha256=self._digest, call=known_as, caller=caller, turns=turns
        )
        if asked is None:
            return not_approved(self._tool, "who would be asked has too many questions")
        self._approver.flush()
        self._question = asked
        over = partial(self._refuse, f"nobody answered within {self._limit_s:g} s")
        self._entry = context.timer.add(trio.current_time() + self._limit_s, Deferred(over))
        call.leave_queue = self._take_back
        call.enter(CallEvent.ASK, math.inf)
        return ASIDE

    def _take_back(self) -> None:
        self._call.context.timer.drop(self._entry)
        self._approver.questions.withdraw(self._question)

    def _told(self, reply: Reply | None) -> None:
        if not isinstance(reply, ApproveResp):
            self._refuse("who was asked is gone")
            return
        why = reply.reason or "no reason was given"
        decided = Approval(self._by, self._digest) if reply.allow else not_approved(self._tool, why, reply.reason)
        call = self._call
        if reply.remember:
            digest = None if reply.remember == "tool" else self._digest
            assert call.plan is not None
            call.context.decisions.remember(_definition_of(call.plan), digest, decided)
        if isinstance(decided, Fault):
            self._end(decided)
            return
        call.context.timer.drop(self._entry)
        call.leave_queue = None
        call.approval = decided
        call.go_on()

    def _refuse(self, why: str) -> None:
        self._end(not_approved(self._tool, why))

    def _end(self, fault: Fault) -> None:
        self._call.finish(fault)
        self._call.flush()
