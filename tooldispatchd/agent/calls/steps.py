"""The steps of a call as functions, compiled once for each tool: read and check the input, check and shape the output.

A tool's plan holds only the steps that it has; sessions share plans.
"""

from collections.abc import Callable
from enum import Enum
from typing import Final, Protocol

import msgspec
from msgspec import DecodeError, Raw, UnsetType, ValidationError

from tooldispatchd.agent.faults import too_large
from tooldispatchd.calls.outcome import Answer, Outcome
from tooldispatchd.calls.violations import fault_of
from tooldispatchd.catalog.arguments import text_of
from tooldispatchd.catalog.schemas import Check, is_light, light_size
from tooldispatchd.catalog.tools import DeclaredTool
from tooldispatchd.wire.faults import Code, Fault

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


def admit(check: Check, value: object, dropped: list[str] | None = None) -> object:
    """An input that is not valid as it stands: the value without its needless nulls where it is valid so, or a `Fault`.

    It is changed in place. A value that is valid is not to be brought here.
    """
    mended = check.mend(value)
    if not mended or not check.is_valid(value):
        return fault_of(Code.INVALID_INPUT, check, value)
    if dropped is not None:
        dropped += mended
    return value


class Reader:
    """Reads a request's raw input: decodes it and checks it.

    `missing` is what a missing input means, UNSET where it means nothing. A `wrapped` tool is shown to models as
    `{"input": …}`, so an object whose only key is `input` is unwrapped. `as_text` says that the provider takes text.
    """

    __slots__ = ("_missing", "as_text", "check", "wrapped")

    def __init__(self, check: Check, *, missing: object, wrapped: bool, as_text: bool = False) -> None:
        self.check = check
        self.wrapped = wrapped
        self.as_text = as_text
        self._missing = missing

    def __call__(self, raw: Raw | UnsetType, dropped: list[str] | None = None, /) -> object:
        """The checked value, or a `Fault`; for what is light only.

        To `dropped` the pointers to the nulls are added that were taken as left out.
        """
        if isinstance(raw, UnsetType):
            if self._missing is raw:
                return Fault(Code.INVALID_INPUT, "the input is missing", {"violations": []})
            value = self._missing
        else:
            try:
                value = _decode(raw)
            except (DecodeError, ValidationError, UnicodeDecodeError, RecursionError):
                return Fault(Code.MALFORMED_LINE, "the input is not JSON that can be read")
        if self.wrapped and type(value) is dict and len(value) == 1 and "input" in value:
            value = value["input"]
        if self.check.is_valid(value):
            return value
        return admit(self.check, value, dropped)

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


def _never(_value: object) -> bool:
    return False


def compile_now(read: Reader, run: Callable[[object], object], tool: DeclaredTool, max_content_bytes: int) -> Now:
    """All the steps of an inline tool as one function: read, run, check the output, serialise.

    What decodes to a valid input takes no detour through `read`; where `read` may have to unwrap, all go through it.
    """
    is_input = _never if tool.wrapped else tool.input.is_valid
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
        result = run(value)
        if type(result) is Fault:
            return result
        content = _encode(result)
        if len(content) > light_output_bytes and not is_light(content, output):
            return HEAVY
        if not is_output(result):
            return fault_of(Code.INVALID_OUTPUT, output, result)
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
