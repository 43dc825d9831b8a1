"""Two daemons, asked the same: `python -m tests.implementations.differential` looks for what they answer differently.

Ours and the one in `protocol/implementations/` serve the same fixtures, with high limits and with low ones, on two
channels at a time. What they answer differently is a defect of one of them, or of the protocol's text, which then has
to decide it.
"""

import argparse
import json
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, Final

from hypothesis import HealthCheck, assume, given, seed, settings
from hypothesis import strategies as some

from docs.render import rendering
from tests.test_documents import PATIENCE_S, listening, serving

ROOT: Final = Path(__file__).parents[2]
BASIC: Final = ROOT / "protocol" / "fixtures" / "basic.json"
SECOND: Final = ROOT / "protocol" / "implementations" / "daemon.mjs"
# So low that a few lines reach them; what depends on time, or on other channels, is left as it is.
LOW: Final = {"max_line_bytes": 4096, "in_flight": 1, "waiting": 1, "jobs": 2}

# What each daemon words, measures or may do in its own way.
FREE: Final = frozenset(
    {
        *("detail", "did_you_mean", "violations", "stderr_tail", "exit_code", "reason", "retry_after_ms"),
        *("capabilities", "limits", "edition", "warnings", "instructions", "meta"),
    }
)

BY_CODE: Final = {
    # What was cancelled on the way to its place may have had it.
    "cancelled": {"ran"},
    "invalid_request": {"source"},
}

# --- what is asked ---

# In the order of the text it suits each daemon whether it looks at the room for a call first, or at its input.
EITHER: Final = frozenset({"queue_full", "invalid_input"})

RIGHT_IDS: Final = ("1", "2", "__proto__", "é", "x" * 512)
IDS: Final = some.sampled_from([*RIGHT_IDS, "x" * 513, "", "ü" * 257, 7, None])
RIGHT_AGENTS: Final = ("scout", "smith", "__proto__")
AGENTS: Final = some.sampled_from([*RIGHT_AGENTS, "", "ä" * 300, 5, None])
# The tools that both answer at once: in which order processes end is nobody's rule. One that never ends does no harm.
TOOLS: Final = some.sampled_from(
    [
        *("echo", "same", "twice", "forget", "nothing", "maybe", "hidden", "ecko", "constructor", "__proto__"),
        *("job_list", "job_read", "job_stop", "job_wait"),
        5,
    ]
)
# A job that runs takes time to be stopped, and a call to be cancelled: here neither is, before the last line.
STUCK: Final = some.sampled_from(["stuck", "stuck", "echo", "same", "job_list"])
SMALL: Final = (
    some.none()
    | some.booleans()
    | some.sampled_from(["", "text", "\u2028", "𝄞", "é" * 40, "job-1", "job-9"])
    | some.integers(-(2**53) + 1, 2**53 - 1)
    | some.floats(allow_nan=False, allow_infinity=False, width=32)
)
KEYS: Final = some.sampled_from(
    ["text", "limit", "input", "job", "timeout_s", "other", "", "a/b", "~", "constructor", "__proto__"]
)
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
        "profile": some.sampled_from(["small", "default", "none", "constructor", None, 5]),
        "protocol": some.sampled_from([[1], [2], [], [2, 1], ["1"], None, 1]),
        "capabilities": some.sampled_from([[], ["example.com/x"], None, "value", [1]]),
        "updates": some.sampled_from([True, False, None, 1]),
        "answers": some.sampled_from([[], ["sampling"], None, "sampling"]),
        "schemas": some.sampled_from(["plain", "plain", "cobol", None, 5]),
        "spec": some.sampled_from([None, 5, {"frob": 1}]),
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
    optional={
        "id": IDS,
        "agent": AGENTS,
        "t": VALUES,
        "allow": some.booleans(),
        "refuse": some.booleans(),
        "schemas": some.sampled_from(["plain", "cobol", None, 5]),
    },
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
        *(b'"__port":"ping",', b'"__port":"dance",', b'"__port":"a/b",'),
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
def lines(draw: Any, *, is_low: bool) -> bytes:
    """One line, mostly one of the protocol's; now and then with a piece put in, a member doubled, or cut."""
    message = draw(REQUESTS | REQUESTS | HELLOS | OTHERS)
    # The second daemon has no short requests.
    assume(message["__port"] is not None)
    if is_low and "name" in message:
        message["name"] = draw(STUCK)
    # Behind the end of its session a call that never ends would have nothing to cancel it.
    assume(not is_low or message["__port"] not in {"tool_cancel", "bye"})
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
def conversations(draw: Any, *, is_low: bool) -> bytes:
    """The lines of one channel: some with several agents from the start, some that end in the middle of a line."""
    agents = draw(some.lists(some.sampled_from(RIGHT_AGENTS), max_size=3, unique=True))
    opened = [json.dumps({"__port": "hello", "agent": agent}).encode() for agent in agents]
    spoken = opened + draw(some.lists(lines(is_low=is_low), min_size=1, max_size=12))
    said = b"".join(line + b"\n" for line in spoken)
    # More than is read at once may be cut off by the end of the channel, sooner or later.
    assume(len(said) < 60_000)
    if is_low:
        return said + ENDED
    return said[: -draw(some.integers(1, 30))] if draw(some.integers(0, 3)) == 0 else said


# Whatever runs or waits is wanted no more.
ENDED: Final = b"".join(
    json.dumps({"__port": "tool_cancel", "id": one, "agent": agent}).encode() + b"\n"
    for one in RIGHT_IDS
    for agent in (None, *RIGHT_AGENTS)
)


# --- how it is answered ---

# The least that any daemon reads at once.
READ_AT_ONCE: Final = 4096
# The faults of a `hello` that end the channel, where it is for the channel's own session.
REFUSED: Final = frozenset({"unknown_profile", "unsupported_version"})


@contextmanager
def daemons(*, is_low: bool) -> Iterator[tuple[Path, Path]]:
    """The sockets of ours and of the second one."""
    fixtures = json.loads(BASIC.read_text(encoding="utf-8"))
    fixtures["limits"] |= LOW if is_low else {}
    with tempfile.TemporaryDirectory(prefix="differential-") as name:
        second, config, read = (Path(name) / file for file in ("second.sock", "ours.toml", "second.json"))
        config.write_text(rendering(BASIC.name, fixtures), encoding="utf-8")
        read.write_text(json.dumps(fixtures), encoding="utf-8")
        with serving(Path(name), config) as ours, listening(second, ["node", str(SECOND), str(read), str(second)]):
            yield ours, second


def answers(address: Path, spoken: tuple[bytes, ...]) -> list[list[object]]:
    """All that a daemon answers on fresh channels, which are all open at once, in an order of our own."""
    with ExitStack() as open_ones:
        spoken = tuple(map(without_last_words, spoken))
        channels = [open_ones.enter_context(socket.socket(socket.AF_UNIX)) for _ in spoken]
        for channel in channels:
            channel.settimeout(PATIENCE_S)
            channel.connect(str(address))
        for channel, said in zip(channels, spoken, strict=True):
            channel.sendall(said)
        for channel in channels:
            # It may have ended the channel already.
            with suppress(OSError):
                channel.shutdown(socket.SHUT_WR)
        told = [told_in_time(heard(channel), said) for channel, said in zip(channels, spoken, strict=True)]
        return [sorted(lines, key=lambda line: json.dumps(line, sort_keys=True)) for lines in told]


def without_last_words(said: bytes) -> bytes:
    """The lines; of many bytes without those behind the `bye` of the channel's own session.

    Whether they are read before the channel has ended is a matter of how much a daemon reads at once.
    """
    lines = said.split(b"\n")
    ends = [at for at, line in enumerate(lines, 1) if is_own_bye(line)]
    return b"\n".join(lines[: ends[0]]) + b"\n" if ends and len(said) > READ_AT_ONCE else said


def is_own_bye(line: bytes) -> bool:
    """Whether a line ends the channel's own session."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(message, dict) and message.get("__port") == "bye" and message.get("agent") is None


def told_in_time(lines: Iterator[Any], said: bytes) -> list[Any]:
    """The lines but those about a cancel at the end of an agent that has left, which it may not have by then.

    Of many bytes also without those about what is behind a refused `hello`, as `without_last_words` for a `bye`.
    """
    last, told = said.removesuffix(ENDED).count(b"\n"), list(lines)
    if len(said) > READ_AT_ONCE:
        ends = [at for at, line in enumerate(told, 1) if line.get("error") in REFUSED and "agent" not in line]
        told = told[: ends[0] if ends else None]
    return [line for line in told if line.get("error") != "unknown_agent" or line["line"] <= last]


def heard(channel: socket.socket) -> Iterator[object]:
    """The lines up to the end of a channel."""
    # What is behind the end of a channel stays unread, which the system tells as a reset when all answers are read.
    with channel.makefile("rb") as lines, suppress(ConnectionResetError):
        yield from (plain(json.loads(line)) for line in lines)


def plain(value: Any, key: str = "") -> Any:
    """A line without what a daemon is free in; `content` as what it holds."""
    if key == "content" and isinstance(value, str):
        try:
            return plain(json.loads(value))
        except ValueError:
            return value
    if key == "tools" and isinstance(value, list):
        return sorted(tool["name"] for tool in value)
    if isinstance(value, dict) and value.get("error") in EITHER:
        return sorted(EITHER)
    if isinstance(value, dict):
        free = FREE | BY_CODE.get(str(value.get("error")), set())
        return {name: plain(item, name) for name, item in value.items() if name not in free}
    if isinstance(value, list):
        return [plain(item) for item in value]
    # 100 and 100.0 are one number.
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def search(examples: int, number: int, *, is_low: bool = False) -> None:
    """Ask both so many conversations; the smallest that they answer differently fails."""
    with daemons(is_low=is_low) as (ours, second):

        @seed(number)
        @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(some.tuples(*[conversations(is_low=is_low)] * 2))
        def ask(spoken: tuple[bytes, ...]) -> None:
            first, other = answers(ours, spoken), answers(second, spoken)
            assert first == other, f"{spoken!r}\n  ours   {json.dumps(first)}\n  second {json.dumps(other)}"

        ask()


def main() -> int:
    """0 where they agree, 1 where they do not."""
    parser = argparse.ArgumentParser(prog="python -m tests.implementations.differential", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long to search (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="where to begin (default: %(default)s)")
    asked, began = parser.parse_args(), time.monotonic()
    for number in count(asked.seed):
        if time.monotonic() - began > asked.seconds:
            break
        try:
            search(1000, number, is_low=number % 2 == 0)
        except AssertionError as error:
            print(f"seed {number}: {error}", flush=True)
            return 1
        done, took_s = (number - asked.seed + 1) * 2000, time.monotonic() - began
        print(f"{done} conversations, no difference, after {took_s:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
