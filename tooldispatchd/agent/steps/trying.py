"""What is made of tools that are not there: another try, and the rest that a breaker gives them."""

import random
from typing import Final, Literal
from weakref import WeakSet

import trio

from tooldispatchd.agent.calls.call import Call
from tooldispatchd.agent.calls.sessionchannel import Hearer
from tooldispatchd.agent.calls.step import Step
from tooldispatchd.agent.faults import resting
from tooldispatchd.calls.backoff import Backoff
from tooldispatchd.calls.breaker import Breaker, BreakerState
from tooldispatchd.calls.outcome import Outcome
from tooldispatchd.calls.retries import MAX_TRIES, RetryBudget
from tooldispatchd.calls.stages import WAITS, StepOrder, Waits
from tooldispatchd.catalog.policy import Breaking
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


class WatchedBreaker:
    """The breaker of a table, and whoever has called through it and wants to hear of it."""

    __slots__ = ("__weakref__", "_breaking", "_hearers", "_inside", "breaker")

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
        hearer, now = call.context.session.events, trio.current_time()
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
        return call.is_limit or None
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
