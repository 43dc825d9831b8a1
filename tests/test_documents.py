"""The documents are true: golden transcripts and the protocol's conversations are played against a running daemon."""

import base64
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
import pytest

from protocol.generate import schemas
from tooldispatchd.wire.faults import CATEGORY, Code

ROOT: Final = Path(__file__).parent.parent
TRANSCRIPTS: Final = ROOT / "protocol" / "transcripts"
PROTOCOL: Final = ROOT / "protocol" / "PROTOCOL.md"
# A step takes milliseconds; on a machine that is busy with other tests, far more.
PATIENCE_S: Final = 20.0


class Send(msgspec.Struct, frozen=True):
    line: bytes


class Expect(msgspec.Struct, frozen=True):
    lines: list[object]


class EndInput(msgspec.Struct, frozen=True):
    pass


class ExpectEnd(msgspec.Struct, frozen=True):
    pass


Step: TypeAlias = Send | Expect | EndInput | ExpectEnd

HEADING_OR_BLOCK: Final = re.compile(
    r"^#+ (?P<heading>[^\n]+)$|^```jsonl played\n(?P<block>.*?)^```$", re.MULTILINE | re.DOTALL
)

paths = sorted(TRANSCRIPTS.glob("*.jsonl"))


# --- reading ---


def read_transcript(path: Path) -> list[Step]:
    """The steps of one transcript (protocol/transcripts/README.md); an unknown line raises `ValueError`."""
    first, *lines = [json.loads(line) for line in path.read_text(encoding="utf-8").strip("\n").split("\n")]
    if list(first) != ["about"]:
        raise ValueError(f"{path.name}: the first line must say what it is about")
    return [_step(line) for line in lines]


def _step(line: dict[str, object]) -> Step:
    match line:
        case {"agent": dict(message)}:
            return Send(json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
        case {"agent_text": str(text)}:
            return Send(text.encode() + b"\n")
        case {"agent_base64": str(text)}:
            return Send(base64.b64decode(text, validate=True))
        case {"agent_repeat": {"text": str(text), "times": int(times), **ends}}:
            return Send(f"{ends.get('before', '')}{text * times}{ends.get('after', '')}\n".encode())
        case {"daemon": dict(message)}:
            return Expect([message])
        case {"daemon_any_order": list(messages)}:
            return Expect(messages)
        case {"agent_ends": "input"}:
            return EndInput()
        case {"daemon_ends": True}:
            return ExpectEnd()
    raise ValueError(f"unknown line of a transcript: {line}")


def read_conversations() -> list[tuple[str, list[Step]]]:
    """Each conversation of PROTOCOL.md by its heading: the fenced blocks marked `jsonl played`."""
    conversations = []
    heading = ""
    text = PROTOCOL.read_text(encoding="utf-8")
    for match in HEADING_OR_BLOCK.finditer(text):
        if match["heading"] is not None:
            heading = match["heading"]
        else:
            conversations.append((heading, [_spoken(line) for line in match["block"].splitlines()]))
    return conversations


def _spoken(line: str) -> Step:
    arrow, _, text = line.partition(" ")
    if arrow == "→":
        return Send(text.encode() + b"\n")
    if arrow == "←":
        return Expect([json.loads(text)])
    raise ValueError(f"a line of a conversation begins with an arrow: {line}")


# --- comparing ---


def is_equal(expected: object, seen: object) -> bool:
    """Whether `seen` is what a document says; `*` (in a transcript) and `…` (in prose) stand for any value."""
    if expected in ("*", "…"):
        return True
    if isinstance(expected, dict) and isinstance(seen, dict):
        return expected.keys() == seen.keys() and all(_is_field(key, expected[key], seen[key]) for key in expected)
    if isinstance(expected, list) and isinstance(seen, list):
        return len(expected) == len(seen) and all(map(is_equal, expected, seen))
    return type(expected) is type(seen) and expected == seen


def _is_field(key: str, expected: object, seen: object) -> bool:
    if key == "content" and isinstance(seen, str):
        if isinstance(expected, str) and "…" in expected:
            expected = json.loads(expected)
        if isinstance(expected, dict | list):
            return is_equal(expected, json.loads(seen))
    return is_equal(expected, seen)


# --- playing ---


@contextmanager
def serving(directory: Path, config: Path, environ: Mapping[str, str] = os.environ) -> Iterator[Path]:
    """The socket of a daemon with `config` that lives as long as the block."""
    path = directory / "dispatch.sock"
    words = [sys.executable, "-m", "tooldispatchd", "serve", "--config", str(config), "--listen", f"unix:{path}"]
    with (
        (directory / "log").open("wb") as log,
        subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=log, env=environ) as daemon,
    ):
        try:
            until = time.monotonic() + PATIENCE_S
            while not path.exists():
                assert daemon.poll() is None, (directory / "log").read_text()
                assert time.monotonic() < until, "the daemon does not listen"
                time.sleep(0.01)
            yield path
        finally:
            daemon.terminate()
            daemon.wait(PATIENCE_S)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The socket of a daemon that serves the transcripts' tools."""
    with serving(tmp_path_factory.mktemp("documents"), TRANSCRIPTS / "tooldispatchd.toml") as path:
        yield path


def play(steps: list[Step], address: Path) -> None:
    """Play `steps` on a fresh channel; what is not as they say fails the test."""
    with closing(socket.socket(socket.AF_UNIX)) as channel:
        channel.settimeout(PATIENCE_S)
        channel.connect(str(address))
        with channel.makefile("rb") as answers:
            for step in [*steps, EndInput(), ExpectEnd()]:
                match step:
                    case Send(line):
                        channel.sendall(line)
                    case Expect(lines):
                        expect(lines, [json.loads(answers.readline() or b'"the end"') for _ in lines])
                    case EndInput():
                        end_input(channel)
                    case ExpectEnd():
                        assert answers.readline() == b""


def end_input(channel: socket.socket) -> None:
    """End the requests; the daemon may have ended the channel already."""
    try:
        channel.shutdown(socket.SHUT_WR)
    except OSError:
        assert channel.recv(1) == b""


def expect(expected: list[object], seen: list[object]) -> None:
    """Each expected line is among those seen."""
    for message in expected:
        equal = [line for line in seen if is_equal(message, line)]
        assert equal, f"expected {message}, got {seen}"
        seen.remove(equal[0])


@pytest.mark.parametrize("path", paths, ids=lambda path: path.stem)
def test_a_transcript_holds_against_a_daemon(path: Path, address: Path) -> None:
    play(read_transcript(path), address)


@pytest.mark.parametrize(("heading", "steps"), read_conversations())
def test_a_conversation_of_the_protocol_holds_against_a_daemon(heading: str, steps: list[Step], address: Path) -> None:
    play(steps, address)


# --- what else the documents promise ---


@pytest.mark.parametrize("path", paths, ids=lambda path: path.stem)
def test_a_transcript_says_what_it_shows(path: Path) -> None:
    first = json.loads(path.read_text(encoding="utf-8").partition("\n")[0])
    assert first["about"].endswith(".")


def test_every_line_of_the_daemon_in_the_protocol_is_json() -> None:
    blocks = re.findall(r"^```jsonl \w+\n(.*?)^```$", PROTOCOL.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    assert all(line.startswith("→ ") or isinstance(json.loads(line.removeprefix("← ")), dict) for line in lines)


def test_every_fault_in_the_protocol_has_the_fields_that_a_fault_has() -> None:
    examples = re.findall(r"^    (\{.*\})$", PROTOCOL.read_text(encoding="utf-8"), re.MULTILINE)
    faults = [json.loads(example) for example in examples]
    assert {fault["error"] for fault in faults} == set(Code)
    assert all(fault["category"] == CATEGORY[fault["error"]] and fault["detail"] for fault in faults)


def test_the_generated_schemas_are_as_the_structs_say() -> None:
    assert {path.name: path.read_bytes() for path in (ROOT / "protocol").glob("*.schema.json")} == schemas()


@pytest.mark.parametrize(
    ("expected", "seen"),
    [
        ({"content": {"error": "x", "detail": "*"}}, {"content": '{"detail":"any","error":"x"}'}),
        ({"content": '{"error":"x","detail":"…"}'}, {"content": '{"error":"x","detail":"any"}'}),
        ({"a": ["*", 1]}, {"a": [None, 1]}),
    ],
)
def test_a_wildcard_stands_for_any_value(expected: object, seen: object) -> None:
    assert is_equal(expected, seen)


@pytest.mark.parametrize(
    ("expected", "seen"),
    [
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": 1, "b": "*"}, {"a": 1}),
        ({"content": "1"}, {"content": "1.0"}),
        ({"a": True}, {"a": 1}),
        ([1, 2], [2, 1]),
    ],
)
def test_anything_else_must_be_the_same(expected: object, seen: object) -> None:
    assert not is_equal(expected, seen)
