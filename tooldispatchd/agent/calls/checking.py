"""What is too large or too costly for the dispatch thread: read, checked and written by a checker (`checkers`).

An input comes back as the bytes that its provider gets, an output as the JSON string that stands in the answer: the
daemon decodes neither. The functions that take bytes and give bytes run in the checker's process.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import UNSET, Raw

from tooldispatchd.agent.calls.steps import Reader, shape
from tooldispatchd.agent.faults import too_large
from tooldispatchd.calls.gate import Turns
from tooldispatchd.calls.outcome import Answer, Outcome, Unread, UnreadableError
from tooldispatchd.calls.violations import fault_of
from tooldispatchd.catalog.arguments import Output
from tooldispatchd.catalog.schemas import Check, check_of, is_light
from tooldispatchd.checkers.pool import CheckerError, Running
from tooldispatchd.providers.process.reading import read_output
from tooldispatchd.wire.decode import Refused
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.heavy import content_of, message_of, quoted, read_line
from tooldispatchd.wire.messages import Message

_encode: Final = msgspec.json.Encoder().encode


class InputJob(msgspec.Struct, frozen=True):
    """How an input is read: it must match all of `schemas` (a JSON array)."""

    schemas: bytes
    wrapped: bool
    as_text: bool


class OutputJob(msgspec.Struct, frozen=True):
    """How an output is read, as a program wrote it in some mode, and what it must match and measure."""

    schemas: bytes
    mode: Output
    max_read_bytes: int
    max_content_bytes: int


class CheckVerdict(msgspec.Struct, frozen=True):
    """What a checker found: a `fault`, why an output is `unreadable`, or an output of `size` bytes, maybe quoted.

    `dropped` are the nulls of an input that were taken as left out.
    """

    fault: Fault | None = None
    unreadable: str | None = None
    limit: str | None = None
    size: int = 0
    is_quoted: bool = False
    dropped: list[str] = []


_read_verdict: Final = msgspec.msgpack.Decoder(CheckVerdict).decode
_write: Final = msgspec.msgpack.Encoder().encode


class Checking:
    """The checkers, as calls use them."""

    def __init__(self, checkers: Running) -> None:
        self._checkers = checkers

    async def read_line(
        self, line: bytes | bytearray, max_line_bytes: int, *, turns: Turns
    ) -> Message | Refused | None:
        """The message of a long line of an agent."""
        try:
            reply, _ = await self._checkers.run(read_line, b"%d" % max_line_bytes, line, turns=turns)
        except CheckerError as error:
            return Refused(Fault(Code.LINE_TOO_LONG, f"a line cannot be read: {error.why}"))
        return message_of(reply, line)

    async def read(self, reader: Reader, raw: Raw, dropped: list[str], *, turns: Turns) -> bytearray | Fault:
        """An input that is checked, as its provider gets it; `dropped` as a `Reader` has it."""
        job = InputJob(reader.check.text, reader.wrapped, reader.as_text)
        try:
            reply, line = await self._checkers.run(read_input, _write(job), memoryview(raw), turns=turns)
        except CheckerError as error:
            return _fault_of_checker("the input", error)
        verdict = _read_verdict(reply)
        dropped += verdict.dropped
        return verdict.fault or line

    async def shape(self, result: object, output: Check, max_content_bytes: int, *, turns: Turns) -> Outcome:
        """A tool's result as its answer: read where it is `Unread`, checked, written, capped."""
        if not isinstance(result, Unread):
            # It was light enough to be decoded, and so it is to be encoded; what it is checked by need not be.
            content = _encode(result)
            if is_light(content, output):
                return shape(result, content, output, max_content_bytes)
            result = unread(content)
        return await self._shape(result, output, max_content_bytes, turns=turns)

    async def _shape(self, unread: Unread, output: Check, max_content_bytes: int, *, turns: Turns) -> Outcome:
        job = OutputJob(output.text, unread.output, unread.max_bytes, max_content_bytes)
        try:
            reply, content = await self._checkers.run(shape_output, _write(job), unread.text, turns=turns)
        except CheckerError as error:
            return _fault_of_checker("the answer", error)
        verdict = _read_verdict(reply)
        if verdict.unreadable is not None:
            return unread.fault(UnreadableError(verdict.unreadable, verdict.limit))
        return verdict.fault or _answer(verdict, content)

    async def quote(self, parts: Sequence[bytes | bytearray], *, turns: Turns) -> Outcome:
        """The answer whose content is made of these parts (JSON, in UTF-8)."""
        try:
            reply, content = await self._checkers.run(quote_text, b"", parts, turns=turns)
        except CheckerError as error:
            return _fault_of_checker("the answer", error)
        return _answer(_read_verdict(reply), content)


def unread(*parts: bytes | bytearray) -> Unread:
    """JSON that the daemon itself has, in parts, as a result that is too large to be looked at here."""
    return Unread(parts, Output.JSON, sum(map(len, parts)), _unreadable)


def _unreadable(error: UnreadableError) -> Fault:
    # Only what is nested too deep for a decoder.
    return Fault(Code.TOOL_FAILED, f"the answer {error}")


def _answer(verdict: CheckVerdict, content: bytearray) -> Answer:
    return Answer(content_of(content, verdict.size, is_quoted=verdict.is_quoted))


def _fault_of_checker(what: str, error: CheckerError) -> Fault:
    return Fault(Code.TOOL_FAILED, f"{what} cannot be checked: {error.why}", _limit_of(error))


def _limit_of(error: CheckerError) -> dict[str, object]:
    return {} if error.limit is None else {"limit": error.limit}


# --- in the checker's process ----------------------------------------------------------------------------------------


def read_input(arguments: bytes, payload: bytearray) -> tuple[bytes, bytes]:
    """`Checking.read`: the value that was checked, written anew."""
    job = msgspec.msgpack.decode(arguments, type=InputJob)
    dropped: list[str] = []
    reader = Reader(check_of(job.schemas), missing=UNSET, wrapped=job.wrapped, as_text=job.as_text)
    value = reader(Raw(payload), dropped)
    if isinstance(value, Fault):
        return _write(CheckVerdict(fault=value)), b""
    return _write(CheckVerdict(dropped=dropped)), reader.encode(value)


def shape_output(arguments: bytes, payload: bytearray) -> tuple[bytes, bytes]:
    """`Checking.shape`: the content, quoted where it is long."""
    job = msgspec.msgpack.decode(arguments, type=OutputJob)
    check = check_of(job.schemas)
    try:
        value = read_output(job.mode, payload, max_bytes=job.max_read_bytes)
    except UnreadableError as error:
        return _write(CheckVerdict(unreadable=str(error), limit=error.limit)), b""
    if not check.is_valid(value):
        return _write(CheckVerdict(fault=fault_of(Code.INVALID_OUTPUT, check, value))), b""
    content = _encode(value)
    # Quoting takes as much again.
    del value
    if len(content) > job.max_content_bytes:
        return _write(CheckVerdict(fault=too_large(job.max_content_bytes))), b""
    return _quoted(content)


def quote_text(_arguments: bytes, payload: bytearray) -> tuple[bytes, bytes]:
    """`Checking.quote`."""
    return _quoted(bytes(payload))


def _quoted(content: bytes) -> tuple[bytes, bytes]:
    is_quoted, text = quoted(content)
    return _write(CheckVerdict(size=len(content), is_quoted=is_quoted)), text
