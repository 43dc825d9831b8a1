"""Inputs for the fuzz target: the golden transcripts, made-up conversations, and what mutation makes of both."""

import json
import random
from collections.abc import Callable
from typing import Final

from protocol.conformance.run import read_transcript, transcripts
from tests.fuzz.target import MAX_LINE_BYTES, TOKEN
from tests.wire.conversations import sent

# Longer inputs find nothing that two shorter ones do not, and take their time.
MAX_INPUT_BYTES: Final = 24 * 1024
MAX_LINES: Final = 120

IDS: Final = ("1", "2", "a", "é", "x" * 512, "x" * 513)
AGENTS: Final = (None, None, "scout", "smith", "ä" * 20, "nobody")
TOOLS: Final = (
    *("echo", "same", "any", "nothing", "hidden", "ecko", "slow", "stuck", "upper", "brief", "docs:search"),
    *("docs:other", "fails", "job_wait", "job_read", "job_list", "job_stop"),
)
VALUES: Final[tuple[object, ...]] = (
    *(None, True, False, 0, 1, -1, 5, 0.5, 10**30, -(10**400), 1e308, 2**63, 2**64, "", "1", "a", "scout", "\x00"),
    *(
        "refuse me",
        "\u2028",
        "𝄞",
        "é" * 300,
        [],
        {},
        [[]],
        [None],
        {"job": "job-1"},
        {"job": "job-1", "timeout_s": 0.5},
    ),
    *({"text": "x"}, {"input": {"input": 1}}, "x" * 5000, {"tools": ["echo"]}, {"tools": ["hidden"]}, {"jobs": False}),
)
KEYS: Final = (
    *("__port", "id", "name", "input", "agent", "deadline_ms", "background", "traceparent", "msg", "profile", "token"),
    *("spec", "schemas", "meta", "updates", "answers", "t", "allow", "result", "refuse", "unknown", "tags", "tools"),
)
PORTS: Final = (
    *("hello", "tool_req", "tool_cancel", "tool_background", "tools", "select", "parse"),
    *("ping", "pong", "bye", "approve_resp", "ask_resp", "fault"),
)
# Pieces that parsers stumble over.
PIECES: Final = (
    *(b"\x00", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\\ud800", b"\\u0000", b"\\", b'"', b"\r", b"\n"),
    *(b"\r\n", b"{", b"}", b"[", b"]", b",", b":", b"NaN", b"1e400", b"-", b"  ", b"\\u005f_port", b"null", b"1" * 400),
    *(b"[" * 2000, b'{"a":' * 1500, b'"__port":"tool_req",', b'"id":"1",', b'"msg":{', TOKEN.encode()),
)

Mutation = Callable[[list[bytes], random.Random], None]


def seeds() -> list[bytes]:
    """What agents say in the golden transcripts, one input each."""
    found = [b"".join(sent(read_transcript(path)))[:MAX_INPUT_BYTES] for path in transcripts()]
    return [data for data in found if data]


def encode(fields: dict[str, object]) -> bytes:
    """One line."""
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def make_line(chance: random.Random) -> bytes:
    """A line that is one of the protocol's."""
    agent = chance.choice(AGENTS)
    place: dict[str, object] = {} if agent is None else {"agent": agent}
    call_id = chance.choice(IDS)
    match chance.randrange(20):
        case 0 | 1 | 2:
            return encode({"__port": "hello", **place, **_wishes(chance)})
        case 3 | 4:
            return encode({"__port": "tool_cancel", "id": call_id, **place})
        case 5:
            return encode({"__port": "ping", "t": chance.choice(VALUES)})
        case 6:
            switched = {key: {chance.choice(TOOLS): chance.random() < 0.7} for key in ("tags", "tools")}
            port = chance.choice(("tools", "select"))
            return encode({"__port": port, **place, **({} if chance.random() < 0.5 else switched)})
        case 7 if agent is not None or chance.random() < 0.2:
            return encode({"__port": "bye", **place})
        case 8:
            return encode({"__port": chance.choice(PORTS), "id": call_id, "allow": True, "result": 1, **place})
    request: dict[str, object] = {"id": call_id, "name": chance.choice(TOOLS), **place}
    if chance.random() < 0.8:
        request["input"] = chance.choice(("hi", "hi", *VALUES))
    if chance.random() < 0.2:
        request["deadline_ms"] = chance.choice((1, 500, 5000, 1e9, 0, -1, "5"))
    if chance.random() < 0.25:
        request["background"] = True
    form = chance.randrange(3)
    if form == 0:
        return encode(request)
    return encode({"__port": "tool_req", **request} if form == 1 else {"__port": "tool_req", "msg": request})


def _wishes(chance: random.Random) -> dict[str, object]:
    wishes: dict[str, object] = {"updates": True, "meta": True, "profile": "small", "spec": {"tools": ["echo"]}}
    wishes |= {"answers": ["approve"], "schemas": "plain"}
    asked: dict[str, object] = {key: value for key, value in wishes.items() if chance.random() < 0.2}
    if chance.random() < 0.1:
        asked |= {"profile": chance.choice(("locked", "nobody")), "token": chance.choice((TOKEN, TOKEN + "x"))}
    return asked


def make_conversation(chance: random.Random) -> bytes:
    """Lines that are the protocol's, in any order."""
    return b"".join(make_line(chance) + b"\n" for _ in range(chance.choice((2, 8, 30, 80))))


def mutate(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """A few changes to `data`, some of which take lines of `other`."""
    lines = data.split(b"\n")[:MAX_LINES]
    for _ in range(chance.choice((1, 1, 2, 3, 5))):
        mutation = chance.choice(MUTATIONS)
        if mutation is _splice:
            _splice(lines, chance, other.split(b"\n"))
        elif lines:
            mutation(lines, chance)
    return b"\n".join(lines)[:MAX_INPUT_BYTES]


def _place(lines: list[bytes], chance: random.Random) -> int:
    return chance.randrange(len(lines))


def _duplicate(lines: list[bytes], chance: random.Random) -> None:
    lines.insert(_place(lines, chance), chance.choice(lines))


def _drop(lines: list[bytes], chance: random.Random) -> None:
    del lines[_place(lines, chance)]


def _swap(lines: list[bytes], chance: random.Random) -> None:
    one, two = _place(lines, chance), _place(lines, chance)
    lines[one], lines[two] = lines[two], lines[one]


def _splice(lines: list[bytes], chance: random.Random, other: list[bytes] | None = None) -> None:
    source = other or lines
    begin = chance.randrange(len(source))
    at = chance.randrange(len(lines) + 1)
    lines[at:at] = source[begin : begin + chance.choice((1, 3, 20))]


def _add_line(lines: list[bytes], chance: random.Random) -> None:
    lines.insert(_place(lines, chance), make_line(chance))


def _change_byte(lines: list[bytes], chance: random.Random) -> None:
    at = _place(lines, chance)
    line = bytearray(lines[at] or b" ")
    line[chance.randrange(len(line))] = chance.randrange(256)
    lines[at] = bytes(line)


def _insert_piece(lines: list[bytes], chance: random.Random) -> None:
    at = _place(lines, chance)
    inside = chance.randrange(len(lines[at]) + 1)
    lines[at] = lines[at][:inside] + chance.choice(PIECES) + lines[at][inside:]


def _cut_out(lines: list[bytes], chance: random.Random) -> None:
    at = _place(lines, chance)
    begin = chance.randrange(len(lines[at]) + 1)
    lines[at] = lines[at][:begin] + lines[at][begin + chance.choice((1, 2, 10, 100)) :]


def _lengthen(lines: list[bytes], chance: random.Random) -> None:
    at = _place(lines, chance)
    inside = chance.choice((0, 1, len(lines[at]) - 1, len(lines[at])))
    wanted = MAX_LINE_BYTES - len(lines[at]) + chance.choice((-1, 0, 1, 2, 3000))
    pad = chance.choice((b" ", b"x", b"[", b"\\"))
    lines[at] = lines[at][: max(inside, 0)] + pad * max(wanted, 0) + lines[at][max(inside, 0) :]


def _change_field(lines: list[bytes], chance: random.Random) -> None:
    at = _place(lines, chance)
    try:
        fields = json.loads(lines[at])
    except (ValueError, RecursionError):
        return
    if not isinstance(fields, dict):
        return
    place = fields["msg"] if isinstance(fields.get("msg"), dict) and chance.random() < 0.7 else fields
    key = chance.choice(KEYS)
    match chance.randrange(6):
        case 0:
            place.pop(key, None)
        case 1:
            place[key] = {"msg": place.get(key), "id": "inner"}
        case 2:
            place["__port"] = chance.choice(PORTS)
        case _:
            place[key] = chance.choice((*VALUES, *IDS, TOKEN, *PORTS))
    lines[at] = encode(fields)


def _repeat_key(lines: list[bytes], chance: random.Random) -> None:
    at = _place(lines, chance)
    line = lines[at]
    if line.endswith(b"}"):
        field = json.dumps({chance.choice(KEYS): chance.choice((*VALUES, *IDS))}).encode()[1:-1]
        lines[at] = b"{" + field + b"," + line[1:] if chance.random() < 0.5 else line[:-1] + b"," + field + b"}"


def _plant_token(lines: list[bytes], chance: random.Random) -> None:
    """The token in a `hello`, or in a line that nobody can read."""
    hello = encode({"__port": "hello", "agent": "spy", "profile": "locked", "token": TOKEN})
    broken = hello[: chance.randrange(len(hello))] + chance.choice((b"", b"\xff", b"}}", b'"', b" " * MAX_LINE_BYTES))
    lines.insert(_place(lines, chance), chance.choice((hello, broken)))


MUTATIONS: Final[tuple[Mutation, ...]] = (
    *(_duplicate, _drop, _swap, _splice, _splice, _add_line, _add_line, _change_byte, _insert_piece, _insert_piece),
    *(_cut_out, _lengthen, _change_field, _change_field, _change_field, _repeat_key, _plant_token),
)
