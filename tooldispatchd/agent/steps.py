"""The steps of a call as functions, compiled once for each tool: read and check the input, check and shape the output.

A tool's plan holds only the steps that it has; sessions share plans.
"""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import DecodeError, Raw, UnsetType, ValidationError

from tooldispatchd.agent.faults import too_large
from tooldispatchd.calls.outcome import Answer, Outcome
from tooldispatchd.calls.violations import fault_of
from tooldispatchd.catalog.schemas import Check
from tooldispatchd.catalog.tools import DeclaredTool
from tooldispatchd.wire.faults import Code, Fault

_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode

Reader = Callable[[Raw | UnsetType], object]


def compile_read(check: Check, *, missing: object, wrapped: bool) -> Reader:
    """A function from a request's raw input to its checked value, or to a `Fault`.

    `missing` is what a missing input means, UNSET where it means nothing. A `wrapped` tool is shown to models as
    `{"input": …}`, so an object whose only key is `input` is unwrapped.
    """
    is_valid = check.is_valid

    def read(raw: Raw | UnsetType) -> object:
        if isinstance(raw, UnsetType):
            if missing is raw:
                return Fault(Code.INVALID_INPUT, "the input is missing", {"violations": []})
            value = missing
        else:
            try:
                value = _decode(raw)
            except (DecodeError, ValidationError, UnicodeDecodeError, RecursionError):
                return Fault(Code.MALFORMED_LINE, "the input is not JSON that can be read")
        if wrapped and type(value) is dict and len(value) == 1 and "input" in value:
            value = value["input"]
        if is_valid(value):
            return value
        return fault_of(Code.INVALID_INPUT, check, value)

    return read


def _never(_value: object) -> bool:
    return False


def compile_now(
    read: Reader, run: Callable[[object], object], tool: DeclaredTool, max_content_bytes: int
) -> Callable[[Raw | UnsetType], str | Fault]:
    """All the steps of an inline tool as one function: read, run, check the output, serialise.

    What decodes to a valid input takes no detour through `read`; where `read` may have to unwrap, all go through it.
    """
    is_input = _never if tool.wrapped else tool.input.is_valid
    output = tool.output
    is_output = output.is_valid

    def now(raw: Raw | UnsetType) -> str | Fault:
        try:
            value = _decode(raw)  # type: ignore[arg-type]  # an input that is missing raises TypeError
            is_read = is_input(value)
        except (DecodeError, ValidationError, UnicodeDecodeError, RecursionError, TypeError):
            is_read = False
        if not is_read:
            value = read(raw)
            if type(value) is Fault:
                return value
        result = run(value)
        if type(result) is Fault:
            return result
        if not is_output(result):
            return fault_of(Code.INVALID_OUTPUT, output, result)
        content = _encode(result)
        if len(content) > max_content_bytes:
            return too_large(max_content_bytes)
        return content.decode()

    return now


def shape(value: object, output: Check, max_content_bytes: int) -> Outcome:
    """A waiting tool's result as its answer: checked, serialised, capped."""
    if not output.is_valid(value):
        return fault_of(Code.INVALID_OUTPUT, output, value)
    content = _encode(value)
    if len(content) > max_content_bytes:
        return too_large(max_content_bytes)
    return Answer(content.decode())


def encode_line(value: object) -> bytes:
    """The checked value as a provider gets it: encoded anew, never the agent's bytes."""
    return _encode(value)
