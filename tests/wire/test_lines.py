"""Cutting lines: any cut of the bytes gives the same lines, and memory is bounded."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.wire.lines import HEAD_BYTES, MOVED_BYTES, LineCutter, LongLine, reserve

MAX = 64


def cut_all(chunks: list[bytes], limit: int = MAX) -> list[bytes | str]:
    cutter = LineCutter(limit)
    lines = itertools.chain.from_iterable(cutter.cut(chunk) for chunk in chunks)
    return ["long" if isinstance(line, LongLine) else bytes(line) for line in lines]


def pieces(text: bytes, cuts: list[int]) -> list[bytes]:
    marks = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:end] for start, end in itertools.pairwise(marks)]


@given(
    st.lists(st.binary(max_size=MAX * 2).map(lambda line: line.replace(b"\n", b"")), max_size=8),
    st.lists(st.integers(0, 2000)),
)
def test_lines_are_the_same_wherever_the_bytes_are_cut(lines: list[bytes], cuts: list[int]) -> None:
    text = b"".join(line + b"\n" for line in lines)
    expected = ["long" if len(line) > MAX else line for line in lines]
    assert cut_all(pieces(text, cuts)) == expected


def test_a_line_of_exactly_the_bound_passes_and_one_byte_more_does_not() -> None:
    assert cut_all([b"x" * MAX + b"\n", b"y" * (MAX + 1) + b"\n", b"z\n"]) == [b"x" * MAX, "long", b"z"]


def test_a_long_line_is_reported_when_it_passes_the_bound_and_not_again() -> None:
    cutter = LineCutter(MAX)
    assert cutter.cut(b"x" * MAX) == []
    (long,) = cutter.cut(b"y")
    assert isinstance(long, LongLine)
    assert cutter.cut(b"z" * 1000) == []
    assert cutter.cut(b"end\nnext\n") == [b"next"]


@pytest.mark.parametrize("bound", [MOVED_BYTES + 1000, 3 * MOVED_BYTES])
def test_a_large_line_is_whole_wherever_its_memory_lies(bound: int) -> None:
    line = bytes(range(32, 127)) * (bound // 95)
    cutter = LineCutter(bound)
    chunks = [line[at : at + 10_000] for at in range(0, len(line), 10_000)]
    assert [found for chunk in chunks for found in cutter.cut(chunk)] == []
    assert cutter.cut(b"\nnext") == [line]


@pytest.mark.parametrize("size", [0, 5, 1_000_000])
def test_a_buffer_holds_the_same_after_room_was_made_for_it(size: int) -> None:
    buffer = bytearray(b"held here")
    reserve(buffer, size)
    assert buffer == b"held here"
    buffer += b" and more"
    assert buffer == b"held here and more"


def test_the_head_of_a_long_line_is_its_first_bytes() -> None:
    cutter = LineCutter(2 * HEAD_BYTES)
    text = bytes(range(32, 127)) * 200
    (long,) = cutter.cut(text)
    assert isinstance(long, LongLine)
    assert long.head == text[:HEAD_BYTES]


def test_bytes_sent_one_by_one_make_the_same_line() -> None:
    assert cut_all([bytes([byte]) for byte in b'{"a":1}\n']) == [b'{"a":1}']


def test_a_partial_line_is_known_until_its_newline_comes() -> None:
    cutter = LineCutter(MAX)
    seen = [cutter.has_partial]
    for chunk in (b"half", b"\n"):
        cutter.cut(chunk)
        seen.append(cutter.has_partial)
    assert seen == [False, True, False]


@given(st.integers(0, 300), st.lists(st.integers(0, 900), max_size=8))
def test_the_end_of_a_line_over_the_bound_is_there_when_it_ends(extra: int, cuts: list[int]) -> None:
    line = bytes(ord("a") + number % 26 for number in range(300 + extra))
    output = line + b"\nshort\n"
    cutter = LineCutter(100)
    ends = [*sorted(min(cut, len(output)) for cut in cuts), len(output)]
    seen = []
    for start, end in zip([0, *ends], ends, strict=False):
        cutter.cut(output[start:end])
        if cutter.ended:
            seen.append(cutter.ended)
    assert seen == [line[-256:]]
