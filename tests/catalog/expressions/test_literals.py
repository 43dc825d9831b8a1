"""Patterns and time zones: which may stand in an expression, that none comes from anywhere else, what patterns cost."""

import os
from pathlib import Path

import pytest

from tooldispatchd.catalog.expressions.bounds import BUDGET_NS
from tooldispatchd.catalog.expressions.door import ExpressionError, compile_expression, compile_predicate
from tooldispatchd.catalog.expressions.literals import GETTERS, is_zone, match_ns, positions
from tooldispatchd.catalog.types import parse_arrow

AT_MIDNIGHT = "timestamp('2020-01-01T00:00:00Z')"
RECORD = "{tz: string, b: bool, xs: [string], v: json} -> json"


def evaluate(source: str, arrow: str, value: object) -> object:
    input_type, output_type = parse_arrow(arrow)
    return compile_expression(source, input_type=input_type, output_type=output_type, declared={}).evaluate(value)


@pytest.mark.parametrize(
    ("pattern", "least"),
    [
        ("", 1),
        ("abc", 3),
        ("a{1000}", 1_000),
        ("a{2,30}", 30),
        ("a{7,}", 7),
        ("(ab){10}", 20),
        ("((a{10}){10}){10}", 1_000),
        ("((a|b{30}){1,30})", 900),
        ("(?i)(?P<name>a){50}", 50),
        ("(?s-m:(?i)k{50})", 200),
        (r"\Qa{9}\E", 4),
        (".{20}", 160),
        (r"\w{20}", 80),
        ("[a-z0-9]{20}", 40),
        ("(?i)[a-z]{20}", 160),
        ("[^a]{20}", 160),
        ("[]a]{20}", 40),
        (r"[\]a]{20}", 160),
        ("é{20}", 20),
        (r"\x{10FFFF}{20}", 20),
        (r"\pL", 10_000),
        (r"\P{Greek}", 10_000),
        (r"[^\p{L}]", 10_000),
        ("(a", 1),
        ("a)b", 2),
        ("a{", 1),
        ("[a", 2),
    ],
)
def test_repetitions_and_classes_multiply_the_positions(pattern: str, least: int) -> None:
    assert positions(pattern) >= least


@pytest.mark.parametrize("pattern", [r"\pL{300}", "((x{30}){30}){10}", "x.{500}", "(x?){900}x{900}", "[^u-z]{900}"])
def test_a_pattern_that_takes_milliseconds_to_compile_is_told_at_its_place(pattern: str) -> None:
    why = "column 11: this pattern would take too much work, whatever the text"
    with pytest.raises(ExpressionError, match=why):
        evaluate(f"s.matches(r'{pattern}')", "string -> bool", "")


def test_a_pattern_is_short() -> None:
    assert evaluate(f"s.matches('{'a' * 200}')", "string -> bool", "a") is False
    with pytest.raises(ExpressionError, match="column 11: a pattern has at most 200 characters"):
        evaluate(f"s.matches('{'a' * 201}')", "string -> bool", "")


@pytest.mark.parametrize("pattern", [r"^\d{4}-\d{2}-\d{2}$", "^[a-z0-9-]+$", "error|warning", r"[^@ ]+@[^@ ]+\.[a-z]+"])
def test_a_pattern_of_every_day_serves_for_a_line_of_text(pattern: str) -> None:
    assert match_ns(pattern, 256, 1) < BUDGET_NS // 2


def test_a_search_that_builds_few_states_goes_through_any_text() -> None:
    assert match_ns("^[a-z]+$", 64 * 1024, 1) < BUDGET_NS // 2


def test_a_search_that_builds_a_state_at_each_step_costs_by_its_positions() -> None:
    assert match_ns("(a|b)*a(a|b){20}c", 1_000, 1) > BUDGET_NS


@pytest.mark.parametrize(
    ("zone", "hour"),
    [
        ("UTC", 0),
        ("+05:30", 5),
        ("-05:30", 18),
        ("Europe/Paris", 1),
        ("America/Argentina/Buenos_Aires", 21),
        ("Etc/GMT+5", 19),
    ],
)
def test_a_zone_that_stands_in_the_expression_is_used(zone: str, hour: int) -> None:
    assert evaluate(f"{AT_MIDNIGHT}.getHours('{zone}')", "int -> int", 1) == hour


@pytest.mark.parametrize(
    ("source", "column"),
    [
        (f"{AT_MIDNIGHT}.getHours(tz)", 44),
        (f"{AT_MIDNIGHT}.getHours('' + tz)", 44),
        (f"{AT_MIDNIGHT}.getHours('Europe/' + 'Paris')", 44),
        (f"{AT_MIDNIGHT}.getHours(b ? 'UTC' : tz)", 44),
        (f"{AT_MIDNIGHT}.getHours(b ? 'UTC' : 'UTC')", 44),
        (f"{AT_MIDNIGHT}.getHours(dyn(tz))", 44),
        (f"{AT_MIDNIGHT}.getHours(string('UTC'))", 44),
        (f"{AT_MIDNIGHT}.getHours(xs[0])", 44),
        (f"{AT_MIDNIGHT}.getHours(v.zone)", 44),
        (f"{AT_MIDNIGHT}.getHours({{'a': tz}}.a)", 44),
        ("xs.map(z, timestamp(0).getHours(z))", 33),
        ("['UTC'].map(z, timestamp(0).getHours(z))", 38),
        ("xs.filter(z, timestamp(0).getHours(z) > 0)", 36),
        ("xs.all(z, timestamp(0).getHours(z) > 0)", 33),
        ("xs.exists_one(z, timestamp(0).getHours(z) > 0)", 40),
        ("v.map(t, t.getHours(tz))", 21),
        ("has({'a': timestamp(0).getHours(tz)}.a)", 33),
        ("false && timestamp(0).getHours(tz) == 1", 32),
        ("b ? 1 : timestamp(0).getHours(tz)", 31),
        ("{'a': [timestamp(0).getHours(tz)]}", 30),
        ("[1][timestamp(0).getHours(tz)]", 27),
        ("timestamp(0).getHours('UTC') + timestamp(0).getHours(tz)", 54),
    ],
)
def test_a_zone_from_anywhere_else_is_an_error_at_its_place(source: str, column: int) -> None:
    with pytest.raises(ExpressionError, match="a time zone must stand in the expression as one text") as raised:
        evaluate(source, RECORD, {})
    assert (raised.value.line, raised.value.column) == (1, column)


@pytest.mark.parametrize("name", sorted(GETTERS))
def test_every_function_of_the_calendar_is_held_to_it(name: str) -> None:
    with pytest.raises(ExpressionError, match="a time zone must stand in the expression"):
        evaluate(f"timestamp(0).{name}(tz)", RECORD, {})
    assert isinstance(evaluate(f"timestamp(0).{name}('UTC')", "int -> int", 1), int)


def test_a_filter_is_held_to_it_too() -> None:
    input_type, _ = parse_arrow("string -> bool")
    with pytest.raises(ExpressionError, match="a time zone must stand"):
        compile_predicate("timestamp(0).getHours(tz) > 1", input_type=input_type, declared={})


@pytest.mark.parametrize(
    "zone",
    [
        "",
        "/etc/localtime",
        "Europe/../Paris",
        "../zoneinfo/UTC",
        "./UTC",
        "Europe//Paris",
        "Europe/Paris/",
        "localtime",
        "libc:localtime",
        "file:x/y",
        "05:30",
        "+5:30",
        "+24:00",
        "+05:60",
        "+05:30:00",
        "Fixed/UTC+01:00:00",
        "Europe/Paris\n",
        "Europe/Île",
        "a/b/c/d",
        "a/" + "b" * 63,
    ],
)
def test_a_text_of_another_form_is_no_zone(zone: str) -> None:
    assert not is_zone(zone)


def test_a_zone_of_the_wrong_form_is_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "zone")
    with pytest.raises(ExpressionError, match="is no time zone"):
        evaluate(f"timestamp(0).getHours('{tmp_path}/zone')", "int -> int", 1)


def test_a_zone_that_does_not_exist_is_told_when_it_is_compiled() -> None:
    with pytest.raises(ExpressionError, match='column 23: there is no time zone "Europe/Nowhere"'):
        evaluate("timestamp(0).getHours('Europe/Nowhere')", "int -> int", 1)


def test_functions_of_the_calendar_without_a_zone_stay() -> None:
    assert evaluate("duration('2h').getHours() + timestamp(0).getFullYear()", "int -> int", 1) == 1972
