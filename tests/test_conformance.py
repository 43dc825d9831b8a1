"""The conformance runner against this daemon, over each kind of channel, and against a client; and what it compares.

The daemons are forked where they can be: of those that the runner starts itself, a few show that it does.
"""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from docs.render import renderings
from protocol.conformance.run import (
    FIXTURES,
    LEVELS,
    Channel,
    Choice,
    Daemon,
    Options,
    Result,
    Schemas,
    Step,
    Transcript,
    Way,
    WrongError,
    differs,
    play_all,
    play_one,
    read_line,
    read_transcript,
    step_of,
    transcripts,
)
from tests.conformance import ALL, CAN, PATIENCE_S, RUN, WAYS, outcomes, run
from tests.daemon import spawned
from tests.daemon.forking import fork_daemon

# How a channel begins and ends: each of them starts a daemon, and what lies between is the same on every channel.
ON_PIPES: Final = (
    *("ping", "end_of_input_at_once", "end_of_input_with_calls", "last_line_without_newline", "bye_at_once"),
    *("agents_end_of_input", "token_three_failures", "lines_of_the_daemon"),
)


@pytest.fixture(scope="module")
def sockets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ...]]:
    """The words that tell the runner of a daemon for each set of fixtures."""
    with ExitStack() as stack:
        words: list[str] = []
        for name in sorted({read_transcript(path).fixtures for path in transcripts()}):
            place = tmp_path_factory.mktemp(name)
            log = stack.enter_context((place / "log").open("ab"))
            serve = ["serve", "--config", str(FIXTURES / f"{name}.toml"), "--listen", f"unix:{place / 'socket'}"]
            process = stack.enter_context(fork_daemon(serve, log.fileno()))
            daemon = stack.enter_context(spawned.ready(spawned.Daemon(process, place / "socket", place / "log")))
            words += ["--socket", f"{name}={daemon.path}"]
        yield (*words,)


@pytest.fixture(scope="module")
def report(sockets: tuple[str, ...]) -> dict[str, object]:
    return run(*ALL, *sockets)


def test_every_transcript_holds_on_a_socket(report: dict[str, object]) -> None:
    assert outcomes(report, "failed") == {}


def test_nothing_is_skipped_on_a_socket_but_what_the_daemon_cannot_do_yet(report: dict[str, object]) -> None:
    # `make soak` plays the slow ones; what ends its daemon is below.
    reasons = {why for why in outcomes(report, "skipped").values() if "of version" not in why}
    assert reasons <= {"needs approval", "needs slow", "needs a daemon that the runner has started"}
    assert len(outcomes(report, "passed")) > 150


def test_transcripts_hold_where_their_lines_come_in_pieces(sockets: tuple[str, ...]) -> None:
    assert outcomes(run("--level", "core", *sockets, "--seed", "1"), "failed") == {}


def test_a_daemon_of_its_own_is_told_to_end() -> None:
    assert outcomes(run(*WAYS["socket"], "daemon_drains"), "passed").keys() == {"daemon_drains"}


@pytest.mark.parametrize("words", [["nosuchname"], ["ping", "nosuchname"], ["ping", "--level", "select"]])
def test_what_plays_nothing_is_a_mistake(sockets: tuple[str, ...], words: list[str]) -> None:
    done = subprocess.run([sys.executable, str(RUN), *sockets, *words], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, b"")


@pytest.mark.parametrize(
    ("level", "since", "daemon", "is_too_old"),
    [
        ("select", "1.3", Daemon({"select": True}, {}), False),
        ("core", "1.3", Daemon({"select": True}, {}), False),
        ("core", "1.2", Daemon({"jobs": True}, {}), True),
        ("core", "1.2", Daemon({"jobs": True}, {}, "1.2"), False),
        ("select", "1.3", Daemon({"select": True}, {}, "1.1"), False),
        ("core", "1.1", Daemon(None, {}), True),
    ],
)
def test_each_level_is_judged_by_its_own_capability(
    level: str, since: str, daemon: Daemon, *, is_too_old: bool
) -> None:
    assert daemon.is_too_old(Transcript("t", "It is.", level, since, "basic", [], [], [])) == is_too_old


class OnPipes(Way):
    """A forked daemon for each transcript, on its stdin and stdout."""

    def open(self, fixtures: str) -> Channel:
        its_read, write = os.pipe()
        read, its_write = os.pipe()
        serve = ["serve", "--config", str(FIXTURES / f"{fixtures}.toml"), "--listen", "stdio"]
        daemon = fork_daemon(serve, stdin=its_read, stdout=its_write)
        os.close(its_read)
        os.close(its_write)
        open_ends = {read, write}

        def shut(*ends: int) -> None:
            for one in open_ends.intersection(ends):
                open_ends.discard(one)
                os.close(one)

        def close() -> None:
            shut(read, write)
            daemon.terminate()
            daemon.wait(PATIENCE_S)

        return Channel(read, write, end=partial(shut, write), close=close, begin_s=PATIENCE_S)


def test_transcripts_hold_on_pipes() -> None:
    _, results = play_all(OnPipes(), Choice([*LEVELS], [*ON_PIPES], CAN, []), Options(PATIENCE_S), 1)
    assert {one.transcript.name: one.why or one.outcome for one in results} == dict.fromkeys(ON_PIPES, "passed")


# Two descriptors are opened as those of stdio are, and differ in how they end. One on a socket is started for the
# command, below.
@pytest.mark.parametrize(("way", "name"), [("stdio", "ping"), ("pair", "end_of_input_with_calls")])
def test_the_runner_starts_daemons(way: str, name: str) -> None:
    found = run(*ALL, *WAYS[way], name)
    assert outcomes(found, "passed").keys() == {name}


# --- what is equal ---


@pytest.mark.parametrize(
    ("expected", "seen"),
    [
        ({"$is": "any"}, None),
        ({"$is": "number"}, 0.5),
        ({"a": {"$optional": 1}}, {}),
        ({"a": {"$optional": 1}}, {"a": 1}),
        ({"a": {"$absent": True}}, {}),
        ({"$subset": {"a": 1}}, {"a": 1, "b": 2}),
        ({"$json": {"a": [1]}}, '{"a":[1]}'),
        ({"$contains": "b"}, "abc"),
        ({"$not_contains": "d"}, ["abc"]),
        ({"$all": [{"$contains": "a"}, {"$contains": "b"}]}, "ab"),
        ({"$any_order": [{"a": {"$bind": "x"}}, 1]}, [1, {"a": "b"}]),
        ([{"$bind": "x"}, {"$ref": "x"}], ["a", "a"]),
        ([{"$same": "x"}, {"$same": "x"}], [{"error": "a", "line": 1, "agent": "b"}, {"error": "a", "line": 2}]),
        (1, 1.0),
        ({"__port": "pong"}, {"__port": "pong", "new": 1}),
        ({"error": "x", "category": "y"}, {"error": "x", "category": "y", "hint": "z"}),
    ],
)
def test_a_value_is_as_expected(expected: object, seen: object) -> None:
    assert differs(expected, seen, {}) == ""


@pytest.mark.parametrize(
    ("expected", "seen"),
    [
        ({"$is": "number"}, True),
        ({"$is": "string"}, 1),
        ({"a": {"$optional": 1}}, {"a": 2}),
        ({"a": {"$absent": True}}, {"a": None}),
        ({"$subset": {"a": 1}}, {"b": 2}),
        ({"$json": {"a": [1]}}, '{"a":[2]}'),
        ({"$json": 1}, "{"),
        ({"$not_contains": "b"}, {"a": "b"}),
        ({"$any_order": [1, 1]}, [1, 2]),
        ({"$any_order": [1]}, [1, 1]),
        ([{"$bind": "x"}, {"$ref": "x"}], ["a", "b"]),
        ([{"$bind": "x"}, {"$bind": "y"}], ["a", "a"]),
        ([{"$same": "x"}, {"$same": "x"}], [{"error": "a", "line": 1}, {"error": "a", "line": 1, "source": "b"}]),
        (True, 1),
        ("1", 1),
        ([1, 2], [2, 1]),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": 1, "b": {"$is": "any"}}, {"a": 1}),
        ({"__port": "pong"}, {"__port": "pong", "agent": "a"}),
        ({"content": "1"}, {"content": "1.0"}),
    ],
)
def test_any_other_value_is_told(expected: object, seen: object) -> None:
    assert differs(expected, seen, {}) != ""


@pytest.mark.parametrize(
    "line",
    [b"{}", b"\n", b"{}\r\n", b" {}\n", b"[]\n", b'{"a":NaN}\n', b'{"a":1,"a":1}\n', b'{"a":"\xff"}\n', b"{}}\n"],
)
def test_a_line_of_the_daemon_that_is_none_is_told(line: bytes) -> None:
    with pytest.raises(WrongError):
        read_line(line)


def test_a_schema_that_is_broken_is_told(tmp_path: Path) -> None:
    schema = {
        "oneOf": [{"$ref": "#/$defs/a"}],
        "$defs": {"a": {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}},
    }
    (tmp_path / "daemon.json").write_text(json.dumps(schema), encoding="utf-8")
    schemas = Schemas(tmp_path)
    assert schemas.refuses("daemon", {"a": 1}) == ""
    assert schemas.refuses("daemon", {"a": 2}) == "/a is 2, not 1"
    assert schemas.refuses("daemon", {}) == "/a is missing"
    assert schemas.refuses("agent", 5) == ""


# --- time ---


class Answering(Way):
    """Where each daemon answers one line with a `pong`, after the next of these pauses."""

    def __init__(self, *pauses_s: float) -> None:
        self._pauses_s = iter(pauses_s)

    def open(self, fixtures: str) -> Channel:
        ours, theirs = socket.socketpair()
        pause_s = next(self._pauses_s)

        def answer() -> None:
            # A player for whom it comes too late has gone.
            with suppress(BrokenPipeError), theirs, theirs.makefile("rwb") as lines:
                lines.readline()
                time.sleep(pause_s)
                lines.write(b'{"__port":"pong"}\n')
                lines.flush()

        threading.Thread(target=answer, daemon=True).start()
        descriptor = ours.fileno()
        return Channel(descriptor, descriptor, end=partial(ours.shutdown, socket.SHUT_WR), close=ours.close)


IN_TIME: Final = Transcript(
    *("in_time", "A ping is answered soon.", "core", "1.0", "basic", [], []),
    [Step("agent", {"__port": "ping"}, 2), Step("daemon", {"__port": "pong"}, 3, within_ms=200)],
)


def play(way: Way) -> Result:
    return play_one(IN_TIME, Daemon({}, {}), way, Choice(["core"], [], [], []), Options(PATIENCE_S))


def test_a_line_that_is_late_once_or_twice_is_played_again() -> None:
    assert play(Answering(0.5, 0.5, 0)).outcome == "passed"


def test_a_line_that_is_always_late_fails() -> None:
    found = play(Answering(0.5, 0.5, 0.5))
    assert (found.outcome, "in 3 plays" in found.why) == ("failed", True)


@contextmanager
def channel_with(data: bytes) -> Iterator[Channel]:
    """A channel on which this has come."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(data)
        yield Channel(ours.fileno(), ours.fileno(), end=lambda: None, close=lambda: None)


def test_a_line_breaks_a_silence() -> None:
    with channel_with(b"{}\n") as channel:
        assert not channel.is_silent(60)
        assert channel.line(PATIENCE_S) == b"{}\n"


def test_a_line_that_is_found_after_a_silence_breaks_it_not() -> None:
    with channel_with(b"{}\n") as channel:
        time.sleep(0.02)
        assert channel.is_silent(0.01)
        assert channel.line(PATIENCE_S) == b"{}\n"


# --- the files ---


@pytest.mark.parametrize("path", transcripts(), ids=lambda path: path.stem)
def test_a_transcript_can_be_read_and_fixes_no_words(path: Path) -> None:
    transcript = read_transcript(path)
    assert transcript.about.endswith(".")
    assert (FIXTURES / f"{transcript.fixtures}.toml").exists()
    text = path.read_text(encoding="utf-8")
    assert not set(text) & set("\u0085\u2028\u2029")
    assert '"detail": "' not in text
    assert '"did_you_mean": "' not in text


def test_a_step_that_is_not_known_is_told() -> None:
    with pytest.raises(ValueError, match="unknown line"):
        step_of({"daemon_sings": 1})


def test_the_configurations_say_what_the_fixtures_say() -> None:
    found = {name: (FIXTURES / name).read_text(encoding="utf-8") for name in renderings()}
    assert found == renderings()


# --- agents ---

AGENT: Final = """
import json, os, socket, sys

if "--socket" in sys.argv:
    channel = socket.socket(socket.AF_UNIX)
    channel.connect(os.environ["TOOLDISPATCHD_SOCKET"])
    requests, answers = channel.makefile("wb"), channel.makefile("rb")
else:
    requests, answers = sys.stdout.buffer, sys.stdin.buffer
heard = {}

def say(**line):
    requests.write(json.dumps(line).encode() + b"\\n")
    requests.flush()

def call(name, value, id):
    say(__port="tool_req", id=id, name=name, input=value)

def answer(id):
    while id not in heard:
        line = json.loads(answers.readline())
        if line["__port"] == "ping":
            say(__port="pong", t=line["t"])
        elif line["__port"] == "tool_resp":
            heard[line["id"]] = line["content"]
    return heard[id]

say(__port="hello")
call("echo", "a", "1")
answer("1")
call("slow", "b", "2")
call("echo", "c", "3")
answer("3")
answer("2")
call("fails", {}, "4")
fault = json.loads(answer("4"))
call("report", {"a": heard["1"], "b": heard["2"], "c": heard["3"], "fails": fault["category"]}, "5")
answer("5")
say(__port="bye")
while answers.readline():
    pass
"""
WRONG: Final = {
    'say(__port="pong", t=line["t"])': ("pong", 'say(__port="pong", t=1)'),
    'call("slow", "b", "2")': ("ids", 'call("echo", "z", "")\ncall("slow", "b", "2")'),
    '"b": heard["2"], "c": heard["3"]': ("order", '"b": heard["3"], "c": heard["2"]'),
    'fault["category"]': ("fault", 'fault["error"]'),
    '"a": heard["1"]': ("content", '"a": heard["1"].replace("\\u2028", "")'),
    "    pass\n": ("bye", "    pass\nsys.exit(1)\n"),
    'say(__port="hello")': ("lines", 'say(__port="hello")\nrequests.write(b"hello there\\n")'),
}


def play_agent(program: str, directory: Path, *words: str) -> dict[str, str]:
    """What the runner has against an agent, by the name of what it checks."""
    path = directory / "agent.py"
    path.write_text(program, encoding="utf-8")
    command = f"{sys.executable} {path} {' '.join(words)}"
    more = ["--agent-socket"] if words else []
    done = subprocess.run(
        [sys.executable, str(RUN), "--report", "json", "--patience", "20", "--agent", command, *more],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    failed = outcomes(json.loads(done.stdout), "failed")
    assert done.returncode == bool(failed)
    return failed


@pytest.mark.parametrize("words", [(), ("--socket",)], ids=["stdio", "socket"])
def test_an_agent_that_keeps_to_the_protocol_passes(words: tuple[str, ...], tmp_path: Path) -> None:
    assert play_agent(AGENT, tmp_path, *words) == {}


@pytest.mark.parametrize("right", WRONG)
def test_what_an_agent_does_wrong_is_told(right: str, tmp_path: Path) -> None:
    check, wrong = WRONG[right]
    assert right in AGENT
    assert check in play_agent(AGENT.replace(right, wrong), tmp_path)


def test_the_command_is_the_runner() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tooldispatchd", "conformance", "ping", "ids"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.endswith("2 passed, 0 failed, 0 skipped\n")
    assert done.returncode == 0
