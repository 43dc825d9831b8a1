"""Golden transcripts as values: reading them (protocol/transcripts/README.md), and what counts as equal."""

import base64
import json
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

TRANSCRIPTS: Final = Path(__file__).parents[2] / "protocol" / "transcripts"

# What only a player that stands behind the daemon's own machines can do or see.
INSIDE: Final = frozenset({"daemon_asks", "daemon_withdraws", "daemon_is_told", "daemon_changes_tools"})


class Send(msgspec.Struct, frozen=True):
    line: bytes


class Expect(msgspec.Struct, frozen=True):
    lines: list[object]


class EndInput(msgspec.Struct, frozen=True):
    pass


class ExpectEnd(msgspec.Struct, frozen=True):
    pass


class Inside(msgspec.Struct, frozen=True):
    verb: str
    value: object


Step: TypeAlias = Send | Expect | EndInput | ExpectEnd | Inside


class Transcript(msgspec.Struct, frozen=True):
    """One file: what its head says, and its steps."""

    about: str
    config: Path
    musts: list[str]
    steps: list[Step]

    @property
    def is_inside(self) -> bool:
        """Whether it can be played only behind the daemon's own machines."""
        return any(isinstance(step, Inside) for step in self.steps)


class _Head(msgspec.Struct, forbid_unknown_fields=True):
    about: str
    config: str = "tooldispatchd"
    musts: list[str] = []


def transcripts() -> list[Path]:
    """All of them, in the order of their names."""
    return sorted(TRANSCRIPTS.glob("*.jsonl"))


def read_transcript(path: Path) -> Transcript:
    """One transcript; an unknown line raises `ValueError`, an unknown key in the head `msgspec.ValidationError`."""
    first, *lines = [json.loads(line) for line in path.read_text(encoding="utf-8").strip("\n").split("\n")]
    head = msgspec.convert(first, _Head)
    steps = [step_of(line) for line in lines]
    return Transcript(head.about, TRANSCRIPTS / f"{head.config}.toml", head.musts, steps)


def step_of(line: dict[str, object]) -> Step:
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
    ((verb, value),) = line.items()
    if verb not in INSIDE:
        raise ValueError(f"unknown line of a transcript: {line}")
    return Inside(verb, value)


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


def expect(expected: list[object], seen: list[object]) -> None:
    """Each expected line is among those seen."""
    left = list(seen)
    for message in expected:
        equal = [line for line in left if is_equal(message, line)]
        assert equal, f"expected {message}, got {left}"
        left.remove(equal[0])
