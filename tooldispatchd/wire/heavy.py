"""Texts too long for the dispatch thread: lines are read elsewhere, into light ones, and contents quoted there.

    a long line ──▶ the same line with `null` in the place of its largest value, and where that lies ──▶ its message

What is cut out is a value that the daemon does not look into: an input, a spec, what is said back.
"""

from typing import Final

import msgspec
from msgspec import Raw

from tooldispatchd.wire.decode import Refused, decode_line, form_of, id_of
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import Message, NestedReq, QuotedText, ShortReq

# Looking through this much takes a millisecond.
HEAVY_BYTES: Final = 64 * 1024
# As much may stand beside the value that is cut out.
MAX_REST_BYTES: Final = 64 * 1024

# A content that is shorter is quoted by the dispatch thread in little time, and simpler to have as it is.
QUOTED_BYTES: Final = 64 * 1024

_NULL: Final = Raw(b"null")


class HeavyLine:
    """A line that is still to be read."""

    __slots__ = ("line",)

    def __init__(self, line: bytes | bytearray) -> None:
        self.line = line


class Cut(msgspec.Struct, frozen=True):
    """Where the value of a `field` lies in the text that it was cut out of."""

    field: str
    start: int
    end: int

    def put_back(self, body: msgspec.Struct, text: bytes | bytearray | Raw) -> None:
        """Give `body` its value again, as a view on `text`."""
        setattr(body, self.field, Raw(memoryview(text)[self.start : self.end]))


def cut_largest(body: msgspec.Struct, text: bytes) -> Cut | None:
    """Put `null` in the place of the largest raw value of `body`, decoded from `text`; None where it has none.

    Raises `ValueError` where the value does not stand in the text as it is.
    """
    values = {name: value for name in body.__struct_fields__ if isinstance(value := getattr(body, name), Raw)}
    if not values:
        return None
    field = max(values, key=lambda name: len(values[name]))
    # An equal text that stands earlier is as good.
    start = text.index(bytes(values[field]))
    setattr(body, field, _NULL)
    return Cut(field, start, start + len(values[field]))


def quoted(content: bytes) -> tuple[bool, bytes]:
    """Whether a content is quoted, being long, and it as it is then."""
    is_quoted = len(content) > QUOTED_BYTES
    return is_quoted, msgspec.json.encode(content.decode()) if is_quoted else content


def content_of(text: bytearray, size: int, *, is_quoted: bool) -> str | QuotedText:
    """The content that `quoted` gave, of `size` bytes."""
    return QuotedText(text, size) if is_quoted else text.decode()


class LineRead(msgspec.Struct, frozen=True):
    """What `read_line` found: the message as a `light` line, and what was `cut` out of it; or a refusal."""

    light: bytes = b""
    cut: Cut | None = None
    refused: Refused | None = None


def read_line(arguments: bytes, payload: bytearray) -> tuple[bytes, bytes]:
    """Read a line (a job of a checker; `arguments` is the longest that a line may be). Gives `LineRead`."""
    line = bytes(payload)
    message = decode_line(line, int(arguments))
    if message is None or isinstance(message, Refused):
        return msgspec.msgpack.encode(LineRead(refused=message)), b""
    body = _body(message)
    cut = cut_largest(body, line)
    light = msgspec.json.encode(message)
    found = LineRead(light, cut)
    if len(light) > MAX_REST_BYTES:
        fault = Fault(Code.INVALID_REQUEST, f"beside its largest value a line may have {MAX_REST_BYTES} bytes")
        form = form_of(message) if isinstance(body, ShortReq) else None
        found = LineRead(refused=Refused(fault, id_of(message), form, getattr(body, "agent", None)))
    return msgspec.msgpack.encode(found), b""


def message_of(read: bytes, line: bytes | bytearray) -> Message | Refused | None:
    """The message of `line`, of which `read` is what `read_line` gave."""
    found = msgspec.msgpack.decode(read, type=LineRead)
    if found.refused is not None:
        return found.refused
    message = decode_line(found.light, MAX_REST_BYTES)
    if found.cut is not None and message is not None and not isinstance(message, Refused):
        found.cut.put_back(_body(message), line)
    return message


def _body(message: Message) -> msgspec.Struct:
    return message.msg if isinstance(message, NestedReq) else message
