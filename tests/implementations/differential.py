"""Two daemons, asked the same: `python -m tests.implementations.differential` looks for what they answer differently.

Ours and the one in `protocol/implementations/` serve the same fixtures. What they answer differently is a defect of one
of them, or of the protocol's text, which then has to decide it.
"""

import argparse
import json
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from hypothesis import HealthCheck, assume, given, seed, settings
from hypothesis import strategies as some

from tests.test_documents import listening, serving

ROOT: Final = Path(__file__).parents[2]
FIXTURES: Final = ROOT / "protocol" / "fixtures" / "basic"
SECOND: Final = ROOT / "protocol" / "implementations" / "daemon.mjs"
PATIENCE_S: Final = 20.0

# What each daemon words, measures or may do in its own way.
FREE: Final = frozenset(
    {
        *("detail", "did_you_mean", "violations", "stderr_tail", "exit_code", "reason", "retry_after_ms"),
        *("capabilities", "limits", "warnings", "instructions", "meta"),
    }
)

# --- what is asked ---

IDS: Final = some.sampled_from(["1", "2", "a", "é", "x" * 512, "x" * 513, "", "ü" * 257, 7, None])
AGENTS: Final = some.sampled_from(["scout", "smith", "other", "", "ä" * 300, 5, None])
# The tools that both answer at once: in which order processes end is nobody's rule.
TOOLS: Final = some.sampled_from(
    [
        *("echo", "same", "twice", "forget", "nothing", "maybe", "hidden", "ecko"),
        *("job_list", "job_read", "job_stop"),
        5,
    ]
)
SMALL: Final = (
    some.none()
    | some.booleans()
    | some.sampled_from(["", "text", "\u2028", "𝄞", "é" * 40, "job-1", "job-9"])
    | some.integers(-(2**53) + 1, 2**53 - 1)
    | some.floats(allow_nan=False, allow_infinity=False, width=32)
)
KEYS: Final = some.sampled_from(["text", "limit", "input", "job", "other", "", "a/b", "~"])
VALUES: Final = some.recursive(
    SMALL, lambda inner: some.lists(inner, max_size=3) | some.dictionaries(KEYS, inner, max_size=3), max_leaves=6
)
REQUESTS: Final = some.fixed_dictionaries(
    {"__port": some.just("tool_req")},
    optional={
        "id": IDS,
        "name": TOOLS,
        "input": VALUES,
        "agent": AGENTS,
        "background": some.sampled_from([True, False, None, 1]),
        "deadline_ms": some.sampled_from([60_000, 0, -1, None, "5", 0.5e5]),
        "traceparent": some.sampled_from(["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "", None, 3]),
        "unknown": VALUES,
    },
)
HELLOS: Final = some.fixed_dictionaries(
    {"__port": some.just("hello")},
    optional={
        "id": IDS,
        "agent": AGENTS,
        "profile": some.sampled_from(["small", "default", "none", None, 5]),
        "protocol": some.sampled_from([[1], [2], [], [2, 1], ["1"], None, 1]),
        "capabilities": some.sampled_from([[], ["example.com/x"], None, "value", [1]]),
        "updates": some.sampled_from([True, False, None, 1]),
        "answers": some.sampled_from([[], ["sampling"], None, "sampling"]),
    },
)
OTHERS: Final = some.fixed_dictionaries(
    {
        "__port": some.sampled_from(
            [
                *("tools", "ping", "pong", "bye", "tool_cancel", "approve_resp", "ask_resp"),
                *("dance", "ready", "a/b", 5, None),
            ]
        )
    },
    optional={"id": IDS, "agent": AGENTS, "t": VALUES, "allow": some.booleans(), "refuse": some.booleans()},
)
PIECES: Final = some.sampled_from(
    [
        *(
            b"\x00",
            b"\xff",
            b"\xc3",
            b"\xef\xbb\xbf",
            b"\\ud800",
            b"\\u0041",
            b"\\",
            b'"',
            b"\r",
            b"{",
            b"}",
            b"[",
            b"]",
            b",",
            b":",
        ),
        *(
            b"  ",
            b"\t",
            b"\v",
            b"null",
            b"1e999",
            b"1" * 30,
            b"[" * 128 + b"]" * 128,
            b'"id":"7",',
            b'"__port":"ping",',
            b"\n",
        ),
    ]
)


# Members that are put beside those of the message, which may then be there twice; each is valid, as the core asks.
BEFORE: Final = some.sampled_from(
    [
        *(b'"id":"1",', b'"agent":"scout",', b'"name":"echo",', b'"input":{},', b'"background":true,', b'"t":{"t":1},'),
        *(b'"__port":"ping",', b'"__port":"dance",'),
        *(b'"unknown":"' + b"x" * 5000 + b'",', b'"unknown":"' + b"\\n" * 10_000 + b'",'),
        # The deepest that every daemon takes, and so deep that each refuses it.
        *(b'"unknown":' + b"[" * 127 + b"]" * 127 + b",", b'"unknown":' + b"[" * 10_000 + b"]" * 10_000 + b","),
    ]
)
PORT_AT: Final = len(b'{"__port": "')


def is_valid(name: str, value: object) -> bool:
    """Whether the protocol says which member counts if one of that name and value is there a second time."""
    match name:
        case "background":
            return isinstance(value, bool)
        case "id" | "agent" | "name":
            return isinstance(value, str) and 0 < len(value.encode()) <= 512
    return True


@some.composite
def lines(draw: Any) -> bytes:
    """One line, mostly one of the protocol's; now and then with a piece put in, a member doubled, or cut."""
    message = draw(REQUESTS | REQUESTS | HELLOS | OTHERS)
    # The second daemon has no short requests.
    assume(message["__port"] is not None)
    # A ping is no agent's: whose it is when it is wrong is open.
    if message["__port"] == "ping":
        message.pop("agent", None)
    line = json.dumps({"__port": message["__port"], **message}, ensure_ascii=draw(some.booleans())).encode()
    if not isinstance(message["__port"], str):
        return line
    match draw(some.integers(0, 9)):
        case 0:
            at = draw(some.integers(PORT_AT, len(line)))
            line = line[:at] + draw(PIECES) + line[at:]
        case 1:
            line = line[: draw(some.integers(PORT_AT, len(line)))]
        case 2 | 3:
            member = draw(BEFORE)
            name = json.loads(member.partition(b":")[0])
            if name not in message or is_valid(name, message[name]):
                is_first = draw(some.booleans())
                line = line.replace(b", ", b"," + member, 1) if is_first else line[:-1] + b"," + member[:-1] + b"}"
    return line


@some.composite
def conversations(draw: Any) -> bytes:
    """The lines of one channel: some with several agents from the start, some that end in the middle of a line."""
    agents = draw(some.lists(some.sampled_from(["scout", "smith", "other"]), max_size=3, unique=True))
    opened = [json.dumps({"__port": "hello", "agent": agent}).encode() for agent in agents]
    spoken = opened + draw(some.lists(lines(), min_size=1, max_size=12))
    said = b"".join(line + b"\n" for line in spoken)
    # More than is read at once may be cut off by the end of the channel, sooner or later.
    assume(len(said) < 60_000)
    # Whether a line that is cut after a port of another type is a short request is open.
    is_cut = not spoken[-1].startswith(b'{"__port": 5') and draw(some.integers(0, 3)) == 0
    return said[: -draw(some.integers(1, 30))] if is_cut else said


# --- how it is answered ---


@contextmanager
def daemons() -> Iterator[tuple[Path, Path]]:
    """The sockets of ours and of the second one."""
    with tempfile.TemporaryDirectory(prefix="differential-") as name:
        second = Path(name) / "second.sock"
        words = ["node", str(SECOND), str(FIXTURES.with_suffix(".json")), str(second)]
        with serving(Path(name), FIXTURES.with_suffix(".toml")) as ours, listening(second, words):
            yield ours, second


def answers(address: Path, said: bytes) -> list[object]:
    """All that a daemon answers on a fresh channel, in an order of our own."""
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(PATIENCE_S)
        channel.connect(str(address))
        channel.sendall(said)
        # It may have ended the channel already.
        with suppress(OSError):
            channel.shutdown(socket.SHUT_WR)
        read: list[Any] = []
        # What is behind the end of a channel stays unread, which the system tells as a reset when all answers are read.
        with channel.makefile("rb") as heard, suppress(ConnectionResetError):
            read.extend(plain(json.loads(line)) for line in heard)
    return sorted(read, key=lambda line: json.dumps(line, sort_keys=True))


def plain(value: Any, key: str = "") -> Any:
    """A line without what a daemon is free in; `content` as what it holds."""
    if key == "content" and isinstance(value, str):
        try:
            return plain(json.loads(value))
        except ValueError:
            return value
    if key == "tools" and isinstance(value, list):
        return sorted(tool["name"] for tool in value)
    if isinstance(value, dict):
        return {name: plain(item, name) for name, item in value.items() if name not in FREE}
    if isinstance(value, list):
        return [plain(item) for item in value]
    # 100 and 100.0 are one number.
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def search(examples: int, number: int) -> None:
    """Ask both so many conversations; the smallest that they answer differently fails."""
    with daemons() as (ours, second):

        @seed(number)
        @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(conversations())
        def ask(said: bytes) -> None:
            first, other = answers(ours, said), answers(second, said)
            assert first == other, f"{said!r}\n  ours   {json.dumps(first)}\n  second {json.dumps(other)}"

        ask()


def main() -> int:
    """0 where they agree, 1 where they do not."""
    parser = argparse.ArgumentParser(prog="python -m tests.implementations.differential", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long to search (default: %(default)s)")
    until = time.monotonic() + parser.parse_args().seconds
    number = 0
    while time.monotonic() < until:
        number += 1
        try:
            search(2000, number)
        except AssertionError as error:
            print(f"seed {number}: {error}", flush=True)
            return 1
    print(f"{number * 2000} conversations, no difference", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
