import difflib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.forked.python.test_context import context
from tooldispatchd.forked.python.context import InvalidInputError, ToolFailedError
from tooldispatchd.toolbox.difference import NO_NEWLINE, lines_of, unified
from tooldispatchd.toolbox.patching import applied, diff, parse

TEXTS = st.text(alphabet="ab-+@ \\\n\r\u2028", max_size=80) | st.lists(
    st.sampled_from(["a\n", "b\n", "-- x\n", "++ y\n", "@@ -1 +1 @@\n", "\n", "c\r\n"]), max_size=30
).map("".join)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def call(text: str, path: str | None = None) -> str:
    return diff(context(state={}, options={"guard": "off"}), text, path)


@given(TEXTS, TEXTS)
def test_a_diff_of_difflib_gives_the_second_text(old: str, new: str) -> None:
    said = difflib.unified_diff(lines_of(old), lines_of(new), "x", "x")
    whole = "".join(line if line.endswith("\n") else f"{line}\n{NO_NEWLINE}" for line in said)
    if whole:
        assert applied("x", old, parse(whole).hunks) == (new, [])


@given(TEXTS, TEXTS)
def test_a_diff_of_ours_gives_the_second_text(old: str, new: str) -> None:
    if whole := "".join(unified(lines_of(old), lines_of(new), "x")):
        assert applied("x", old, parse(whole).hunks) == (new, [])


@given(st.text(max_size=200))
def test_any_text_is_a_diff_or_refused(text: str) -> None:
    try:
        parse("@@ -1 +1 @@\n" + text)
    except InvalidInputError:
        return


def test_a_hunk_is_found_where_its_context_stands() -> None:
    Path("x").write_text("0\n1\n2\na\nb\nc\n")
    said = call("--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n")
    assert Path("x").read_text() == "0\n1\n2\na\nB\nc\n"
    assert "Hunk 1 stood 3 lines below." in said


def test_a_hunk_that_stands_at_several_places_is_made_where_it_says_or_nowhere() -> None:
    Path("x").write_text("a\nb\na\nb\n")
    call("@@ -3,2 +3,2 @@\n a\n-b\n+B\n", "x")
    assert Path("x").read_text() == "a\nb\na\nB\n"
    Path("x").write_text("a\nb\na\nb\n")
    with pytest.raises(ToolFailedError) as caught:
        call("@@ -2,2 +2,2 @@\n a\n-b\n+B\n", "x")
    assert str(caught.value) == (
        "cannot change x: hunk 1 (@@ -2,2 +2,2 @@) stands in it 2 times, at lines 1, 3, and not where it says; "
        "nothing was changed: correct its line, or give more of what stands around it"
    )
    assert Path("x").read_text() == "a\nb\na\nb\n"


def test_wrong_counts_do_not_matter() -> None:
    Path("x").write_text("a\nb\n")
    call("@@ -1,9 +1,7 @@\n a\n-b\n+B\n", "x")
    assert Path("x").read_text() == "a\nB\n"


def test_an_empty_line_may_lack_its_space() -> None:
    Path("x").write_text("a\n\nb\n")
    call("@@ -1,3 +1,3 @@\n a\n\n-b\n+B\n", "x")
    assert Path("x").read_text() == "a\n\nB\n"


def test_line_ends_stay_as_they_are() -> None:
    Path("x").write_bytes(b"a\r\nb\r\n")
    call("@@ -1,2 +1,3 @@\n a\n-b\n+B\n+c\n", "x")
    assert Path("x").read_bytes() == b"a\r\nB\r\nc\r\n"


def test_a_last_line_without_an_end_matches_one_with_it() -> None:
    Path("x").write_text("a\nb")
    call("@@ -1,2 +1,3 @@\n a\n b\n+c\n", "x")
    assert Path("x").read_text() == "a\nb\nc\n"


def test_a_hunk_that_does_not_match_changes_nothing_and_shows_what_stands_there() -> None:
    Path("x").write_text("a\nb\nc\nd\n")
    with pytest.raises(ToolFailedError) as caught:
        call("@@ -1 +1 @@\n-a\n+A\n@@ -3,2 +3,2 @@\n-C\n+X\n d\n", "x")
    assert str(caught.value) == (
        "cannot change x: hunk 2 (@@ -3,2 +3,2 @@) does not match, and nothing was changed; there stands:\n3: c\n4: d"
    )
    assert Path("x").read_text() == "a\nb\nc\nd\n"


def test_a_diff_may_make_a_file() -> None:
    said = call("--- /dev/null\n+++ b/new\n@@ -0,0 +1,2 @@\n+a\n+b\n")
    assert Path("new").read_text() == "a\nb\n"
    assert said.startswith("Changed new: 1 hunk applied.")


def test_a_diff_that_makes_a_file_changes_none() -> None:
    Path("old").write_text("kept\n")
    with pytest.raises(ToolFailedError, match=r"^cannot change old: it exists already, and the diff is of a new file$"):
        call("--- /dev/null\n+++ b/old\n@@ -0,0 +1 @@\n+a\n")
    assert Path("old").read_text() == "kept\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a\n", "no hunk"),
        ("--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", "use delete"),
        ("--- x\n+++ x\n@@ -1 +1 @@\n-a\n+b\n--- y\n+++ y\n@@ -1 +1 @@\n-a\n+b\n", "several files"),
        ("@@ -1 +1 @@\n-a\n+b\ndiff --git a/y b/y\n", "neither"),
    ],
)
def test_what_is_no_diff_of_one_file_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        parse(text)


def test_a_diff_without_a_name_needs_a_path() -> None:
    with pytest.raises(InvalidInputError, match="names no file"):
        call("@@ -1 +1 @@\n-a\n+b\n")
