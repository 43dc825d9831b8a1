"""Steps in which a call has a place among others: a queue, what one call has for itself, the state of its session."""

import math
from collections.abc import Callable, Hashable
from functools import partial
from typing import Literal

import trio

from tooldispatchd.agent.calls.call import Call, CallContext
from tooldispatchd.agent.calls.step import Step
from tooldispatchd.agent.faults import queue_full, rate_limited
from tooldispatchd.calls.gate import UNBOUNDED, Gate, GateVerdict, Priority
from tooldispatchd.calls.outcome import Outcome
from tooldispatchd.calls.rate import Rate
from tooldispatchd.calls.stages import WAITS, StepOrder, Waits
from tooldispatchd.catalog.policy import rate_of
from tooldispatchd.catalog.policyspec import QueueSpec
from tooldispatchd.catalog.speckinds import WORKSPACE
from tooldispatchd.wire.faults import Fault

# By what a call is held up, as its context says it; None where it is by nothing.
KeyOf = Callable[[CallContext], Hashable | None]


class GateStep(Step):
    """A place at a gate, which `find` finds for a call, by its `name` in faults; None where it needs none.

    A call below one that is inside has the place of that one: it would wait for what can only come after it.
    """

    __slots__ = ("_find", "_priority", "_whole", "name")

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
        self.name = name
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
            return queue_full(self.name)
        if verdict is GateVerdict.LIMITED:
            return rate_limited(self.name, gate.retry_after_s(now))
        if verdict is GateVerdict.IN:
            return None
        call.context.starter.watch(gate)
        return WAITS

    def leave(self, call: Call, _outcome: Outcome) -> None:
        gate = self._find(call.context)
        if gate is not None and call in gate:
            call.context.starter.leave(gate, call)


class ProgramStep(GateStep):
    """A place for a program; jobs that may be servers, and run for hours, have places of their own."""

    __slots__ = ("_beside",)

    def __init__(self, programs: Gate[Call], beside: Gate[Call]) -> None:
        super().__init__(StepOrder.PROGRAM_PLACE, "programs", lambda _: programs)
        self._beside = GateStep(StepOrder.PROGRAM_PLACE, "background programs", lambda _: beside)

    def take(self, call: Call) -> Fault | Literal[Waits.WAITS] | None:
        return self._beside.take(call) if call.request.is_beside else super().take(call)

    def leave(self, call: Call, outcome: Outcome) -> None:
        # By where it is: what it is may have changed since it came in.
        self._beside.leave(call, outcome)
        super().leave(call, outcome)


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


def workspace_of(context: CallContext) -> Hashable | None:
    return None if context.workspace is None else (WORKSPACE, context.workspace)


def queue_of(spec: QueueSpec) -> Gate[Call]:
    """The gate of a queue; a quarter of its room is for agents of which none waits."""
    return Gate(
        spec.concurrent or UNBOUNDED,
        waiting=spec.waiting,
        room_kept=spec.waiting // 4,
        per_agent=spec.per_agent or UNBOUNDED,
        rate=None if spec.rate is None else Rate(*rate_of(spec.rate)),
    )
