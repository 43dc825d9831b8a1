import math
from typing import Final

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tooldispatchd.calls.outcome import Answer, Outcome
from tooldispatchd.calls.stages import TRANSITIONS, CallEvent, CallMachine, CallState, Reason, ToDo
from tooldispatchd.wire.faults import Code, Fault

STOPPED: Final = Fault(Code.CANCELLED, "stopped")
DONE: Final = Answer("done")


def call_after(*events: CallEvent, allowed_s: float = math.inf) -> CallMachine:
    """A call that arrived at 100 and has taken these events."""
    machine = CallMachine(100.0, allowed_s)
    for event in events:
        machine.apply(event)
    return machine


def test_a_call_whose_turn_comes_at_once_goes_straight_to_its_tool() -> None:
    machine = call_after(CallEvent.START)
    assert machine.apply(CallEvent.FINISH, DONE) is ToDo.END
    assert (machine.state, machine.outcome) == (CallState.ENDED, DONE)


def test_a_call_that_waits_ends_at_once_when_it_is_stopped() -> None:
    machine = call_after(CallEvent.WAIT)
    assert machine.apply(CallEvent.STOP, STOPPED) is ToDo.END
    assert (machine.state, machine.outcome) == (CallState.ENDED, STOPPED)


def test_a_call_may_wait_at_one_gate_after_the_other_and_again_when_it_has_run() -> None:
    machine = call_after(CallEvent.WAIT, CallEvent.WAIT, CallEvent.START, CallEvent.WAIT, CallEvent.START)
    assert machine.state is CallState.RUNNING


def test_what_stopped_a_running_call_is_its_outcome_whatever_its_tool_says_then() -> None:
    machine = call_after(CallEvent.START)
    assert machine.apply(CallEvent.STOP, STOPPED) is ToDo.HALT
    assert machine.apply(CallEvent.STOP, Fault(Code.TIMEOUT, "later")) is ToDo.NOTHING
    machine.apply(CallEvent.FINISH, DONE)
    assert machine.outcome == STOPPED


def test_the_fault_that_stopped_a_call_tells_what_its_tool_said_since() -> None:
    machine = call_after(CallEvent.START)
    machine.apply(CallEvent.STOP, Fault(Code.TIMEOUT, "late", {"limit_ms": 5}))
    machine.hear({"stdout_tail": "half"})
    assert machine.outcome == Fault(Code.TIMEOUT, "late", {"limit_ms": 5, "stdout_tail": "half"})


def test_what_a_tool_said_is_of_no_matter_where_nothing_stopped_it() -> None:
    machine = call_after(CallEvent.START)
    machine.hear({"stdout_tail": "half"})
    machine.apply(CallEvent.FINISH, DONE)
    assert machine.outcome == DONE


def test_a_second_end_is_a_defect_that_names_state_and_event() -> None:
    machine = call_after(CallEvent.FINISH)
    with pytest.raises(RuntimeError, match="call is ended and cannot take finish"):
        machine.apply(CallEvent.FINISH, DONE)


def test_a_call_that_has_ended_is_not_stopped_any_more() -> None:
    machine = CallMachine(100.0)
    machine.apply(CallEvent.FINISH, DONE)
    assert machine.apply(CallEvent.STOP, STOPPED) is ToDo.NOTHING
    assert machine.outcome == DONE


def test_the_tool_s_limit_counts_where_it_comes_first() -> None:
    machine = call_after(CallEvent.START, allowed_s=10)
    assert machine.allow(2, since=105) == 107
    fault, reason = machine.timeout("t")
    assert (fault.detail, reason) == ("t was not done within 2000 ms (stage run)", Reason.LIMIT)
    assert fault.extras == {"limit_ms": 2000, "stage": "run"}
    assert machine.ran_at == 105


def test_progress_begins_the_limit_anew_up_to_a_bound() -> None:
    machine = call_after(CallEvent.START, allowed_s=100)
    assert machine.allow(5, 110) == 115
    machine.extend(5, 114, most_s=20)
    assert (machine.ends_at, machine.ran_at) == (119, 110)
    machine.extend(5, 129, most_s=20)
    assert (machine.ends_at, machine.is_limit) == (130, True)
    assert machine.timeout("slow")[0].extras["limit_ms"] == 20_000
    machine.extend(5, 129, most_s=1_000)
    machine.extend(90, 130, most_s=1_000)
    assert (machine.ends_at, machine.is_limit) == (200, False)


def test_the_agent_s_deadline_counts_where_it_comes_first() -> None:
    machine = call_after(CallEvent.HOLD, allowed_s=3)
    assert machine.allow(60, since=100) == 103
    fault, reason = machine.timeout("t", "a stage")
    assert fault.detail == "t was not done within 3000 ms (stage opening): it waited for a stage"
    assert reason is Reason.CANCELLED
    assert fault.extras == {"limit_ms": 3000, "stage": "opening", "process": "a stage"}


class AnyLife(RuleBasedStateMachine):
    """Any events in any order: those in place move the call on, all others raise and change nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = CallMachine(0.0)
        self.first: Outcome | None = None
        self.halts = self.ends = 0

    @rule(event=st.sampled_from(CallEvent), number=st.integers(0, 9))
    def apply(self, event: CallEvent, number: int) -> None:
        outcome = Answer(str(number)) if event in {CallEvent.STOP, CallEvent.FINISH} else None
        before = self.machine.state
        if (before, event) not in TRANSITIONS:
            with pytest.raises(RuntimeError, match=f"{before.value} and cannot take {event.value}"):
                self.machine.apply(event, outcome)
            assert self.machine.state is before
            return
        todo = self.machine.apply(event, outcome)
        self.first = self.first or outcome
        self.halts += todo is ToDo.HALT
        self.ends += todo is ToDo.END

    @precondition(lambda self: self.machine.state is CallState.ENDED)
    @rule()
    def start_anew(self) -> None:
        assert self.ends == 1
        self.machine = CallMachine(0.0)
        self.first, self.halts, self.ends = None, 0, 0

    @invariant()
    def its_first_outcome_stays(self) -> None:
        assert self.machine.outcome == self.first

    @invariant()
    def it_is_halted_and_ended_at_most_once(self) -> None:
        assert self.halts <= 1
        assert self.ends == (self.machine.state is CallState.ENDED)


TestAnyLife = AnyLife.TestCase


def test_every_state_but_the_last_can_end() -> None:
    for state in set(CallState) - {CallState.ENDED}:
        assert TRANSITIONS[state, CallEvent.FINISH][0] is CallState.ENDED
