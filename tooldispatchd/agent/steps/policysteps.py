"""The steps that a policy asks for, made of what they share in the whole daemon."""

from collections.abc import Iterator
from functools import partial
from typing import Final, TypeVar

from tooldispatchd.agent.calls.call import CallContext, Step
from tooldispatchd.agent.steps.gates import Exclusives, ExclusiveStep, GateStep, KeyOf, queue_of, workspace_of
from tooldispatchd.agent.steps.redaction import RedactStep
from tooldispatchd.agent.steps.rules import ApprovalStep, WhenStep
from tooldispatchd.agent.steps.sizes import BUDGET, SizeStep
from tooldispatchd.agent.steps.trying import BreakerStep, RestStep, RetryStep, WatchedBreaker
from tooldispatchd.calls.gate import Priority
from tooldispatchd.calls.retries import RetryBudget
from tooldispatchd.calls.stages import StepOrder
from tooldispatchd.catalog.masker import NO_SECRETS, Masker
from tooldispatchd.catalog.policy import CallPolicy
from tooldispatchd.catalog.rules import Owner, Rules
from tooldispatchd.catalog.speckinds import WORKSPACE
from tooldispatchd.catalog.specs import Config

GivenT = TypeVar("GivenT")


class PolicySteps:
    """Makes the steps of policies. Equal policies have the same ones."""

    __slots__ = ("_approve_s", "_breakers", "_budgets", "_known", "_masker", "_queues", "_rules", "exclusives")

    def __init__(self, config: Config, rules: Rules, masker: Masker = NO_SECRETS) -> None:
        self._rules = rules
        self._masker = masker
        self._approve_s = config.limits.approve_s
        self.exclusives: Final = Exclusives()
        self._queues = {name: queue_of(spec) for name, spec in config.queues.items()}
        self._breakers: dict[Owner, WatchedBreaker] = {}
        self._budgets: dict[Owner, RetryBudget] = {}
        self._known: dict[CallPolicy, tuple[Step, ...]] = {}

    def of(self, policy: CallPolicy) -> tuple[Step, ...]:
        """The steps; none where it asks for nothing."""
        steps = self._known.get(policy)
        if steps is None:
            steps = self._known[policy] = tuple(self._make(policy))
        return steps

    def _make(self, policy: CallPolicy) -> Iterator[Step]:
        if policy.max_output is not None or policy.overflow is not None:
            yield SizeStep(policy.max_output, policy.overflow)
        if policy.redacts:
            yield RedactStep(self._masker)
        if policy.has_budget:
            yield BUDGET
        if policy.rules:
            yield WhenStep(policy.rules, self._rules)
        if policy.approvings:
            yield ApprovalStep(policy.approvings, self._rules, limit_s=self._approve_s)
        if policy.retried_by is not None:
            yield RetryStep(self._budgets.setdefault(policy.retried_by, RetryBudget()))
        priority = Priority[policy.priority.upper()]
        for name in policy.queues:
            yield GateStep(StepOrder.QUEUE, name, partial(_given, self._queues[name]), priority=priority)
        for name in policy.exclusive:
            key_of: KeyOf = workspace_of if name == WORKSPACE else partial(_given, ("exclusive", name))
            yield ExclusiveStep(StepOrder.EXCLUSIVE, name, self.exclusives, key_of, is_shared=policy.is_reader)
        for breaking in policy.breakers:
            watched = self._breakers.setdefault(breaking.owner, WatchedBreaker(breaking))
            yield RestStep(watched)
            yield BreakerStep(watched)


def _given(given: GivenT, _context: CallContext) -> GivenT:
    return given
