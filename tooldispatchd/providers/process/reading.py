"""The output of a program that succeeded, read as its answer: all of it or nothing."""

from base64 import b64encode
from io import BytesIO
from typing import Final, assert_never

import msgspec

from tooldispatchd.calls.outcome import UnreadableError
from tooldispatchd.catalog.outputs import Output

_decode: Final = msgspec.json.Decoder().decode

# Of one line as an element of a JSON list, beside its text.
QUOTES: Final = 2


# The fields without which a part of a known type says nothing.
NEEDED: Final[dict[str, dict[str, type]]] = {
    "text": {"text": str},
    "image": {"data": str, "mimeType": str},
    "audio": {"data": str, "mimeType": str},
    "resource": {"resource": dict},
    "resource_link": {"uri": str},
}
# The name of a file that has none: a resource must have one.
STDOUT_URI: Final = "urn:tooldispatchd:stdout"


def read_output(output: Output, stdout: bytes | bytearray, *, max_bytes: int, media_type: str = "") -> object:
    """The answer in all of `stdout`, which as JSON may have `max_bytes`. Raises `UnreadableError`.

    A `FILE` is of the `media_type`.
    """
    match output:
        case Output.JSON:
            return _value(stdout)
        case Output.NULL:
            # Most programs that have nothing to say say nothing.
            return _value(stdout) if stdout.strip() else None
        case Output.TEXT:
            return _text(stdout).removesuffix("\n")
        case Output.TRANSCRIPT:
            return stdout.decode(errors="replace")
        case Output.PARTS:
            return _parts(_value(stdout))
        case Output.FILE:
            return [_file(stdout, media_type, max_bytes)]
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
            return _json_lines(stdout)
        case _:
            assert_never(output)


def _json_lines(stdout: bytes | bytearray) -> list[object]:
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


def _value(stdout: bytes | bytearray) -> object:
    if not stdout.strip():
        raise UnreadableError("wrote no answer: one JSON value on stdout is expected")
    try:
        return _decode(stdout)
    except (UnicodeDecodeError, RecursionError, msgspec.DecodeError) as error:
        raise UnreadableError(f"wrote an answer that {_why(error)}") from error


def _parts(value: object) -> list[object]:
    """The list of parts that the value is; one of a type that is not known is passed on as it is."""
    if not isinstance(value, list):
        raise UnreadableError("wrote no list of parts")
    for number, part in enumerate(value, 1):
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            raise UnreadableError(f"wrote a part, number {number}, that is no object with a type")
        for field, kind in NEEDED.get(part["type"], {}).items():
            if not isinstance(part.get(field), kind):
                raise UnreadableError(f"wrote a part, number {number}, that is of type {part['type']} without {field}")
    return value


def _file(stdout: bytes | bytearray, media_type: str, max_bytes: int) -> dict[str, object]:
    """The part that a file is: an image, a sound, or else a resource; a text stays one."""
    if not stdout:
        raise UnreadableError("wrote no answer: one file on stdout is expected")
    kind = media_type.partition("/")[0].lower()
    if kind == "text":
        resource = {"uri": STDOUT_URI, "mimeType": media_type, "text": _text(stdout)}
        return {"type": "resource", "resource": resource}
    # Four characters for three bytes.
    if len(stdout) * 4 // 3 > max_bytes:
        raise UnreadableError(f"wrote a file that is more than {max_bytes} bytes in base64", "content_bytes")
    data = b64encode(stdout).decode()
    if kind in {"image", "audio"}:
        return {"type": kind, "data": data, "mimeType": media_type}
    return {"type": "resource", "resource": {"uri": STDOUT_URI, "mimeType": media_type, "blob": data}}


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
