import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.forked.python.test_context import context
from tooldispatchd.forked.python.context import InvalidInputError, ToolContext, ToolFailedError
from tooldispatchd.toolbox.editing import Edit, edit, multi_edit, replaced
from tooldispatchd.toolbox.encodings import Text, bytes_of, text_of

PARTS = st.text(alphabet="ab\n", min_size=1, max_size=4)
TEXTS = st.text(alphabet="ab\n", max_size=60)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def free() -> ToolContext:
    return context(state={}, options={"guard": "off"})


@given(TEXTS, PARTS, TEXTS)
def test_an_edit_is_exactly_the_replacement(text: str, old: str, new: str) -> None:
    if old in text:
        after, lines = replaced("x", Text(text), Edit(old, new, replace_all=True))
        assert (after, len(lines)) == (text.replace(old, new), text.count(old))


@given(TEXTS, PARTS, TEXTS)
def test_an_edit_of_one_place_is_made_where_there_is_no_other(text: str, old: str, new: str) -> None:
    places = [at for at in range(len(text)) if text.startswith(old, at)]
    if len(places) == 1:
        after, _ = replaced("x", Text(text), Edit(old, new))
        assert after == text[: places[0]] + new + text[places[0] + len(old) :]
    else:
        said = f"old stands in it {len(places)} times" if places else "old does not stand in it"
        with pytest.raises(ToolFailedError, match=said):
            replaced("x", Text(text), Edit(old, new))


@given(TEXTS, PARTS, TEXTS)
def test_line_ends_of_a_file_are_kept(text: str, old: str, new: str) -> None:
    read = text_of(text.replace("\n", "\r\n").encode())
    assert read is not None
    if old in text:
        after, _ = replaced("x", read, Edit(old, new, replace_all=True))
        written = bytes_of(Text(after, read.encoding, read.newline))
        assert written == (text.replace(old, new).replace("\n", read.newline)).encode()


# Each writes a file to the disk.
@settings(max_examples=examples(30))
@given(TEXTS, st.lists(st.tuples(PARTS, TEXTS), min_size=1, max_size=5))
def test_several_edits_are_the_edits_one_by_one(text: str, pairs: list[tuple[str, str]]) -> None:
    expected = text
    for old, new in pairs:
        expected = expected.replace(old, new)
    Path("x").write_text(text)
    edits = [Edit(old, new, replace_all=True) for old, new in pairs if old != new]
    try:
        multi_edit(free(), "x", edits or [Edit("a", "b")], partial=True)
    except (ToolFailedError, InvalidInputError):
        return
    if edits:
        assert Path("x").read_text() == expected


def test_an_edit_is_answered_with_its_difference() -> None:
    Path("x").write_text("one\ntwo\nthree\n")
    assert edit(free(), "x", "two", "2") == (
        "Edited x: replaced at line 2.\n--- x\n+++ x\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three"
    )


def test_a_text_that_stands_twice_is_told_with_its_lines() -> None:
    Path("x").write_text("a\nb\na\n")
    with pytest.raises(ToolFailedError, match=r"old stands in it 2 times, at lines 1, 3; give more"):
        edit(free(), "x", "a", "c")
    assert edit(free(), "x", "a", "c", replace_all=True).startswith("Edited x: replaced 2 times, at lines 1, 3.")


def test_a_text_that_is_not_there_is_told_with_similar_lines() -> None:
    Path("x").write_text("import os\ndef function(one, two):\n")
    with pytest.raises(ToolFailedError, match=r"similar lines:\n2: def function\(one, two\):"):
        edit(free(), "x", "def function(one, three):", "")


def test_a_text_with_other_white_space_is_found() -> None:
    Path("x").write_text("if a:\n\tb = 1\n")
    with pytest.raises(ToolFailedError, match="with other white space it stands at line 1"):
        edit(free(), "x", "if a:\n    b = 1", "")


def test_what_resembles_a_text_is_found_in_little_time() -> None:
    Path("x").write_text("a\n" * 100_000 + "a  b\nc")
    began = time.process_time()
    with pytest.raises(ToolFailedError, match="with other white space it stands at line 99002"):
        edit(free(), "x", "a\n" * 1_000 + "b c", "")
    with pytest.raises(ToolFailedError, match="similar lines"):
        edit(free(), "x", "a\n" * 1_000 + "c d", "")
    assert time.process_time() - began < 2.0


def test_a_text_with_the_line_numbers_of_read_is_told_so() -> None:
    Path("x").write_text("one\ntwo\n")
    with pytest.raises(ToolFailedError, match=r"begins with a line number of read, which is not in the file$"):
        edit(free(), "x", "2\ttwo", "2")


@pytest.mark.parametrize(("old", "new", "field"), [("", "x", "old"), ("x", "x", "new"), ("x", "\udcff", "new")])
def test_an_edit_without_sense_is_refused(old: str, new: str, field: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        edit(free(), "x", old, new)
    assert caught.value.field == field


def test_encoding_and_mark_are_kept() -> None:
    Path("x").write_bytes(b"\xef\xbb\xbfa\r\nb\r\n")
    edit(free(), "x", "a\nb", "c\nd")
    assert Path("x").read_bytes() == b"\xef\xbb\xbfc\r\nd\r\n"


def test_lines_of_a_file_with_both_ends_are_found() -> None:
    Path("x").write_bytes(b"a\r\nb\r\nc\n")
    edit(free(), "x", "a\nb", "A\nB")
    assert Path("x").read_bytes() == b"A\r\nB\r\nc\n"


def test_a_character_that_the_encoding_lacks_changes_nothing() -> None:
    Path("x").write_bytes("\ufeffé\n".encode("utf-16-le"))
    edit(free(), "x", "é", "ü")
    assert Path("x").read_bytes() == "\ufeffü\n".encode("utf-16-le")


def test_one_edit_that_fails_makes_none() -> None:
    Path("x").write_text("a\nb\n")
    with pytest.raises(ToolFailedError) as caught:
        multi_edit(free(), "x", [Edit("a", "A"), Edit("z", "Z"), Edit("b", "B")])
    lines = str(caught.value).splitlines()
    assert lines[:2] == ["nothing was changed in x", "edit 1: replaced at line 1"]
    assert lines[2].startswith("edit 2: cannot edit x: old does not stand in it; ")
    assert lines[-1] == "edit 3: not tried"
    assert Path("x").read_text() == "a\nb\n"


def test_partial_edits_make_what_can_be_made() -> None:
    Path("x").write_text("a\nb\n")
    said = multi_edit(free(), "x", [Edit("a", "A"), Edit("z", "Z"), Edit("b", "B")], partial=True)
    assert Path("x").read_text() == "A\nB\n"
    assert said.splitlines()[1] == "edit 1: replaced at line 1"
    assert "edit 2: cannot edit x: old does not stand in it" in said


def test_partial_edits_none_of_which_can_be_made_have_failed() -> None:
    Path("x").write_text("a\n")
    with pytest.raises(ToolFailedError, match=r"^nothing was changed in x\nedit 1: .*"):
        multi_edit(free(), "x", [Edit("y", "Y"), Edit("z", "Z")], partial=True)


def test_a_file_that_was_not_read_is_not_edited() -> None:
    Path("x").write_text("a\n")
    with pytest.raises(ToolFailedError, match="Read it first"):
        edit(context(state={}), "x", "a", "b")
    assert edit(context(state={}, options={"guard": "warn"}), "x", "a", "b").startswith("x was not read")


def test_what_was_edited_may_be_edited_again() -> None:
    ctx = context(state={}, options={"guard": "warn"})
    Path("x").write_text("a\n")
    edit(ctx, "x", "a", "b")
    assert edit(ctx, "x", "b", "c").startswith("Edited x")
