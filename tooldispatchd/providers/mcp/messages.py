"""JSON-RPC 2.0 as MCP speaks it over stdio: one message a line, read leniently and written strictly.

Reading decodes only the envelope: `result`, `error` and `params` stay raw until somebody waits for them. What cannot be
read gives None, never an exception; the connection counts it.
"""

import re
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tooldispatchd.calls.outcome import MAX_UPDATE_BYTES, Update
from tooldispatchd.wire.lines import HEAD_BYTES, Text, framed

# All that a decoder of foreign bytes can raise; `ValidationError` is a `DecodeError`.
DECODE_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

METHOD_NOT_FOUND: Final = -32601

CALL: Final = "tools/call"

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
_decode_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode


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
        mended = _mend(bytes(line))
    if mended is not None:
        try:
            return _decode_incoming(mended)
        except DECODE_ERRORS:
            pass
    return _unreadable(bytes(line), _BROKEN) if len(memoryview(line)) > MAX_STRAY_BYTES else None


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


Said = TypeVar("Said")


def decoded(decode: Callable[[Raw], Said], raw: Raw | UnsetType, max_bytes: int | None = None) -> Said | None:
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


def request_line(number: int, method: str, params: object) -> bytes:
    """A request as a line, with its newline."""
    return b'{"jsonrpc":"2.0","id":%d,"method":"%s","params":%s}\n' % (
        number,
        method.encode(),
        msgspec.json.encode(params),
    )


def call_of(number: int, tool: str, arguments: Text, more: bytes = b"", params: HeaderParams = ()) -> Outgoing:
    """A `tools/call`; `tool` needs no escaping, and `arguments` is a compact JSON object.

    `more` are further members of `params`: their JSON, with a comma in front of each. Where the arguments are a
    bytearray it becomes the line, of which they are a part then.
    """
    head = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s","arguments":' % (
        number,
        tool.encode(),
    )
    size = len(arguments)
    line = framed(head, arguments, more + b"}}\n")
    if isinstance(line, bytearray):
        arguments = memoryview(line)[len(head) : len(head) + size]
    return Outgoing(line, CALL, number, tool, arguments, params)


def call_params(
    arguments: Text, meta: dict[str, object] | None, answered: dict[str, object] | None
) -> dict[str, object]:
    """The parameters of a request whose parameters are the `arguments` of a tool, a JSON object.

    What an agent calls `_meta` is not passed on: that is between this client and the server.
    """
    params: dict[str, object] = dict(_decode_members(arguments))
    params.pop("_meta", None)
    params.update(answered or {})
    if meta is not None:
        params["_meta"] = meta
    return params


def notification_line(method: str, params: dict[str, object] | None = None) -> bytes:
    """A notification as a line, with its newline."""
    message: dict[str, object] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    return msgspec.json.encode(message) + b"\n"
