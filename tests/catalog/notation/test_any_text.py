"""Whatever a file holds: it is read, or said to be wrong, and nothing else comes of it."""

import re
from pathlib import Path as FilePath

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.catalog.notation.test_files import paths_in
from tooldispatchd.catalog.notation.places import NotationError, caret
from tooldispatchd.catalog.notation.reader import Notation, read_notation
from tooldispatchd.catalog.notation.tokens import KEYWORDS, SIGNS
from tooldispatchd.catalog.types import (
    Field,
    ListOf,
    Named,
    Primitive,
    Product,
    Record,
    Stream,
    Type,
    Union,
    parse_type,
)
from tooldispatchd.catalog.types import show as show_type

TEXTS = [file.read_text(encoding="utf-8") for file in sorted((FilePath(__file__).parent / "files").glob("*.plumb"))]
PIECES = [
    *KEYWORDS, *SIGNS, "input", "output", "A", "x", "f", "Fs.x", '"a"', '"', '"""', "5", "-1.5", "@tool", "@hint", "(*",
    "*)", "#", "//", "\n", " ", "\\", "not", "==", "_", "__", "lift(x)", "map(x)", "filter(x).y", "agent {", "tool {",
    "plumb(input, output) {", "let f : A -> B =", "type A =", "\0", "é", "\ud83d",
]  # fmt: skip


def attempt(*texts: str, known: tuple[str, ...] | None = None) -> Notation | None:
    """The notation; None where problems say where they are and why."""
    files = [(f"f{number}", text) for number, text in enumerate(texts)]
    try:
        notation = read_notation(files, known)
        problems = notation.problems
    except NotationError as error:
        notation, problems = None, error.problems
    if notation is not None and not problems:
        return notation
    assert problems
    for problem in problems:
        text = dict(files)[problem.file]
        assert 1 <= problem.line <= text.count("\n") + 1
        assert 1 <= problem.column <= len(text.split("\n")[problem.line - 1]) + 1
        assert len(problem.why) < 400
        caret(text, problem.line, problem.column)
    return None


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    attempt(text)


@given(st.lists(st.sampled_from(PIECES), max_size=40), st.sampled_from(["", " "]))
def test_any_row_of_words_is_read_or_refused(words: list[str], between: str) -> None:
    attempt(between.join(words), known=("A",))


@given(st.lists(st.sampled_from(PIECES), max_size=20))
def test_any_expression_is_read_or_refused(words: list[str]) -> None:
    attempt(f"let f : A -> B = map({' '.join(words)})")


@given(
    st.lists(
        st.sampled_from(["a", "b", "c", "i", "o", ";", "spawn a(i, c)", "spawn b(c, o)", "lift(a)", ","]), max_size=20
    )
)
def test_any_wiring_is_read_or_refused(words: list[str]) -> None:
    attempt(f"let f = plumb(i, o) {{ let c : !int = channel {' '.join(words)} }}")


@given(st.data())
def test_a_file_with_a_part_cut_out_or_put_in_is_read_or_refused(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(start + 20, len(text))))
        text = text[:start] + data.draw(st.sampled_from(["", *PIECES])) + text[end:]
    attempt(text)


@given(st.data())
def test_words_that_changed_places_are_read_or_refused(data: st.DataObject) -> None:
    words = re.split(r"(\s+)", data.draw(st.sampled_from(TEXTS)))
    one, other = (data.draw(st.integers(0, len(words) - 1)) for _ in range(2))
    words[one], words[other] = words[other], words[one]
    attempt("".join(words))


@given(st.lists(st.sampled_from(TEXTS), max_size=4))
def test_any_files_together_are_read_or_refused(texts: list[str]) -> None:
    notation = attempt(*texts)
    if notation is not None:
        assert [path for path in paths_in(notation.table) if notation.place_of(path) is None] == []
        msgspec.json.encode(notation.table)


NAMES = st.sampled_from(["A", "Fs.B", "c-d", "e_f"])
FIELDS = st.sampled_from(["a", "b", "type", "let", "_c", "d-e", "map"])
TYPES: st.SearchStrategy[Type] = st.recursive(
    st.builds(Primitive, st.sampled_from(["int", "number", "string", "bool", "unit", "json"]))
    | st.builds(Named, NAMES),
    lambda inner: (
        st.builds(ListOf, inner)
        | st.builds(Stream, inner)
        | st.builds(Product, st.lists(inner, min_size=2, max_size=3).map(tuple))
        | st.builds(
            Record,
            st.lists(
                st.builds(Field, FIELDS, inner, st.booleans()), max_size=3, unique_by=lambda field: field.name
            ).map(tuple),
        )
        | st.builds(
            Union,
            st.lists(inner.filter(lambda type_: not isinstance(type_, Union)), min_size=2, max_size=3).map(tuple),
        )
    ),
    max_leaves=12,
)


@given(TYPES, st.booleans())
def test_a_type_means_what_it_means_in_toml(type_: Type, has_commas: bool) -> None:
    text = show_type(type_)
    # In a product commas are needed; between fields they are not.
    written = text if has_commas or "(" in text else text.replace(",", " ")
    notation = attempt(f"type T = {written}")
    assert notation is not None
    types = notation.table["types"]
    assert isinstance(types, dict)
    assert parse_type(types["T"]) == type_


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "(*" * 100_000,
        "type A = " + "!" * 100_000 + "int",
        "type A = " + "(" * 100_000,
        "let x = " + "{a: " * 100_000,
        "let f : A -> B = map(" + "(" * 100_000,
        "let f : A -> B = map(" + "!" * 100_000,
        'let x = "' + "\\" * 100_001,
        "let f = plumb { " + "a ; " * 10_000,
    ],
)
def test_what_is_deep_or_long_is_refused_and_not_followed(text: str) -> None:
    assert attempt(text) is None


def test_the_deepest_type_is_read_again() -> None:
    for depth in (60, 61, 62, 63, 64, 65):
        for text in (f"{'!' * depth}int", f"{'[' * depth}int{']' * depth}", f"{'!' * depth}(int | string)"):
            notation = attempt(f"type A = {text}")
            if notation is not None:
                types = notation.table["types"]
                assert isinstance(types, dict)
                parse_type(types["A"])
    assert attempt(f"type A = {'[' * 63}int{']' * 63}") is not None
