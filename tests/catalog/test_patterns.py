"""What patterns unfold to, counted without unfolding them."""

import pytest

from tooldispatchd.catalog.patterns import MAX_COST, cost_of


@pytest.mark.parametrize(
    ("pattern", "cost"),
    [
        ("", 0),
        ("^ab$", 4),
        (r"\(\)", 2),
        ("a{3}", 3),
        ("a{3,}", 3),
        ("a{2,7}", 7),
        ("a{0}", 1),
        ("(ab){10}", 20),
        ("(?:a(?<n>b){10}){10}", 110),
        ("a+{10}{10}", 101),
        ("[abcd]{10}", 20),
        ("[^abc]{10}", 50),
        ("[)]{10}", 10),
        (".{1000}", 4_000),
        (r"\S\S", 12),
        (r"[\w-]", 6),
        (r"\p{L}{10}", 3_001),
        ("(?i)ab", 2),
        ("((a{1000}){1000}){1000}", MAX_COST),
        ("a{999999999}", MAX_COST),
    ],
)
def test_repetitions_and_classes_are_counted(pattern: str, cost: int) -> None:
    assert cost_of(pattern) == cost


@pytest.mark.parametrize("pattern", ["(a", "a)", "[a[b])](", "(?x)a {9}", "(?=a)", "a{,9}", "a{b}", "[a", r"(\1)]"])
def test_what_is_not_understood_costs_as_much_as_can_be(pattern: str) -> None:
    assert cost_of(pattern) == MAX_COST
