"""One line of the daemon as a message. Tools in it are left as they are: who asked for them knows their form."""

from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

import msgspec

from tooldispatchd.client.errors import ClientError
from tooldispatchd.wire.messages import (
    ApproveReq,
    Ask,
    Bye,
    FaultLine,
    Ping,
    Pong,
    ReadyLine,
    ToolResp,
    ToolsChangedLine,
    ToolsLine,
    ToolUpdate,
)

Reply = ReadyLine | ToolsLine | Pong | Bye
"""What answers a question; a call is answered by `ToolResp`."""

Line = Reply | ToolResp | ToolsChangedLine | ToolUpdate | ApproveReq | Ask | Ping | FaultLine


class _Port(msgspec.Struct):
    port: str = msgspec.field(name="__port")


ReadT = TypeVar("ReadT")
_FOREIGN: Final = "the daemon sent a line that is not of the protocol"
_KNOWN: Final = frozenset(kind.__struct_config__.tag for kind in Line.__args__)
_decode_port: Final = msgspec.json.Decoder(_Port).decode
_decode: Final = msgspec.json.Decoder(Line).decode


def read_line(line: bytes) -> Line | None:
    """The message; None for a blank line, and for a port of a later version. Raises `ClientError` for any other."""
    if not line.strip():
        return None
    try:
        said: Line = _decode(line)
    except msgspec.ValidationError as error:
        if read_as(_decode_port, line).port in _KNOWN:
            raise ClientError(_FOREIGN) from error
        return None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ClientError(_FOREIGN) from error
    return said


def read_as(decode: Callable[[bytes], ReadT], line: bytes) -> ReadT:
    """What `decode` makes of a line. Raises `ClientError`."""
    return decoded(partial(decode, line))


def decoded(read: Callable[[], ReadT]) -> ReadT:
    """What `read` gives. Raises `ClientError` where it cannot decode what the daemon sent."""
    try:
        return read()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ClientError(_FOREIGN) from error
