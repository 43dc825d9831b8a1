"""What HTTP must know of a JSON-RPC message: whether it asks for something, and what its headers must repeat. Pure.

Everything else in a message is the Face's to judge; what cannot be read here is left to it, too.
"""

import base64
import binascii
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

# From here on there are no sessions and no handshake.
FIRST_MODERN: Final = "2026-07-28"
# Since then a stream begins with an event without data, so that it can be resumed from its very beginning.
FIRST_PRIMED: Final = "2025-11-25"
REVISIONS: Final = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", FIRST_MODERN})
HEADER_MISMATCH: Final = -32_020
# The parameter that `Mcp-Name` repeats.
_NAMED: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_STATUSES: Final = {-32_601: 404} | dict.fromkeys((-32_700, -32_600, -32_602, HEADER_MISMATCH, -32_021, -32_022), 400)
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_BEGIN, _END = "=?base64?", "?="


class _Meta(msgspec.Struct):
    version: str | UnsetType = msgspec.field(default=UNSET, name="io.modelcontextprotocol/protocolVersion")


class _Params(msgspec.Struct):
    meta: _Meta | UnsetType = msgspec.field(default=UNSET, name="_meta")
    name: str | UnsetType = UNSET
    uri: str | UnsetType = UNSET
    state: str | UnsetType = msgspec.field(default=UNSET, name="requestState")
    task: str | UnsetType = msgspec.field(default=UNSET, name="taskId")


class _Message(msgspec.Struct):
    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET


class _Error(msgspec.Struct):
    code: int


class _Task(msgspec.Struct):
    task: str | UnsetType = msgspec.field(default=UNSET, name="taskId")


class _Result(msgspec.Struct):
    state: str | UnsetType = msgspec.field(default=UNSET, name="requestState")
    task: str | UnsetType = msgspec.field(default=UNSET, name="taskId")
    nested: _Task | UnsetType = msgspec.field(default=UNSET, name="task")


class _Answer(msgspec.Struct):
    error: _Error | UnsetType = UNSET
    result: _Result | UnsetType = UNSET


_decode_messages: Final = msgspec.json.Decoder(list[_Message]).decode
_decode_message: Final = msgspec.json.Decoder(_Message).decode
_decode_params: Final = msgspec.json.Decoder(_Params).decode
_decode_answer: Final = msgspec.json.Decoder(_Answer).decode


class Peeked(msgspec.Struct, frozen=True):
    """`keys` are what leads to the session that gave them: the state of a request, a task.

    `version` is that of `_meta`, `id` the JSON text of the request's id.
    """

    is_request: bool = False
    is_readable: bool = True
    method: str | None = None
    name: str | None = None
    version: str | None = None
    id: bytes = b"null"
    keys: tuple[str, ...] = ()


def peek_body(body: bytes) -> Peeked:
    """What is to be known of a message, or of a batch of them."""
    try:
        if body.lstrip()[:1] == b"[":
            batch = _decode_messages(body)
            return Peeked(any(each.id is not UNSET and each.method is not UNSET for each in batch))
        message = _decode_message(body)
    except _UNREADABLE:
        return Peeked(is_readable=False)
    method = None if message.method is UNSET else message.method
    params = _params_of(message.params)
    named = getattr(params, _NAMED.get(method or "", ""), UNSET)
    version = UNSET if params.meta is UNSET else params.meta.version
    return Peeked(
        is_request=method is not None and message.id is not UNSET,
        method=method,
        name=None if named is UNSET else named,
        version=None if version is UNSET else version,
        id=b"null" if message.id is UNSET else bytes(message.id),
        keys=tuple(key for key in (params.state, params.task) if key is not UNSET),
    )


def _params_of(params: Raw | UnsetType) -> _Params:
    try:
        return _Params() if params is UNSET else _decode_params(params)
    except _UNREADABLE:
        return _Params()


def mismatch(peeked: Peeked, *, version: str | None, method: str | None, name: str | None) -> str | None:
    """What of the headers does not repeat the body (2026-07-28), or None where all of them do.

    A request that says no revision in its body is wrong in another way, which the Face tells.
    """
    if peeked.version is not None and version != peeked.version:
        return "MCP-Protocol-Version"
    if not peeked.is_request:
        return None
    if method != peeked.method:
        return "Mcp-Method"
    return None if peeked.name is None or _decoded(name) == peeked.name else "Mcp-Name"


def _decoded(value: str | None) -> str | None:
    """A header's value, which is written in base64 where a header could not hold it."""
    if value is None or not (value.startswith(_BEGIN) and value.endswith(_END)):
        return value
    try:
        return base64.b64decode(value[len(_BEGIN) : -len(_END)], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def error_body(request_id: bytes, code: int, message: str) -> bytes:
    """A JSON-RPC error; `request_id` is JSON text."""
    error = msgspec.json.encode({"code": code, "message": message})
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (request_id, error)


def is_error(answer: bytes) -> bool:
    """Whether an answer is a JSON-RPC error."""
    return _read_answer(answer).error is not UNSET


def status_of(answer: bytes) -> int:
    """The HTTP status of an answer of the revision 2026-07-28."""
    error = _read_answer(answer).error
    return 200 if error is UNSET else _STATUSES.get(error.code, 200)


def keys_of(answer: bytes) -> tuple[str, ...]:
    """What a later request may show to get back to the session that gave this answer."""
    # Looking costs a hundredth of reading.
    if b'"requestState"' not in answer and b'"taskId"' not in answer:
        return ()
    result = _read_answer(answer).result
    if result is UNSET:
        return ()
    nested = UNSET if result.nested is UNSET else result.nested.task
    return tuple(key for key in (result.state, result.task, nested) if key is not UNSET)


def _read_answer(answer: bytes) -> _Answer:
    # Most answers are no errors, and long.
    try:
        return _decode_answer(answer)
    except _UNREADABLE:
        return _Answer()
