#!/usr/bin/env python3
"""Hold a daemon, or an agent, to the protocol: play every transcript and say which rules are kept.

It needs Python 3.9 or newer and nothing else; `run.py --help` says how it is started, `README.md` beside it what it
checks. What is read here of a transcript (`read_transcript`, `bytes_of`, `differs`) is meant for other players too.
"""

from __future__ import annotations

import argparse
import base64
import concurrent.futures
import contextlib
import itertools
import json
import os
import random
import re
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

PROTOCOL = Path(__file__).resolve().parent.parent
TRANSCRIPTS = PROTOCOL / "transcripts"
FIXTURES = PROTOCOL / "fixtures"
SCHEMAS = PROTOCOL / "schema" / "1"

LEVELS = (
    *(
        "core",
        "agents",
        "jobs",
        "updates",
        "events",
        "questions",
        "views",
        "auth",
        "limits",
        "short",
        "select",
        "search",
        "sizes",
        "servers",
        "admin",
    ),
    "product",
)
# A level, or a need, and the capability in `ready` that says whether a daemon has it.
CAPABILITIES = {
    "agents": "agents",
    "jobs": "jobs",
    "updates": "updates",
    "events": "events",
    "questions": "questions",
    "views": "forms",
    "auth": "auth",
    "limits": "limits",
    "short": "short",
    "select": "select",
    "search": "search",
    "sizes": "sizes",
    "servers": "servers",
    "admin": "admin",
    "meta": "meta",
    "value": "value",
    "content": "content",
    "details": "details",
}
# With which edition each capability came; a daemon that names one is of that edition at least.
SINCE = {
    each["name"]: each["since"]
    for path in (PROTOCOL / "registry").glob("capabilities.json")
    for each in json.loads(path.read_text(encoding="utf-8"))["capabilities"]
}
# What some profiles have and others have not: that a daemon names it is enough.
OF_PROFILES = frozenset({"admin"})
# What a daemon has or has not, and does not say: played where `--can` names it.
UNSAID = frozenset({"approval", "mcp", "chains", "expressions", "agents_called", "queues", "rules", "slow"})

SENDS = frozenset({"agent", "agent_text", "agent_base64", "agent_repeat"})
HEARS = frozenset({"daemon", "daemon_any_order", "daemon_repeat"})
OTHERS = frozenset({*HEARS, "agent_ends", "agent_reads", "daemon_drains", "daemon_ends", "silence_ms"})
# What only a player behind the daemon's own machines can do or see.
INSIDE = frozenset({"daemon_asks", "daemon_withdraws", "daemon_is_told", "daemon_changes_tools"})

CHUNK_BYTES = 65536
# What a daemon may take to begin, on a machine that has much else to do.
START_S = 60.0
# A line that is late may be so because of the machine; of a daemon that can be in time, one play of these is.
MOST_PLAYS = 3


# --- transcripts ---


@dataclass(frozen=True)
class Step:
    """One line behind the head: its verb and its value, on which channel it happens, and within which time."""

    verb: str
    value: object
    number: int = 0
    channel: str = ""
    within_ms: float | None = None


@dataclass(frozen=True)
class Transcript:
    """One file: what its head says, and its steps."""

    name: str
    about: str
    level: str
    since: str
    fixtures: str
    musts: list[str]
    needs: list[str]
    steps: list[Step]

    @property
    def is_inside(self) -> bool:
        """Whether it can be played only behind the daemon's own machines."""
        return any(step.verb in INSIDE for step in self.steps)


def transcripts(directory: Path = TRANSCRIPTS) -> list[Path]:
    """All of them, in the order of their names."""
    return sorted(directory.glob("*.jsonl"))


def read_transcript(path: Path) -> Transcript:
    """One transcript; a line or a key that is not known raises `ValueError`."""
    head, *lines = [json.loads(line) for line in path.read_text(encoding="utf-8").strip("\n").split("\n")]
    known = {"about", "level", "since", "fixtures", "musts", "needs"}
    if not head.keys() <= known or head.get("level") not in LEVELS:
        raise ValueError(f"{path.name}: the head has a key or a level that is not known: {head}")
    steps = [step_of(line, number) for number, line in enumerate(lines, 2)]
    since, fixtures = head.get("since", "1.0"), head.get("fixtures", "basic")
    musts, needs = head.get("musts", []), head.get("needs", [])
    return Transcript(path.stem, head["about"], head["level"], since, fixtures, musts, needs, steps)


def step_of(line: dict[str, object], number: int = 0) -> Step:
    """One step: its one verb, and beside it perhaps `channel` and `within_ms`."""
    verbs = line.keys() - {"channel", "within_ms"}
    if len(verbs) != 1 or not verbs <= SENDS | OTHERS | INSIDE:
        raise ValueError(f"unknown line of a transcript: {line}")
    (verb,) = verbs
    within = line.get("within_ms")
    return Step(
        verb, line[verb], number, str(line.get("channel", "")), within if isinstance(within, (int, float)) else None
    )


def bytes_of(step: Step, bound: dict[str, object]) -> bytes:
    """The bytes that the agent sends in a step; `bound` has the values of its references."""
    value = step.value
    if step.verb == "agent":
        return json.dumps(resolved(value, bound), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    if step.verb == "agent_text":
        return str(value).encode() + b"\n"
    if step.verb == "agent_base64":
        return base64.b64decode(str(value), validate=True)
    assert isinstance(value, dict)
    return "{}{}{}\n".format(value.get("before", ""), value["text"] * value["times"], value.get("after", "")).encode()


def resolved(value: object, bound: dict[str, object]) -> object:
    """A value with what its references stand for."""
    if isinstance(value, dict):
        if value.keys() == {"$ref"}:
            return bound[value["$ref"]]
        return {name: resolved(one, bound) for name, one in value.items()}
    return [resolved(one, bound) for one in value] if isinstance(value, list) else value


# --- what is equal ---

# Members that version 1.0 gives to lines, faults, figures and jobs. One of these that is not expected is a mistake;
# others may have been added.
KNOWN = frozenset(
    "__port agent answers background category content error fault id input instructions is_error is_read job line meta"  # noqa: SIM905
    " msg name params profile progress protocol reason server source state t tools total violations warnings what"
    " limit limit_ms stage queue dropped process position cached bytes_in bytes_out kind".split()
)
# Of a fault line: which line it is about, and whose.
PLACES = ("line", "id", "agent")
MARKS = ("__port", "is_error", "category", "state", "latency_ms")

KINDS: dict[str, Callable[[object], bool]] = {
    "any": lambda _: True,
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "list": lambda value: isinstance(value, list),
}


def differs(expected: object, seen: object, bound: dict[str, object], at: str = "") -> str:
    """Where and how `seen` is not what is expected; the empty string where it is. Names that match are bound."""
    if isinstance(expected, dict):
        (first, *more) = list(expected) or [""]
        if first in MATCHERS and not more:
            return MATCHERS[first](expected[first], seen, bound, at)
        if not isinstance(seen, dict):
            return f"{at or '/'} is {short(seen)}, not an object"
        return _differs_in_members(expected, seen, bound, at) or _has_more(expected, seen, at)
    if isinstance(expected, list):
        if not isinstance(seen, list) or len(seen) != len(expected):
            return f"{at or '/'} is {short(seen)}, not a list of {len(expected)}"
        found = (differs(one, other, bound, f"{at}/{i}") for i, (one, other) in enumerate(zip(expected, seen)))
        return next(filter(None, found), "")
    # JSON knows one kind of number, and no booleans among them.
    same = isinstance(expected, bool) == isinstance(seen, bool) and expected == seen
    return "" if same else f"{at or '/'} is {short(seen)}, not {short(expected)}"


def _differs_in_members(expected: dict[str, object], seen: dict[str, object], bound: dict[str, object], at: str) -> str:
    for name, wanted in expected.items():
        matcher = next(iter(wanted), "") if isinstance(wanted, dict) and len(wanted) == 1 else ""
        if name not in seen:
            if matcher in {"$optional", "$absent"}:
                continue
            return f"{at}/{name} is missing"
        if isinstance(wanted, dict) and matcher == "$optional":
            wanted = wanted["$optional"]  # noqa: PLW2901
        reason = differs(wanted, seen[name], bound, f"{at}/{name}")
        if reason:
            return reason
    return ""


def _has_more(expected: dict[str, object], seen: dict[str, object], at: str) -> str:
    more = seen.keys() - expected.keys()
    if any(mark in expected for mark in MARKS):
        more &= KNOWN
    return f"{at}/{min(more)} must not be there" if more else ""


def _is_kind(kind: object, seen: object, _bound: dict[str, object], at: str) -> str:
    return "" if KINDS[str(kind)](seen) else f"{at} is {short(seen)}, not a value of the kind {kind}"


def _is_absent(_: object, seen: object, _bound: dict[str, object], at: str) -> str:
    return f"{at} must not be there, and is {short(seen)}"


def _is_subset(wanted: object, seen: object, bound: dict[str, object], at: str) -> str:
    if not isinstance(wanted, dict) or not isinstance(seen, dict):
        return f"{at} is {short(seen)}, not an object"
    return _differs_in_members(wanted, seen, bound, at)


def _is_json(wanted: object, seen: object, bound: dict[str, object], at: str) -> str:
    if not isinstance(seen, str):
        return f"{at} is {short(seen)}, not a string with JSON"
    try:
        value = read_json(seen)
    except ValueError as error:
        return f"{at} is not JSON: {error}"
    return differs(wanted, value, bound, at)


def _contains(text: object, seen: object, _bound: dict[str, object], at: str) -> str:
    return "" if str(text) in as_text(seen) else f"{at} is {short(seen)}, without {text!r}"


def _lacks(text: object, seen: object, _bound: dict[str, object], at: str) -> str:
    return f"{at} is {short(seen)}, with {text!r}" if str(text) in as_text(seen) else ""


def _is_all(wanted: object, seen: object, bound: dict[str, object], at: str) -> str:
    assert isinstance(wanted, list)
    return next(filter(None, (differs(one, seen, bound, at) for one in wanted)), "")


def _binds(name: object, seen: object, bound: dict[str, object], at: str) -> str:
    if isinstance(seen, str) and seen in bound.values():
        return f"{at} is {short(seen)}, which another name stands for already"
    bound[str(name)] = seen
    return ""


def _refers(name: object, seen: object, bound: dict[str, object], at: str) -> str:
    return differs(bound[str(name)], seen, bound, at)


def _is_same(name: object, seen: object, bound: dict[str, object], at: str) -> str:
    """The same fault as the one that was bound before: the line that it is about, and who asked, may be others."""
    if str(name) not in bound:
        return _binds(name, seen, bound, at)
    known, other = (
        {key: value for key, value in one.items() if key not in PLACES} if isinstance(one, dict) else one
        for one in (bound[str(name)], seen)
    )
    return "" if known == other else f"{at or '/'} is {short(seen)}, not the same fault as {short(bound[str(name)])}"


def _in_any_order(wanted: object, seen: object, bound: dict[str, object], at: str) -> str:
    assert isinstance(wanted, list)
    if not isinstance(seen, list) or len(seen) != len(wanted):
        return f"{at} is {short(seen)}, not a list of {len(wanted)}"
    left = list(seen)
    for one in wanted:
        found = first_equal(one, left, bound)
        if found is None:
            return f"{at} lacks {short(one)}, it has {short(left)}"
        del left[found]
    return ""


def unmet(expected: list[object], seen: list[object], bound: dict[str, object]) -> str:
    """Why these lines are not the expected ones, in any order; empty where they are."""
    alone = len(expected) == len(seen) == 1
    return differs(expected[0], seen[0], bound) if alone else _in_any_order(expected, seen, bound, "")


def first_equal(expected: object, seen: list[object], bound: dict[str, object]) -> int | None:
    """The place of the first value that is as expected; what others would have bound is forgotten."""
    for place, one in enumerate(seen):
        trial = dict(bound)
        if not differs(expected, one, trial):
            bound.update(trial)
            return place
    return None


MATCHERS: dict[str, Callable[[object, object, dict[str, object], str], str]] = {
    "$is": _is_kind,
    "$absent": _is_absent,
    "$subset": _is_subset,
    "$json": _is_json,
    "$contains": _contains,
    "$not_contains": _lacks,
    "$all": _is_all,
    "$bind": _binds,
    "$ref": _refers,
    "$same": _is_same,
    "$any_order": _in_any_order,
    "$optional": differs,
}


def as_text(value: object) -> str:
    """A string as it is, anything else as its JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def short(value: object) -> str:
    """A value as a report shows it."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 400 else f"{text[:400]}… ({len(text)} characters)"


def read_json(text: str) -> object:
    """A value; a name that stands twice in one object, and a number that JSON has not, raise `ValueError`."""
    return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError(f"a name stands twice in {sorted(name for name, _ in pairs)}")
    return found


def _no_constant(word: str) -> object:
    raise ValueError(f"{word} is no JSON")


# --- schemas ---

TYPES: dict[str, Callable[[object], bool]] = {
    "null": lambda value: value is None,
    "integer": lambda value: KINDS["number"](value) and isinstance(value, (int, float)) and value == int(value),
    "array": KINDS["list"],
    **{kind: KINDS[kind] for kind in ("number", "string", "boolean", "object")},
}


class Schemas:
    """The JSON Schemas of the protocol, as far as they use the keywords below; none where the files are not there."""

    def __init__(self, directory: Path = SCHEMAS) -> None:
        self._files = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in directory.glob("*.json")}

    def refuses(self, name: str, line: object) -> str:
        """Why a line is not as the file `name` says; empty where it is, or where there is no such file."""
        file = f"{name}.json" if f"{name}.json" in self._files else f"{name}.schema.json"
        return self._refuses(self._files[file], line, file, "") if file in self._files else ""

    def _refuses(self, schema: object, value: object, file: str, at: str) -> str:  # noqa: C901, PLR0911, PLR0912
        if not isinstance(schema, dict):
            return f"{at} may not be there" if schema is False else ""
        if "$ref" in schema:
            name, _, path = schema["$ref"].partition("#")
            target: object = self._files[name.rsplit("/", 1)[-1] or file]
            for part in filter(None, path.split("/")):
                assert isinstance(target, dict)
                target = target[part]
            reason = self._refuses(target, value, name.rsplit("/", 1)[-1] or file, at)
            if reason:
                return reason
        types = schema.get("type", [])
        if types and not any(TYPES[one](value) for one in ([types] if isinstance(types, str) else types)):
            return f"{at or '/'} is {short(value)}, not of the type {types}"
        if "const" in schema and differs(schema["const"], value, {}):
            return f"{at or '/'} is {short(value)}, not {schema['const']!r}"
        if "enum" in schema and all(differs(one, value, {}) for one in schema["enum"]):
            return f"{at or '/'} is {short(value)}, none of {schema['enum']}"
        if isinstance(value, str):
            if len(value) < schema.get("minLength", 0) or len(value) > schema.get("maxLength", len(value)):
                return f"{at} is {short(value)}: its length is not allowed"
            if "pattern" in schema and re.search(schema["pattern"], value) is None:
                return f"{at} is {short(value)}, not as {schema['pattern']}"
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            low, high = schema.get("minimum", value), schema.get("maximum", value)
            if not low <= value <= high or not schema.get("exclusiveMinimum", value - 1) < value:
                return f"{at} is {short(value)}, out of bounds"
        for one in schema.get("allOf", []):
            reason = self._refuses(one, value, file, at)
            if reason:
                return reason
        for word in ("anyOf", "oneOf"):
            reasons = [self._refuses(one, value, file, at) for one in schema.get(word, [])]
            if reasons and all(reasons):
                return min(reasons, key=lambda reason: -reason.count("/"))
        if "if" in schema:
            branch = "else" if self._refuses(schema["if"], value, file, at) else "then"
            reason = self._refuses(schema.get(branch, True), value, file, at)
            if reason:
                return reason
        if "not" in schema and not self._refuses(schema["not"], value, file, at):
            return f"{at or '/'} is {short(value)}, which is not allowed"
        if isinstance(value, list):
            found = (self._refuses(schema.get("items", True), one, file, f"{at}/{i}") for i, one in enumerate(value))
            return next(filter(None, found), "")
        return self._refuses_members(schema, value, file, at) if isinstance(value, dict) else ""

    def _refuses_members(self, schema: dict[str, object], value: dict[str, object], file: str, at: str) -> str:
        required, properties = schema.get("required", []), schema.get("properties", {})
        assert isinstance(required, list)
        assert isinstance(properties, dict)
        missing = [name for name in required if name not in value]
        if missing:
            return f"{at}/{missing[0]} is missing"
        other = schema.get("additionalProperties", True)
        found = (self._refuses(properties.get(name, other), one, file, f"{at}/{name}") for name, one in value.items())
        return next(filter(None, found), "")


# --- channels ---


class WrongError(Exception):
    """The other side did not do as it must."""


class LateError(WrongError):
    """It may have done so, and later than a transcript asks for."""


class Channel:
    """Two descriptors, without threads: it reads whatever comes while it writes, so that neither side is stuck.

    `begin_s` is how long the first thing that it hears may take at least: its daemon may still have to begin.
    """

    def __init__(
        self, read: int, write: int, *, end: Callable[[], None], close: Callable[[], None], begin_s: float = 0.0
    ) -> None:
        self._read, self._write, self._end, self._close = read, write, end, close
        self._begin_s = begin_s
        self._received = bytearray()
        # When it was last written to, or gave a line.
        self._moved_at = time.monotonic()
        self._is_over = False
        self._is_closed = False
        self.is_reading = True
        for descriptor in {read, write}:
            os.set_blocking(descriptor, False)

    def send(self, data: bytes, patience_s: float) -> None:
        """Write everything; what the other side no longer takes is dropped."""
        view, until = memoryview(data), time.monotonic() + patience_s
        while view:
            try:
                view = view[os.write(self._write, view[:CHUNK_BYTES]) :]
            except BlockingIOError:  # noqa: PERF203
                if time.monotonic() > until:
                    raise WrongError(f"it takes no more of a line within {patience_s} s") from None
                self._pump(0.05, write=True)
            except OSError:
                return
        self._moved_at = time.monotonic()

    def line(self, patience_s: float) -> bytes | None:
        """The next line with its line feed, and None at the end; an unfinished line at the end is a mistake."""
        until = time.monotonic() + max(patience_s, self._begin_s)
        while True:
            at = self._received.find(b"\n")
            if at >= 0:
                line = bytes(self._received[: at + 1])
                del self._received[: at + 1]
                self._moved_at = time.monotonic()
                return line
            if self._is_over:
                if self._received:
                    raise WrongError(f"the last line lacks its line feed: {bytes(self._received[:200])!r}")
                return None
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._pump(left)

    def is_silent(self, limit_s: float) -> bool:
        """Whether nothing comes for so long after the last line, of whichever side.

        What a player that was held up finds after that time has come after it.
        """
        until = self._moved_at + limit_s
        while not self._received and not self._is_over and time.monotonic() < until:
            self._pump(max(0.0, until - time.monotonic()))
        return time.monotonic() >= until

    def _pump(self, most_s: float, *, write: bool = False) -> None:
        reads = [self._read] if self.is_reading and not self._is_over else []
        ready, _, _ = select.select(reads, [self._write] if write else [], [], most_s)
        if ready:
            try:
                chunk = os.read(self._read, CHUNK_BYTES)
            except ConnectionResetError:
                chunk = b""
            self._received += chunk
            self._is_over = not chunk
            self._begin_s = 0.0

    def end_input(self) -> None:
        """Send no more, and still read."""
        with contextlib.suppress(OSError):
            self._end()

    def close(self) -> None:
        """Be gone."""
        if not self._is_closed:
            self._is_closed = True
            self._close()


def socket_channel(path: str) -> Channel:
    """A connection to a Unix socket; `@NAME` is an abstract one."""
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.connect("\0" + path[1:] if path.startswith("@") else path)
    descriptor = stream.fileno()
    return Channel(descriptor, descriptor, end=lambda: stream.shutdown(socket.SHUT_WR), close=stream.close)


# --- ways to a daemon ---


class Way:
    """How a channel to a daemon with certain fixtures is had."""

    has_second = False
    can_drain = False

    def lacks(self, fixtures: str) -> str:  # noqa: ARG002
        """Why there is no daemon with these fixtures; empty where there is."""
        return ""

    def open(self, fixtures: str) -> Channel:
        raise NotImplementedError

    def alone(self, fixtures: str) -> Way:
        """A way to a daemon of its own, which may be told to end."""
        raise NotImplementedError(fixtures)

    def drain(self) -> None:
        """Tell the daemons to end."""

    def close(self) -> None:
        """End everything that was started."""


def words_of(command: str, fixtures: str, **more: object) -> list[str]:
    """A command's words with the names in braces filled in."""
    path = FIXTURES / f"{fixtures}.json"
    places = {"fixtures": path, "name": fixtures, "directory": FIXTURES, **more}
    return [re.sub(r"\{(\w+)\}", lambda match: str(places[match[1]]), word) for word in shlex.split(command)]


def lacks_fixtures(command: str, fixtures: str) -> str:
    if "{fixtures}" in command and not (FIXTURES / f"{fixtures}.json").exists():
        return f"the fixtures {fixtures} are of one product alone"
    return ""


def end_process(process: subprocess.Popen[bytes], patience_s: float) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Sockets(Way):
    """Daemons that listen already: `SET=PATH`."""

    has_second = True

    def __init__(self, places: list[str]) -> None:
        self._paths = dict(place.split("=", 1) for place in places)

    def lacks(self, fixtures: str) -> str:
        return "" if fixtures in self._paths else f"no socket is given for the fixtures {fixtures}"

    def open(self, fixtures: str) -> Channel:
        return socket_channel(self._paths[fixtures])


class Started(Way):
    """A daemon for each set of fixtures, started when first asked for."""

    has_second = can_drain = True

    def __init__(self, command: str, patience_s: float) -> None:
        self._command, self._patience_s = command, patience_s
        self._directory = tempfile.TemporaryDirectory(prefix="conformance-")
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def lacks(self, fixtures: str) -> str:
        return lacks_fixtures(self._command, fixtures)

    def start(self, fixtures: str) -> None:
        """Have the daemon with these fixtures listen."""
        if fixtures in self._running:
            return
        words = words_of(self._command, fixtures, socket=self._path(fixtures))
        with (Path(self._directory.name) / f"{fixtures}.log").open("wb") as log:
            self._running[fixtures] = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until = time.monotonic() + max(self._patience_s, START_S)
        while True:
            try:
                socket_channel(self._path(fixtures)).close()
            except OSError:  # noqa: PERF203
                if self._running[fixtures].poll() is not None or time.monotonic() > until:
                    raise WrongError(f"no daemon listens: {self._log(fixtures)}") from None
                time.sleep(0.02)
            else:
                return

    def open(self, fixtures: str) -> Channel:
        self.start(fixtures)
        return socket_channel(self._path(fixtures))

    def alone(self, fixtures: str) -> Way:  # noqa: ARG002
        return Started(self._command, self._patience_s)

    def drain(self) -> None:
        for process in self._running.values():
            process.terminate()

    def _path(self, fixtures: str) -> str:
        return str(Path(self._directory.name) / f"{fixtures}.sock")

    def _log(self, fixtures: str) -> str:
        return (Path(self._directory.name) / f"{fixtures}.log").read_text(encoding="utf-8", errors="replace")[-2000:]

    def close(self) -> None:
        for process in self._running.values():
            end_process(process, self._patience_s)
        self._directory.cleanup()


class Piped(Way):
    """A daemon for each transcript, on its stdin and stdout, or on two descriptors that it inherits."""

    def __init__(self, command: str, patience_s: float) -> None:
        self._command, self._patience_s = command, patience_s

    def lacks(self, fixtures: str) -> str:
        return lacks_fixtures(self._command, fixtures)

    def open(self, fixtures: str) -> Channel:
        its_read, write = os.pipe()
        read, its_write = os.pipe()
        try:
            is_pair = "{read}" in self._command
            words = words_of(self._command, fixtures, read=its_read, write=its_write)
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL if is_pair else its_read,
                stdout=subprocess.DEVNULL if is_pair else its_write,
                stderr=subprocess.DEVNULL,
                pass_fds=(its_read, its_write) if is_pair else (),
            )
        finally:
            os.close(its_read)
            os.close(its_write)
        open_ends = {read, write}

        def shut(*ends: int) -> None:
            for one in open_ends.intersection(ends):
                open_ends.discard(one)
                os.close(one)

        def close() -> None:
            shut(read, write)
            end_process(process, self._patience_s)

        return Channel(read, write, end=lambda: shut(write), close=close, begin_s=START_S)


# --- playing ---


class Referee:
    """One channel's account of ids: an answer answers a request that is open, and none is answered twice."""

    def __init__(self) -> None:
        self._open: dict[tuple[object, object], int] = {}
        # A line that is no JSON may still have had an id.
        self._has_unread = False

    def sends(self, data: bytes) -> None:
        for line in filter(None, (line.strip() for line in data.split(b"\n"))):
            try:
                said = json.loads(line)
            except (ValueError, RecursionError):
                said = None
            if not isinstance(said, dict):
                self._has_unread = True
                continue
            if said.get("__port", "tool_req") == "tool_req":
                body = said["msg"] if isinstance(said.get("msg"), dict) else said
                # Where one of two is no name the refusal names the other.
                for agent in {key_of((one.get("agent"), "")) for one in (said, body) if one.get("agent")} or {("", "")}:
                    key = key_of((agent[0], body.get("id")))
                    self._open[key] = self._open.get(key, 0) + 1

    def hears(self, line: dict[str, object]) -> None:
        body = line["msg"] if isinstance(line.get("msg"), dict) else line
        assert isinstance(body, dict)
        if "is_error" not in body or line.get("__port", "tool_resp") != "tool_resp":
            return
        key = key_of((body.get("agent"), body.get("id")))
        if self._open.get(key, 0) > 0:
            self._open[key] -= 1
        elif not self._has_unread:
            raise WrongError(f"an answer to nothing: {short(line)}")


def key_of(pair: tuple[object, object]) -> tuple[object, object]:
    """An agent and an id that can be looked up, whatever stood there."""
    return tuple(one if isinstance(one, str) and len(one.encode()) <= 512 else "" for one in pair)  # type: ignore[return-value]


@dataclass
class Options:
    """What the command line says of the playing."""

    patience_s: float = 10.0
    seed: int | None = None
    schemas: Schemas = field(default_factory=Schemas)


class Player:
    """Plays one transcript on channels of a way."""

    def __init__(
        self,
        transcript: Transcript,
        open_channel: Callable[[], Channel],
        options: Options,
        drain: Callable[[], None] = lambda: None,
    ) -> None:
        self._transcript, self._open, self._options, self._drain = transcript, open_channel, options, drain
        self._channels: dict[str, Channel] = {}
        self._referees: dict[str, Referee] = {}
        self._bound: dict[str, object] = {}
        self._closed: list[str] = []
        self._checked = b""
        self._cuts = None if options.seed is None else random.Random(f"{options.seed} {transcript.name}")

    def play(self) -> None:
        """What is not as the transcript says raises `WrongError`."""
        step = Step("agent_ends", "input")
        try:
            # What the agent sends before it reads again goes out at once: a call that ends soon is in flight then.
            for _, group in itertools.groupby(self._transcript.steps, lambda one: (one.verb in SENDS, one.channel)):
                steps = list(group)
                step = steps[0]
                if step.verb in SENDS:
                    self._send(steps)
                    continue
                for step in steps:
                    self._do(step)
            for name in [name for name in self._channels if name not in self._closed]:
                step = Step("daemon_ends", True, channel=name)  # noqa: FBT003
                self._channels[name].end_input()
                self._do(step)
        except TimeoutError:
            kind = WrongError if step.within_ms is None else LateError
            raise kind(f"{place_of(step)}nothing comes, but {short(step.value)} should") from None
        except WrongError as error:
            raise WrongError(f"{place_of(step)}{error}") from None
        finally:
            for channel in self._channels.values():
                channel.close()

    def _channel(self, name: str) -> Channel:
        if name not in self._channels:
            self._channels[name] = self._open()
            self._referees[name] = Referee()
        return self._channels[name]

    def _do(self, step: Step) -> None:
        channel = self._channel(step.channel)
        if step.verb == "daemon":
            self._hear([step.value], step)
        elif step.verb == "daemon_any_order":
            assert isinstance(step.value, list)
            self._hear(step.value, step)
        elif step.verb == "daemon_repeat":
            assert isinstance(step.value, dict)
            for _ in range(step.value["times"]):
                self._hear([step.value["line"]], step)
        elif step.verb == "agent_ends":
            channel.end_input()
            if step.value == "gone":
                channel.close()
                self._closed.append(step.channel)
        elif step.verb == "daemon_drains":
            self._drain()
        elif step.verb == "agent_reads":
            channel.is_reading = bool(step.value)
        elif step.verb == "silence_ms":
            assert isinstance(step.value, (int, float))
            self._be_silent(channel, step.value / 1000)
        else:
            line = channel.line(self._options.patience_s)
            self._closed.append(step.channel)
            if line is not None:
                raise WrongError(f"the channel should end, but this comes: {line[:400]!r}")

    def _send(self, steps: list[Step]) -> None:
        """Send what these steps of one channel say, in one piece unless it is to be cut."""
        name = steps[0].channel
        channel, parts = self._channel(name), [bytes_of(step, self._bound) for step in steps]
        for part in parts:
            self._referees[name].sends(part)
        if self._cuts is None:
            channel.send(b"".join(parts), self._options.patience_s)
            return
        for piece in itertools.chain.from_iterable(map(self._cut, parts)):
            channel.send(piece, self._options.patience_s)
            time.sleep(0.001)

    def _cut(self, data: bytes) -> list[bytes]:
        assert self._cuts is not None
        if len(data) == 1:
            return [data]
        places = sorted({self._cuts.randrange(1, len(data)) for _ in range(self._cuts.randrange(1, 5))})
        return [data[begin:end] for begin, end in zip([0, *places], [*places, len(data)])]

    def _hear(self, expected: list[object], step: Step) -> None:
        limit_s = self._options.patience_s if step.within_ms is None else step.within_ms / 1000
        seen: list[object] = [self._line(step.channel, limit_s) for _ in expected]
        reason = unmet(expected, seen, self._bound)
        if reason:
            raise WrongError(f"{reason}\n  expected {short(step.value)}\n  got      {short(seen)}")

    def _line(self, name: str, limit_s: float) -> dict[str, object]:
        raw = self._channels[name].line(limit_s)
        if raw is None:
            raise WrongError("the channel ends")
        line = read_line(raw)
        self._referees[name].hears(line)
        # Hundreds that are alike are checked once: meanwhile a bound of time may pass.
        reason = "" if raw == self._checked else self._options.schemas.refuses("daemon", line)
        if reason:
            raise WrongError(f"the schema of the daemon's lines: {reason}, in {short(line)}")
        self._checked = raw
        return line

    def _be_silent(self, channel: Channel, limit_s: float) -> None:
        if channel.is_silent(limit_s):
            return
        line = channel.line(self._options.patience_s)
        raise WrongError("the channel ends" if line is None else f"nothing should come, but this does: {line[:400]!r}")


def place_of(step: Step) -> str:
    return f"line {step.number}: " if step.number else "at the end: "


def read_line(raw: bytes) -> dict[str, object]:
    """A line of the daemon as a value; what a line may not be raises `WrongError`."""
    if not raw.startswith(b"{") or not raw.endswith(b"}\n"):
        raise WrongError(f"a line is an object and one line feed, nothing else: {raw[:200]!r}")
    try:
        line = read_json(raw.decode())
    except ValueError as error:
        raise WrongError(f"a line that is no JSON in UTF-8 ({error}): {raw[:200]!r}") from None
    assert isinstance(line, dict)
    return line


# --- which transcripts, and what became of them ---


@dataclass
class Daemon:
    """What the daemon says of itself: its capabilities, None where it is of version 1.0 and says none."""

    capabilities: dict[str, bool] | None
    limits: dict[str, object]
    edition: str = ""

    @property
    def version(self) -> str:
        """Its edition: what it says, else the newest of its capabilities'."""
        if self.capabilities is None:
            return "1.0"
        return self.edition or max(["1.1", *(SINCE.get(name, "1.1") for name in self.capabilities)])

    def is_too_old(self, transcript: Transcript) -> bool:
        """Whether what is shown came later. An extension that it names is judged by that alone."""
        name = CAPABILITIES.get(transcript.level)
        own = SINCE.get(name, "1.0") if name is not None and name in (self.capabilities or ()) else "1.0"
        return transcript.since > max(self.version, own)


def ask_daemon(way: Way, options: Options) -> Daemon:
    """Say hello, asking for everything, and read what `ready` says."""
    channel = way.open("basic")
    wishes = {
        "answers": ["sampling", "elicitation", "approve"],
        "capabilities": ["value", "servers"],
        "meta": True,
        "details": True,
    }
    hello = {"__port": "hello", "protocol": [1], "updates": True, "events": True, **wishes}
    try:
        channel.send(json.dumps(hello).encode() + b"\n", options.patience_s)
        raw = channel.line(options.patience_s)
        if raw is None:
            raise WrongError("the daemon ends the channel at a hello")
        ready = read_line(raw)
        if ready.get("__port") != "ready":
            raise WrongError(f"the daemon answers a hello with {short(ready)}")
    except TimeoutError:
        raise WrongError("the daemon does not answer a hello") from None
    finally:
        channel.close()
    said, limits = ready.get("capabilities"), ready.get("limits")
    capabilities = {name: value is True for name, value in said.items()} if isinstance(said, dict) else None
    edition = ready.get("edition")
    return Daemon(capabilities, limits if isinstance(limits, dict) else {}, edition if isinstance(edition, str) else "")


@dataclass
class Choice:
    """Which transcripts are played."""

    levels: list[str]
    only: list[str]
    can: list[str]
    cannot: list[str]

    def refuses(self, transcript: Transcript, daemon: Daemon, way: Way) -> str:
        """Why a transcript is not played; empty where it is."""
        if daemon.is_too_old(transcript):
            return f"it is of version {transcript.since}, the daemon of {daemon.version}"
        for need in [transcript.level, *transcript.needs]:
            if need in self.cannot:
                return f"needs {need}"
            said = daemon.capabilities
            is_named = said is not None and need in OF_PROFILES and need in said
            if need in CAPABILITIES and said is not None and not (said.get(CAPABILITIES[need]) or is_named):
                return f"the daemon has no {CAPABILITIES[need]}"
            if need in UNSAID and need not in self.can:
                return f"needs {need}"
            if need == "second_channel" and not way.has_second:
                return "needs a second channel"
            if need == "drain" and not way.can_drain:
                return "needs a daemon that the runner has started"
        return way.lacks(transcript.fixtures)

    def has(self, transcript: Transcript) -> bool:
        return transcript.level in self.levels and (not self.only or transcript.name in self.only)


@dataclass
class Result:
    """What became of one transcript."""

    transcript: Transcript
    outcome: str
    why: str = ""
    took_s: float = 0.0


# Some limits are of the whole daemon, and administrators see all of it: two such transcripts at once would be in each
# other's way.
ALONE = {fixtures: threading.Lock() for fixtures in ("limits", "admin")}


def play_one(transcript: Transcript, daemon: Daemon, way: Way, choice: Choice, options: Options) -> Result:
    """Play one transcript, if this daemon and this way can."""
    why = choice.refuses(transcript, daemon, way)
    if why:
        return Result(transcript, "skipped", why)
    with ALONE.get(transcript.fixtures, contextlib.nullcontext()):
        begun, plays = time.monotonic(), 1
        why, is_late = attempt(transcript, way, options)
        while is_late and plays < MOST_PLAYS:
            plays += 1
            why, is_late = attempt(transcript, way, options)
        if is_late:
            why = f"{why}, in {plays} plays"
        return Result(transcript, "failed" if why else "passed", why, time.monotonic() - begun)


def attempt(transcript: Transcript, way: Way, options: Options) -> tuple[str, bool]:
    """Why a play failed, empty where it did not; and whether a line was no worse than late."""
    is_alone = "drain" in transcript.needs
    its_way = way.alone(transcript.fixtures) if is_alone else way
    try:
        Player(transcript, lambda: its_way.open(transcript.fixtures), options, drain=its_way.drain).play()
    except (WrongError, OSError) as error:
        return str(error), isinstance(error, LateError)
    finally:
        if is_alone:
            its_way.close()
    return "", False


def play_all(way: Way, choice: Choice, options: Options, jobs: int) -> tuple[Daemon, list[Result]]:
    """Play what was chosen, so many at a time."""
    known = list(map(read_transcript, transcripts()))
    if strange := set(choice.only) - {one.name for one in known}:
        raise WrongError(f"there is no transcript of the name {', '.join(sorted(strange))}")
    chosen = [one for one in known if choice.has(one)]
    daemon = ask_daemon(way, options)
    if isinstance(way, Started):
        for fixtures in sorted({one.fixtures for one in chosen if not choice.refuses(one, daemon, way)}):
            way.start(fixtures)
    if not any(choice.refuses(one, daemon, way) == "" for one in chosen):
        why = sorted({choice.refuses(one, daemon, way) for one in chosen}) or ["no transcript is chosen"]
        raise WrongError("; ".join(why))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        results = pool.map(lambda one: play_one(one, daemon, way, choice, options), chosen)
        return daemon, list(results)


# --- reports ---

OUTCOMES = ("passed", "failed", "skipped")


def by_level(results: list[Result]) -> dict[str, dict[str, int]]:
    """How many of each level passed, failed and were skipped."""
    levels = [level for level in LEVELS if any(one.transcript.level == level for one in results)]
    return {
        level: {
            what: sum(one.outcome == what and one.transcript.level == level for one in results) for what in OUTCOMES
        }
        for level in levels
    }


def by_must(results: list[Result]) -> dict[str, str]:
    """For each rule: `failed` if one transcript was, `passed` if one was played, else `skipped`."""
    found: dict[str, str] = {}
    order = ("failed", "passed", "skipped")
    for one in results:
        for must in one.transcript.musts:
            found[must] = min(found.get(must, "skipped"), one.outcome, key=order.index)
    return dict(sorted(found.items(), key=lambda pair: (pair[0][0], int("0" + re.sub(r"\D", "", pair[0])))))


def as_lines(daemon: Daemon, results: list[Result]) -> Iterator[str]:
    for one in results:
        if one.outcome == "failed":
            yield f"FAILED {one.transcript.name} ({', '.join(one.transcript.musts) or one.transcript.level})"
            yield f"  {one.transcript.about}"
            yield from (f"  {line}" for line in one.why.splitlines())
    reasons: dict[str, int] = {}
    for one in results:
        if one.outcome == "skipped":
            reasons[one.why] = reasons.get(one.why, 0) + 1
    yield from (f"skipped {count}: {why}" for why, count in sorted(reasons.items()))
    yield f"{'level':10} passed failed skipped"
    for level, counts in by_level(results).items():
        yield f"{level:10} {counts['passed']:6} {counts['failed']:6} {counts['skipped']:7}"
    musts = by_must(results)
    kept = {what: [must for must, outcome in musts.items() if outcome == what] for what in OUTCOMES}
    yield f"rules: {len(kept['passed'])} kept, {len(kept['failed'])} broken, {len(kept['skipped'])} not tried"
    if kept["failed"]:
        yield "broken: " + " ".join(kept["failed"])
    counts = {what: sum(one.outcome == what for one in results) for what in OUTCOMES}
    yield f"version {daemon.version}: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"


def as_tap(_daemon: Daemon, results: list[Result]) -> Iterator[str]:
    yield "TAP version 13"
    yield f"1..{len(results)}"
    for number, one in enumerate(results, 1):
        name = f"{number} - {one.transcript.level}: {one.transcript.name}"
        if one.outcome == "failed":
            yield f"not ok {name}"
            yield from (f"# {line}" for line in one.why.splitlines())
        else:
            yield f"ok {name}" + (f" # SKIP {one.why}" if one.outcome == "skipped" else "")


def as_json(daemon: Daemon, results: list[Result]) -> Iterator[str]:
    played = [
        {
            "name": one.transcript.name,
            "level": one.transcript.level,
            "musts": one.transcript.musts,
            "outcome": one.outcome,
            **({"why": one.why} if one.why else {}),
            "took_s": round(one.took_s, 3),
        }
        for one in results
    ]
    said = {"version": daemon.version, "capabilities": daemon.capabilities, "limits": daemon.limits}
    report = {"daemon": said, "levels": by_level(results), "musts": by_must(results), "transcripts": played}
    yield json.dumps(report, ensure_ascii=False, indent=1)


REPORTS = {"text": as_lines, "tap": as_tap, "json": as_json}


# --- the other side: an agent is held to the protocol ---

# What this daemon's tool gives beside its input: characters at which a reader of lines that knows too many ends of
# lines, or too few lengths of letters, stumbles.
TRICKY = '\u2028\u0085\U0001f600\\ "\u0000'
AGENT_CHECKS = {
    "lines": "Each line of the agent is one JSON object in UTF-8 and one line feed, as the schema says.",
    "ids": "Each request has an id of 1 to 512 bytes that is not in flight.",
    "pong": "A ping is answered with a pong that has the same t.",
    "order": "Answers that come in another order than the requests reach the right calls.",
    "content": "A content is read as it is, whatever characters stand in it, and unknown members are ignored.",
    "fault": "An error of an unknown code is told by its category, and is not tried again without a pause.",
    "bye": "The agent says bye or ends its input, reads to the end, and ends with the code 0.",
}
TOOLS = ("echo", "slow", "fails", "report")


class Agent:
    """A daemon, as small as it can be, that tells what the agent on its channel does wrong."""

    def __init__(self, channel: Channel, options: Options) -> None:
        self._channel, self._options = channel, options
        self.wrong: dict[str, str] = {}
        self._held: list[tuple[str, object]] = []
        self._in_flight: list[str] = []
        self._expected: dict[str, object] = {"fails": "unavailable"}
        self._seen: set[str] = set()

    def serve(self) -> None:
        """Serve the agent until it has ended; what it never came to is wrong, also if it hangs."""
        try:
            while self._hear():
                pass
        finally:
            for check, sign in (("pong", "pong"), ("content", "report"), ("order", "slow"), ("fault", "fails")):
                if sign not in self._seen:
                    self.wrong.setdefault(check, f"it never came to {sign}")

    def _hear(self) -> bool:
        """Read one line and answer it; whether another may come."""
        raw = self._channel.line(self._options.patience_s)
        if raw is None:
            return False
        try:
            line = read_line(raw)
        except WrongError as error:
            self.wrong.setdefault("lines", str(error))
            return True
        reason = self._options.schemas.refuses("agent", line)
        if reason:
            self.wrong.setdefault("lines", reason)
        return not self._take(line)

    def _say(self, **line: object) -> None:
        self._channel.send(json.dumps(line, ensure_ascii=False).encode() + b"\n", self._options.patience_s)

    def _take(self, line: dict[str, object]) -> bool:
        """Answer one line; whether it was the last."""
        port = line.get("__port", "tool_req")
        same = {"id": line["id"]} if "id" in line else {}
        if port == "hello":
            tools = [{"name": name, "description": "", "input_schema": {"type": "object"}} for name in TOOLS]
            more = {"capabilities": {"jobs": False}, "limits": {}, "example.com/new": [1]}
            self._say(__port="ready", profile="default", protocol=1, tools=tools, warnings=[], **same, **more)
        elif port == "tools":
            self._say(__port="tools", tools=[], **same)
        elif port == "ping":
            self._say(__port="pong", **same, **({"t": line["t"]} if "t" in line else {}))
        elif port == "pong":
            self._seen.add("pong")
            if line.get("t") != {"n": [1, None]}:
                self.wrong.setdefault("pong", f"its pong is {short(line)}")
        elif port == "tool_req":
            self._call(line)
        elif port == "bye":
            self._say(__port="bye", **same)
            return True
        return False

    def _call(self, line: dict[str, object]) -> None:
        nested = line.get("msg")
        body = nested if isinstance(nested, dict) else line
        call, name, given = body.get("id"), body.get("name"), body.get("input")
        if not isinstance(call, str) or not 1 <= len(call.encode()) <= 512 or call in self._in_flight:
            self.wrong.setdefault("ids", f"the id {short(call)} is none, or is in flight")
            return
        self._seen.add(str(name))
        self._in_flight.append(call)
        if isinstance(given, dict) and given.keys() == {"input"}:
            given = given["input"]
        if name == "slow":
            self._expected["b"] = json.dumps(given)
            self._held.append((call, line))
        elif name == "echo":
            content = json.dumps(str(given) + TRICKY, ensure_ascii=False)
            self._expected["a" if "a" not in self._expected else "c"] = content
            self._say(__port="ping", t={"n": [1, None]})
            self._answer(call, line, content)
            for held, request in self._held:
                self._answer(held, request, str(self._expected["b"]))
            self._held.clear()
        elif name == "report":
            self._judge(given)
            self._answer(call, line, "null")
        else:
            if "failed" in self._seen:
                self.wrong.setdefault("fault", "it tried again at once")
            self._seen.add("failed")
            fault = {"error": "brand_new", "category": "unavailable", "detail": "not now", "retry_after_ms": 3600000}
            self._answer(call, line, json.dumps(fault), is_error=True, fault=True)

    def _answer(self, call: str, request: object, content: str, **more: object) -> None:
        assert isinstance(request, dict)
        self._in_flight.remove(call)
        body = {"id": call, "content": content, "is_error": False, "example.com/new": {}, **more}
        if isinstance(request.get("msg"), dict):
            self._say(__port="tool_resp", msg=body)
        else:
            self._say(**({"__port": "tool_resp"} if "__port" in request else {}), **body)

    def _judge(self, report: object) -> None:
        said = report if isinstance(report, dict) else {}
        for check, names in (("content", "a"), ("order", "bc"), ("fault", ["fails"])):
            for name in names:
                if said.get(name) != self._expected.get(name):
                    wanted, got = short(self._expected.get(name)), short(said.get(name))
                    self.wrong.setdefault(check, f"{name} should be {wanted}, the report says {got}")


def play_agent(command: str, options: Options, *, by_socket: bool) -> list[Result]:
    """Start somebody's agent, serve it, and tell what it did wrong."""
    with tempfile.TemporaryDirectory(prefix="conformance-") as directory:
        path = str(Path(directory) / "dispatch.sock")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            listener.settimeout(options.patience_s)
            process = subprocess.Popen(
                shlex.split(command),
                env={**os.environ, "TOOLDISPATCHD_SOCKET": path},
                stdin=subprocess.DEVNULL if by_socket else subprocess.PIPE,
                stdout=subprocess.DEVNULL if by_socket else subprocess.PIPE,
            )
            wrong = _serve_agent(process, listener if by_socket else None, options)
    found = []
    for name, about in AGENT_CHECKS.items():
        check = Transcript(name, about, "core", "1.0", "", [], [], [])
        found.append(Result(check, "failed" if name in wrong else "passed", wrong.get(name, "")))
    return found


def _serve_agent(process: subprocess.Popen[bytes], listener: socket.socket | None, options: Options) -> dict[str, str]:
    wrong: dict[str, str] = {}
    try:
        if listener is not None:
            stream, _ = listener.accept()
            descriptor = stream.fileno()
            end = lambda: stream.shutdown(socket.SHUT_WR)  # noqa: E731
            channel = Channel(descriptor, descriptor, end=end, close=stream.close)
        else:
            assert process.stdin is not None
            assert process.stdout is not None
            stdin, stdout = process.stdin, process.stdout
            channel = Channel(stdout.fileno(), stdin.fileno(), end=stdin.close, close=stdout.close)
        agent = Agent(channel, options)
        wrong = agent.wrong
        try:
            agent.serve()
        finally:
            channel.end_input()
        if process.wait(options.patience_s) != 0:
            wrong.setdefault("bye", f"it ended with {process.returncode}")
        channel.close()
    except (WrongError, OSError, subprocess.TimeoutExpired) as error:
        wrong.setdefault("bye", f"it did not end as it should: {error or type(error).__name__}")
    finally:
        end_process(process, options.patience_s)
    return wrong


# --- the command ---


def add_arguments(words: argparse.ArgumentParser) -> None:
    """Declare what the command line may say."""
    ways = words.add_mutually_exclusive_group()
    ways.add_argument(
        "--start", metavar="CMD", help="start a daemon for each set; {fixtures} {name} {socket} are filled in"
    )
    ways.add_argument(
        "--socket", metavar="SET=PATH", action="append", help="a daemon that listens already; may be repeated"
    )
    ways.add_argument("--stdio", metavar="CMD", help="a daemon for each transcript, on its stdin and stdout")
    ways.add_argument("--pair", metavar="CMD", help="the same on two descriptors, {read} and {write}")
    ways.add_argument("--agent", metavar="CMD", help="hold an agent to the protocol, on its stdin and stdout")
    ways.add_argument("--list", action="store_true", help="say which transcripts there are")
    words.add_argument("--agent-socket", action="store_true", help="--agent has its channel at $TOOLDISPATCHD_SOCKET")
    words.add_argument("--level", action="append", choices=LEVELS, help="only this level; all but product without it")
    words.add_argument("--can", action="append", default=[], metavar="NEED", help=f"of {', '.join(sorted(UNSAID))}")
    words.add_argument("--cannot", action="append", default=[], metavar="NEED", help="skip what needs this")
    words.add_argument("--slow", action="store_true", help="also what takes its time: the same as --can slow")
    words.add_argument("--seed", type=int, help="cut each line anywhere, by this number")
    words.add_argument("--patience", type=float, default=10.0, metavar="S", help="for each step (10)")
    words.add_argument("--jobs", type=int, default=1, metavar="N", help="so many transcripts at a time (1)")
    words.add_argument("--report", choices=sorted(REPORTS), default="text")
    words.add_argument("transcript", nargs="*", help="only these, by their names")


def way_of(asked: argparse.Namespace) -> Way | None:
    if asked.start:
        return Started(asked.start, asked.patience)
    if asked.socket:
        return Sockets(asked.socket)
    command = asked.stdio or asked.pair
    return Piped(command, asked.patience) if command else None


def run(asked: argparse.Namespace) -> int:
    """0: nothing failed. 1: something did. 2: the usage is wrong, or no daemon answers."""
    if asked.list:
        for one in map(read_transcript, transcripts()):
            print(f"{one.level:10} {one.name:40} {' '.join(one.musts)}")
        return 0
    options = Options(asked.patience, asked.seed)
    if asked.agent:
        daemon, results = Daemon(None, {}), play_agent(asked.agent, options, by_socket=asked.agent_socket)
    else:
        way = way_of(asked)
        if way is None:
            print("one of --start, --socket, --stdio, --pair, --agent and --list says what to do", file=sys.stderr)
            return 2
        levels = asked.level or [level for level in LEVELS if level != "product"]
        choice = Choice(levels, asked.transcript, asked.can + ["slow"] * asked.slow, asked.cannot)
        try:
            daemon, results = play_all(way, choice, options, asked.jobs)
        except (WrongError, OSError) as error:
            print(f"cannot play anything: {error}", file=sys.stderr)
            return 2
        finally:
            way.close()
    for line in REPORTS[asked.report](daemon, results):
        print(line)
    return 1 if any(one.outcome == "failed" for one in results) else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    command = argparse.ArgumentParser(description=__doc__)
    add_arguments(command)
    sys.exit(run(command.parse_args()))
