"""What an agent has left is never overdrawn, whatever its calls do, and however they overlap."""

import math

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.examples import examples
from tooldispatchd.calls.budget import MAX_TURNS, WINDOW_S, AgentBudget, IdleBudgets
from tooldispatchd.catalog.policyspec import BudgetSpec


def test_without_a_budget_there_is_room_for_anything() -> None:
    budget = AgentBudget(None, BudgetSpec(calls=1))
    assert budget.room(None) == math.inf
    assert [budget.take_call(None) for _ in range(3)] == [None, None, None]


def test_calls_are_counted_and_given_back() -> None:
    budget = AgentBudget(BudgetSpec(calls=2), None)
    assert [budget.take_call(None) for _ in range(3)] == [None, None, ("calls", False)]
    budget.give_back_call(None)
    assert budget.take_call("a") is None


@pytest.mark.parametrize(("spec", "room"), [(BudgetSpec(bytes=1024), 1024), (BudgetSpec(tokens=256), 1024)])
def test_bytes_and_tokens_are_spent_to_the_last_and_then_nothing_runs(spec: BudgetSpec, room: int) -> None:
    budget = AgentBudget(spec, None)
    assert budget.room(None) == room
    budget.spend(None, room)
    assert budget.room(None) == 0
    assert budget.take_call(None) in {("bytes", False), ("tokens", False)}


def test_each_turn_has_its_own_and_the_whole_holds_for_all() -> None:
    budget = AgentBudget(BudgetSpec(calls=3), BudgetSpec(calls=1))
    taken = [budget.take_call(turn) for turn in (1, 1, "1", 2, 3)]
    assert taken == [None, ("calls", True), None, None, ("calls", False)]


def test_a_turn_that_was_long_ago_begins_anew_and_takes_nothing_back() -> None:
    budget = AgentBudget(None, BudgetSpec(calls=1))
    for turn in range(MAX_TURNS + 1):
        assert budget.take_call(turn) is None
    budget.give_back_call(0)
    assert [budget.take_call(0), budget.take_call(0)] == [None, ("calls", True)]


def test_an_answer_without_room_is_a_defect_of_the_caller() -> None:
    budget = AgentBudget(BudgetSpec(bytes=1024), None)
    with pytest.raises(RuntimeError, match="1025 bytes is more than the 1024"):
        budget.spend(None, 1025)


class Spending(RuleBasedStateMachine):
    """Calls of several turns run, give answers or do not, and end in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = AgentBudget(BudgetSpec(calls=8, bytes=4096), BudgetSpec(calls=3, tokens=512))
        self.running: list[int | None] = []
        self.calls = self.bytes = 0

    @rule(turn=st.sampled_from([None, 1, 2, 3]))
    def begin(self, turn: int | None) -> None:
        if self.budget.take_call(turn) is None:
            self.running.append(turn)
            self.calls += 1

    @rule(number=st.integers(0, 7), size=st.integers(0, 3000))
    def answer(self, number: int, size: int) -> None:
        if number < len(self.running):
            turn = self.running.pop(number)
            if size <= self.budget.room(turn):
                self.budget.spend(turn, size)
                self.bytes += size

    @rule(number=st.integers(0, 7))
    def never_ran(self, number: int) -> None:
        if number < len(self.running):
            self.budget.give_back_call(self.running.pop(number))
            self.calls -= 1

    @invariant()
    def nothing_is_overdrawn(self) -> None:
        assert all(self.budget.room(turn) >= 0 for turn in (None, 1, 2, 3))
        assert self.calls <= 8
        assert self.bytes <= 4096


TestSpending = Spending.TestCase
TestSpending.settings = settings(max_examples=examples(30), deadline=None)


def test_what_an_ended_session_has_left_is_taken_over_within_the_window() -> None:
    def fresh() -> AgentBudget:
        return AgentBudget(BudgetSpec(calls=1), None)

    idle = IdleBudgets()
    spent, other = idle.take("ann", "a", fresh(), 0.0), idle.take("ann", "b", fresh(), 1.0)
    assert spent is not other
    spent.take_call(None)
    idle.give_back("ann", "b", other)
    idle.give_back("ann", "a", spent)
    assert idle.take("ann", "a", fresh(), 2.0) is spent
    # Another name renews nothing, another owner has its own.
    idle.give_back("ann", "a", spent)
    assert {idle.take("ann", name, fresh(), 3.0) for name in ("c", "d")} == {spent, other}
    assert idle.take("ben", "a", fresh(), 3.0) not in {spent, other}
    idle.give_back("ann", "a", spent)
    assert idle.take("ann", "a", fresh(), WINDOW_S) is not spent
