"""The steps that a policy asks for, made of what they share in the whole daemon."""

from collections.abc import Iterator
from functools import partial
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from tooldispatchd.agent.calls.call import Call, CallContext
from tooldispatchd.agent.calls.step import Step
from tooldispatchd.agent.steps.gates import Exclusives, ExclusiveStep, GateStep, KeyOf, queue_of, workspace_of
from tooldispatchd.agent.steps.redaction import RedactStep
from tooldispatchd.agent.steps.rules import ApprovalStep, WhenStep
from tooldispatchd.agent.steps.sizes import BUDGET, SizeStep
from tooldispatchd.agent.steps.trying import BreakerStep, RestStep, RetryStep, WatchedBreaker
from tooldispatchd.calls.gate import Gate, Priority
from tooldispatchd.calls.retries import RetryBudget
from tooldispatchd.calls.stages import StepOrder
from tooldispatchd.catalog.masker import Masker
from tooldispatchd.catalog.policy import Breaking, CallPolicy
from tooldispatchd.catalog.policyspec import QueueSpec
from tooldispatchd.catalog.rules import Owner, Rules
from tooldispatchd.catalog.speckinds import WORKSPACE
from tooldispatchd.catalog.specs import Config

GivenT = TypeVar("GivenT")


class PolicyState:
    """What steps share in the whole daemon, whichever generation they are of; as long as one of them has it.

    A table that says the same as before means the same queue, with the calls that are in it.
    """

    __slots__ = ("_breakers", "_budgets", "_queues", "exclusives")

    def __init__(self) -> None:
        self.exclusives: Final = Exclusives()
        self._queues: WeakValueDictionary[tuple[str, QueueSpec], Gate[Call]] = WeakValueDictionary()
        self._breakers: WeakValueDictionary[Breaking, WatchedBreaker] = WeakValueDictionary()
        self._budgets: WeakValueDictionary[Owner, RetryBudget] = WeakValueDictionary()

    def queue(self, name: str, spec: QueueSpec) -> Gate[Call]:
        """The gate of a queue."""
        gate = self._queues.get((name, spec))
        if gate is None:
            gate = self._queues[name, spec] = queue_of(spec)
        return gate

    def queues(self) -> list[tuple[str, Gate[Call]]]:
        """All queues that there are, by name; while a configuration goes there may be two of one name."""
        return [(name, gate) for (name, _), gate in self._queues.items()]

    def breaker(self, breaking: Breaking) -> WatchedBreaker:
        """The breaker of a table."""
        return self._breakers.setdefault(breaking, WatchedBreaker(breaking))

    def budget(self, owner: Owner) -> RetryBudget:
        """The budget of a table for trying again."""
        return self._budgets.setdefault(owner, RetryBudget())


class PolicySteps:
    """Makes the steps of policies of one generation. Equal policies have the same ones."""

    __slots__ = ("_approve_s", "_known", "_masker", "_queues", "_rules", "_state")

    def __init__(self, config: Config, rules: Rules, masker: Masker, state: PolicyState) -> None:
        self._rules = rules
        self._masker = masker
        self._approve_s = config.limits.approve_s
        self._state = state
        self._queues = {name: state.queue(name, spec) for name, spec in config.queues.items()}
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
            yield RetryStep(self._state.budget(policy.retried_by))
        priority = Priority[policy.priority.upper()]
        for name in policy.queues:
            yield GateStep(StepOrder.QUEUE, name, partial(_given, self._queues[name]), priority=priority)
        for name in policy.exclusive:
            key_of: KeyOf = workspace_of if name == WORKSPACE else partial(_given, ("exclusive", name))
            yield ExclusiveStep(StepOrder.EXCLUSIVE, name, self._state.exclusives, key_of, is_shared=policy.is_reader)
        for breaking in policy.breakers:
            watched = self._state.breaker(breaking)
            yield RestStep(watched)
            yield BreakerStep(watched)


def _given(given: GivenT, _context: CallContext) -> GivenT:
    return given
