"""Answers that are longer than a model should get, cut and stored: a job of a checker, which has the time for that.

    content, typed parts ──▶ a file, if there is to be one; the beginning of its text, and what there is of it

What is stored is what a model would have read: of a result that is a string that string, of any other value its JSON.
"""

import hashlib
import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Raw

from tooldispatchd.calls.outputs import tokens_in

# Of a longer text the tokens are counted in so much of its beginning: a second at most.
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


class ShortenedText(msgspec.Struct, frozen=True):
    """The beginning of a text, what it has in all, and why it was not stored, if it should have been."""

    head: str
    size: int
    lines: int
    tokens: int
    why_not: str | None = None


def shorten(arguments: bytes, payload: bytearray) -> tuple[bytes, bytes]:
    """Write a text down, and cut it: its `ShortenedText`, and the parts that are no texts."""
    job = msgspec.msgpack.decode(arguments, type=ShorteningJob)
    text = _text_in(bytes(memoryview(payload)[: job.content_size]), job)
    why_not = None if job.path is None else _write(job.path, text)
    is_stored = job.path is not None and why_not is None
    head = cut(text, HEAD_BYTES if is_stored else min(job.head_bytes, MAX_HEAD_BYTES)).decode()
    found = ShortenedText(head, len(text), lines_in(text), _tokens(text), why_not)
    others = [part for part in _parts(payload[job.content_size :] or b"[]") if not _is_text(part)]
    return msgspec.msgpack.encode(found), _encode(others)


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


def _text_in(content: bytes, job: ShorteningJob) -> bytes:
    if job.is_quoted:
        content = _decode(content).encode()
    return _decode(content).encode() if job.is_json and content.startswith(b'"') else content


def _write(path: str, text: bytes) -> str | None:
    """Write the file; why it could not be, of which nothing is left then."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(text)
        except OSError:
            Path(path).unlink()
            raise
    except OSError as error:
        return error.strerror or str(error)
    return None


def _is_text(part: Raw) -> bool:
    typed = msgspec.json.decode(part, type=_Typed)
    is_resource = isinstance(typed.resource, dict) and isinstance(typed.resource.get("text"), str)
    return (typed.type == "text" and isinstance(typed.text, str)) or is_resource


# --- tokens ---


def _tokens(text: bytes) -> int:
    encoding = _encoding()
    counted = cut(text, COUNTED_BYTES)
    if encoding is None or not counted:
        return tokens_in(len(text))
    found = len(encoding.encode_ordinary(counted.decode()))
    return -(-found * len(text) // len(counted))


class _Tokenizer:
    """tiktoken's `Encoding`, as it is used here."""

    def encode_ordinary(self, text: str) -> list[int]:
        raise NotImplementedError


ENCODING: Final = "o200k_base"
_ORIGIN: Final = f"https://openaipublic.blob.core.windows.net/encodings/{ENCODING}.tiktoken"


@cache
def _encoding() -> _Tokenizer | None:
    """The tokenizer, where it is installed and its table lies in `$TIKTOKEN_CACHE_DIR`: nothing is ever fetched."""
    kept = os.environ.get("TIKTOKEN_CACHE_DIR", "")
    # By what the library itself calls the file.
    if not kept or not Path(kept, hashlib.sha1(_ORIGIN.encode(), usedforsecurity=False).hexdigest()).is_file():
        return None
    with suppress(ImportError, ValueError, OSError):
        import tiktoken  # noqa: PLC0415  # few have it

        found: _Tokenizer = tiktoken.get_encoding(ENCODING)
        return found
    return None
