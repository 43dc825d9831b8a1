"""A result as the kind of content that was asked for: JSON, a text for a model, or that text beside typed parts. Pure.

A part is an object with a `type`, as MCP writes content blocks; one of a type that is not known is passed on as it is.

    a value of a type ──▶ of_json ──▶ Answer ◀── of_parts ◀── a list of parts

An answer that a checker has made comes from there as an `AnswerHead`, with content and parts in a buffer each.
"""

from typing import Final

import msgspec
from msgspec import Raw

from tooldispatchd.calls.outcome import Answer, UnreadableError, utf8_size
from tooldispatchd.wire.heavy import QUOTED_BYTES, content_of, quoted
from tooldispatchd.wire.messages import MAX_VALUE_BYTES, ContentKind, QuotedText

# One thing that a tool tells the runtime may have as much; it is left out beyond that.
MAX_DETAIL_BYTES: Final = 64 * 1024
_KIB: Final = 1024
# Binary data stands in a part as base64, four characters for three bytes.
_CHARS, _BYTES = 4, 3


class Wanted(msgspec.Struct, frozen=True):
    """What a call's agent asked for: a kind of content, and details beside it or not."""

    kind: ContentKind = ContentKind.JSON
    details: bool = False


AS_JSON: Final = Wanted()


class _Resource(msgspec.Struct):
    text: object = None
    blob: object = None
    mime_type: object = msgspec.field(default=None, name="mimeType")


class _Part(msgspec.Struct):
    """A part whose optional fields may be null, or anything where its type is not known."""

    type: str
    text: object = None
    data: object = None
    mime_type: object = msgspec.field(default=None, name="mimeType")
    uri: object = None
    resource: _Resource | None = None


class _AnyPart(msgspec.Struct):
    type: str


_decode: Final = msgspec.json.Decoder(list[Raw]).decode
_decode_part: Final = msgspec.json.Decoder(_Part).decode
_decode_any: Final = msgspec.json.Decoder(_AnyPart).decode
_decode_text: Final = msgspec.json.Decoder(str).decode
_encode: Final = msgspec.json.Encoder().encode


def of_json(content: str, kind: ContentKind) -> Answer:
    """The answer that a value is, written as JSON in `content`: a string as a text is itself."""
    if kind is ContentKind.JSON:
        return Answer(content)
    text = _decode_text(content) if content.startswith('"') else content
    return msgspec.structs.replace(of_text(text, kind), value=content)


def of_text(text: str, kind: ContentKind, *, is_error: bool = False) -> Answer:
    """The answer that a tool's own text is, which is no JSON by any type."""
    if kind is not ContentKind.BLOCKS:
        return Answer(text, is_error, kind=ContentKind.TEXT)
    return Answer(text, is_error, kind=kind, blocks=Raw(_encode([{"type": "text", "text": text}])))


def of_parts(parts: bytes | Raw, kind: ContentKind, *, is_error: bool = False) -> Answer:
    """The answer that a JSON list of parts is.

    As JSON it is the list, but the text of a lone text part. Raises `UnreadableError` for anything but a list of
    objects with a `type`.
    """
    blocks = msgspec.json.format(parts, indent=-1)
    try:
        each = _decode(blocks)
        read = [_read(part) for part in each]
    except msgspec.ValidationError:
        raise UnreadableError("is no list of parts, each an object with a type") from None
    if kind is ContentKind.JSON:
        if len(read) == 1 and read[0].type == "text" and isinstance(read[0].text, str):
            return Answer(read[0].text, is_error, kind=ContentKind.TEXT)
        return Answer(blocks.decode() if read else "", is_error)
    text = "\n".join(_text_of(part, len(raw)) for part, raw in zip(read, each, strict=True))
    if kind is ContentKind.TEXT:
        return Answer(text, is_error, kind=kind)
    largest = max(map(len, each), default=0)
    return Answer(text, is_error, kind=kind, blocks=Raw(blocks), largest_part=largest)


def rendered(answer: Answer, kind: ContentKind) -> Answer:
    """The answer as that kind of content, unless a checker has written it so already."""
    if answer.kind is kind or kind is ContentKind.JSON or not isinstance(answer.content, str):
        return answer
    made = (of_text if answer.kind is ContentKind.TEXT else of_json)(answer.content, kind)
    beside = {"is_error": answer.is_error, "details": answer.details, "is_shortened": answer.is_shortened}
    return msgspec.structs.replace(made, **beside, warning=answer.warning)


def given_bytes(answer: Answer, kind: ContentKind) -> int:
    """How many bytes its content will have as that kind: a string in JSON is longer than the text that it is."""
    content = answer.content
    if answer.kind is not ContentKind.JSON or kind is ContentKind.JSON or not isinstance(content, str):
        return utf8_size(content)
    return utf8_size(_decode_text(content) if content.startswith('"') else content)


class AnswerHead(msgspec.Struct, frozen=True):
    """An answer but for its content and its parts."""

    size: int
    is_quoted: bool
    is_error: bool
    kind: ContentKind
    value: str | None
    largest_part: int
    details: bytes | None
    warning: str | None


def written(answer: Answer) -> tuple[AnswerHead, bytes, bytes]:
    """The answer as it leaves a checker, its content, quoted where it is long, and its parts."""
    assert isinstance(answer.content, str)
    content = answer.content.encode()
    is_quoted, text = quoted(content)
    head = AnswerHead(
        size=len(content),
        is_quoted=is_quoted,
        is_error=answer.is_error,
        kind=answer.kind,
        value=None if answer.value is None or len(answer.value) > MAX_VALUE_BYTES else answer.value,
        largest_part=answer.largest_part,
        details=None if answer.details is None else bytes(answer.details),
        warning=answer.warning,
    )
    return head, text, bytes(answer.blocks) if isinstance(answer.blocks, Raw) else b""


def read_answer(head: AnswerHead, content: bytearray, parts: bytearray) -> Answer:
    """The answer that a checker has written; a long content, and long parts, are not copied."""
    blocks: Raw | QuotedText | None = None
    if head.kind is ContentKind.BLOCKS:
        blocks = QuotedText(parts, len(parts)) if len(parts) > QUOTED_BYTES else Raw(bytes(parts))
    return Answer(
        content_of(content, head.size, is_quoted=head.is_quoted),
        head.is_error,
        kind=head.kind,
        blocks=blocks,
        value=head.value,
        largest_part=head.largest_part,
        details=None if head.details is None else Raw(head.details),
        warning=head.warning,
    )


def _read(raw: Raw) -> _Part:
    try:
        return _decode_part(raw)
    except msgspec.ValidationError:
        # Of a type that is not known its fields may be anything.
        return _Part(_decode_any(raw).type)


def _text_of(part: _Part, size: int) -> str:
    """The part as a model should read it; `size` is that of the whole part, where its data is not known."""
    if part.type == "text" and isinstance(part.text, str):
        return part.text
    resource = part.resource
    if resource is not None:
        if isinstance(resource.text, str):
            return resource.text
        return f"[{resource.mime_type or 'resource'}, {size_of(_bytes_in(resource.blob, size))}]"
    if part.type == "resource_link":
        return f"[resource_link, {part.uri}]"
    return f"[{part.mime_type or part.type}, {size_of(_bytes_in(part.data, size))}]"


def _bytes_in(data: object, otherwise: int) -> int:
    if not isinstance(data, str):
        return otherwise
    return len(data) * _BYTES // _CHARS - data[-2:].count("=")


def size_of(size: int) -> str:
    """A number of bytes for a reader: `48 KiB`."""
    return f"{size} B" if size < _KIB else f"{size / _KIB:.0f} KiB" if size < _KIB**2 else f"{size / _KIB**2:.1f} MiB"
