"""What HTTP must know of a JSON-RPC message: whether it asks for something, and what its headers must repeat. Pure.

Everything else in a message is the Face's to judge; what cannot be read here is left to it, too.
"""

from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tooldispatchd.mcpface.clientside import MAX_BATCH_BYTES
from tooldispatchd.mcpface.jsonrpc import (
    HEADER_MISMATCH,
    INVALID_REQUEST,
    METHOD_UNKNOWN,
    MISSING_CAPABILITY,
    PARSE_ERROR,
    UNREADABLE,
    UNSUPPORTED_REVISION,
    WRONG_PARAMS,
    ClientMessage,
    is_batch,
    read_message,
)
from tooldispatchd.mcpface.paramheaders import decoded

# The parameter that `Mcp-Name` repeats.
_NAMED: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    **dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "task"),
}
# A client of the tasks extension may leave the header out: only one that differs is wrong.
_MAY_LACK_NAME: Final = frozenset({"tasks/get", "tasks/update", "tasks/cancel"})
_WRONG: Final = (
    PARSE_ERROR,
    INVALID_REQUEST,
    WRONG_PARAMS,
    HEADER_MISMATCH,
    MISSING_CAPABILITY,
    UNSUPPORTED_REVISION,
)
_STATUSES: Final = {METHOD_UNKNOWN: 404} | dict.fromkeys(_WRONG, 400)
# It is kept as long as the session that it shares.
MAX_CLIENT_CHARS: Final = 256


class _Meta(msgspec.Struct):
    revision: str | UnsetType = msgspec.field(default=UNSET, name="io.modelcontextprotocol/protocolVersion")
    client: Raw | UnsetType = msgspec.field(default=UNSET, name="io.modelcontextprotocol/clientInfo")


class _Client(msgspec.Struct):
    name: str
    version: str


class _Params(msgspec.Struct):
    meta: _Meta | UnsetType = msgspec.field(default=UNSET, name="_meta")
    name: str | UnsetType = UNSET
    uri: str | UnsetType = UNSET
    state: str | UnsetType = msgspec.field(default=UNSET, name="requestState")
    task: str | UnsetType = msgspec.field(default=UNSET, name="taskId")


class _Error(msgspec.Struct):
    code: int


class _Answer(msgspec.Struct):
    error: _Error | UnsetType = UNSET


_decode_messages: Final = msgspec.json.Decoder(list[ClientMessage]).decode
_decode_client: Final = msgspec.json.Decoder(_Client).decode
_decode_params: Final = msgspec.json.Decoder(_Params).decode
_decode_answer: Final = msgspec.json.Decoder(_Answer).decode


class Peeked(msgspec.Struct, frozen=True):
    """`keys` are what leads to the session that gave them: the state of a request, a task.

    `revision` is that of `_meta`, and `client` the name and the version there of the program that asks.
    """

    is_request: bool = False
    is_readable: bool = True
    method: str | None = None
    name: str | None = None
    revision: str | None = None
    client: tuple[str, str] | None = None
    id: Raw | None = None
    keys: tuple[str, ...] = ()


def peek_body(body: bytes) -> Peeked:
    """What is to be known of a message, or of a batch of them."""
    try:
        if is_batch(body):
            # The Face refuses one that is too long.
            is_long = len(body) > MAX_BATCH_BYTES
            return Peeked(is_long or any(_is_request(each) for each in _decode_messages(body)))
        message = read_message(body)
    except UNREADABLE:
        return Peeked(is_readable=False)
    method = None if message.method is UNSET else message.method
    params = _params_of(message.params)
    named = getattr(params, _NAMED.get(method or "", ""), UNSET)
    revision = UNSET if params.meta is UNSET else params.meta.revision
    return Peeked(
        is_request=_is_request(message),
        method=method,
        name=None if named is UNSET else named,
        revision=None if revision is UNSET else revision,
        client=_client_in(params),
        id=None if message.id is UNSET else message.id,
        keys=tuple(key for key in (params.state, params.task) if key is not UNSET),
    )


def _is_request(message: ClientMessage) -> bool:
    return message.id is not UNSET and message.method is not UNSET


def _params_of(params: Raw | UnsetType) -> _Params:
    try:
        return _Params() if params is UNSET else _decode_params(params)
    except UNREADABLE:
        return _Params()


def _client_in(params: _Params) -> tuple[str, str] | None:
    if params.meta is UNSET or params.meta.client is UNSET:
        return None
    try:
        client = _decode_client(params.meta.client)
    except UNREADABLE:
        return None
    named = client.name, client.version
    return None if sum(map(len, named)) > MAX_CLIENT_CHARS else named


def mismatch(peeked: Peeked, *, revision: str | None, method: str | None, name: str | None) -> str | None:
    """What of the headers does not repeat the body (2026-07-28), or None where all of them do.

    A request that says no revision in its body is wrong in another way, which the Face tells.
    """
    if peeked.revision is not None and revision != peeked.revision:
        return "MCP-Protocol-Version"
    if not peeked.is_request:
        return None
    if method != peeked.method:
        return "Mcp-Method"
    if name is None and peeked.method in _MAY_LACK_NAME:
        return None
    return None if peeked.name is None or decoded(name) == peeked.name else "Mcp-Name"


def is_error(answer: bytes) -> bool:
    """Whether an answer is a JSON-RPC error."""
    return _read_answer(answer).error is not UNSET


def status_of(answer: bytes) -> int:
    """The HTTP status of an answer of the revision 2026-07-28."""
    error = _read_answer(answer).error
    return 200 if error is UNSET else _STATUSES.get(error.code, 200)


def _read_answer(answer: bytes) -> _Answer:
    # Most answers are no errors, and long.
    try:
        return _decode_answer(answer)
    except UNREADABLE:
        return _Answer()
