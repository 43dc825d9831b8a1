"""The body of an answer as the call's outcome: JSON, text or a part, and what is told of a refusal.

The text of a body is encoded as its headers say, else by its byte order mark, else in UTF-8. What is labelled as JSON
and is none is a text, with a warning: some APIs say `OK` so. JSON is a text, and a text the JSON in it, where the
tool's type admits nothing else. An answer that breaks the type is a fault that carries it, or has a warning. Runs in
the dispatch thread for what is light, else in a checker.
"""

import codecs
import re
from base64 import b64encode
from http import HTTPStatus
from typing import Final, Literal, NamedTuple

import msgspec

from tooldispatchd.calls.content import AnswerHead, of_json, of_parts, read_answer, written
from tooldispatchd.calls.outcome import Answer, Outcome
from tooldispatchd.calls.violations import fault_of, with_answer
from tooldispatchd.catalog.expressions.door import Expression, FailedEvaluation
from tooldispatchd.catalog.masker import Masker
from tooldispatchd.catalog.pointers import at
from tooldispatchd.catalog.schemas import Check, check_of
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import ContentKind

JSON: Final = "application/json"
TEXT: Final = "text/plain"
# As much of a refusal as a model should read.
MAX_REFUSAL_CHARS: Final = 8_000
_URI: Final = "urn:tooldispatchd:answer"
_TEXTS: Final = re.compile(
    r"text/.*|.*[+/](?:xml|yaml)|application/(?:x-)?(?:javascript|ecmascript|yaml|ndjson|jsonl|json-seq|graphql|sql|toml"
    r"|www-form-urlencoded)"
)
# Others are none of text, or a bomb (zip, unicode_escape, punycode).
_ENCODINGS: Final = re.compile(
    r"utf-?(?:8|16|32)(?:-?[lb]e)?|(?:us-)?ascii|iso[-_]?8859-?\d{1,2}|latin-?\d|(?:windows|cp)-?\d{3,4}|koi8-[ru]"
    r"|shift[-_]?jis|euc-(?:jp|kr)|iso-2022-jp|gb(?:k|2312|18030)|big5|tis-620|macintosh"
)
_MARKS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
# Of one sign (RFC 8259, 7), which is no half of a pair and has no name as "\n" has.
_ESCAPE: Final = re.compile(r'\\(?:u((?!d[89a-f])[0-9a-f]{4})|(["\\/]))', re.IGNORECASE)
_DEEP: Final = Fault(Code.TOOL_FAILED, "the answer is nested too deep")

_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode
Body = bytes | bytearray


class ReplyJob(msgspec.Struct, frozen=True):
    """How a body is read: what its headers say it is, the part of it that is wanted, and what that must match.

    What does not match is a fault, unless the job `warns` of it.
    """

    schemas: bytes
    max_content_bytes: int
    kind: ContentKind
    media_type: str = JSON
    charset: str | None = None
    pick: str | None = None
    warns: bool = False


class _ReadBody(NamedTuple):
    """The value of a body: the JSON or the text that it is, or a list of typed parts; and what is wrong with it."""

    value: object
    form: Literal["json", "text", "parts"]
    warning: str | None = None


def outcome_in(body: Body, job: ReplyJob, check: Check, expression: Expression | None = None) -> Outcome:
    """The outcome of a call that was answered with this body."""
    try:
        value, form, warning = _read(body, job)
        if expression is not None:
            value = expression.evaluate(value)
            if isinstance(value, FailedEvaluation):
                return Fault(Code.TOOL_FAILED, value.why, {} if value.limit is None else {"limit": value.limit})
        fault = None
        if not check.is_valid(value):
            other = _other(body, value, form, job) if expression is None else None
            if other is not None and check.is_valid(other):
                value, warning = other, None
            else:
                fault = fault_of(Code.INVALID_OUTPUT, check, value)
                warning = f"the answer breaks the tool's type: {fault.detail}"
        content = _encode(value)
    except RecursionError:
        return _DEEP
    del value
    if fault is not None and not job.warns:
        return with_answer(fault, _answer(content, form, ContentKind.TEXT))
    if len(content) > job.max_content_bytes:
        return too_large(job.max_content_bytes)
    answer = _answer(content, form, job.kind)
    return answer if warning is None else msgspec.structs.replace(answer, warning=warning)


def _answer(content: bytes, form: str, kind: ContentKind) -> Answer:
    return of_parts(content, kind) if form == "parts" else of_json(content.decode(), kind)


def _other(body: Body, value: object, form: str, job: ReplyJob) -> object:
    """Read a body otherwise: its JSON as a text, or its text as JSON; None where neither can be."""
    if form == "json":
        return None if isinstance(value, str) else text_in(body, job.charset)
    try:
        return None if form == "parts" else json_in(body, job.charset)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def too_large(max_bytes: int) -> Fault:
    """An answer over a bound."""
    return Fault(Code.TOOL_FAILED, f"the answer is larger than {max_bytes} bytes", {"limit": "content_bytes"})


def json_in(body: Body, charset: str | None) -> object:
    """The JSON value that a body is. Raises `msgspec.DecodeError`, `RecursionError`."""
    if encoding_of(body, charset) in {"utf-8", "utf8"}:
        return _decode(memoryview(body)[3:] if body.startswith(codecs.BOM_UTF8) else body)
    return _decode(text_in(body, charset))


def text_in(body: Body, charset: str | None) -> str:
    """A body's text, with a sign in the place of what is none."""
    return body.decode(encoding_of(body, charset), "replace").removeprefix("\ufeff")


def encoding_of(body: Body, charset: str | None) -> str:
    """How a body's text is encoded."""
    if charset is not None and _ENCODINGS.fullmatch(charset) is not None:
        try:
            return codecs.lookup(charset).name
        except LookupError:
            pass  # a number that no encoding of the family has
    return next((encoding for mark, encoding in _MARKS if body.startswith(mark)), "utf-8")


def _read(body: Body, job: ReplyJob) -> _ReadBody:
    """Read the value of a body, or of the part of it that is wanted."""
    media_type = job.media_type
    is_json = media_type.endswith(("/json", "+json"))
    if not body or ((is_json or not media_type) and body.isspace()):
        return _ReadBody(None, "json")
    warning = None
    if is_json or not media_type or job.pick is not None:
        try:
            value = json_in(body, job.charset)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            warning = f"the answer is a text, since its JSON cannot be read: {error}" if is_json else None
        else:
            return _ReadBody(value if job.pick is None else at(value, job.pick), "json")
    if is_json or _TEXTS.fullmatch(media_type) is not None or (not media_type and b"\0" not in body):
        return _ReadBody(text_in(body, job.charset), "text", warning)
    data, kind = b64encode(body).decode(), media_type.partition("/")[0]
    if kind in {"image", "audio"}:
        return _ReadBody([{"type": kind, "data": data, "mimeType": media_type}], "parts")
    resource = {"uri": _URI, "mimeType": media_type or "application/octet-stream", "blob": data}
    return _ReadBody([{"type": "resource", "resource": resource}], "parts")


class ReplyRead(msgspec.Struct, frozen=True):
    """What a checker has read: a fault, or the head of the answer; the rest stands beside it."""

    fault: Fault | None = None
    head: AnswerHead | None = None


_decode_read: Final = msgspec.msgpack.Decoder(ReplyRead).decode


def read_reply(arguments: bytes, payload: bytearray) -> tuple[bytes, bytes, bytes]:
    """`outcome_in`, in a checker."""
    job = msgspec.msgpack.decode(arguments, type=ReplyJob)
    outcome = outcome_in(payload, job, check_of(job.schemas))
    if isinstance(outcome, Fault):
        return msgspec.msgpack.encode(ReplyRead(fault=outcome)), b"", b""
    head, content, parts = written(outcome)
    return msgspec.msgpack.encode(ReplyRead(head=head)), content, parts


def outcome_read(reply: bytes, content: bytearray, parts: bytearray) -> Outcome:
    """The outcome that `read_reply` has found."""
    read = _decode_read(reply)
    if read.head is None:
        assert read.fault is not None
        return read.fault
    return read_answer(read.head, content, parts)


# --- refusals ---------------------------------------------------------------------------------------------------------


def refused(
    status: int, body: Body, media_type: str, charset: str | None, *, after_ms: int | None, masker: Masker
) -> Answer:
    """The answer that a status other than 2xx is: the API's own word that it failed. No known secret is repeated."""
    phrase = next((f" {each.phrase}" for each in HTTPStatus if each == status), "")
    said: dict[str, object] = {"error": f"HTTP {status}{phrase}", "http_status": status}
    if after_ms is not None:
        said["retry_after_ms"] = after_ms
    is_json = media_type.endswith(("/json", "+json"))
    if body.strip() and (is_json or not media_type or _TEXTS.fullmatch(media_type) is not None):
        said["body"] = _readable(text_in(body, charset).strip(), masker, is_json=is_json)
    return Answer(_encode(said).decode(), is_error=True)


def _readable(text: str, masker: Masker, *, is_json: bool) -> object:
    """A refusal's body as a model may read it: its JSON, or the beginning of its text."""
    if is_json and len(text) <= MAX_REFUSAL_CHARS:
        try:
            return masker.mask_value(_decode(text))
        except (msgspec.DecodeError, RecursionError):
            pass  # it is shown as the text that it is
    shown = text[:MAX_REFUSAL_CHARS]
    # No escape hides a secret from the masker; JSON that is not labelled so stays as it was written.
    shown = _ESCAPE.sub(_unescaped, shown) if is_json else masker.mask_json(shown)
    return masker.mask_cut(shown) + ("…" if len(text) > MAX_REFUSAL_CHARS else "")


def _unescaped(escape: re.Match[str]) -> str:
    return escape[2] or chr(int(escape[1], 16))
