"""Read and check the input of a call, check and shape its output: here where it is light, else in a checker.

The steps of a tool are compiled once, and sessions share them. From a checker (`checkers`) an input comes back as the
bytes that its provider gets, an output as the JSON string that stands in the answer: the daemon decodes neither. The
functions that take bytes and give bytes run in the checker's process.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from types import MappingProxyType
from typing import Final, Protocol

import msgspec
from msgspec import UNSET, DecodeError, Raw, UnsetType, ValidationError

from tooldispatchd.agent.faults import too_large
from tooldispatchd.calls.content import AnswerHead, of_json, of_parts, read_answer, written
from tooldispatchd.calls.gate import Turns
from tooldispatchd.calls.outcome import Answer, Outcome, Unread, UnreadableError
from tooldispatchd.calls.violations import fault_at, fault_of
from tooldispatchd.catalog.jsontexts import JsonTexts
from tooldispatchd.catalog.outputs import Output
from tooldispatchd.catalog.schemas import ACCEPT, Check, check_of, is_light, light_size
from tooldispatchd.catalog.templates import text_of
from tooldispatchd.catalog.tools import DeclaredTool
from tooldispatchd.checkers.pool import CheckerError, Running
from tooldispatchd.providers.process.reading import read_output
from tooldispatchd.wire.decode import Refused, refuse_unread
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.heavy import message_of, read_line
from tooldispatchd.wire.lines import HEAD_BYTES
from tooldispatchd.wire.messages import ContentKind, Message

_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


class Heaviness(Enum):
    """Stands in the place of a result that the dispatch thread has no time to make."""

    HEAVY = "heavy"


HEAVY: Final = Heaviness.HEAVY


class Now(Protocol):
    """A tool that answers at once, unless the call is `HEAVY`; `dropped` is as a `Reader`'s."""

    def __call__(self, raw: Raw | UnsetType, dropped: list[str] | None = None, /) -> str | Fault | Heaviness:
        """The content, or a `Fault`."""


def admit(check: Check, value: object, dropped: list[str] | None = None, *, repairs: bool = False) -> object:
    """An input that is not valid as it stands: the value without its needless nulls where it is valid so, or a `Fault`.

    With `repairs` also with the JSON in its texts in their place. It is changed in place. A value that is valid is not
    to be brought here.
    """
    mended = check.mend(value)
    if not mended or not check.is_valid(value):
        texts = JsonTexts(check, value)
        if not (repairs and texts.are_meant):
            return fault_at(Code.INVALID_INPUT, texts.put_back())
        value = texts.value
    if dropped is not None:
        dropped += mended
    return value


def _invalid(why: str) -> Fault:
    return Fault(Code.INVALID_INPUT, why, {"violations": []})


# Deeper than the protocol's `DEPTH`, and than the decoder, the check or the encoder goes.
TOO_DEEP: Final = _invalid("the input is nested too deep")
DEEP_OUTPUT: Final = Fault(Code.TOOL_FAILED, "the answer is nested too deep")


class Reader:
    """Reads a request's raw input: decodes it and checks it.

    `missing` is what a missing input means, UNSET where it means nothing. A `wrapped` tool is shown to models as
    `{"input": …}`, so an object whose only key is `input` is unwrapped; one whose input is null alone, and so may be
    missing, is shown as an empty record, and takes that. `as_text` says that the provider takes text, `repairs` that a
    text may hold the array or the object that the schema wants.
    """

    __slots__ = ("_missing", "as_text", "check", "repairs", "wrapped")

    named: Mapping[str, str] = MappingProxyType({})
    """Names of an object's members that stand for others."""

    def __init__(
        self, check: Check, *, missing: object, wrapped: bool, as_text: bool = False, repairs: bool = False
    ) -> None:
        self.check = check
        self.repairs = repairs
        self.wrapped = wrapped
        self.as_text = as_text
        self._missing = missing

    def __call__(self, raw: Raw | UnsetType, dropped: list[str] | None = None, /) -> object:
        """The checked value, or a `Fault`; for what is light only.

        To `dropped` the pointers to the nulls are added that were taken as left out.
        """
        if isinstance(raw, UnsetType):
            if self._missing is raw:
                return _invalid("the input is missing")
            value = self._missing
        else:
            try:
                value = _decode(raw)
            except RecursionError:
                return TOO_DEEP
            except ValidationError:
                return _invalid("the input has a number that no double can hold")
            except (DecodeError, UnicodeDecodeError):
                return Fault(Code.MALFORMED_LINE, "the input is not JSON that can be read")
        if self.wrapped and type(value) is dict:
            if len(value) == 1 and "input" in value:
                value = value["input"]
            elif not value and self._missing is None:
                value = None
        try:
            if self.check.is_valid(value):
                return value
            return admit(self.check, value, dropped, repairs=self.repairs)
        except RecursionError:
            return TOO_DEEP

    def line(self, raw: Raw | UnsetType, dropped: list[str]) -> bytes | Fault:
        """The input as the provider gets it, or a `Fault`."""
        value = self(raw, dropped)
        if isinstance(value, Fault):
            return value
        try:
            return self.encode(value)
        except RecursionError:
            return TOO_DEEP

    def naming(self, named: Mapping[str, str]) -> "Reader":
        """Make a reader that takes these names too; without any the reader itself."""
        return NamingReader(self, self._missing, named) if named else self

    @property
    def is_unit(self) -> bool:
        """Whether it takes nothing but null."""
        return self._missing is None and self.wrapped

    def encode(self, value: object) -> bytes:
        """The checked value as the provider gets it, never the agent's bytes.

        As text a string is itself, null nothing at all, and any other value its JSON without spaces.
        """
        if not self.as_text:
            return _encode(value)
        return b"" if value is None else text_of(value).encode()

    def is_light(self, raw: Raw | UnsetType) -> bool:
        """Whether the input may be read in the dispatch thread; else `checking.Checking.read` is for it."""
        return isinstance(raw, UnsetType) or is_light(raw, self.check)


class NamingReader(Reader):
    """A reader that first gives the members of an object the names that theirs stand for."""

    __slots__ = ("named",)

    def __init__(self, reader: Reader, missing: object, named: Mapping[str, str]) -> None:
        as_text, repairs = reader.as_text, reader.repairs
        super().__init__(reader.check, missing=missing, wrapped=reader.wrapped, as_text=as_text, repairs=repairs)
        self.named = named

    def __call__(self, raw: Raw | UnsetType, dropped: list[str] | None = None, /) -> object:
        """Read an input as any other reader does, with its own names first."""
        with suppress(RecursionError, DecodeError, UnicodeDecodeError):
            value = None if isinstance(raw, UnsetType) else _decode(raw)
            if type(value) is dict:
                raw = Raw(_encode({self._own_name(name, value): member for name, member in value.items()}))
        return super().__call__(raw, dropped)

    def _own_name(self, name: str, value: dict[str, object]) -> str:
        """Find the name that a member's name stands for, unless the input has that too."""
        own = self.named.get(name, name)
        return name if own in value else own


def compile_now(read: Reader, run: Callable[[object], object], tool: DeclaredTool, max_content_bytes: int) -> Now:
    """All the steps of an inline tool as one function: read, run, check the output, serialise.

    What decodes to a valid input takes no detour through `read`; where `read` may have to unwrap, all go through it.
    """
    is_input: Callable[[object], bool] = (lambda _value: False) if tool.wrapped else tool.input.is_valid
    output = tool.output
    is_output = output.is_valid
    # A longer input may be light too, but that is to be found out.
    light_bytes = light_size(tool.input)
    light_output_bytes = light_size(output)

    def now(raw: Raw | UnsetType, dropped: list[str] | None = None, /) -> str | Fault | Heaviness:
        try:
            if len(raw) > light_bytes and not read.is_light(raw):  # type: ignore[arg-type]  # a missing input raises TypeError
                return HEAVY
            value = _decode(raw)  # type: ignore[arg-type]  # as above
            is_read = is_input(value)
        except (DecodeError, ValidationError, UnicodeDecodeError, RecursionError, TypeError):
            is_read = False
        if not is_read:
            value = read(raw, dropped)
            if type(value) is Fault:
                return value
        try:
            result = run(value)
            if type(result) is Fault:
                return result
            content = _encode(result)
            if len(content) > light_output_bytes and not is_light(content, output):
                return HEAVY
            if not is_output(result):
                return fault_of(Code.INVALID_OUTPUT, output, result)
        except RecursionError:
            return TOO_DEEP
        if len(content) > max_content_bytes:
            return too_large(max_content_bytes)
        return content.decode()

    return now


def shape(value: object, content: bytes, output: Check, max_content_bytes: int) -> Outcome:
    """A waiting tool's result, `content` as JSON, as its answer: checked, capped. For what is light only."""
    if not output.is_valid(value):
        return fault_of(Code.INVALID_OUTPUT, output, value)
    if len(content) > max_content_bytes:
        return too_large(max_content_bytes)
    return Answer(content.decode())


class InputJob(msgspec.Struct, frozen=True):
    """How an input is read: it must match all of `schemas` (a JSON array)."""

    schemas: bytes
    wrapped: bool
    is_unit: bool
    as_text: bool
    repairs: bool
    named: dict[str, str] = {}


class OutputJob(msgspec.Struct, frozen=True):
    """How an output is read, as a program wrote it in some mode, and what it must match and measure.

    A list of parts is measured alone: the schemas are of other values.
    """

    schemas: bytes
    mode: Output
    max_read_bytes: int
    max_content_bytes: int
    kind: ContentKind
    is_parts: bool
    media_type: str


class CheckVerdict(msgspec.Struct, frozen=True):
    """A checker's verdict: a `fault`, why an output is `unreadable`, or the head of the answer that it is.

    `dropped` are the nulls of an input that were taken as left out.
    """

    fault: Fault | None = None
    unreadable: str | None = None
    limit: str | None = None
    head: AnswerHead | None = None
    dropped: list[str] = []


_read_verdict: Final = msgspec.msgpack.Decoder(CheckVerdict).decode
_write: Final = msgspec.msgpack.Encoder().encode


class Checking:
    """The checkers, as calls use them."""

    def __init__(self, checkers: Running) -> None:
        self._checkers = checkers
        # For whatever else a checker does.
        self.run: Final = checkers.run

    async def read_line(
        self, line: bytes | bytearray, max_line_bytes: int, *, turns: Turns
    ) -> Message | Refused | None:
        """The message of a long line of an agent."""
        try:
            reply, _, _ = await self._checkers.run(read_line, b"%d" % max_line_bytes, line, turns=turns)
        except CheckerError as error:
            fault = Fault(Code.LINE_TOO_LONG, f"a line cannot be read: {error.why}")
            return refuse_unread(bytes(line[:HEAD_BYTES]), fault)
        return message_of(reply, line)

    async def read(self, reader: Reader, raw: Raw, dropped: list[str], *, turns: Turns) -> bytearray | Fault:
        """An input that is checked, as its provider gets it; `dropped` as a `Reader` has it."""
        how = (reader.wrapped, reader.is_unit, reader.as_text, reader.repairs, dict(reader.named))
        job = InputJob(reader.check.text, *how)
        try:
            reply, line, _ = await self._checkers.run(read_input, _write(job), memoryview(raw), turns=turns)
        except CheckerError as error:
            return _fault_of_checker("the input", error)
        verdict = _read_verdict(reply)
        dropped += verdict.dropped
        return verdict.fault or line

    async def shape(
        self, result: object, output: Check, max_content_bytes: int, kind: ContentKind, *, turns: Turns
    ) -> Outcome:
        """A tool's result as its answer: read where it is `Unread`, checked, written, capped."""
        if not isinstance(result, Unread):
            # The result was light enough to be decoded, and so it is to be encoded; its check need not be light.
            try:
                content = _encode(result)
                if is_light(content, output):
                    return shape(result, content, output, max_content_bytes)
            except RecursionError:
                return DEEP_OUTPUT
            result = unread(content)
        read = (result.output, result.max_bytes)
        job = OutputJob(output.text, *read, max_content_bytes, kind, result.is_parts, result.media_type)
        try:
            if result.is_parts and not isinstance(result.text, tuple) and is_light(result.text, ACCEPT):
                return answer_of(result.text, job)
            reply, shaped, blocks = await self._checkers.run(shape_output, _write(job), result.text, turns=turns)
        except UnreadableError as error:
            return result.fault(error)
        except CheckerError as error:
            return _fault_of_checker("the answer", error)
        verdict = _read_verdict(reply)
        if verdict.unreadable is not None:
            return result.fault(UnreadableError(verdict.unreadable, verdict.limit))
        return _outcome(verdict, shaped, blocks)

    async def quote(
        self, parts: Sequence[bytes | bytearray | memoryview], kind: ContentKind, *, turns: Turns
    ) -> Outcome:
        """The answer in that kind whose value is made of these parts (JSON, in UTF-8)."""
        try:
            reply, content, blocks = await self._checkers.run(quote_text, kind.value.encode(), parts, turns=turns)
        except CheckerError as error:
            return _fault_of_checker("the answer", error)
        return _outcome(_read_verdict(reply), content, blocks)


def unread(*parts: bytes | bytearray) -> Unread:
    """JSON that the daemon itself has, in parts, as a result that is too large to be looked at here."""
    return Unread(parts, Output.JSON, sum(map(len, parts)), _unreadable)


def _unreadable(error: UnreadableError) -> Fault:
    # Only what is nested too deep for a decoder.
    return Fault(Code.TOOL_FAILED, f"the answer {error}")


def _outcome(verdict: CheckVerdict, content: bytearray, parts: bytearray) -> Outcome:
    if verdict.fault is not None:
        return verdict.fault
    assert verdict.head is not None
    return read_answer(verdict.head, content, parts)


def _fault_of_checker(what: str, error: CheckerError) -> Fault:
    limit: dict[str, object] = {} if error.limit is None else {"limit": error.limit}
    return Fault(Code.TOOL_FAILED, f"{what} cannot be checked: {error.why}", limit)


# --- in the checker's process ----------------------------------------------------------------------------------------


def read_input(arguments: bytes, payload: bytearray) -> tuple[bytes, bytes]:
    """`Checking.read`: the value that was checked, written anew."""
    job = msgspec.msgpack.decode(arguments, type=InputJob)
    dropped: list[str] = []
    missing = None if job.is_unit else UNSET
    how = {"wrapped": job.wrapped, "as_text": job.as_text, "repairs": job.repairs}
    reader = Reader(check_of(job.schemas), missing=missing, **how)
    line = reader.naming(job.named).line(Raw(payload), dropped)
    if isinstance(line, Fault):
        return _write(CheckVerdict(fault=line)), b""
    return _write(CheckVerdict(dropped=dropped)), line


def shape_output(arguments: bytes, payload: bytearray) -> tuple[bytes, bytes, bytes]:
    """`Checking.shape`: the content, quoted where it is long, and the parts."""
    try:
        answer = answer_of(payload, msgspec.msgpack.decode(arguments, type=OutputJob))
    except UnreadableError as error:
        return _write(CheckVerdict(unreadable=str(error), limit=error.limit)), b"", b""
    return (_write(CheckVerdict(fault=answer)), b"", b"") if isinstance(answer, Fault) else _written(answer)


def answer_of(text: bytes | bytearray, job: OutputJob) -> Outcome:
    """An output as its answer; raises `UnreadableError`."""
    try:
        if job.is_parts:
            if job.mode.is_parts:
                text = _encode(read_output(job.mode, text, max_bytes=job.max_read_bytes, media_type=job.media_type))
            answer = of_parts(bytes(text), job.kind)
            return answer if answer.size <= job.max_content_bytes else too_large(job.max_content_bytes)
        check, value = check_of(job.schemas), read_output(job.mode, text, max_bytes=job.max_read_bytes)
        if not check.is_valid(value):
            return fault_of(Code.INVALID_OUTPUT, check, value)
        content = _encode(value)
    except RecursionError:
        return DEEP_OUTPUT
    # Quoting takes as much again.
    del value
    if len(content) > job.max_content_bytes:
        return too_large(job.max_content_bytes)
    return of_json(content.decode(), job.kind)


def quote_text(arguments: bytes, payload: bytearray) -> tuple[bytes, bytes, bytes]:
    """`Checking.quote`."""
    return _written(of_json(payload.decode(), ContentKind(arguments.decode())))


def _written(answer: Answer) -> tuple[bytes, bytes, bytes]:
    head, content, parts = written(answer)
    return _write(CheckVerdict(head=head)), content, parts
