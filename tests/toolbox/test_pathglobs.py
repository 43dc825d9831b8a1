import itertools
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.toolbox.pathglobs import after, fits, literal_where_there, start_of


def matches(pattern: str, path: str) -> bool:
    stand = start_of(pattern)
    for name in path.split("/"):
        stand = after(stand, name)
    return fits(stand)


@pytest.mark.parametrize(
    ("pattern", "path", "is_fitting"),
    [
        ("*.py", "a.py", True),
        ("*.py", "a/b.py", False),
        ("**/*.py", "b.py", True),
        ("**/*.py", "a/b/c.py", True),
        ("a/**/c", "a/c", True),
        ("a/**/c", "a/b/b/c", True),
        ("a/**/c", "b/c", False),
        ("a/**", "a/b/c", True),
        ("**", ".hidden", True),
        ("./a//b", "a/b", True),
        ("?[0-9]", "x7", True),
        ("[!a]", "a", False),
        ("**/*.{ts,tsx}", "a/b.tsx", True),
        ("{src,tests}/*", "tests/x", True),
        ("a{", "a{", True),
        ("*", "a\nb", True),
        ("a", "ab", False),
    ],
)
def test_a_path_fits(pattern: str, path: str, *, is_fitting: bool) -> None:
    assert matches(pattern, path) == is_fitting


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("/etc/*", "relative"),
        ("a/../b", "`..`"),
        ("{a,..}/b", "`..`"),
        ("./", "empty"),
        ("{a,b}" * 20, "more than 64 patterns"),
    ],
)
def test_a_pattern_that_leads_nowhere_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        start_of(pattern)


def test_braces_without_an_end_are_read_in_linear_time() -> None:
    before = time.process_time()
    start_of("{" + "," * 20_000)
    assert time.process_time() - before < 0.5


def test_braces_may_stand_in_braces() -> None:
    assert [path for path in ("a", "b", "bc", "bd", "d") if matches("{a,b{c,d}}", path)] == ["a", "bc", "bd"]


def test_a_pattern_of_many_stars_takes_no_longer_than_its_name() -> None:
    assert not matches("/".join(["**", "*a" * 100 + "b"] * 5), "/".join(["a" * 255] * 40))


@given(st.lists(st.sampled_from(["a", "b", "*", "**"]), min_size=1, max_size=4))
def test_two_stars_are_any_number_of_names(parts: list[str]) -> None:
    paths = [way for depth in range(1, 5) for way in itertools.product("ab", repeat=depth)]
    assert [way for way in paths if matches("/".join(parts), "/".join(way))] == [
        way for way in paths if _fits(parts, way)
    ]


def _fits(parts: list[str], way: tuple[str, ...]) -> bool:
    if not parts:
        return not way
    if parts[0] == "**":
        return any(_fits(parts[1:], way[number:]) for number in range(len(way) + 1))
    return bool(way) and parts[0] in {"*", way[0]} and _fits(parts[1:], way[1:])


def test_a_leading_name_that_is_there_is_taken_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "app" / "[slug]").mkdir(parents=True)
    assert literal_where_there(str(tmp_path), "app/[slug]/*") == "app/[[]slug]/*"
    assert literal_where_there(str(tmp_path), "app/[id]/*") == "app/[id]/*"


def test_many_double_stars_in_a_row_are_one() -> None:
    assert start_of("**/" * 60 + "x") == start_of("**/x")
