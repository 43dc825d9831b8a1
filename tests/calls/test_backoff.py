"""The schedule by which connections are opened anew."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.calls.backoff import JITTER, MAX_ASKED_S, Backoff

EVEN = 0.5


def test_a_server_that_does_not_last_waits_ever_longer() -> None:
    backoff = Backoff()
    waits = [backoff.wait_s(0.0, EVEN) for _ in range(9)]
    assert waits == [0.0, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 60.0, 60.0]


def test_a_connection_that_lived_a_minute_starts_the_schedule_over() -> None:
    backoff = Backoff()
    for _ in range(5):
        backoff.wait_s(0.0, EVEN)
    assert backoff.wait_s(59.9, EVEN) == 30.0
    assert [backoff.wait_s(60.0, EVEN), backoff.wait_s(0.0, EVEN)] == [0.0, 1.0]


@given(st.floats(0, 1))
def test_chance_moves_a_wait_by_a_fifth_at_most(chance: float) -> None:
    backoff = Backoff()
    waits = [backoff.wait_s(0.0, chance) for _ in range(7)]
    assert waits[0] == 0.0
    for wait, plain in zip(waits, [0.0, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0], strict=True):
        assert plain * (1 - JITTER) <= wait <= plain * (1 + JITTER) or math.isclose(wait, plain, rel_tol=JITTER)


@pytest.mark.parametrize(("asked_s", "wait_s"), [(0.5, 0.5), (20.0, 20.0), (86_400.0, MAX_ASKED_S)])
def test_a_server_that_asks_for_more_time_gets_it_within_a_bound(asked_s: float, wait_s: float) -> None:
    assert Backoff().wait_s(0.0, EVEN, asked_s=asked_s) == wait_s
