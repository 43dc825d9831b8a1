"""The steps that a policy asks for: queues, what one call has for itself, breakers, another try.

`PolicySteps` makes them, and has what they share in the whole daemon.
"""

import math
import random
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from typing import Final, Literal, TypeVar
from weakref import WeakSet

import trio

from tooldispatchd.agent.calls.call import Call, CallContext, Step
from tooldispatchd.agent.calls.redaction import RedactStep
from tooldispatchd.agent.calls.rulesteps import ApprovalStep, WhenStep
from tooldispatchd.agent.calls.sessionchannel import Hearer
from tooldispatchd.agent.calls.sizes import BUDGET, SizeStep
from tooldispatchd.agent.faults import queue_full, rate_limited, resting
from tooldispatchd.calls.backoff import Backoff
from tooldispatchd.calls.breaker import Breaker, BreakerState
from tooldispatchd.calls.gate import UNBOUNDED, Gate, GateVerdict, Priority
from tooldispatchd.calls.outcome import Outcome
from tooldispatchd.calls.rate import Rate
from tooldispatchd.calls.retries import MAX_TRIES, RetryBudget
from tooldispatchd.calls.stages import WAITS, StepOrder, Waits
from tooldispatchd.catalog.masker import NO_SECRETS, Masker
from tooldispatchd.catalog.policy import Breaking, CallPolicy, rate_of
from tooldispatchd.catalog.policyspec import QueueSpec
from tooldispatchd.catalog.rules import Owner, Rules
from tooldispatchd.catalog.speckinds import WORKSPACE
from tooldispatchd.catalog.specs import Config
from tooldispatchd.wire.faults import Category, Code, Fault

# Faults that say nothing of the tool: of those that ended the call, and of what it waited for.
_ELSEWHERE: Final = frozenset(
    {
        Code.CANCELLED,
        Code.DRAINING,
        Code.QUEUE_FULL,
        Code.RATE_LIMITED,
        Code.TOO_MANY,
        Code.BUDGET_EXCEEDED,
        Code.INTERNAL_ERROR,
    }
)

GivenT = TypeVar("GivenT")

# By what a call is held up, as its context says it; None where it is by nothing.
KeyOf = Callable[[CallContext], Hashable | None]


class GateStep(Step):
    """A place at a gate, which `find` finds for a call, by its `name` in faults; None where it needs none.

    A call below one that is inside has the place of that one: it would wait for what can only come after it.
    """

    __slots__ = ("_find", "_name", "_priority", "_whole")

    def __init__(
        self,
        order: StepOrder,
        name: str,
        find: Callable[[CallContext], Gate[Call] | None],
        *,
        whole: bool = False,
        priority: Priority = Priority.NORMAL,
    ) -> None:
        super().__init__(order)
        self._name = name
        self._find = find
        self._whole = whole
        self._priority = priority

    def take(self, call: Call) -> Fault | Literal[Waits.WAITS] | None:
        gate = self._find(call.context)
        if gate is None or (call.above is not None and call.above.is_at(gate)):
            return None
        now, until = (0.0, math.inf) if gate.rate is None else (trio.current_time(), call.waits_until)
        turns = call.context.turns
        verdict = gate.enter(call, turns, whole=self._whole, priority=self._priority, now=now, until=until)
        if verdict is GateVerdict.FULL:
            return queue_full(self._name)
        if verdict is GateVerdict.LIMITED:
            return rate_limited(self._name, gate.retry_after_s(now))
        if verdict is GateVerdict.IN:
            return None
        call.context.starter.watch(gate)
        return WAITS

    def leave(self, call: Call, _outcome: Outcome) -> None:
        gate = self._find(call.context)
        if gate is not None and call in gate:
            call.context.starter.leave(gate, call)


class Exclusives:
    """What one call has for itself, or several share that only look: each has a gate as long as a call comes to it."""

    __slots__ = ("_gates",)

    def __init__(self) -> None:
        self._gates: dict[Hashable, Gate[Call]] = {}

    def at(self, key: Hashable) -> Gate[Call]:
        """The gate of what has this key."""
        gate = self._gates.get(key)
        if gate is None:
            gate = self._gates[key] = Gate()
        return gate

    def forget(self, key: Hashable) -> None:
        """Drop the gate where nobody is at it."""
        gate = self._gates.get(key)
        if gate is not None and gate.is_empty:
            del self._gates[key]


class ExclusiveStep(GateStep):
    """A call has something for itself, or shares it with those that only look."""

    __slots__ = ("_exclusives", "_key_of")

    def __init__(
        self, order: StepOrder, name: str, exclusives: Exclusives, key_of: KeyOf, *, is_shared: bool = False
    ) -> None:
        super().__init__(order, name, self._gate, whole=not is_shared)
        self._exclusives = exclusives
        self._key_of = key_of

    def _gate(self, context: CallContext) -> Gate[Call] | None:
        key = self._key_of(context)
        return None if key is None else self._exclusives.at(key)

    def leave(self, call: Call, outcome: Outcome) -> None:
        super().leave(call, outcome)
        self._exclusives.forget(self._key_of(call.context))


class StateStep(ExclusiveStep):
    """A call has the state of that name of its session, unless it goes on beside the calls that have it."""

    __slots__ = ()

    def __init__(self, exclusives: Exclusives, state: str) -> None:
        super().__init__(StepOrder.STATE, state, exclusives, partial(_state_of, state))

    def take(self, call: Call) -> Fault | Literal[Waits.WAITS] | None:
        return None if call.is_beside else super().take(call)


def _state_of(state: str, context: CallContext) -> Hashable:
    return "state", context.lineage.number, state


def _workspace_of(context: CallContext) -> Hashable | None:
    return None if context.workspace is None else (WORKSPACE, context.workspace)


class WatchedBreaker:
    """The breaker of a table, and whoever has called through it and wants to hear of it."""

    __slots__ = ("_breaking", "_hearers", "_inside", "breaker")

    def __init__(self, breaking: Breaking) -> None:
        self.breaker: Breaker[Call] = Breaker(breaking.failures, breaking.within_s, breaking.rest_s)
        # Calls that went through, of which nothing is known yet.
        self._inside: set[Call] = set()
        self._breaking = breaking
        self._hearers: WeakSet[Hearer] = WeakSet()

    def refusal(self, now: float) -> Fault | None:
        """Why a call is not let through now."""
        after_s = self.breaker.refuses_for_s(now)
        return None if after_s is None else resting(self._breaking.owner[1], after_s)

    def enter(self, call: Call) -> Fault | None:
        hearer, now = call.context.tools.hearer, trio.current_time()
        if hearer is not None:
            self._hearers.add(hearer)
        if not self.breaker.enter(call, now):
            return self.refusal(now)
        self._inside.add(call)
        return None

    def leave(self, call: Call, outcome: Outcome) -> None:
        """The call has ended so; what it is said to have ended with after that says nothing of the tool."""
        if call not in self._inside:
            return
        self._inside.remove(call)
        news = self.breaker.leave(call, trio.current_time(), has_failed=has_failed(call, outcome))
        if news is not None:
            section, name = self._breaking.owner
            of: dict[str, object] = {"tool" if section == "tools" else "server": name}
            for hearer in list(self._hearers):
                hearer.breaker_moved(of, is_open=news is BreakerState.OPEN)


def has_failed(call: Call, outcome: Outcome) -> bool | None:
    """Whether a call failed for its tool was not there for it; None where its end says nothing of that."""
    if not isinstance(outcome, Fault):
        return False
    if outcome.code in _ELSEWHERE:
        return None
    if outcome.code is Code.TIMEOUT:
        # An agent's own deadline may be as short as it likes.
        return call.machine.is_limit or None
    return outcome.category is Category.UNAVAILABLE


class RestStep(Step):
    """Whoever comes while a breaker is open need not wait in a queue to be told so."""

    __slots__ = ("_watched",)

    def __init__(self, watched: WatchedBreaker) -> None:
        super().__init__(StepOrder.REST)
        self._watched = watched

    def take(self, _call: Call) -> Fault | None:
        return self._watched.refusal(trio.current_time())


class BreakerStep(Step):
    """The last look before a tool is called, and the first at how it ended."""

    __slots__ = ("_watched",)

    def __init__(self, watched: WatchedBreaker) -> None:
        super().__init__(StepOrder.BREAKER)
        self._watched = watched

    def take(self, call: Call) -> Fault | None:
        return self._watched.enter(call)

    def give(self, call: Call, outcome: Outcome) -> None:
        # Before other steps make another outcome of it.
        self._watched.leave(call, outcome)

    def leave(self, call: Call, outcome: Outcome) -> None:
        self._watched.leave(call, outcome)


class RetryStep(Step):
    """A call that could not be done now is tried again, as long as there is time, and the budget lets it."""

    __slots__ = ("_budget",)

    def __init__(self, budget: RetryBudget) -> None:
        super().__init__(StepOrder.RETRY)
        self._budget = budget

    def take(self, _call: Call) -> None:
        self._budget.note()

    def give(self, call: Call, outcome: Outcome) -> Literal[Waits.WAITS] | None:
        if not isinstance(outcome, Fault) or outcome.category is not Category.UNAVAILABLE:
            return None
        # One whose limit has passed has no time left; and what is full here is no less so for another try.
        if outcome.code in _ELSEWHERE or outcome.code is Code.TIMEOUT or call.tries >= MAX_TRIES:
            return None
        asked_ms = outcome.extras.get("retry_after_ms")
        asked_s = asked_ms / 1000 if isinstance(asked_ms, int | float) else 0.0
        wait_s = Backoff(call.tries).wait_s(0.0, random.random(), asked_s=asked_s)  # noqa: S311  # it hides nothing
        if trio.current_time() + max(wait_s, asked_s) >= call.waits_until or not self._budget.take():
            return None
        call.try_again(outcome, wait_s)
        return WAITS


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
        if policy.redacts and self._masker:
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
            key_of: KeyOf = _workspace_of if name == WORKSPACE else partial(_given, ("exclusive", name))
            yield ExclusiveStep(StepOrder.EXCLUSIVE, name, self.exclusives, key_of, is_shared=policy.is_reader)
        for breaking in policy.breakers:
            watched = self._breakers.setdefault(breaking.owner, WatchedBreaker(breaking))
            yield RestStep(watched)
            yield BreakerStep(watched)


def queue_of(spec: QueueSpec) -> Gate[Call]:
    """The gate of a queue; a quarter of its room is for agents of which none waits."""
    return Gate(
        spec.concurrent or UNBOUNDED,
        waiting=spec.waiting,
        room_kept=spec.waiting // 4,
        per_agent=spec.per_agent or UNBOUNDED,
        rate=None if spec.rate is None else Rate(*rate_of(spec.rate)),
    )


def _given(given: GivenT, _context: CallContext) -> GivenT:
    return given
