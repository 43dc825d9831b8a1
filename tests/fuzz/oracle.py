"""What must hold for every line that an agent may say: each is met by exactly what the protocol promises, no more.

The lines are read again here by the standard library's parser; only where that refuses a line is the daemon's own
decoder asked which it is.
"""

import json
from collections import Counter
from enum import StrEnum
from typing import Final

import msgspec

from tests.fuzz.target import MAX_LINE_BYTES, TOKEN, Record
from tooldispatchd.wire.decode import Form, Refused, decode_line
from tooldispatchd.wire.faults import CATEGORY, Code
from tooldispatchd.wire.lines import HEAD_BYTES, LongLine
from tooldispatchd.wire.messages import (
    MAX_ID_BYTES,
    Bye,
    EventLine,
    FaultLine,
    NestedReq,
    NestedResp,
    Parsed,
    Pong,
    ReadyLine,
    ShortReq,
    ShortResp,
    ToolReq,
    ToolResp,
    ToolsLine,
    ToolUpdate,
)

# A nesting that every decoder takes.
SAFE_DEPTH: Final = 100


class Kind(StrEnum):
    """What a line asks for."""

    NOTHING = "nothing"
    REQUEST = "request"
    WRONG = "wrong"  # a `fault` line with its number
    HELLO = "hello"
    TOOLS = "tools"
    PARSE = "parse"
    PING = "ping"
    BYE = "bye"
    ASIDE = "aside"  # nothing, or a `fault` line with its number


KINDS: Final = {
    "hello": Kind.HELLO,
    "tools": Kind.TOOLS,
    "select": Kind.TOOLS,
    "parse": Kind.PARSE,
    "ping": Kind.PING,
    "bye": Kind.BYE,
    "pong": Kind.ASIDE,
    "tool_cancel": Kind.ASIDE,
    "tool_background": Kind.ASIDE,
    "approve_resp": Kind.ASIDE,
    "ask_resp": Kind.ASIDE,
    # Nobody may, where no administrator is.
    "admin_req": Kind.WRONG,
}


# With these a `hello` for the channel's own session ends the channel.
REFUSALS: Final = frozenset(
    {Code.NOT_AUTHENTICATED, Code.UNKNOWN_PROFILE, Code.TOO_MANY, Code.DRAINING, Code.NOT_ALLOWED}
)


class Said(msgspec.Struct, frozen=True):
    """One line of the agent: what it asks for, and who may be told so."""

    kind: Kind
    id: str | None = None
    form: Form = Form.PLAIN
    agent: str | None = None
    t: object = None
    updates: bool = False


def read_line(line: bytes) -> Said:
    """One line without its newline."""
    if len(line) > MAX_LINE_BYTES:
        return _as_decoded(LongLine(line[:HEAD_BYTES]))
    if not line.strip(b" \t\r\n"):
        return Said(Kind.NOTHING)
    fields = _read_object(line)
    if fields is None:
        return _as_decoded(line)
    agent = fields.get("agent")
    if isinstance(agent, str) and len(agent.encode()) > MAX_ID_BYTES:
        return _as_decoded(line)
    if "__port" not in fields:
        return _request(fields, Form.SHORT)
    port = fields["__port"]
    if port != "tool_req":
        # A name with a slash is for somebody else.
        kind = (Kind.NOTHING if "/" in port else KINDS.get(port)) if isinstance(port, str) else None
        return Said(
            kind or Kind.WRONG,
            agent=_name(fields.get("agent")),
            t=fields.get("t"),
            updates=fields.get("updates") is True,
        )
    if "msg" not in fields:
        return _request(fields, Form.PLAIN)
    nested = fields["msg"]
    if "id" in fields:
        return _as_decoded(line)  # a request in either form; what is not of its form is unknown there
    if not isinstance(nested, dict):
        return Said(Kind.WRONG)
    beside = _name(fields.get("agent"))
    return _request(nested if beside is None else nested | {"agent": beside}, Form.NESTED)


def _read_object(line: bytes) -> dict[str, object] | None:
    """The object in the line, where there can be no two opinions about it."""
    if len(line) > HEAD_BYTES or b"\\u" in line or line.count(b"[") + line.count(b"{") > SAFE_DEPTH:
        return None
    try:
        value = json.loads(line.decode(), object_pairs_hook=_read_pairs, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    # `1e400` is a number to one parser and none to another.
    return value if isinstance(value, dict) and "Infinity" not in json.dumps(value) else None


def _read_pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a key stands twice")
    return fields


def _refuse(constant: str) -> object:
    raise ValueError(f"not JSON: {constant}")


def _request(fields: dict[str, object], form: Form) -> Said:
    call_id = _name(fields.get("id"))
    return Said(Kind.WRONG) if call_id is None else Said(Kind.REQUEST, call_id, form, _name(fields.get("agent")))


def _name(value: object) -> str | None:
    return value if isinstance(value, str) and 0 < len(value.encode()) <= MAX_ID_BYTES else None


def _as_decoded(line: bytes | LongLine) -> Said:
    message = decode_line(line, MAX_LINE_BYTES)
    if message is None:
        return Said(Kind.NOTHING)
    if isinstance(message, Refused):
        if message.form is None or message.id is None:
            return Said(Kind.WRONG, agent=message.agent)
        return Said(Kind.REQUEST, message.id, message.form, message.agent)
    if isinstance(message, NestedReq):
        return Said(Kind.REQUEST, message.msg.id, Form.NESTED, message.msg.agent)
    if isinstance(message, ShortReq):
        return Said(Kind.REQUEST, message.id, Form.PLAIN if isinstance(message, ToolReq) else Form.SHORT, message.agent)
    port = type(message).__struct_config__.tag
    assert isinstance(port, str)
    t = _value(getattr(message, "t", msgspec.UNSET))
    updates = bool(getattr(message, "updates", False))
    return Said(KINDS[port], agent=getattr(message, "agent", None), t=t, updates=updates)


def _value(raw: msgspec.Raw | msgspec.UnsetType) -> object:
    """What a ping or a pong bears; its bytes where no value of Python's is the same."""
    if isinstance(raw, msgspec.UnsetType):
        return None
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return bytes(raw)


def split(data: bytes) -> list[bytes]:
    """The agent's lines; the last may lack its newline."""
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


# --- what is heard -------------------------------------------------------------------------------------------------

Aside = ToolUpdate | EventLine
Heard = ToolResp | NestedResp | ShortResp | ReadyLine | ToolsLine | Parsed | Pong | Bye | Aside | FaultLine

_decode_heard: Final = msgspec.json.Decoder(
    ToolResp | ReadyLine | ToolsLine | Parsed | Pong | Bye | Aside | FaultLine
).decode
_decode_nested: Final = msgspec.json.Decoder(NestedResp).decode
_decode_short: Final = msgspec.json.Decoder(ShortResp).decode


def read_heard(line: bytes) -> Heard:
    """One line of the daemon, with no field that its port does not have."""
    fields = json.loads(line.decode())
    decode = _decode_short if "__port" not in fields else _decode_nested if "msg" in fields else _decode_heard
    heard: Heard = decode(line)
    if isinstance(heard, FaultLine):
        assert CATEGORY[Code(heard.error)] == heard.category, f"the wrong category: {line!r}"
    else:
        assert json.loads(msgspec.json.encode(heard)) == fields, f"a field that is not of its port: {line!r}"
    if isinstance(heard, ToolResp | NestedResp | ShortResp):
        answer = heard.msg if isinstance(heard, NestedResp) else heard
        assert not answer.fault or answer.is_error, f"a fault that is no error: {line!r}"
        if answer.fault:
            fault = json.loads(answer.content)
            assert CATEGORY[Code(fault["error"])] == fault["category"], f"the wrong category: {line!r}"
            assert isinstance(fault["detail"], str), f"no detail: {line!r}"
    return heard


def check(record: Record) -> list[Heard]:
    """Every invariant; raises `AssertionError` for the first that is broken. Returns what was heard."""
    assert record.left == [], f"left behind: {record.left}"
    heard = [read_heard(line) for line in record.heard]
    said = [read_line(line) for line in split(record.data)]
    # Read again here only to be sure that the daemon has counted the same.
    assert record.looked_at <= len(said), "a line that nobody said"
    said = said[: record.looked_at]
    faults = _check_faults(heard, said)
    _check_requests(record, heard, said, faults)
    if not record.is_gone:
        _check_ports(record, heard, said, faults)
    if not record.is_gone:
        _check_updates(heard, said)
    _check_end(record, heard, said)
    _check_secrets(record)
    return heard


def _check_faults(heard: list[Heard], said: list[Said]) -> dict[int, FaultLine]:
    """Fault lines by the number of the line that they are about."""
    faults: dict[int, FaultLine] = {}
    for line in heard:
        if isinstance(line, FaultLine):
            assert line.line is not None, f"a fault about nothing: {line}"
            assert 1 <= line.line <= len(said), f"a fault about a line beyond the {len(said)} that came: {line}"
            assert line.line not in faults, f"two faults for one line: {line}"
            kind = said[line.line - 1].kind
            assert kind is not Kind.NOTHING, f"a fault for a line that says nothing: {line}"
            is_due = (line.error == Code.DUPLICATE_ID) == (kind is Kind.REQUEST)
            assert is_due, f"not a fault's case: {line}, {kind}"
            faults[line.line] = line
    return faults


def answer_of(line: Heard) -> tuple[str, Form, str | None] | None:
    """Whose answer a line is: its id, form and agent."""
    if isinstance(line, NestedResp):
        return line.msg.id, Form.NESTED, line.msg.agent
    if isinstance(line, ShortResp):
        return line.id, Form.PLAIN if isinstance(line, ToolResp) else Form.SHORT, line.agent
    return None


def _check_requests(record: Record, heard: list[Heard], said: list[Said], faults: dict[int, FaultLine]) -> None:
    """Each request has one answer in its own form, or is a duplicate of one that is still to be answered."""
    owed: Counter[tuple[str, Form, str | None]] = Counter()
    for number, line in enumerate(said, 1):
        if line.kind is Kind.REQUEST and number not in faults:
            assert line.id is not None
            owed[line.id, line.form, line.agent] += 1
    answers = [answer for line in heard if (answer := answer_of(line)) is not None]
    if record.is_gone:
        assert not Counter(answers) - owed, f"answers to nothing: {Counter(answers) - owed}"
        late = [line for line in heard[record.before_gone :] if answer_of(line) is not None]
        assert late == [], f"answers after the peer was gone: {late}"
        return
    assert Counter(answers) == owed, f"not answered: {owed - Counter(answers)}; to nothing: {Counter(answers) - owed}"
    last = _last_answers(heard)
    for place, told in enumerate(heard):
        if isinstance(told, FaultLine) and told.error == Code.DUPLICATE_ID:
            assert told.line is not None
            second = said[told.line - 1]
            assert (told.id, told.agent) == (second.id, second.agent), f"not the request's: {told}, {second}"
            assert last.get((told.id, told.agent), -1) > place, f"a duplicate of nothing in flight: {told}"


def _last_answers(heard: list[Heard]) -> dict[tuple[str | None, str | None], int]:
    """Where the last answer stands, by id and agent."""
    answers = enumerate(map(answer_of, heard))
    return {(answer[0], answer[2]): place for place, answer in answers if answer is not None}


def _check_ports(record: Record, heard: list[Heard], said: list[Said], faults: dict[int, FaultLine]) -> None:
    """Every other line has what it asks for, or a fault line with its number."""
    asked: dict[Kind, list[Said]] = {kind: [] for kind in Kind}
    for number, line in enumerate(said, 1):
        assert line.kind is not Kind.WRONG or number in faults, f"line {number} is wrong and nobody was told"
        if number not in faults:
            asked[line.kind].append(line)
    pongs = [_value(line.t) for line in heard if isinstance(line, Pong)]
    assert pongs == [line.t for line in asked[Kind.PING]], "a pong is not its ping"
    for kind, port in ((Kind.HELLO, ReadyLine), (Kind.TOOLS, ToolsLine), (Kind.PARSE, Parsed)):
        told = Counter(line.agent for line in heard if isinstance(line, port))
        wanted = Counter(line.agent for line in asked[kind])
        assert told == wanted, f"{kind}: asked {wanted}, told {told}"
    told = Counter(line.agent for line in heard if isinstance(line, Bye))
    wanted = Counter(line.agent for line in asked[Kind.BYE])
    # A second one while the teardown lasts changes nothing.
    assert told.keys() == wanted.keys(), f"bye: asked {wanted}, told {told}"
    assert not told - wanted, f"bye: asked {wanted}, told {told}"


def _check_updates(heard: list[Heard], said: list[Said]) -> None:
    """No update comes after its call's answer, or to an agent that did not ask for any."""
    asked = {line.agent for line in said if line.updates}
    last = _last_answers(heard)
    for place, line in enumerate(heard):
        if isinstance(line, ToolUpdate):
            assert last.get((line.id, line.agent), -1) > place, f"an update of nothing in flight: {line}"
            assert line.agent in asked, f"an update that nobody asked for: {line}"


def _check_end(record: Record, heard: list[Heard], said: list[Said]) -> None:
    """Lines are left over only behind what ends a channel: a `bye`, a refusal, or an end from outside."""
    if len(said) == len(split(record.data)) or record.ending not in {"by itself", "input"}:
        return
    is_refused = any(isinstance(line, FaultLine) and line.error in REFUSALS for line in heard)
    has_left = any(isinstance(line, Bye) and line.agent is None for line in heard)
    assert is_refused or has_left, "lines are left over, and nothing has ended the channel"


# --- what is never said back ---------------------------------------------------------------------------------------

QUOTED: Final = ("id", "agent", "name", "input", "t")


def _check_secrets(record: Record) -> None:
    """A token occurs nowhere, unless the agent itself wrote it where it is said back to it."""
    secret = TOKEN.encode()
    if secret not in record.data or any(_is_said_back(line) for line in split(record.data) if secret in line):
        return
    assert all(secret not in line for line in record.heard), "a token was said back"
    assert TOKEN not in repr(record.log), "a token stands in the log"


def _is_said_back(line: bytes) -> bool:
    said = read_line(line)
    if any(name is not None and TOKEN in name for name in (said.id, said.agent)):
        return True
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return False
    if not isinstance(fields, dict):
        return False
    nested = fields.get("msg")
    for request in (fields, nested if isinstance(nested, dict) else {}):
        if any(TOKEN in json.dumps(request.get(key)) for key in QUOTED):
            return True
    # A key or a name in `spec` that is not known is named in the refusal.
    return TOKEN in json.dumps(fields.get("spec"))
