"""What the rules of tables say of a call whose input was read: whether it goes on, or somebody is asked first."""

from functools import cache
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tooldispatchd.agent.calls.call import Call
from tooldispatchd.agent.calls.step import Step
from tooldispatchd.agent.steps.approval import approve
from tooldispatchd.agent.steps.hooks import json_input
from tooldispatchd.calls.hooks import refused
from tooldispatchd.calls.stages import StepOrder, Waits
from tooldispatchd.catalog.expressions.door import INPUT, Expression, FailedEvaluation
from tooldispatchd.catalog.hookspec import MAX_HOOK_BYTES
from tooldispatchd.catalog.rules import Approving, CallRule, Rules
from tooldispatchd.catalog.schemas import ACCEPT, MAX_LIGHT_BYTES, is_light
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
        told = _ToldCall(call)
        for rule, expression in zip(self._rules, self._compiled, strict=True):
            result = told.evaluate(expression)
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
        # With no value as where it is true.
        return _ToldCall(call).evaluate(self._compiled[approving.owner, approving.source]) is not False


class _ToldCall:
    """A call as rules see it, each with no more of its input than it reads."""

    __slots__ = ("_about", "_input", "_raw")

    def __init__(self, call: Call) -> None:
        assert call.plan is not None
        context = call.context
        self._about = {"tool": call.plan.name, "profile": context.profile, "agent": context.agent or ""}
        self._raw = json_input(call)
        self._input: object = _decode(self._raw) if is_light(self._raw, ACCEPT) else UNSET

    def evaluate(self, rule: Expression) -> object:
        """Whether the rule is true of it, or a `FailedEvaluation`."""
        value = self._input
        if value is UNSET:
            value = _fields_in(self._raw, rule.reads)
        elif rule.reads is not None and isinstance(value, dict):
            value = {name: value[name] for name in rule.reads if name in value}
        return value if isinstance(value, FailedEvaluation) else rule.evaluate({**self._about, INPUT: value})


def _fields_in(raw: Raw, names: frozenset[str] | None) -> object:
    """These fields of a large input, of which the others are not decoded; or a `FailedEvaluation`."""
    if names is None or (names and len(raw) > MAX_HOOK_BYTES):
        return _TOO_LARGE
    try:
        found = _reader_of(names).decode(raw) if names else None
    except msgspec.ValidationError:
        # It is no object.
        return _TOO_LARGE
    parts = {} if found is None else dict(zip(sorted(names), msgspec.structs.astuple(found), strict=True))
    given = {name: part for name, part in parts.items() if part is not UNSET}
    if sum(map(len, given.values())) > MAX_LIGHT_BYTES or not all(is_light(part, ACCEPT) for part in given.values()):
        return _TOO_LARGE
    return {name: _decode(part) for name, part in given.items()}


@cache
def _reader_of(names: frozenset[str]) -> "msgspec.json.Decoder[msgspec.Struct]":
    # Sorted: the sets that are equal may each have another order.
    fields = [
        (f"field_{place}", Raw | UnsetType, msgspec.field(default=UNSET, name=name))
        for place, name in enumerate(sorted(names))
    ]
    return msgspec.json.Decoder(msgspec.defstruct("_Read", fields))
