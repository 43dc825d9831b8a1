from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.calls.outcome import UnreadableError
from tooldispatchd.catalog.outputs import Output
from tooldispatchd.providers.process.reading import read_output

MAX_BYTES = 1000


def read(output: Output, stdout: bytes, *, max_bytes: int = MAX_BYTES) -> object:
    return read_output(output, stdout, max_bytes=max_bytes)


def why_not(output: Output, stdout: bytes) -> str:
    with pytest.raises(UnreadableError) as caught:
        read(output, stdout)
    assert caught.value.limit is None
    return str(caught.value)


@pytest.mark.parametrize("stdout", [b"[1]", b"[1]\n", b" \r\n[1]\t"])
def test_json_is_one_value_with_white_space_around_it(stdout: bytes) -> None:
    assert read(Output.JSON, stdout) == [1]


@pytest.mark.parametrize(
    ("stdout", "why"),
    [
        (b"", "wrote no answer: one JSON value on stdout is expected"),
        (b" \n", "wrote no answer: one JSON value on stdout is expected"),
        (b"1 2", "wrote an answer that is more than one JSON value"),
        (b"1\n2\n", "wrote an answer that is more than one JSON value"),
        (b'"\xff"', "wrote an answer that is not UTF-8"),
        (b"[" * 10_000, "wrote an answer that is nested too deep"),
        (b"hello", "wrote an answer that is not JSON: JSON is malformed: invalid character (byte 0)"),
        (b'{"a":', "wrote an answer that is not JSON: Input data was truncated"),
    ],
)
def test_each_way_to_write_no_json_is_told(stdout: bytes, why: str) -> None:
    assert why_not(Output.JSON, stdout) == why


@pytest.mark.parametrize(
    ("stdout", "text"),
    [
        (b"", ""),
        (b"\n", ""),
        (b"hello", "hello"),
        (b"hello\n", "hello"),
        (b"hello\n\n", "hello\n"),
        (b" caf\xc3\xa9 \r\n", " café \r"),
        (b"a\0b", "a\0b"),
    ],
)
def test_text_is_all_of_it_but_one_newline_at_its_end(stdout: bytes, text: str) -> None:
    assert read(Output.TEXT, stdout) == text


@pytest.mark.parametrize("output", [Output.TEXT, Output.LINES])
@pytest.mark.parametrize(("stdout", "place"), [(b"ab\xff", 2), (b"caf\xc3", 3)])
def test_text_that_is_no_utf8_is_told_with_its_place(output: Output, stdout: bytes, place: int) -> None:
    assert why_not(output, stdout) == f"wrote text that is not UTF-8 at byte {place}"


@pytest.mark.parametrize(
    ("stdout", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"\n\na\n\n", ["", "", "a", ""]),
        (b"a\r\n\x0b\x0c\xc2\x85b\n", ["a\r", "\x0b\x0c\x85b"]),
    ],
)
def test_lines_end_at_newlines_and_nowhere_else(stdout: bytes, lines: list[str]) -> None:
    assert read(Output.LINES, stdout) == lines


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n")), max_size=20))
def test_lines_that_are_written_are_read(lines: list[str]) -> None:
    assert read(Output.LINES, "".join(f"{line}\n" for line in lines).encode(), max_bytes=1 << 20) == lines


def test_lines_that_would_pass_the_bound_as_json_are_never_made() -> None:
    assert read(Output.LINES, b"a\nb\n\n", max_bytes=11) == ["a", "b", ""]
    with pytest.raises(UnreadableError, match="more than 10 bytes as a JSON list") as caught:
        read(Output.LINES, b"a\nb\n\n", max_bytes=10)
    assert caught.value.limit == "content_bytes"


@pytest.mark.parametrize(
    ("stdout", "values"),
    [
        (b"", []),
        (b"1\n", [1]),
        (b'1\n{"a": 2}\r\n"c"', [1, {"a": 2}, "c"]),
        (b"\n1\n \n2\n\n", [1, 2]),
    ],
)
def test_each_line_is_a_value_and_blank_ones_are_none(stdout: bytes, values: list[object]) -> None:
    assert read(Output.JSON_LINES, stdout) == values


@pytest.mark.parametrize(
    ("stdout", "why"),
    [
        (b"1\n2 3\n", "wrote a line, number 2, that is more than one JSON value"),
        (b"[1,\n2]\n", "wrote a line, number 1, that is not JSON: Input data was truncated"),
        (b'1\n\n"\xff"\n', "wrote a line, number 3, that is not UTF-8"),
        (b"1\n" + b"[" * 10_000, "wrote a line, number 2, that is nested too deep"),
    ],
)
def test_a_line_that_is_no_value_is_told_and_the_others_are_no_answer(stdout: bytes, why: str) -> None:
    assert why_not(Output.JSON_LINES, stdout) == why


@given(st.sampled_from(Output), st.binary(max_size=40))
def test_any_bytes_are_an_answer_or_are_told(output: Output, stdout: bytes) -> None:
    with suppress(UnreadableError):
        read(output, stdout)


@pytest.mark.parametrize(("stdout", "value"), [(b"", None), (b" \n", None), (b"null\n", None), (b"1\n", 1)])
def test_no_output_is_null_where_the_answer_says_nothing(stdout: bytes, value: object) -> None:
    assert read(Output.NULL, stdout) == value


@pytest.mark.parametrize(
    ("stdout", "why"),
    [
        (b"{}", "wrote no list of parts"),
        (b"[1]", "wrote a part, number 1, that is no object with a type"),
        (b'[{"type":"new"},{"type":1}]', "wrote a part, number 2, that is no object with a type"),
        (b'[{"type":"text"}]', "wrote a part, number 1, that is of type text without text"),
        (b'[{"type":"image","data":"AA"}]', "wrote a part, number 1, that is of type image without mimeType"),
        (b'[{"type":"resource","resource":"r"}]', "wrote a part, number 1, that is of type resource without resource"),
        (b"", "wrote no answer: one JSON value on stdout is expected"),
    ],
)
def test_what_is_no_list_of_typed_parts_is_none(stdout: bytes, why: str) -> None:
    assert why_not(Output.PARTS, stdout) == why


def test_parts_come_as_they_are_those_of_unknown_types_too() -> None:
    parts = b'[{"type":"text","text":"a","more":1},{"type":"new","x":[]}]'
    assert read(Output.PARTS, parts) == [{"type": "text", "text": "a", "more": 1}, {"type": "new", "x": []}]
    assert read(Output.PARTS, b"[]") == []


def test_a_file_is_one_part_of_its_media_type() -> None:
    part = {"type": "image", "data": "/w==", "mimeType": "image/png"}
    assert read_output(Output.FILE, b"\xff", max_bytes=MAX_BYTES, media_type="image/png") == [part]


def test_a_file_that_is_too_large_in_base64_names_the_limit() -> None:
    with pytest.raises(UnreadableError, match="wrote a file that is more than 1000 bytes in base64") as caught:
        read_output(Output.FILE, bytes(MAX_BYTES), max_bytes=MAX_BYTES, media_type="audio/wav")
    assert caught.value.limit == "content_bytes"


def test_a_text_file_must_be_utf8() -> None:
    with pytest.raises(UnreadableError, match="wrote text that is not UTF-8 at byte 0"):
        read_output(Output.FILE, b"\xff", max_bytes=MAX_BYTES, media_type="text/csv")


def test_a_transcript_is_text_whatever_was_written() -> None:
    assert read(Output.TRANSCRIPT, b"a\xff\n") == "a\N{REPLACEMENT CHARACTER}\n"
