import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.catalog.expressions.source import paths_in, without_has


@pytest.mark.parametrize(
    ("source", "paths"),
    [
        ("score * 2", ["score"]),
        ("input.pos . lat + a", ["input.pos.lat", "a"]),
        ("name.size() + f(x).y", ["name.size", "f", "x"]),
        ("'a' + \"b\" + r'c\\' + b'd' + '''e\n'f' g'''", []),
        ("'it\\'s' + s", ["s"]),
        ('"""a "b" """ + s // c', ["s"]),
        ("1.5e3 + 2u + 0x1f", []),
        ("has(input.limit) ? limit : 5", ["input.limit", "limit"]),
        ("hash(x)", ["hash", "x"]),
        ('input["in"]', ["input"]),
        ("xs.map(x, x + 1)", ["xs.map", "x", "x"]),
    ],
)
def test_the_names_outside_strings_and_comments_are_found(source: str, paths: list[str]) -> None:
    assert [".".join(path) for path in paths_in(source)] == paths


def test_has_is_true_and_columns_stay() -> None:
    assert without_has("has( a.b\n) && 'has(a.b)'") == "true    \n  && 'has(a.b)'"


@given(st.text(max_size=60))
def test_any_text_keeps_its_length_and_lines(source: str) -> None:
    assert len(without_has(source)) == len(source)
    assert without_has(source).count("\n") == source.count("\n")
    assert all(all(path) for path in paths_in(source))
