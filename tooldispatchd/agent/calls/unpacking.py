"""What a request for the tool `call_tool` calls: it is made into the request of that name and that input.

From then on it is that request, and nothing remembers how it was written. A long one is taken apart by a checker, which
says where in its text the input lies.
"""

from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tooldispatchd.calls.violations import fault_of
from tooldispatchd.catalog.profiles import CALL_TOOL
from tooldispatchd.catalog.schemas import compile_check, is_light
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.heavy import HEAVY_BYTES, Cut, cut_largest
from tooldispatchd.wire.messages import ShortReq

# A name that is longer is no tool's, and is told so by its beginning.
MAX_NAMED: Final = 512

# As it is shown, and no more: every tool is shown with an object as its input.
_CHECK: Final = compile_check(
    {
        "type": "object",
        "properties": {"name": {"type": "string"}, "input": {"type": ["object", "null"]}},
        "required": ["name"],
        "additionalProperties": False,
    }
)
_UNREADABLE: Final = Fault(
    Code.INVALID_INPUT, f"{CALL_TOOL} takes an object with `name`, and `input`, an object too", {"violations": []}
)
_ITSELF: Final = Fault(
    Code.INVALID_INPUT,
    f"{CALL_TOOL} cannot call itself",
    {"violations": [{"path": "/name", "message": f"{CALL_TOOL} cannot call itself"}]},
)


class CallInput(msgspec.Struct, forbid_unknown_fields=True):
    """The input of `call_tool`."""

    name: str
    input: Raw | UnsetType = UNSET


class CallInputAt(msgspec.Struct, frozen=True):
    """A long `CallInput`: its name, and where its input lies if it has one; or why it is none."""

    name: str = ""
    cut: Cut | None = None
    fault: Fault | None = None

    def put_into(self, body: ShortReq, raw: Raw) -> None:
        """Make `body`, whose input `raw` was, the request for the tool itself."""
        body.name, body.input = self.name, UNSET
        if self.cut is not None:
            self.cut.put_back(body, raw)


_decode: Final = msgspec.json.Decoder(CallInput).decode
_decode_any: Final = msgspec.json.Decoder().decode
_write: Final = msgspec.msgpack.Encoder().encode
read_call_input: Final = msgspec.msgpack.Decoder(CallInputAt).decode


def is_long(raw: Raw | UnsetType) -> bool:
    """Whether a checker has to take an input apart."""
    return not isinstance(raw, UnsetType) and len(raw) > HEAVY_BYTES


def unpack(raw: Raw | bytes | UnsetType) -> CallInput | Fault:
    """What is called, or why an input says nothing of the kind. A null in the place of an input is none."""
    if isinstance(raw, UnsetType):
        return fault_of(Code.INVALID_INPUT, _CHECK, {})
    try:
        asked = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _wrong(raw)
    if isinstance(asked.input, Raw):
        begins = bytes(memoryview(asked.input)[:1])
        if begins == b"n":
            asked.input = UNSET
        elif begins != b"{":
            return _wrong(raw)
    asked.name = asked.name[:MAX_NAMED]
    return _ITSELF if asked.name == CALL_TOOL else asked


def _wrong(raw: Raw | bytes) -> Fault:
    """What is wrong with an input; only of a light one it is said where."""
    try:
        value = _decode_any(raw) if is_light(raw, _CHECK) else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _UNREADABLE
    return fault_of(Code.INVALID_INPUT, _CHECK, value) if value and not _CHECK.is_valid(value) else _UNREADABLE


def unpack_long(_arguments: bytes, payload: bytearray) -> tuple[bytes, bytes]:
    """`unpack` of a long input (a job of a checker). Gives `CallInputAt`."""
    text = bytes(payload)
    asked = unpack(text)
    if isinstance(asked, Fault):
        return _write(CallInputAt(fault=asked)), b""
    return _write(CallInputAt(asked.name, cut_largest(asked, text))), b""
