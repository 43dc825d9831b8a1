"""JSON-RPC 2.0 as MCP speaks it over stdio, one message a line: read leniently here, and written by `dialects`.

Reading decodes only the envelope: `result`, `error` and `params` stay raw until somebody waits for them. What cannot be
read gives None, never an exception; the connection counts it. Then come those parts of a message that are the same for
whoever waits: progress, errors, and what a server must know first.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tooldispatchd.calls.outcome import MAX_UPDATE_BYTES, Update
from tooldispatchd.wire.lines import HEAD_BYTES, Text

# All that a decoder of foreign bytes can raise; `ValidationError` is a `DecodeError`.
DECODE_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602

# Batches were in one revision only (2025-03-26), and an array may hold an object in every third byte: each costs some
# fifty bytes here. A longer batch is a bad line.
MAX_BATCH_BYTES: Final = 128 * 1024

# Mending looks at every escape, one by one: 4 MiB of nothing else take some 0.2 s.
MAX_MENDED_BYTES: Final = 4 * 1024 * 1024

# What servers print by mistake is shorter.
MAX_STRAY_BYTES: Final = 64 * 1024

# Opaque, and sent back as it came; servers put an offset or a key there.
MAX_CURSOR_CHARS: Final = 4096

Id = int | float | str | None


class Incoming(msgspec.Struct):
    """Any message of a server: a request (method, id), a notification (method), or an answer (id)."""

    id: Id | UnsetType = UNSET
    method: str | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET
    params: Raw | UnsetType = UNSET


HeaderParams = tuple[tuple[str, tuple[str, ...]], ...]


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """A message to a server: `line` is its JSON with a newline at the end.

    `number` is a request's, `method` is None for an answer to the server's own request. `name` is the tool, prompt or
    resource that it is about, and `arguments` the compact JSON object with which a tool is called.
    """

    line: bytes | bytearray
    method: str | None = None
    number: int | None = None
    name: str | None = None
    arguments: Text = b""
    params: HeaderParams = ()
    """For a tool's call: the HTTP headers that repeat some of its arguments, and where each lies in them."""

    @property
    def body(self) -> memoryview:
        """The line without its newline, as HTTP sends it."""
        return memoryview(self.line)[:-1]


_TOO_DEEP: Final = Raw(b'{"message":"its answer is nested too deep"}')
_BROKEN: Final = Raw(b'{"message":"its answer is no valid JSON"}')

_decode_incoming: Final = msgspec.json.Decoder(Incoming).decode
_decode_batch: Final = msgspec.json.Decoder(list[Raw]).decode


def read_message(line: bytes | bytearray | Raw) -> Incoming | None:
    """The message in `line`; None where there is none.

    An answer that shows its number, but is nested too deep or too long to be a stray line, becomes one with an error:
    its call need not wait until its deadline.
    """
    try:
        return _decode_incoming(line)
    except RecursionError:
        return _unreadable(bytes(line), _TOO_DEEP)
    except DECODE_ERRORS:
        mended = _mend(bytes(line)) or without_mark(line)
    if mended is not None:
        try:
            return _decode_incoming(mended)
        except DECODE_ERRORS:
            pass
    return _unreadable(bytes(line), _BROKEN) if len(memoryview(line)) > MAX_STRAY_BYTES else None


def without_mark(text: Text | Raw) -> Raw | None:
    """Take a byte order mark, which some write before UTF-8, off a text; None where there is none."""
    view = memoryview(text)
    return Raw(view[len(BOM_UTF8) :]) if bytes(view[: len(BOM_UTF8)]) == BOM_UTF8 else None


def split_batch(line: bytes) -> list[Raw] | None:
    """The messages of a line that is a batch, still to be read; None for a line that is no batch, or too long."""
    if len(line) > MAX_BATCH_BYTES or not line.lstrip().startswith(b"["):
        return None
    try:
        return _decode_batch(_mend(line) or line)
    except DECODE_ERRORS:
        return None


def _unreadable(line: bytes, error: Raw) -> Incoming | None:
    number = peek_number(line[:HEAD_BYTES])
    return None if number is None else Incoming(id=number, error=error)


# An escape: a whole surrogate pair, half of one (the group), or anything else, so that `ud800` behind an escaped
# backslash is none.
_ESCAPE: Final = re.compile(rb"\\(?:u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w|(u[dD][89a-fA-F]\w\w)|.)", re.DOTALL)


def _mend(line: bytes) -> bytes | None:
    """`line` with each half of a surrogate pair replaced by U+FFFD; None where there is none, or too much to look at.

    JSON can write what no string can hold, and a server that cuts its text at so many UTF-16 units does.
    """
    if len(line) > MAX_MENDED_BYTES or (b"\\ud" not in line and b"\\uD" not in line):
        return None
    return _ESCAPE.sub(lambda escape: b"\\ufffd" if escape.group(1) else escape.group(), line)


def request_number(id_: Id | UnsetType) -> int | None:
    """The number of our request that `id_` answers; some servers give it back as a string or as a float.

    None for what cannot be a number of ours.
    """
    if isinstance(id_, int):
        return id_
    # Eighteen digits: more than were ever given out, and nothing to choke on.
    if isinstance(id_, str) and len(id_) <= 18 and id_.isascii() and id_.isdecimal():
        return int(id_)
    if isinstance(id_, float) and id_.is_integer():
        return int(id_)
    return None


SaidT = TypeVar("SaidT")


def decoded(decode: Callable[[Raw], SaidT], raw: Raw | UnsetType, max_bytes: int | None = None) -> SaidT | None:
    """What `decode` makes of a member that the server may have left out; None where it cannot be read.

    One of more than `max_bytes` is not looked at.
    """
    if isinstance(raw, UnsetType) or (max_bytes is not None and len(memoryview(raw)) > max_bytes):
        return None
    try:
        return decode(raw)
    except DECODE_ERRORS:
        return None


class _Progress(msgspec.Struct):
    token: int | float | str = msgspec.field(name="progressToken")
    progress: float
    total: float | None = None
    message: str | None = None


_decode_progress: Final = msgspec.json.Decoder(_Progress).decode


def read_progress(params: Raw | UnsetType) -> tuple[int | None, Update] | None:
    """What a `notifications/progress` says, and the number of our request; None where it cannot be read.

    A number that cannot be ours is None, and parameters of more than `MAX_UPDATE_BYTES` are not read.
    """
    said = decoded(_decode_progress, params, MAX_UPDATE_BYTES)
    return None if said is None else (request_number(said.token), Update(said.progress, said.total, said.message))


# Scalar members, then `id`: enough for the order in which servers write (`jsonrpc`, `id`, `result`). Possessive, so
# that no head makes it try twice.
_HEAD_ID: Final = re.compile(
    rb'[ \t\r]*+\{(?:\s*+"(?!id")(?:[^"\\]|\\.)*+"\s*+:\s*+(?:"(?:[^"\\]|\\.)*+"|[-+.\w]++)\s*+,)*+'
    rb'\s*+"id"\s*+:\s*+"?+(\d{1,18})"?+\s*+[,}]'
)


def peek_number(head: bytes) -> int | None:
    """The request number in the head of an unreadable answer, before its first nested value; None without one."""
    found = _HEAD_ID.match(head)
    return None if found is None or b'"method"' in head[: found.end()] else int(found.group(1))


# The last members of an object, when they are these two: a quote within a text would stand behind a backslash.
_LAST_ID: Final = re.compile(
    rb',[ \t]*"id"[ \t]*:[ \t]*"?(\d{1,18})"?[ \t]*(?:,[ \t]*"jsonrpc"[ \t]*:[ \t]*"2\.0"[ \t]*)?\}[ \t\r]*\Z'
)


def peek_last_number(end: bytes) -> int | None:
    """The request number at the end of an unreadable answer, behind its last large member; None without one."""
    found = _LAST_ID.search(end)
    return None if found is None else int(found.group(1))


# A server's own words in a fault: enough for a reason, too few for a stack trace to fill the model's context.
MAX_MESSAGE_CHARS: Final = 2000
# As much of a code that is a text, and of a list within an error: codes are numbers, and such lists have few items.
MAX_CODE_CHARS: Final = 64
MAX_ITEMS: Final = 8
# An error's data, where it is looked at.
MAX_DATA_BYTES: Final = 64 * 1024

# What of it goes into a fault, which a model may be shown.
MAX_TOLD_DATA_BYTES: Final = 1024

# MCP 2026-07-28, "Error codes"; the last two were in 2025-11-25 and before.
HEADER_MISMATCH: Final = -32020
MISSING_CAPABILITY: Final = -32021
UNSUPPORTED_REVISION: Final = -32022
RESOURCE_NOT_FOUND: Final = -32002
URL_ELICITATION: Final = -32042


class _Error(msgspec.Struct):
    code: int | float | str | None = None
    message: str | None = None
    data: Raw | UnsetType = UNSET


class _Page(msgspec.Struct):
    url: str


class _Pages(msgspec.Struct):
    pages: list[_Page] = msgspec.field(name="elicitations")


class _Lacking(msgspec.Struct):
    capabilities: dict[str, Raw] = msgspec.field(name="requiredCapabilities")


class _Speaks(msgspec.Struct):
    supported: list[str]


_decode_value: Final = msgspec.json.Decoder().decode
_decode_error: Final = msgspec.json.Decoder(_Error).decode
_decode_pages: Final = msgspec.json.Decoder(_Pages).decode
_decode_lacking: Final = msgspec.json.Decoder(_Lacking).decode
_decode_speaks: Final = msgspec.json.Decoder(_Speaks).decode


def error_in(reply: Incoming) -> Raw | None:
    """The error in `reply`, if any; some servers write `"error": null` beside a result."""
    if isinstance(reply.error, UnsetType) or bytes(reply.error) == b"null":
        return None
    return reply.error


def error_words(error: Raw, method: str = "") -> tuple[str, int | float | str | None]:
    """The words of a JSON-RPC error to a request of `method`, with its code, and the code alone."""
    try:
        said = _decode_error(error)
    except DECODE_ERRORS:
        return f"an error that cannot be read: {bytes(error)[:MAX_TOLD_DATA_BYTES].decode(errors='replace')}", None
    code = said.code[:MAX_CODE_CHARS] if isinstance(said.code, str) else said.code
    message = (said.message or "an error without a message")[:MAX_MESSAGE_CHARS]
    meaning = _meaning(code, said.data, method)
    words = f"{meaning}: {message}" if meaning else message
    return words if code is None else f"{words} (code {code})", code


def error_data(error: Raw) -> object:
    """The data of a JSON-RPC error where it is small; None where there is none."""
    said = decoded(_decode_error, error)
    if said is None:
        return None
    # Addresses of pages are long, and a client can do nothing without them.
    limit = MAX_DATA_BYTES if said.code == URL_ELICITATION else MAX_TOLD_DATA_BYTES
    return decoded(_decode_value, said.data, limit)


def _meaning(code: int | float | str | None, data: Raw | UnsetType, method: str) -> str:
    """The meaning of a code of MCP's own, in words for the caller; "" for others, whose message must do."""
    if code == RESOURCE_NOT_FOUND or (code == INVALID_PARAMS and method == "resources/read"):
        return "there is no such resource"
    if code == HEADER_MISMATCH:
        return "it finds headers that do not match the call"
    if code == MISSING_CAPABILITY:
        lacking = decoded(_decode_lacking, data, MAX_DATA_BYTES)
        return _with("it needs what this agent does not offer", lacking.capabilities if lacking else ())
    if code == UNSUPPORTED_REVISION:
        speaks = decoded(_decode_speaks, data, MAX_DATA_BYTES)
        return _with("it speaks other revisions of the protocol", speaks.supported if speaks else ())
    if code == URL_ELICITATION:
        pages = decoded(_decode_pages, data, MAX_DATA_BYTES)
        return _with("a person must visit a page before this call", [each.url for each in pages.pages] if pages else ())
    return ""


def _with(words: str, items: Iterable[str]) -> str:
    listed = ", ".join(islice(items, MAX_ITEMS))[:MAX_MESSAGE_CHARS]
    return f"{words} ({listed})" if listed else words


# What is decoded at once; sixteen questions with their context.
MAX_REQUIRED_BYTES: Final = 1024 * 1024
# Goes back with the next round; servers put a signed record there.
MAX_STATE_CHARS: Final = 512 * 1024
# A server's own; they go back with the answers.
MAX_KEY_CHARS: Final = 256


class InputRequest(msgspec.Struct, frozen=True):
    """One thing that the server needs: a request such as older revisions send on their own."""

    method: str
    params: Raw | UnsetType = UNSET


class InputRequired(msgspec.Struct, frozen=True):
    """The input that a server needs before it answers: `requests` by its keys, and the `state` that goes back."""

    requests: dict[str, InputRequest]
    state: str | None

    def answered(self, responses: dict[str, Raw]) -> dict[str, object]:
        """The members of `params` that the next round adds to those of the call."""
        members: dict[str, object] = {}
        if responses:
            members["inputResponses"] = responses
        if self.state is not None:
            members["requestState"] = self.state
        return members


class _Required(msgspec.Struct):
    requests: dict[str, InputRequest] | None = msgspec.field(default=None, name="inputRequests")
    state: str | None = msgspec.field(default=None, name="requestState")


_decode_required: Final = msgspec.json.Decoder(_Required).decode


def read_input_required(result: Raw) -> InputRequired | None:
    """Read a result of the type `input_required`; None where it cannot be read, or asks for nothing."""
    said = decoded(_decode_required, result, MAX_REQUIRED_BYTES)
    if said is None:
        return None
    requests = said.requests or {}
    if not requests and said.state is None:
        return None
    if any(len(key) > MAX_KEY_CHARS for key in requests) or len(said.state or "") > MAX_STATE_CHARS:
        return None
    return InputRequired(requests, said.state)
