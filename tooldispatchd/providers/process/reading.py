"""The output of a program that succeeded, read as its answer: all of it or nothing."""

from io import BytesIO
from typing import Final, assert_never

import msgspec

from tooldispatchd.calls.outcome import UnreadableError
from tooldispatchd.catalog.outputs import Output

_decode: Final = msgspec.json.Decoder().decode

# Of one line as an element of a JSON list, beside its text.
QUOTES: Final = 2


def read_output(output: Output, stdout: bytes | bytearray, *, max_bytes: int) -> object:
    """The answer in all of `stdout`, which as JSON may have `max_bytes`. Raises `UnreadableError`."""
    match output:
        case Output.JSON:
            return _value(stdout)
        case Output.NULL:
            # Most programs that have nothing to say say nothing.
            return _value(stdout) if stdout.strip() else None
        case Output.TEXT:
            return _text(stdout).removesuffix("\n")
        case Output.LINES:
            # Each line as it is, blank ones too; the last one need not have a newline.
            if not stdout:
                return []
            # Many short lines would take far more memory than their text.
            if len(stdout) + QUOTES * stdout.count(b"\n") > max_bytes:
                why = f"wrote lines that are more than {max_bytes} bytes as a JSON list"
                raise UnreadableError(why, "content_bytes")
            return _text(stdout).removesuffix("\n").split("\n")
        case Output.JSON_LINES:
            values: list[object] = []
            # One line after the other: all of them at once would take far more memory than their bytes.
            for number, line in enumerate(BytesIO(stdout), 1):
                if line.isspace():
                    continue
                try:
                    values.append(_decode(line))
                except (UnicodeDecodeError, RecursionError, msgspec.DecodeError) as error:
                    raise UnreadableError(f"wrote a line, number {number}, that {_why(error)}") from error
            return values
        case _:
            assert_never(output)


def _value(stdout: bytes | bytearray) -> object:
    if not stdout.strip():
        raise UnreadableError("wrote no answer: one JSON value on stdout is expected")
    try:
        return _decode(stdout)
    except (UnicodeDecodeError, RecursionError, msgspec.DecodeError) as error:
        raise UnreadableError(f"wrote an answer that {_why(error)}") from error


def _text(stdout: bytes | bytearray) -> str:
    try:
        return stdout.decode()
    except UnicodeDecodeError as error:
        raise UnreadableError(f"wrote text that is not UTF-8 at byte {error.start}") from error


def _why(error: UnicodeDecodeError | RecursionError | msgspec.DecodeError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "is not UTF-8"
    if isinstance(error, RecursionError):
        return "is nested too deep"
    # The one way to tell the two apart without a second parser; it holds positions, never the output.
    return "is more than one JSON value" if "trailing characters" in str(error) else f"is not JSON: {error}"
