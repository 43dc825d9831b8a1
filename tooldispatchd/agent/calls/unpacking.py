"""What the input of a request says to the daemon: which tool `call_tool` calls, and whether a call is to be a job.

A request for `call_tool` is made into the request of that name and that input. From then on it is that request, and
nothing remembers how it was written.
"""

from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tooldispatchd.calls.violations import fault_of
from tooldispatchd.catalog.profiles import CALL_TOOL
from tooldispatchd.catalog.schemas import compile_check, is_light
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import ShortReq

# More than a model ever writes. It is read in the dispatch thread, for some 5 ms at worst; a program that has more to
# say calls the tool by its own name, and a checker reads it.
MAX_UNPACKED_BYTES: Final = 1024 * 1024
# What asks for a job is a command, of which the kernel takes no more in one argument (execve(2), MAX_ARG_STRLEN).
MAX_ASKING_BYTES: Final = 128 * 1024
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
_TOO_LONG: Final = Fault(
    Code.INVALID_INPUT,
    f"an input of {CALL_TOOL} has at most {MAX_UNPACKED_BYTES} bytes: call the tool itself by its name",
    {"violations": []},
)
_ITSELF: Final = Fault(
    Code.INVALID_INPUT,
    f"{CALL_TOOL} cannot call itself",
    {"violations": [{"path": "/name", "message": f"{CALL_TOOL} cannot call itself"}]},
)


class _CallInput(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    input: Raw | UnsetType = UNSET


class _AskingInput(msgspec.Struct):
    background: object = None


_decode: Final = msgspec.json.Decoder(_CallInput).decode
_decode_asking: Final = msgspec.json.Decoder(_AskingInput).decode
_decode_any: Final = msgspec.json.Decoder().decode


def asks_for_job(line: bytes | bytearray) -> bool:
    """Whether an input, which has been checked, is an object that says `"background": true`."""
    if line[:1] != b"{" or len(line) > MAX_ASKING_BYTES:
        return False
    return _decode_asking(line).background is True


def unpack(body: ShortReq) -> Fault | None:
    """Make `body` the request for the tool that it calls, or say why it calls none. A null in the place of an input is
    none."""
    raw = body.input
    if isinstance(raw, UnsetType):
        return fault_of(Code.INVALID_INPUT, _CHECK, {})
    if len(raw) > MAX_UNPACKED_BYTES:
        return _TOO_LONG
    try:
        asked = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _wrong(raw)
    begins = b"n" if isinstance(asked.input, UnsetType) else bytes(memoryview(asked.input)[:1])
    if begins not in b"n{":
        return _wrong(raw)
    if asked.name == CALL_TOOL:
        return _ITSELF
    body.name, body.input = asked.name[:MAX_NAMED], UNSET if begins == b"n" else asked.input
    return None


def _wrong(raw: Raw) -> Fault:
    """What is wrong with an input; only of a light one it is said where."""
    try:
        value = _decode_any(raw) if is_light(raw, _CHECK) else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _UNREADABLE
    return fault_of(Code.INVALID_INPUT, _CHECK, value) if value and not _CHECK.is_valid(value) else _UNREADABLE
