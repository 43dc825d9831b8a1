"""Counts and durations of calls, by tool and outcome."""

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.calls.outcome import Answer
from tooldispatchd.calls.tally import BOUNDS_S, MAX_TOOLS, Durations, Tallies, ToolTally
from tooldispatchd.wire.faults import Code, Fault

SECONDS = st.floats(min_value=0.0, max_value=1e6) | st.sampled_from(BOUNDS_S)
LATE = Fault(Code.TIMEOUT, "too late")


class Tool(NamedTuple):
    name: str
    kind: str
    provider: str


@given(st.lists(SECONDS, min_size=1, max_size=50))
def test_each_duration_is_counted_once_up_to_the_nearest_bound_above(seconds: list[float]) -> None:
    durations = Durations()
    for each in seconds:
        durations.add(each)
    for place, bound in enumerate(BOUNDS_S):
        assert sum(durations.counts[: place + 1]) == sum(each <= bound for each in seconds)
    assert (durations.count, durations.longest_s) == (len(seconds), max(seconds))
    assert durations.total_s == sum(seconds, start=0.0)


@given(st.lists(SECONDS, min_size=1, max_size=50), st.floats(min_value=0.01, max_value=1.0))
def test_a_quantile_is_no_less_than_the_true_one_and_at_most_its_double(seconds: list[float], part: float) -> None:
    durations = Durations()
    for each in seconds:
        durations.add(each)
    true = next(each for place, each in enumerate(sorted(seconds), 1) if place >= part * len(seconds))
    told = durations.quantile(part)
    assert told is not None
    assert true <= told <= max(2 * true, BOUNDS_S[0], max(seconds) if true > BOUNDS_S[-1] else 0.0)


def test_no_duration_has_no_quantile() -> None:
    assert Durations().quantile(0.5) is None


def test_a_tool_counts_its_calls_by_how_they_ended() -> None:
    tally = ToolTally("t", "inline", "inline")
    tally.at_once += 1
    tally.note(Answer("1"), 0.5)
    tally.note(Answer("1", is_error=True), 0.5)
    tally.note(LATE, 60.0)
    tally.note(LATE, 61.0)
    assert tally.counts() == {"ok": 2, "error": 1, "timeout": 2}
    assert tally.ended["timeout"].total_s == 121.0


def test_tools_have_tallies_of_their_own_up_to_a_bound_and_one_for_all_beyond() -> None:
    tallies = Tallies()
    for number in [*range(MAX_TOOLS + 3), 0]:
        tallies.of(Tool(f"t{number}", "mcp", "s")).at_once += 1
    told = [(tally.name, tally.at_once) for tally in tallies.tools()]
    assert (len(told), told[0], told[1], told[-1]) == (MAX_TOOLS + 1, ("t0", 2), ("t1", 1), ("other", 3))


def test_a_tool_that_is_called_as_the_others_are_together_is_counted_with_them() -> None:
    tallies = Tallies()
    own = tallies.of(Tool("other", "other", "other"))
    for number in range(MAX_TOOLS):
        tallies.of(Tool(f"t{number}", "mcp", "s")).at_once += 1
    assert (own.at_once, len(tallies.tools())) == (1, MAX_TOOLS)
