from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.calls.retries import RetryBudget


def test_ten_at_once_and_then_one_for_ten_calls() -> None:
    budget = RetryBudget()
    assert [budget.take() for _ in range(11)] == [True] * 10 + [False]
    for _ in range(11):
        budget.note()
    assert [budget.take() for _ in range(2)] == [True, False]


@given(st.lists(st.booleans(), max_size=300))
def test_all_retries_are_a_tenth_of_the_calls_and_ten(steps: list[bool]) -> None:
    budget = RetryBudget()
    calls = retries = 0
    for is_call in steps:
        if is_call:
            budget.note()
            calls += 1
        else:
            retries += budget.take()
        assert retries <= calls / 10 + 10
