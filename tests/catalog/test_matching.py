"""Why a pattern is not matched."""

import pytest

from tooldispatchd.catalog.matching import LOOK_AROUND, NO_PATTERN, TOO_LARGE, why_unmatched


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("^[a-z]{1,64}$", None),
        ("(?i)^a", None),
        ("(?P<y>a)", None),
        ("^}$", None),
        (r"[(?=a)]\(?=", None),
        (r"^(?!\.)[^@ ]+@[^@ ]+$", LOOK_AROUND),
        ("(?=a)", LOOK_AROUND),
        ("(?<=a)b", LOOK_AROUND),
        ("(?<!a)b", LOOK_AROUND),
        (r"(a)\1", LOOK_AROUND),
        (r"(?<n>a)\k<n>", LOOK_AROUND),
        ("^.{1,5000}$", TOO_LARGE),
        ("((a{1000}){1000}){9}", TOO_LARGE),
        ("a" * 1_025, TOO_LARGE),
        (r"^[\w-\.]+@", NO_PATTERN),
        ("[a-", NO_PATTERN),
        ("(", NO_PATTERN),
        ("*", NO_PATTERN),
    ],
)
def test_what_is_too_large_look_around_and_no_pattern_are_told_apart(pattern: str, why: str | None) -> None:
    assert why_unmatched(pattern) == why
