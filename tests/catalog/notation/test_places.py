import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.catalog.notation.places import (
    MAX_SHOWN,
    NotationError,
    NotationProblem,
    SourcePosition,
    caret,
    refusal,
)


def test_the_caret_stands_beneath_the_column() -> None:
    assert caret("type A = int\nlet x = y\n", 2, 9) == "let x = y\n        ^"


def test_a_tab_is_as_wide_beneath_as_above() -> None:
    assert caret("\tlet\tx", 1, 6) == "    let    x\n           ^"


def test_wide_characters_take_two_cells_and_combining_ones_none() -> None:
    assert caret("日本 x", 1, 4) == "日本 x\n     ^"
    assert caret("e\u0301 x", 1, 4) == "e\u0301 x\n  ^"


def test_what_cannot_be_printed_is_shown_as_one_character() -> None:
    assert caret("a\x1b[31m\0b", 1, 8) == "a\ufffd[31m\ufffdb\n       ^"


def test_a_line_that_ends_as_on_windows_is_shown_without_its_end() -> None:
    assert caret("one\r\ntwo\r\n", 1, 4) == "one\n   ^"


def test_a_long_line_is_cut_around_the_column() -> None:
    line, mark = caret("a" * 300 + "!" + "b" * 300, 1, 301).split("\n")
    assert line == "…" + "a" * 66 + "!" + "b" * 33 + "…"
    assert line[mark.index("^")] == "!"


@pytest.mark.parametrize(("line", "column"), [(0, 0), (1, 999), (999, 1), (-5, -5)])
def test_a_place_outside_of_the_text_is_shown_at_its_border(line: int, column: int) -> None:
    assert caret("abc", line, column).startswith("abc\n")


def test_an_empty_text_has_a_caret_too() -> None:
    assert caret("", 1, 1) == "\n^"


@given(st.text(), st.integers(-3, 40), st.integers(-3, 400))
def test_any_text_and_place_give_two_printable_lines(text: str, line: int, column: int) -> None:
    shown, mark = caret(text, line, column).split("\n")
    assert shown.isprintable()
    assert mark.strip(" ") == "^"
    assert len(shown.rstrip("\u0300")) <= 2 * MAX_SHOWN + 2


def test_an_error_says_every_problem_with_its_place() -> None:
    error = NotationError([NotationProblem("a.plumb", 1, 2, "one"), NotationProblem("b.plumb", 3, 4, "two", "tow")])
    assert str(error) == "a.plumb:1:2: one; b.plumb:3:4: two"


def test_a_refusal_is_an_error_with_one_problem() -> None:
    assert refusal(SourcePosition("f", 1, 2), "why").problems == (NotationProblem("f", 1, 2, "why"),)
