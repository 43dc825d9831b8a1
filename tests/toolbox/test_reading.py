import os
import re
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.forked.python.test_context import context
from tests.toolbox.pdfs import pdf
from tooldispatchd.forked.python.context import InvalidInputError, ToolFailedError
from tooldispatchd.toolbox.encodings import shown, text_of
from tooldispatchd.toolbox.guard import check_unchanged
from tooldispatchd.toolbox.reading import read

# Files are written anew by every example.
every_example = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 92


@pytest.fixture(autouse=True)
def _in_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def parts(path: str = "x", **window: int) -> list[Any]:
    return read(path, context(state={}), **window)


def text(path: str = "x", **window: int) -> str:
    (only,) = parts(path, **window)
    assert isinstance(only, str)
    return only


def head(path: str = "x", **window: int) -> str:
    return text(path, **window).partition("\n")[0]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"one\ntwo\n", "[lines 1-2 of 2]\n1\tone\n2\ttwo"),
        (b"one", "[lines 1-1 of 1; no newline at the end]\n1\tone"),
        (b"\n\n", "[lines 1-2 of 2]\n1\t\n2\t"),
        (b"one\r\ntwo\r\n", "[lines 1-2 of 2; CRLF]\n1\tone\n2\ttwo"),
        (b"one\r\ntwo\n", "[lines 1-2 of 2; CRLF and LF mixed]\n1\tone\n2\ttwo"),
        (b"\xef\xbb\xbfone\n", "[lines 1-1 of 1; UTF-8 with BOM]\n1\tone"),
        (b"\xff\xfe\xe9\0\n\0", "[lines 1-1 of 1; UTF-16-LE with BOM]\n1\té"),
        (b"caf\xe9\n", "[lines 1-1 of 1; CP1252]\n1\tcafé"),
        ("äöü äöü\n".encode() + b"\xff\n", "[lines 1-2 of 2; � stands for what cannot be decoded]\n1\täöü äöü\n2\t�"),
        (b"", "[x is empty]"),
        (b"\xef\xbb\xbf", "[x is empty]"),
        (b"\x7fELF\x02\0\0\0", "[x is no text: an ELF program or library, 8 bytes]"),
        (b"\0\0\0", "[x is no text: of an unknown kind, 3 bytes]"),
    ],
)
def test_what_is_in_a_file_is_told_below_what_it_is(data: bytes, said: str) -> None:
    Path("x").write_bytes(data)
    assert text() == said


@pytest.mark.parametrize(
    ("window", "said"),
    [
        ({"limit": 2}, "[lines 1-2 of 5; go on with offset=3]\n1\ta\n2\tb"),
        ({"offset": 3, "limit": 2}, "[lines 3-4 of 5; go on with offset=5]\n3\tc\n4\td"),
        ({"offset": 5, "limit": 2}, "[lines 5-5 of 5]\n5\te"),
    ],
)
def test_a_window_says_where_it_lies_and_how_to_go_on(window: dict[str, int], said: str) -> None:
    Path("x").write_text("a\nb\nc\nd\ne\n")
    assert text("x", **window) == said


def test_two_thousand_lines_are_read_unless_more_are_asked_for() -> None:
    Path("x").write_text("x\n" * 5_112)
    assert head() == "[lines 1-2,000 of 5,112; go on with offset=2001]"


@pytest.mark.parametrize(("lines", "sentence"), [(1, "x has 1 line"), (1_200, "x has 1,200 lines")])
def test_an_offset_behind_the_end_is_told_with_how_long_the_file_is(lines: int, sentence: str) -> None:
    Path("x").write_text("x\n" * lines)
    with pytest.raises(InvalidInputError, match=f"^{sentence}$") as told:
        text(offset=lines + 1)
    assert told.value.field == "offset"


def test_an_answer_is_bounded_and_says_so() -> None:
    Path("x").write_text(f"{'ä' * 1_500}\n" * 100)
    said = text()
    assert said.startswith("[lines 1-21 of 100; 64 KiB are shown; go on with offset=22]\n")
    assert len(said.encode()) < 65 * 1024


def test_a_long_line_is_cut_and_says_so() -> None:
    Path("x").write_text(f"one\n{'🙂' * 2_000}{'x' * 12_345}\nthree\n")
    assert text().splitlines()[1:] == ["1\tone", f"2\t{'🙂' * 2_000}… 12,345 characters left out …", "3\tthree"]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("x" * 2_000 + "\r\n", "x" * 2_000),
        ("x" * 2_001 + "\r\n", "x" * 2_000 + "… 1 characters left out …"),
        ("x" * 300_000 + "\r\n", "x" * 2_000 + "… 298,000 characters left out …"),
        ("x" * 2_001 + "\r", "x" * 2_000 + "… 2 characters left out …"),
    ],
)
def test_the_ending_of_a_long_line_is_no_part_of_it(content: str, line: str) -> None:
    Path("x").write_bytes(content.encode())
    assert text().split("\n")[1] == f"1\t{line}"


@every_example
@given(
    st.text(st.sampled_from("ab\n\r\té🙂"), max_size=300),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]),
    st.integers(1, 12),
    st.integers(1, 12),
)
def test_every_window_shows_the_lines_of_the_file_under_their_numbers(
    content: str, encoding: str, offset: int, limit: int
) -> None:
    Path("x").write_bytes(content.encode(encoding))
    lines = re.findall(r"(.*?)(?:\r?\n)|(.+)", content, re.DOTALL)
    numbered = [f"{number}\t{ended or rest}" for number, (ended, rest) in enumerate(lines, 1)]
    if offset <= len(lines) or not lines:
        assert text(offset=offset, limit=limit).split("\n")[1:] == numbered[offset - 1 : offset - 1 + limit]
    else:
        with pytest.raises(InvalidInputError):
            text(offset=offset, limit=limit)


@every_example
@given(st.binary(max_size=200), st.sampled_from([b"", PNG, b"%PDF-1.4\n", b"\xff\xfe", b"\0\0\xfe\xff", b"GIF89a"]))
def test_any_bytes_are_read_or_refused_in_one_line(data: bytes, magic: bytes) -> None:
    Path("x").write_bytes(magic + data)
    try:
        said = parts()[0]
    except ToolFailedError as error:
        said = f"[{error}]"
    assert re.match(r"\[[^\n]+\](\n|$)", said)
    assert said.encode()


def test_numbers_are_right_across_the_blocks_in_which_a_file_is_read() -> None:
    Path("x").write_text("".join(f"line {number}\n" for number in range(1, 200_001)))
    assert text(offset=123_456, limit=1).splitlines() == [
        "[lines 123,456-123,456 of 200,000; go on with offset=123457]",
        "123456\tline 123456",
    ]


def test_a_window_far_behind_is_found_in_little_time() -> None:
    Path("x").write_bytes(b"\n" * 3_000_000 + b"end")
    began = time.process_time()
    assert text(offset=3_000_001) == "[lines 3,000,001-3,000,001 of 3,000,001; no newline at the end]\n3000001\tend"
    assert time.process_time() - began < 0.5


def test_what_cannot_be_decoded_far_behind_does_not_matter_to_the_head() -> None:
    Path("x").write_bytes(b"x\n" * 600_000 + b"\xff\xfe\0\x80\n")
    assert text(limit=1) == "[lines 1-1 of 600,001; go on with offset=2]\n1\tx"
    assert text(offset=600_001).endswith("\n600001\t��\0�")


def test_a_character_that_the_first_block_cuts_says_nothing_of_the_encoding() -> None:
    Path("x").write_bytes(b"x\n" * 524_287 + "xé\n".encode())
    assert text(offset=524_288) == "[lines 524,288-524,288 of 524,288]\n524288\txé"


def test_an_encoding_that_shows_late_is_found() -> None:
    Path("x").write_bytes(b"x\n" * 100_000 + b"caf\xe9\n")
    assert text(offset=100_001) == "[lines 100,001-100,001 of 100,001; CP1252]\n100001\tcafé"


@every_example
@given(
    st.binary(max_size=100), st.text("aéß漢\n", max_size=50), st.sampled_from(["utf-8", "cp1252", "utf-16", "cp932"])
)
def test_what_is_read_is_what_tools_that_edit_find(data: bytes, content: str, encoding: str) -> None:
    Path("x").write_bytes(f"x{content}".encode(encoding, "replace") + data)
    found = text_of(Path("x").read_bytes())
    lines = "".join(line.partition("\t")[2] + "\n" for line in text().split("\n")[1:])
    assert found is None or lines.removesuffix("\n") == shown(found.text.replace("\r\n", "\n")).removesuffix("\n")


def test_lines_far_behind_the_window_are_not_counted() -> None:
    with Path("x").open("wb") as file:
        file.write(b"x\n" * 50_000)
        file.truncate(5 * 1024**3)
    assert head(limit=2) == "[lines 1-2 of at least 50,001; go on with offset=3]"


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0" + b"\0" * 96, "image/jpeg"),
        (b"GIF89a" + b"\0" * 94, "image/gif"),
        (b"RIFF\x5c\0\0\0WEBP" + b"\0" * 88, "image/webp"),
    ],
)
def test_an_image_is_a_part_of_the_answer_whatever_its_name(data: bytes, media_type: str) -> None:
    Path("x.txt").write_bytes(data)
    told = f"[x.txt: {media_type}, 100 bytes]"
    assert parts("x.txt") == [told, {"type": "image", "data": data, "mimeType": media_type}]


def test_an_image_may_be_larger_than_what_is_looked_at_first() -> None:
    data = PNG + b"\1" * 300_000
    Path("x").write_bytes(data)
    assert parts()[1]["data"] == data


def test_an_image_that_no_model_takes_is_refused() -> None:
    Path("x").write_bytes(PNG + b"\0" * 5 * 1024**2)
    with pytest.raises(
        ToolFailedError, match=r"^cannot read x: it is an image of 5,242,980 bytes, and one may have 5,242,880$"
    ):
        parts()


def test_the_pages_of_a_pdf_are_its_lines() -> None:
    Path("x").write_bytes(pdf("one", "two", "three"))
    assert text(offset=2, limit=1) == "[pages 2-2 of 3; go on with offset=3]\n--- page 2 ---\ntwo"


def test_a_file_of_the_kernel_is_read_though_its_size_is_said_to_be_0() -> None:
    assert text("/proc/self/status").splitlines()[1].startswith("1\tName:")


def make_fifo() -> None:
    os.mkfifo("x")


def make_socket() -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("x")


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: None, "cannot read x: it does not exist"),
        (lambda: Path("x").mkdir(), "cannot read x: it is a directory; list shows what is in it"),
        (make_fifo, "cannot read x: it is a FIFO"),
        (make_socket, "cannot read x: it is a socket"),
        (lambda: Path("x").symlink_to("/dev/zero"), "cannot read x: it is a device"),
        (lambda: Path("x").symlink_to("x"), "cannot read x: its links lead in a circle"),
        (lambda: Path("x").symlink_to("/proc/self/mem"), "cannot read x: input/output error"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_sentence(make: Any, sentence: str, nothing_left: None) -> None:
    make()
    with pytest.raises(ToolFailedError, match=f"^{re.escape(sentence)}$"):
        parts()


def test_a_fifo_that_somebody_writes_to_is_left_alone() -> None:
    os.mkfifo("x")
    reader = os.open("x", os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open("x", os.O_WRONLY)
    try:
        os.write(writer, b"one\n")
        with pytest.raises(ToolFailedError, match="it is a FIFO"):
            parts()
        assert os.read(reader, 9) == b"one\n"
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("data", [b"one\ntwo\n", b"", PNG, b"\0", pdf("one")])
def test_what_was_read_may_be_overwritten(data: bytes) -> None:
    Path("x").write_bytes(data)
    ctx = context(state={})
    read("x", ctx, limit=1)
    assert check_unchanged(ctx, Path("x")) is None
