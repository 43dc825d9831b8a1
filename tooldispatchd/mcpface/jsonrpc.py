"""JSON-RPC 2.0 as an MCP client writes it, and as it is told; nothing here knows a method of MCP.

Ids, arguments and results stay the bytes that they were: what is large is never decoded to be encoded again.
"""

import re
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
# Of MCP 2025-11-25: a person opens pages first, and then the call is made anew.
URL_ELICITATION: Final = -32042
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

    def __post_init__(self) -> None:
        """Take `"params": null` as no params: encoders write so for a value that is not there."""
        if isinstance(self.params, Raw) and bytes(self.params) == b"null":
            self.params = UNSET


read_message: Final = msgspec.json.Decoder(ClientMessage).decode
split_batch: Final = msgspec.json.Decoder(list[Raw]).decode
members: Final = msgspec.json.Decoder(dict[str, Raw]).decode


# Longer messages are refused without their id: the substitution below takes some 100 ms for 8 MiB of escapes.
MAX_MENDED_BYTES: Final = 256 * 1024
# A backslash with what it escapes, whole pairs of surrogates first; the group is half of a pair.
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)


def find_lone_surrogate_id(text: bytes) -> Raw | None:
    """Return the id of a request that lone surrogates alone make unreadable, or None."""
    if len(text) > MAX_MENDED_BYTES:
        return None
    mended = _ESCAPE.sub(lambda found: found[0] if found[1] is None else b"\\ufffd", text)
    try:
        message = read_message(mended)
    except UNREADABLE:
        return None
    is_request = isinstance(message.id, Raw) and is_id(message.id) and isinstance(message.method, str)
    # An id with such a surrogate was changed, and is nobody's.
    return message.id if is_request and isinstance(message.id, Raw) and bytes(message.id) in text else None


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


def is_object(raw: Raw | None) -> bool:
    """Whether that is an object."""
    return raw is not None and bytes(raw).lstrip()[:1] == b"{"


def message_json(**fields: object) -> bytes:
    """A message of ours; a field that is unset is left out."""
    return msgspec.json.encode(
        {"jsonrpc": "2.0"} | {name: value for name, value in fields.items() if value is not UNSET}
    )


def error_json(id_: Raw | None, code: int, message: str, data: object = UNSET) -> bytes:
    """The answer to a request that failed; `id_` is None where it could not be read."""
    error = {"code": code, "message": message} | ({} if data is UNSET else {"data": data})
    return message_json(id=id_, error=error)
