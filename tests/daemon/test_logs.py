"""Tests of `daemon.logs`: what a line looks like, where, and from which level on."""

import json
import os
from collections.abc import Mapping
from pathlib import PurePath

import pytest

from tooldispatchd.agent.session.administration import LEVELS
from tooldispatchd.catalog.masker import Masker
from tooldispatchd.daemon.logs import DaemonLog, LogOutput, LogSink, render_json, render_text


def log_to_pipe(level: str, masker: Masker) -> tuple[DaemonLog, int]:
    reading, writing = os.pipe()
    sink = LogSink(writing)
    os.close(writing)
    os.set_blocking(reading, False)
    return DaemonLog(LogOutput(sink, render_json, level=LEVELS[level], masker=masker), {}), reading


def test_lines_from_the_level_on_have_the_fields_of_their_logger_and_no_secret() -> None:
    log, reading = log_to_pipe("info", Masker(["hush-hush-hush"]))
    own = log.bind(session=3)
    own.debug("not said")
    own.info("session opened", profile="default", note="hush-hush-hush")
    line = json.loads(os.read(reading, 4096))
    os.close(reading)
    assert (line["level"], line["event"], line["session"], line["profile"]) == ("info", "session opened", 3, "default")
    assert "hush" not in line["note"]


def test_a_line_of_json_begins_with_its_time_in_utc() -> None:
    line = render_json(1.5, "warning", "that", {"error": ValueError("x")})
    assert line == b'{"time":"1970-01-01T00:00:01.500000Z","level":"warning","event":"that","error":"x"}'


def test_what_does_not_print_is_escaped_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    line = render_text(0.0, "info", "server up", {"server": "a\x1b[2J", "count": 2, "words": "two of them", "no": ""})
    assert (
        line.split(b" ", 1)[1] == rb'info    server up                server=a\x1b[2J count=2 words="two of them" no=""'
    )


def test_no_value_is_written_as_python_writes_it_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    fields: dict[str, object] = {
        "listening": ["unix:/a"],
        "names": [None, ("b", 1)],
        "uid": None,
        "is_up": True,
        "took_s": 0.04123,
        "grace_s": 5.0,
        "left": {"a": False},
        "raw": b"x",
        "path": PurePath("/p"),
        "said": 'it\'s "a b"\n',
    }
    line = render_text(0.0, "info", "x", fields).decode()
    assert line.split("x  ", 1)[1].strip() == (
        "listening=unix:/a names=none; b; 1 uid=none is_up=yes took=0.0412 s grace=5 s left=a: no raw=x path=/p "
        """said='it's "a b"\\n'"""
    )


def test_a_reload_is_read_on_a_terminal_with_what_has_changed_or_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    problem = {"file": "/a/b.toml", "line": 2, "column": None, "key": "tools.f.python", "why": "cannot import f"}
    lines = [
        render_text(0.0, "info", "reloaded", {"changed": ("tools.f: code", "tools.g: new")}),
        render_text(0.0, "info", "reloaded", {"changed": ()}),
        render_text(
            0.0, "error", "not reloaded", {"why": "cannot use it: 2 problems", "problems": [problem, {"why": "\x1b"}]}
        ),
    ]
    assert [line.split(b"reloaded", 1)[1].strip() for line in lines] == [
        b"changed=tools.f: code; tools.g: new",
        b"changed=none",
        rb"problems=/a/b.toml:2: tools.f.python: cannot import f; \x1b",
    ]


def test_a_terminal_gets_colours_unless_it_wants_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert b"\x1b[31merror" in render_text(0.0, "error", "x", {})


def test_an_incident_tells_its_place_and_at_debug_alone_its_message() -> None:
    log, reading = log_to_pipe("info", Masker([]))
    try:
        int("a value")
    except ValueError as error:
        incident = log.incident("call failed", error)
    (line,) = os.read(reading, 4096).splitlines()
    os.close(reading)
    told = json.loads(line)
    assert (told["incident"], told["error"]) == (incident, "ValueError")
    assert told["at"][-1].endswith("test_an_incident_tells_its_place_and_at_debug_alone_its_message")
    assert b"a value" not in line


class Reading:
    """A reader of the log that takes everything."""

    level = "debug"

    def __init__(self) -> None:
        self.told: list[dict[str, object]] = []

    def has_room_for(self, fields: Mapping[str, object]) -> bool:
        return True

    def take(self, line: bytes) -> None:
        self.told.append(json.loads(line))


def test_what_may_quote_a_payload_is_in_the_daemons_own_log_alone() -> None:
    log, reading = log_to_pipe("debug", Masker([]))
    reader = Reading()
    log.output.attach(reader)
    log.debug("stderr of a program", tool="t", stderr_tail="private words")
    log.incident("call failed", ValueError("private words"))
    own = os.read(reading, 4096)
    os.close(reading)
    assert own.count(b"private words") == 2
    assert [line["event"] for line in reader.told] == ["stderr of a program", "call failed", "incident"]
    assert (reader.told[0]["tool"], "private" in str(reader.told)) == ("t", False)
