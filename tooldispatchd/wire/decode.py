"""One line to one message, or to a refusal that says why not; never an exception.

The common lines take one decode. A line that fails it is looked at again, slowly, to find out whether it is a request
whose `id` can be read: then its failure is an answer, else a `fault` line (protocol/core.md, section 5.3).
A line with a private name for its port (one with a slash) is for somebody else, and is as good as a blank one.
"""

from enum import Enum
from typing import Final

import msgspec
from msgspec import UNSET, DecodeError, Raw, UnsetType, ValidationError

from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.lines import HEAD_BYTES, LongLine
from tooldispatchd.wire.messages import (
    MAX_ID_BYTES,
    AdminReq,
    ApproveResp,
    AskResp,
    ByeSaid,
    ContentKind,
    Hello,
    Message,
    NestedReq,
    Parse,
    Ping,
    PongSaid,
    Select,
    ShortReq,
    ToolBackground,
    ToolCancel,
    ToolReq,
    ToolsReq,
)
from tooldispatchd.wire.peek import peek

_PORTS: Final = (
    "hello, tool_req, tool_cancel, tool_background, tools, select, parse, approve_resp, ask_resp, admin_req, ping,"
    " pong, bye"
)
UNKNOWN_PORT: Final = f"unknown port; known are {_PORTS}"
TWO_PORTS: Final = Fault(Code.INVALID_REQUEST, "a line has one `__port`")

_decode_tagged: Final = msgspec.json.Decoder(
    Hello
    | ToolReq
    | ToolsReq
    | Select
    | Parse
    | ToolCancel
    | ToolBackground
    | ApproveResp
    | AskResp
    | AdminReq
    | Ping
    | PongSaid
    | ByeSaid
).decode
_decode_short: Final = msgspec.json.Decoder(ShortReq).decode
_decode_nested: Final = msgspec.json.Decoder(NestedReq).decode


class Form(Enum):
    """How a request was written, and so how its answer is."""

    PLAIN = "plain"
    SHORT = "short"
    NESTED = "nested"


# Lines that are answered, beside requests: an `id` of theirs comes back.
_ASKING: Final = frozenset({"hello", "tools", "select", "parse", "ping", "bye", "tool_background", "admin_req"})
# White space as JSON has it; Python's own has more.
WHITE: Final = b" \t\r\n"


class Refused(msgspec.Struct):
    """A line that is no message. With a `form` it is a request, which gets `fault` as its answer in that form.

    Else, or without an `id`, it gets a `fault` line.
    """

    fault: Fault
    id: str | None = None
    form: Form | None = None
    agent: str | None = None
    kind: ContentKind | None = None
    """The kind of content that it asked for itself."""


class _Loose(msgspec.Struct):
    """Any object: what says whether it is a request, whatever the types."""

    port: Raw | UnsetType = msgspec.field(default=UNSET, name="__port")
    id: Raw | UnsetType = UNSET
    agent: Raw | UnsetType = UNSET
    msg: Raw | UnsetType = UNSET
    content: Raw | UnsetType = UNSET


KINDS: Final = frozenset(ContentKind)
_decode_loose: Final = msgspec.json.Decoder(_Loose).decode
_decode_text: Final = msgspec.json.Decoder(str).decode


def decode_line(line: bytes | LongLine, max_line_bytes: int) -> Message | Refused | None:
    """The message in `line` (without its newline), `Refused`, or None for a line that says nothing to us."""
    if isinstance(line, LongLine):
        too_long = Fault(Code.LINE_TOO_LONG, f"a line is longer than {max_line_bytes} bytes")
        return refuse_unread(line.head, line.why or too_long)
    try:
        is_plain = line.isascii() and b"\\" not in line
        # Where the key does not stand in the line, escaped or not, it has no port; else it may be inside of the input.
        is_tagged = b'"__port"' in line or b"\\u" in line
        message: Message = _decode_tagged(line) if is_tagged else _decode_short(line)
        # Skipped values are not checked for UTF-8 by the decoder, and bounds on names are in bytes.
        return message if is_plain or not line.decode() else _fitting(message, line)
    except ValidationError:
        return _decode_again(line)
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        return _refuse_malformed(line, error)


def _fitting(message: Message, line: bytes) -> Message | Refused:
    """The message of `line`, unless its id or its agent's name is too long in UTF-8."""
    body = message.msg if isinstance(message, NestedReq) else message
    agent, line_id = getattr(body, "agent", None), id_of(message)
    if agent is not None and _fit(agent) is None:
        fault = Fault(Code.INVALID_REQUEST, f"agent is longer than {MAX_ID_BYTES} bytes")
        form, kind = (form_of(message), body.content) if isinstance(body, ShortReq) else (None, None)
        return Refused(fault, _fit(line_id), form, kind=kind)
    if line_id is not None and _fit(line_id) is None:
        # A ping has no agent, but its line may have named one.
        agent = agent or _read_name(_decode_loose(line).agent)
        return Refused(Fault(Code.INVALID_REQUEST, f"id is longer than {MAX_ID_BYTES} bytes"), agent=agent)
    return message


def id_of(message: Message) -> str | None:
    """The id that comes back with the answer to a line; that of a call to cancel, or of a question, does not."""
    body = message.msg if isinstance(message, NestedReq) else message
    asking = ShortReq | Hello | ToolsReq | Parse | ToolBackground | AdminReq | Ping | ByeSaid
    return body.id if isinstance(body, asking) else None


def form_of(message: Message) -> Form:
    """The form in which a request was written."""
    if isinstance(message, NestedReq):
        return Form.NESTED
    return Form.PLAIN if isinstance(message, ToolReq) else Form.SHORT


def _decode_again(line: bytes) -> Message | Refused | None:
    """A line that is JSON but not what its first look promised: another form, or a request with a wrong field."""
    try:
        line.decode()
        loose = _decode_loose(line)
        if loose.port is UNSET:
            return _decode_or_refuse(line, Form.SHORT, loose)
        port = _read_text(loose.port)
        if port == "tool_req":
            is_plain = isinstance(loose.msg, UnsetType) or bytes(loose.msg) == b"null"
            return _decode_or_refuse(line, Form.PLAIN if is_plain else Form.NESTED, loose)
        if port is not None and "/" in port:
            # Of two ports the decoder gave the last, and of one port this is the same.
            is_one = peek(line).port == port
            return None if is_one else Refused(TWO_PORTS, agent=_read_name(loose.agent))
        # The short decoder was tried where the key was spelled with escapes.
        return _decode_or_refuse(line, None, loose, asked=_read_name(loose.id) if port in _ASKING else None)
    except ValidationError as error:
        # It begins with something else than an object, which may follow.
        return refuse_unread(line[:HEAD_BYTES], _invalid_request(error))
    except (DecodeError, UnicodeDecodeError, RecursionError) as malformed:
        return _refuse_malformed(line, malformed)


def _decode_or_refuse(line: bytes, form: Form | None, loose: _Loose, asked: str | None = None) -> Message | Refused:
    """The message of a request's `form`, or of any other line, which `asked` with an id where it had one."""
    decode = {Form.PLAIN: _decode_tagged, Form.SHORT: _decode_short, Form.NESTED: _decode_nested}[form or Form.PLAIN]
    try:
        message: Message = decode(line)
    except ValidationError as error:
        if form is None:
            # The refused line's agent can be told: others of the channel need not wonder.
            return Refused(_invalid_request(error), asked, agent=_read_name(loose.agent))
        # What stands in `msg` may be anything.
        body = loose
        if form is Form.NESTED:
            try:
                body = _decode_loose(loose.msg)  # type: ignore[arg-type]  # it is there, or the form would be another
            except ValidationError:
                body = _Loose()
        agent = _read_name(loose.agent) or _read_name(body.agent)
        kind = _read_text(body.content)
        wanted = ContentKind(kind) if kind in KINDS else None
        return Refused(_invalid_request(error), _read_name(body.id), form, agent, wanted)
    if isinstance(message, NestedReq) and message.agent is not None:
        # It may stand in `msg` or beside it; where both are there they must be the same.
        if message.msg.agent not in {None, message.agent}:
            fault = Fault(Code.INVALID_REQUEST, "agent in msg is another one than beside it")
            return Refused(fault, _fit(message.msg.id), Form.NESTED, _fit(message.agent), message.msg.content)
        message.msg.agent = message.agent
    return _fitting(message, line)


def _read_name(raw: Raw | UnsetType) -> str | None:
    """An id or an agent's name; None for what can be neither, and is not said back."""
    return _fit(_read_text(raw))


def _read_text(raw: Raw | UnsetType) -> str | None:
    if isinstance(raw, UnsetType):
        return None
    try:
        return _decode_text(raw)
    except (DecodeError, UnicodeDecodeError):
        return None


def _fit(name: str | None) -> str | None:
    return name if name and len(name.encode()) <= MAX_ID_BYTES else None


def _invalid_request(error: ValidationError) -> Fault:
    # The decoder's text names types and paths; only for a tag does it quote the value, which may hold anything.
    text = str(error)
    if "Invalid value" in text or "required field `__port`" in text:
        return Fault(Code.INVALID_REQUEST, UNKNOWN_PORT)
    # A bare number may be one that nothing can hold; it is no object either.
    if text.startswith(("Expected `object`", "Number out of range")) and " - at " not in text:
        return Fault(Code.MALFORMED_LINE, "a line must be a JSON object")
    if text.startswith("Invalid enum value"):
        text = f"Not one of the values that it may have{text[text.rindex(' - at') :]}"
    return Fault(Code.INVALID_REQUEST, text)


def _refuse_malformed(line: bytes, error: Exception) -> Refused | None:
    if not line.strip(WHITE):
        return None
    if isinstance(error, RecursionError):
        why = "a line is nested too deep"
    elif isinstance(error, UnicodeDecodeError):
        why = "a line is not UTF-8"
    else:
        why = "a line is not JSON"
    return refuse_unread(line[:HEAD_BYTES], Fault(Code.MALFORMED_LINE, why))


def refuse_unread(head: bytes, fault: Fault) -> Refused:
    """A line that cannot be decoded: its id, and whose it is, are looked for in its head."""
    seen = peek(head)
    agent, line_id = _fit(seen.agent), _fit(seen.id)
    if line_id is None or seen.port in _ASKING:
        return Refused(fault, line_id, None, agent)
    if seen.nested:
        return Refused(fault, line_id, Form.NESTED, agent)
    if seen.port is None:
        return Refused(fault, line_id, Form.SHORT, agent)
    return Refused(fault, line_id, Form.PLAIN, agent) if seen.port == "tool_req" else Refused(fault, agent=agent)
