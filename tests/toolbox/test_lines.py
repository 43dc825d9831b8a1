from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.toolbox.lines import LineStream, ReadLine

# Line ends often, and chunks that are empty too.
CHUNKS = st.lists(st.text("ab\r\né"))


def stream(*chunks: str) -> LineStream:
    return LineStream(iter(chunks))


def taken(lines: LineStream) -> list[ReadLine]:
    return list(iter(lines.take, None))


@given(CHUNKS)
def test_lines_are_the_same_wherever_the_text_is_cut(chunks: list[str]) -> None:
    lines = taken(stream(*chunks))
    assert "".join(line.text + line.ending for line in lines) == "".join(chunks)
    assert len(lines) == stream(*chunks).skip()


@given(CHUNKS, st.integers(0, 9))
def test_what_is_skipped_and_what_is_taken_make_up_the_text(chunks: list[str], first: int) -> None:
    lines, every = stream(*chunks), taken(stream(*chunks))
    assert lines.skip(first) == min(first, len(every))
    assert taken(lines) == every[first:]


@pytest.mark.parametrize(
    ("chunks", "line"),
    [
        (["one"], ReadLine("one", "", 0, is_open=False)),
        (["one\n"], ReadLine("one", "\n", 0, is_open=False)),
        (["one\r", "\n"], ReadLine("one", "\r\n", 0, is_open=False)),
        (["one\r"], ReadLine("one\r", "", 0, is_open=False)),
        (["\n"], ReadLine("", "\n", 0, is_open=False)),
        (["x" * 2_000, "\r\n"], ReadLine("x" * 2_000, "\r\n", 0, is_open=False)),
        (["x" * 1_500, "y" * 1_500, "\r\n"], ReadLine("x" * 1_500 + "y" * 500, "\r\n", 1_000, is_open=False)),
        (["ä" * 2_001], ReadLine("ä" * 2_000, "", 1, is_open=False)),
    ],
)
def test_a_line_is_what_stands_before_its_ending(chunks: list[str], line: ReadLine) -> None:
    assert stream(*chunks).take() == line


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (ReadLine("one", "\n", 0, is_open=False), "one"),
        (ReadLine("one", "\n", 12_345, is_open=False), "one… 12,345 characters left out …"),
        (ReadLine("one", "", 12_345, is_open=True), "one… at least 12,345 characters left out …"),
    ],
)
def test_what_is_left_out_of_a_line_is_said(line: ReadLine, text: str) -> None:
    assert str(line) == text


def test_no_more_is_read_than_is_allowed_to_count_lines() -> None:
    asked = []

    def chunks() -> Iterator[str]:
        for number in range(10):
            asked.append(number)
            yield "x\n" * 10

    lines = LineStream(chunks())
    lines.left_chars = 50
    assert (lines.skip(), lines.is_cut, len(asked)) == (30, True, 4)
    assert lines.skip() == 0


def test_nothing_is_cut_off_where_the_end_is_what_is_met() -> None:
    lines = stream("x\n" * 10)
    lines.left_chars = 20
    assert (lines.skip(), lines.is_cut) == (10, False)


def test_a_line_that_goes_on_for_too_long_is_left_open() -> None:
    lines = stream("x" * 3_000, "x" * 3_000, "x")
    lines.left_chars = 6_000
    assert lines.take() == ReadLine("x" * 2_000, "", 4_000, is_open=True)
    assert lines.take() is None
