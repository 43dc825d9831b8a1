"""Looks into a stored output: jobs of a checker, which read the file piece by piece.

But for a query of JSON, which has the whole document in memory, a text of any length takes some pieces of it.
"""

import os
from collections.abc import Callable, Iterator
from time import process_time
from typing import IO, Final

import msgspec

from tooldispatchd.agent.steps.shortening import cut
from tooldispatchd.catalog.schemas import MAX_PATTERN, SchemaError, compile_check
from tooldispatchd.catalog.violations import IsValid
from tooldispatchd.wire.heavy import quoted

PIECE_BYTES: Final = 1024 * 1024
# A longer line is searched in pieces of this size, and found where such a piece has a match.
MAX_LINE_BYTES: Final = 64 * 1024
# Of a line that matches so much is shown, around the end of its first match.
SHOWN_BYTES: Final = 500
# Matches are counted up to here.
MAX_COUNTED: Final = 100_000
# Processor time of one search: others wait for the checker, and its channel has no other checker meanwhile.
MAX_GREP_S: Final = 5.0
MAX_QUERY: Final = 4_096
# As much as a line of an agent: what a query finds may be many times what it looks into.
MAX_FOUND: Final = 8 * 1024 * 1024
_GOES_ON, _FIRST_BITS = 0b1000_0000, 0b1100_0000

_encode: Final = msgspec.json.Encoder().encode


class LookError(Exception):
    """What was asked for makes no sense: the message says why; `key` is the key of the input that is wrong."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__(why)
        self.key = key
        self.why = why


class Look(msgspec.Struct, frozen=True):
    """What is asked of the file at `path`; the answer may have `max_bytes`. Lines count from 1, bytes from 0."""

    path: str
    max_bytes: int
    offset: int | None = None
    bytes: int | None = None
    line: int | None = None
    lines: int | None = None
    pattern: str = ""
    ignore_case: bool = False
    limit: int = 0
    grep_s: float = MAX_GREP_S
    query: str = ""


class LookReply(msgspec.Struct, frozen=True):
    """Why there is no answer, and which key of the input is to blame; no key where the file is gone."""

    why: str | None = None
    key: str = ""
    size: int = 0
    """Of what is said, in bytes."""
    is_quoted: bool = False


def read_output(arguments: bytes, _payload: bytearray) -> tuple[bytes, bytes]:
    """A window of bytes, or of lines."""
    return _looked(arguments, _window)


def grep_output(arguments: bytes, _payload: bytearray) -> tuple[bytes, bytes]:
    """The lines with a match."""
    return _looked(arguments, _matches)


def query_output(arguments: bytes, _payload: bytearray) -> tuple[bytes, bytes]:
    """What a query finds in a JSON document."""
    return _looked(arguments, _found)


_LookAt = Callable[[IO[bytes], Look], bytes]


def _looked(arguments: bytes, look: _LookAt) -> tuple[bytes, bytes]:
    asked = msgspec.msgpack.decode(arguments, type=Look)
    try:
        with open(asked.path, "rb") as file:  # noqa: PTH123  # of a descriptor as of a path
            said = look(file, asked)
    except LookError as error:
        return msgspec.msgpack.encode(LookReply(error.why, error.key)), b""
    except OSError as error:
        return msgspec.msgpack.encode(LookReply(error.strerror or str(error))), b""
    is_quoted, text = quoted(said)
    return msgspec.msgpack.encode(LookReply(size=len(said), is_quoted=is_quoted)), text


# --- windows ---


def _window(file: IO[bytes], asked: Look) -> bytes:
    size = os.fstat(file.fileno()).st_size
    start = _start_of_line(file, asked.line) if asked.line is not None else min(asked.offset or 0, size)
    room = asked.max_bytes if asked.bytes is None else min(asked.bytes, asked.max_bytes)
    file.seek(start)
    # A character has at most four bytes: where the first of them is not asked for it is left out, the last one is not.
    found = file.read(room + 3)
    begins = next((at for at, byte in enumerate(found[:4]) if byte & _FIRST_BITS != _GOES_ON), 0)
    start, found = start + begins, found[begins:]
    while True:
        text = cut(found, room) or found[:4].decode(errors="ignore")[:1].encode()
        if asked.lines is not None:
            text = _first_lines(text, asked.lines)
        end = start + len(text)
        told = {"offset": start, "bytes": len(text), "text": text.decode(), "next_offset": end if end < size else None}
        said = _encode(told | {"of": size} | ({} if asked.line is None else {"line": asked.line}))
        if len(said) <= asked.max_bytes or room <= 1:
            return said
        # Escapes have made it longer than there is room for.
        room = min(room - 1, room * asked.max_bytes // len(said))


def _first_lines(text: bytes, lines: int) -> bytes:
    end = -1
    for _ in range(lines):
        end = text.find(b"\n", end + 1)
        if end < 0:
            return text
    return text[: end + 1]


def _start_of_line(file: IO[bytes], line: int) -> int:
    """Where a line begins; the end of the file for one that is not there."""
    before, at = line - 1, 0
    while before and (piece := file.read(PIECE_BYTES)):
        found = piece.count(b"\n")
        if found < before:
            before -= found
            at += len(piece)
            continue
        end = -1
        for _ in range(before):
            end = piece.index(b"\n", end + 1)
        return at + end + 1
    return at


# --- lines with a match ---


def _matches(file: IO[bytes], asked: Look) -> bytes:
    matches: list[dict[str, object]] = []
    found, room = 0, asked.max_bytes - 200
    searched: dict[str, object] = {}
    until = process_time() + asked.grep_s
    check = _pattern(asked.pattern, ignore_case=asked.ignore_case)
    for number, offset, line in _lines(file):
        if process_time() > until:
            searched = {"searched_bytes": offset}
            break
        text = line.decode(errors="replace")
        if not check(text):
            continue
        found += 1
        if len(matches) < asked.limit and room > 0:
            shown = {"line": number, "offset": offset, "text": _around(check, text)}
            room -= len(_encode(shown)) + 1
            if room >= 0:
                matches.append(shown)
        if found >= MAX_COUNTED:
            break
    return _encode({"matches": matches, "found": found, "is_all": found == len(matches) and not searched} | searched)


def _lines(file: IO[bytes]) -> Iterator[tuple[int, int, bytes]]:
    """Each line without its end, or pieces of it, with its number and where it begins."""
    number, offset = 1, 0
    while line := file.readline(MAX_LINE_BYTES):
        is_whole = line.endswith(b"\n")
        if not is_whole and not line[-1:].isascii():
            # It may end within a character, which belongs to the next piece.
            line = line.decode(errors="ignore").encode()  # a piece of the same line
            file.seek(offset + len(line))
        yield number, offset, line.removesuffix(b"\n").removesuffix(b"\r")
        offset += len(line)
        number += is_whole


def _pattern(pattern: str, *, ignore_case: bool) -> IsValid:
    """Whether a text has a match, by the engine of schemas, which takes linear time for any pattern."""
    if len(pattern) > MAX_PATTERN:
        raise LookError("pattern", f"a pattern has at most {MAX_PATTERN} characters")
    try:
        return compile_check({"type": "string", "pattern": f"(?i){pattern}" if ignore_case else pattern}).is_valid
    except SchemaError:
        raise LookError("pattern", "this is no regular expression of the linear kind: no (?=…) and no \\1") from None


def _around(matches: IsValid, text: str) -> str:
    """The line, or what is around the end of its first match."""
    if len(text) <= SHOWN_BYTES:
        return text
    # The shortest beginning that has a match, by halves.
    low, high = 0, len(text)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if matches(text[:middle]) else (middle, high)
    start = max(0, min(high - SHOWN_BYTES // 2, len(text) - SHOWN_BYTES))
    return ("…" if start else "") + text[start : start + SHOWN_BYTES] + ("…" if start + SHOWN_BYTES < len(text) else "")


# --- queries ---


def _found(file: IO[bytes], asked: Look) -> bytes:
    import jmespath  # noqa: PLC0415  # few checkers need it

    if len(asked.query) > MAX_QUERY:
        raise LookError("query", f"a query has at most {MAX_QUERY} characters")
    try:
        query = jmespath.compile(asked.query)
    except (jmespath.exceptions.JMESPathError, RecursionError) as error:
        raise LookError("query", " ".join(str(error).split())[:500] or "it is nested too deep") from None
    try:
        value = msgspec.json.decode(file.read())
    except (msgspec.DecodeError, RecursionError):
        raise LookError("handle", "what is stored is no JSON; output_read and output_grep read any text") from None
    try:
        found = _encode(query.search(value))
    except (jmespath.exceptions.JMESPathError, RecursionError, TypeError, ValueError) as error:
        raise LookError("query", " ".join(str(error).split())[:500] or "it is nested too deep") from None
    if len(found) > MAX_FOUND:
        raise LookError("query", f"it finds {len(found):,} bytes, more than {MAX_FOUND:,}; ask for less at once")
    return found
