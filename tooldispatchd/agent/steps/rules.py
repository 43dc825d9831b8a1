"""What the rules of tables say of a call whose input was read: whether it goes on, or somebody is asked first."""

from typing import Final

import msgspec

from tooldispatchd.agent.calls.call import Call, Step
from tooldispatchd.agent.steps.approval import approve
from tooldispatchd.agent.steps.hooks import json_input
from tooldispatchd.calls.hooks import refused
from tooldispatchd.calls.stages import StepOrder, Waits
from tooldispatchd.catalog.expressions.door import FailedEvaluation
from tooldispatchd.catalog.rules import Approving, CallRule, Rules
from tooldispatchd.catalog.schemas import ACCEPT, is_light
from tooldispatchd.wire.faults import Fault

_decode: Final = msgspec.json.Decoder().decode
_TOO_LARGE: Final = FailedEvaluation("the input is too large for an expression")


class WhenStep(Step):
    """A call goes on where all rules are true of it; one that gives no answer refuses."""

    __slots__ = ("_compiled", "_rules")

    def __init__(self, rules: tuple[CallRule, ...], compiled: Rules) -> None:
        super().__init__(StepOrder.WHEN)
        self._rules = rules
        self._compiled = [compiled[rule.owner, rule.source] for rule in rules]

    def take(self, call: Call) -> Fault | None:
        told = _told(call)
        for rule, expression in zip(self._rules, self._compiled, strict=True):
            result = told if isinstance(told, FailedEvaluation) else expression.evaluate(told)
            if isinstance(result, FailedEvaluation):
                return refused(call.name, f"{rule.reason} (no answer: {result.why})")
            if result is not True:
                return refused(call.name, rule.reason)
        return None


class ApprovalStep(Step):
    """Somebody is asked, once, where any table wants it: each time, or where its rule is true or gives no answer."""

    __slots__ = ("_approvings", "_compiled", "_limit_s")

    def __init__(self, approvings: tuple[Approving, ...], compiled: Rules, *, limit_s: float) -> None:
        super().__init__(StepOrder.APPROVAL)
        self._limit_s = limit_s
        self._approvings = approvings
        self._compiled = {
            (each.owner, each.source): compiled[each.owner, each.source]
            for each in approvings
            if each.source is not None
        }

    def take(self, call: Call) -> Fault | Waits | None:
        reason = next((each.reason for each in self._approvings if self._asks(each, call)), None)
        return None if reason is None else approve(call, json_input(call), reason, limit_s=self._limit_s)

    def _asks(self, approving: Approving, call: Call) -> bool:
        if approving.source is None:
            return True
        told = _told(call)
        return isinstance(told, FailedEvaluation) or (
            self._compiled[approving.owner, approving.source].evaluate(told) is not False
        )


def _told(call: Call) -> object:
    """A call as rules see it."""
    assert call.plan is not None
    raw = json_input(call)
    if not is_light(raw, ACCEPT):
        return _TOO_LARGE
    context = call.context
    return {"input": _decode(raw), "tool": call.plan.name, "profile": context.profile, "agent": context.agent or ""}
