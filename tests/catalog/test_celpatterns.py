import pytest

from tooldispatchd.catalog.celcost import BUDGET_NS
from tooldispatchd.catalog.celpatterns import match_ns, positions


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
        (r"\w{20}", 160),
        ("[^a]{20}", 160),
        ("[]a]{20}", 160),
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
def test_a_pattern_that_takes_milliseconds_to_compile_is_beyond_the_budget(pattern: str) -> None:
    assert match_ns(pattern, 0) > BUDGET_NS


@pytest.mark.parametrize("pattern", [r"^\d{4}-\d{2}-\d{2}$", "^[a-z0-9-]+$", "error|warning", r"[^@ ]+@[^@ ]+\.[a-z]+"])
def test_a_pattern_of_every_day_serves_for_a_line_of_text(pattern: str) -> None:
    assert match_ns(pattern, 100) < BUDGET_NS


def test_words_are_searched_in_kilobytes() -> None:
    assert match_ns("error|warning", 64 * 1024) < BUDGET_NS


def test_a_search_that_builds_a_state_at_each_step_costs_by_its_positions() -> None:
    assert match_ns("(a|b)*a(a|b){20}c", 1_000) > BUDGET_NS
