"""The text format: what is written is read back as it was meant."""

import re

from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.metrics.exposition import Metric, MetricKind

COUNTER = Metric("a_total", MetricKind.COUNTER, "Says \\ and\nmore.", ("tool",))
TIMES = Metric("t_seconds", MetricKind.HISTOGRAM, "Times.", ("tool",))
PLAIN = Metric("g", MetricKind.GAUGE, "A number.")
_VALUE = re.compile(r'a_total\{tool="((?:[^"\\\n]|\\[\\n"])*)"\} 1\n')
_ESCAPED = {r"\\": "\\", r"\n": "\n", r"\"": '"'}


@given(st.text())
def test_any_label_is_one_line_that_says_it(text: str) -> None:
    found = _VALUE.fullmatch(COUNTER.sample(1, text))
    assert found is not None
    assert re.sub(r"\\.", lambda escape: _ESCAPED[escape[0]], found[1]) == text


def test_a_metric_is_introduced_in_two_lines() -> None:
    assert COUNTER.head == "# HELP a_total Says \\\\ and\\nmore.\n# TYPE a_total counter\n"


def test_numbers_are_written_as_prometheus_reads_them() -> None:
    assert [PLAIN.sample(number) for number in (0, 3.0, 0.25, 1e300, True)] == [
        "g 0\n",
        "g 3\n",
        "g 0.25\n",
        "g 1e+300\n",
        "g 1\n",
    ]


def test_a_histogram_adds_up() -> None:
    assert TIMES.histogram((0.5, 2.0), (1, 0, 3), 12.5, "x").splitlines() == [
        't_seconds_bucket{tool="x",le="0.5"} 1',
        't_seconds_bucket{tool="x",le="2"} 1',
        't_seconds_bucket{tool="x",le="+Inf"} 4',
        't_seconds_sum{tool="x"} 12.5',
        't_seconds_count{tool="x"} 4',
    ]
