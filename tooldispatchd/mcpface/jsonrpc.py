"""JSON-RPC 2.0 as an MCP client writes it, and as it is told; nothing here knows a method of MCP.

Ids, arguments and results stay the bytes that they were: what is large is never decoded to be encoded again.
"""

from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_UNKNOWN: Final = -32601
WRONG_PARAMS: Final = -32602
INTERNAL: Final = -32603
# Of MCP: a header does not repeat the body, the client did not say that it can do what a request needs, a request says
# a revision that is not spoken.
HEADER_MISMATCH: Final = -32020
MISSING_CAPABILITY: Final = -32021
UNSUPPORTED_REVISION: Final = -32022
# Of the range that a server may define: it cannot be done now.
UNAVAILABLE: Final = -32000

# All that decoding foreign bytes can raise; `ValidationError` is a `DecodeError`.
UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class ClientMessage(msgspec.Struct):
    """Any message of a client: a request (method, id), a notification (method), or an answer (id)."""

    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


read_message: Final = msgspec.json.Decoder(ClientMessage).decode
split_batch: Final = msgspec.json.Decoder(list[Raw]).decode
members: Final = msgspec.json.Decoder(dict[str, Raw]).decode


def is_batch(text: bytes) -> bool:
    """Whether that is a batch, if it is JSON at all."""
    return text.lstrip()[:1] == b"["


def is_id(raw: Raw | UnsetType) -> bool:
    """Whether that is a string or a number; of an id and of a progress token."""
    if isinstance(raw, UnsetType):
        return False
    text = bytes(raw)
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return text[:1] in b'"-0123456789'


def message_json(**fields: object) -> bytes:
    """A message of ours; a field that is unset is left out."""
    return msgspec.json.encode(
        {"jsonrpc": "2.0"} | {name: value for name, value in fields.items() if value is not UNSET}
    )


def error_json(id_: Raw | None, code: int, message: str, data: object = UNSET) -> bytes:
    """The answer to a request that failed; `id_` is None where it could not be read."""
    error = {"code": code, "message": message} | ({} if data is UNSET else {"data": data})
    return message_json(id=id_, error=error)
