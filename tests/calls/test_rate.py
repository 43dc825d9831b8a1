from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.calls.rate import Rate

WAITS = st.lists(st.sampled_from([0.0, 0.0, 0.01, 0.1, 0.3, 1.0, 7.0]), max_size=60)


def test_as_many_as_the_burst_at_once_and_then_one_in_each_interval() -> None:
    rate = Rate(10.0, 3)
    assert [rate.take(100.0) for _ in range(4)] == [True, True, True, False]
    assert not rate.take(100.09)
    assert rate.take(100.11)
    assert not rate.take(100.12)


def test_a_bucket_that_nobody_used_is_no_fuller_than_its_burst() -> None:
    rate = Rate(10.0, 2)
    assert [rate.take(1_000_000.0) for _ in range(3)] == [True, True, False]


def test_when_one_is_due_it_can_be_taken() -> None:
    rate = Rate(3.0)
    now = 7.7
    for _ in range(1000):
        assert rate.take(now)
        due = rate.due(now)
        assert not rate.take(due - 1e-6)
        now = due


def test_those_ahead_come_first() -> None:
    rate = Rate(2.0, 2)
    assert [rate.due(10.0, ahead) for ahead in range(4)] == [10.0, 10.0, 10.5, 11.0]


@given(per_s=st.sampled_from([0.5, 1.0, 3.0, 10.0]), burst=st.integers(1, 5), waits=WAITS)
def test_no_time_has_more_than_the_burst_and_the_rate(per_s: float, burst: int, waits: list[float]) -> None:
    rate, now = Rate(per_s, burst), 50.0
    taken: list[float] = []
    for wait in waits:
        now += wait
        is_due = rate.due(now) == now
        assert rate.take(now) == is_due
        taken += [now] if is_due else []
    for first, began in enumerate(taken):
        for last in range(first, len(taken)):
            assert last - first + 1 <= burst + per_s * (taken[last] - began) + 1e-6
