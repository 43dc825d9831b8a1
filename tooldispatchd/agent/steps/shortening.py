"""Answers that are longer than a model should get, cut and stored: a job of a checker, which has the time for that.

    content, typed parts ──▶ a file, if there is to be one; the beginning of its text, and what there is of it

What is stored is what a model would have read: of a result that is a string that string, of any other value its JSON.
What a program has written to a file while it ran is looked through there, and becomes that.
"""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Raw

from tooldispatchd.calls.outcome import UnreadableError
from tooldispatchd.calls.outputs import tokens_in
from tooldispatchd.catalog.outputs import Output
from tooldispatchd.privatefiles import create_private
from tooldispatchd.providers.process.reading import read_output

# Of a longer text the tokens are counted in so much of its beginning: a tenth of a second at most.
COUNTED_BYTES: Final = 512 * 1024
# Of the beginning of a text: beside a handle enough to see what it is, and where it is all that there is.
HEAD_BYTES: Final = 2 * 1024
MAX_HEAD_BYTES: Final = 256 * 1024
# What a byte of UTF-8 that goes on with a character begins with.
_GOES_ON, _FIRST_BITS = 0b1000_0000, 0b1100_0000

_decode: Final = msgspec.json.Decoder(str).decode
_parts: Final = msgspec.json.Decoder(list[Raw]).decode
_encode: Final = msgspec.json.Encoder().encode


class _Typed(msgspec.Struct):
    type: str
    text: object = None
    resource: object = None


class ShorteningJob(msgspec.Struct, frozen=True):
    """The first `content_size` bytes of the payload are the content, the others its parts.

    It `is_quoted` where it is a JSON string in JSON itself, and `is_json` where a string in it is the text. The text
    goes to `path`, if there is one; where it cannot, `head_bytes` of its beginning are wanted.
    """

    content_size: int
    is_quoted: bool
    is_json: bool
    path: str | None
    head_bytes: int


class SpooledJob(msgspec.Struct, frozen=True):
    """A text that a program has written in that mode: in the file `path`, or its beginning alone in the payload."""

    output: Output
    path: str | None


class ShortenedText(msgspec.Struct, frozen=True):
    """The beginning of a text, what it has in all, and why it was not stored, if it should have been.

    Of what a program has written `unreadable` says why it is no text.
    """

    head: str = ""
    size: int = 0
    lines: int = 0
    tokens: int = 0
    why_not: str | None = None
    unreadable: str | None = None


def shorten(arguments: bytes, payload: bytearray) -> tuple[bytes, bytes]:
    """Write a text down, and cut it: its `ShortenedText`, and the parts that are no texts."""
    job = msgspec.msgpack.decode(arguments, type=ShorteningJob)
    text = _text_in(bytes(memoryview(payload)[: job.content_size]), job)
    why_not = None if job.path is None else _write(job.path, text)
    is_stored = job.path is not None and why_not is None
    found = _found(text, HEAD_BYTES if is_stored else min(job.head_bytes, MAX_HEAD_BYTES), why_not)
    others = [part for part in _parts(payload[job.content_size :] or b"[]") if not _is_text(part)]
    return msgspec.msgpack.encode(found), _encode(others)


def read_spooled(arguments: bytes, payload: bytearray) -> tuple[bytes, bytes]:
    """Read what a program has written, and make the file the text that it is: its `ShortenedText`."""
    job = msgspec.msgpack.decode(arguments, type=SpooledJob)
    # A character that is cut at the end of a beginning is no mistake of the program's.
    written = cut(bytes(payload), len(payload) - 1) if job.path is None else Path(job.path).read_bytes()
    try:
        text = str(read_output(job.output, written, max_bytes=len(written))).encode()
    except UnreadableError as error:
        return msgspec.msgpack.encode(ShortenedText(unreadable=str(error))), b""
    why_not = None if job.path is None else _rewrite(job.path, written, text)
    is_stored = job.path is not None and why_not is None
    return msgspec.msgpack.encode(_found(text, HEAD_BYTES if is_stored else MAX_HEAD_BYTES, why_not)), b""


def cut(text: bytes, size: int) -> bytes:
    """At most so many bytes of a text in UTF-8, which end with a character."""
    if len(text) <= size:
        return text
    while size and text[size] & _FIRST_BITS == _GOES_ON:
        size -= 1
    return text[:size]


def lines_in(text: bytes) -> int:
    """How many lines a text has; the last one need not have an end."""
    return text.count(b"\n") + (bool(text) and not text.endswith(b"\n"))


def _found(text: bytes, head_bytes: int, why_not: str | None) -> ShortenedText:
    return ShortenedText(cut(text, head_bytes).decode(), len(text), lines_in(text), counted(text, tokenizer()), why_not)


def _text_in(content: bytes, job: ShorteningJob) -> bytes:
    if job.is_quoted:
        content = _decode(content).encode()
    return _decode(content).encode() if job.is_json and content.startswith(b'"') else content


def _write(path: str, text: bytes) -> str | None:
    """Write the file; why it could not be, of which nothing is left then."""
    try:
        descriptor = create_private(path)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(text)
        except OSError:
            Path(path).unlink()
            raise
    except OSError as error:
        return error.strerror or str(error)
    return None


def _rewrite(path: str, written: bytes, text: bytes) -> str | None:
    """Let the file that has been `written` hold the text; why it cannot, of which nothing is left then."""
    if not written.startswith(text):
        Path(path).unlink()
        return _write(path, text)
    os.truncate(path, len(text))
    return None


def _is_text(part: Raw) -> bool:
    typed = msgspec.json.decode(part, type=_Typed)
    is_resource = isinstance(typed.resource, dict) and isinstance(typed.resource.get("text"), str)
    return (typed.type == "text" and isinstance(typed.text, str)) or is_resource


# --- tokens ---

CountTokens = Callable[[str], int]


def counted(text: bytes, count: CountTokens | None) -> int:
    """The tokens of a text, as those of its beginning say it; without a tokenizer an estimate."""
    beginning = cut(text, COUNTED_BYTES)
    if count is None or not beginning:
        return tokens_in(len(text))
    return -(-count(beginning.decode()) * len(text) // len(beginning))


@cache
def tokenizer() -> CountTokens | None:
    """What counts tokens, where it is installed.

    Its tables are a part of it: nothing is fetched. And it takes linear time for any text.
    """
    try:
        from rs_bpe.bpe import openai  # noqa: PLC0415  # few have it, and its tables take 0.2 s
    except ImportError:
        return None
    count: CountTokens = openai.o200k_base().count
    return count
