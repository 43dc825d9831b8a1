"""Steps of calls that may be the only ones to have something, and the gates of these."""

from collections.abc import Callable, Hashable
from functools import partial

from tooldispatchd.agent.calls.call import Call, CallContext, GateStep, StepOrder
from tooldispatchd.calls.gate import Gate
from tooldispatchd.calls.outcome import Outcome

# By what a call is held up, as its context says it; None where it is by nothing.
KeyOf = Callable[[CallContext], Hashable | None]


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


def state_step(exclusives: Exclusives, state: str) -> ExclusiveStep:
    """The state of that name, of the call's session."""
    return ExclusiveStep(StepOrder.STATE, state, exclusives, partial(_state_of, state))


def _state_of(state: str, context: CallContext) -> Hashable:
    return "state", context.lineage.number, state
