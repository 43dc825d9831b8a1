"""A long answer is written down whole, and cut where a character ends; where it cannot be written, nothing is left."""

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from tooldispatchd.agent.steps.shortening import (
    COUNTED_BYTES,
    HEAD_BYTES,
    ShortenedText,
    ShorteningJob,
    counted,
    cut,
    lines_in,
    shorten,
    tokenizer,
)


def job(
    content: bytes, path: Path | None = None, *, head: int = 100, quoted: bool = False, json: bool = False
) -> bytes:
    return msgspec.msgpack.encode(ShorteningJob(len(content), quoted, json, None if path is None else str(path), head))


def done(arguments: bytes, content: bytes, parts: bytes = b"") -> tuple[ShortenedText, bytes]:
    reply, others = shorten(arguments, bytearray(content + parts))
    return msgspec.msgpack.decode(reply, type=ShortenedText), others


@pytest.mark.parametrize(
    ("text", "size", "left"),
    [("", 0, ""), ("abc", 3, "abc"), ("abcd", 3, "abc"), ("aé", 2, "a"), ("aé", 3, "aé"), ("😀", 3, ""), ("é", 0, "")],
)
def test_a_text_is_cut_where_a_character_ends(text: str, size: int, left: str) -> None:
    assert cut(text.encode(), size).decode() == left


@pytest.mark.parametrize(("text", "lines"), [("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("\n\n", 2)])
def test_the_last_line_need_not_have_an_end(text: str, lines: int) -> None:
    assert lines_in(text.encode()) == lines


@pytest.mark.parametrize(
    ("content", "quoted", "json", "text"),
    [
        (b"plain", False, False, b"plain"),
        (b'"a\\nb"', False, False, b'"a\\nb"'),
        (b'"a\\nb"', False, True, b"a\nb"),
        (b'{"a":1}', False, True, b'{"a":1}'),
        (b'"\\"a\\\\nb\\""', True, True, b"a\nb"),
        (b'"a\\nb"', True, False, b"a\nb"),
    ],
)
def test_what_is_stored_is_what_a_model_would_have_read(
    tmp_path: Path, content: bytes, quoted: bool, json: bool, text: bytes
) -> None:
    found, _ = done(job(content, tmp_path / "1", quoted=quoted, json=json), content)
    assert (tmp_path / "1").read_bytes() == text
    assert (found.head, found.size, found.why_not) == (text.decode(), len(text), None)
    assert (tmp_path / "1").stat().st_mode & 0o777 == 0o600


def test_beside_a_handle_stands_a_short_head_and_without_one_what_was_asked_for(tmp_path: Path) -> None:
    text = b"x" * 10_000
    assert len(done(job(text, tmp_path / "1", head=9_000), text)[0].head) == HEAD_BYTES
    assert len(done(job(text, head=9_000), text)[0].head) == 9_000


def test_parts_that_are_no_texts_are_kept() -> None:
    image = b'{"type":"image","data":"AA==","mimeType":"image/png"}'
    parts = (
        b'[{"type":"text","text":"a"},%b,{"type":"resource","resource":{"text":"b"}},{"type":"new","text":1}]' % image
    )
    assert done(job(b"a\nb"), b"a\nb", parts)[1] == b'[%b,{"type":"new","text":1}]' % image


@contextmanager
def full_disk(room: int) -> Iterator[None]:
    """No file may grow beyond `room`: a write fails in the middle, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_where_the_disk_is_full_the_text_is_cut_and_nothing_is_left_there(tmp_path: Path) -> None:
    text = b"x" * 100_000
    with full_disk(4096):
        found, _ = done(job(text, tmp_path / "1", head=5_000), text)
    assert found.why_not == "File too large"
    assert (len(found.head), list(tmp_path.iterdir())) == (5_000, [])


@pytest.mark.parametrize(
    ("text", "tokens"), [(b"", 0), (b"12345", 5), ("é".encode() * 300_000, 300_000), (b"ab" * 1_000_000, 2_000_000)]
)
def test_tokens_are_counted_in_the_beginning_of_a_text(text: bytes, tokens: int) -> None:
    # One for each character.
    assert counted(text, len) == tokens
    # Without a tokenizer: a fourth of the bytes.
    assert counted(text, None) == -(-len(text) // 4)


def test_an_installed_tokenizer_counts_any_text_in_little_time() -> None:
    pytest.importorskip("rs_bpe")
    count = tokenizer()
    assert count is not None
    assert [count("Hello, world!"), count("")] == [4, 0]
    # Quadratic in others, which merge one pair after the other.
    began = time.process_time()
    counted(b"x" * COUNTED_BYTES, count)
    assert time.process_time() - began < 1.0


def test_a_file_that_is_there_already_is_nobody_s_to_overwrite(tmp_path: Path) -> None:
    (tmp_path / "1").write_text("other")
    assert done(job(b"text", tmp_path / "1"), b"text")[0].why_not == "File exists"
