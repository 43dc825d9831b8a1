"""What servers write to the log: at their level, on one line, and no more than is bearable."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from tests.providers.mcp.recording import Recording
from tooldispatchd.providers.mcp.logmessages import MAX_A_SECOND, MAX_PARAMS_BYTES, MAX_TEXT_CHARS, ServerLog, printable

SAID = Raw(b'{"level":"info","data":"hi"}')


def logged(message: object) -> tuple[str, str, dict[str, object]]:
    log = Recording()
    ServerLog("docs", log).take(Raw(msgspec.json.encode(message)), 0.0)
    (line,) = log.lines
    return line


@pytest.mark.parametrize(
    ("said", "level"),
    [
        ("debug", "debug"),
        ("info", "info"),
        ("notice", "info"),
        ("warning", "warning"),
        ("error", "error"),
        ("critical", "error"),
        ("alert", "error"),
        ("emergency", "error"),
        ("chatty", "info"),
    ],
)
def test_a_message_is_logged_at_its_level(said: str, level: str) -> None:
    fields = {"server": "docs", "said_level": said, "logger": "db", "text": "slow"}
    assert logged({"level": said, "logger": "db", "data": "slow"}) == (level, "server said", fields)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("a\n\x1b[31mred\u202e", "a\\n\\x1b[31mred\\u202e"),
        ({"rows": [1, None], "a": "b\n"}, '{"rows":[1,null],"a":"b\\n"}'),
        (None, "null"),
        ("", ""),
        ("x" * (MAX_TEXT_CHARS + 1), "x" * MAX_TEXT_CHARS),
        ("\x00" * MAX_TEXT_CHARS, ("\\x00" * MAX_TEXT_CHARS)[:MAX_TEXT_CHARS]),
        (["x" * MAX_TEXT_CHARS], '["' + "x" * (MAX_TEXT_CHARS - 2)),
    ],
)
def test_what_a_message_says_is_one_line_that_can_be_printed(data: object, text: str) -> None:
    assert logged({"level": "info", "data": data})[2]["text"] == text


def test_text_that_is_no_unicode_is_shown_as_far_as_it_goes() -> None:
    log = Recording()
    ServerLog("docs", log).take(Raw(b'{"data":"a\xffb"}'), 0.0)
    assert log.lines[0][2]["text"] == '"a\ufffdb"'


def test_messages_over_the_rate_are_counted_and_told_once() -> None:
    log = Recording()
    said = ServerLog("docs", log)
    for _ in range(MAX_A_SECOND + 3):
        said.take(SAID, 10.0)
    assert len(log.lines) == MAX_A_SECOND
    assert said.due == 11.0
    said.tell(10.9)
    said.tell(11.0)
    said.tell(12.0)
    assert log.lines[MAX_A_SECOND:] == [("warning", "messages dropped", {"server": "docs", "count": 3})]
    assert said.due == math.inf


def test_the_next_second_has_its_own_messages_and_tells_first_what_was_dropped() -> None:
    log = Recording()
    said = ServerLog("docs", log)
    for _ in range(MAX_A_SECOND + 1):
        said.take(SAID, 10.0)
    said.take(SAID, 11.5)
    assert [event for _, event, _ in log.lines[MAX_A_SECOND:]] == ["messages dropped", "server said"]


def test_what_was_dropped_is_told_at_the_end() -> None:
    log = Recording()
    said = ServerLog("docs", log)
    for _ in range(MAX_A_SECOND + 1):
        said.take(SAID, 10.0)
    said.close()
    said.close()
    assert log.lines[MAX_A_SECOND:] == [("warning", "messages dropped", {"server": "docs", "count": 1})]


@pytest.mark.parametrize(
    "params", [UNSET, Raw(b"[]"), Raw(b"{}"), Raw(b'{"data":1,"level":5}'), Raw(b'{"data":"' + b"x" * MAX_PARAMS_BYTES)]
)
def test_what_cannot_be_read_is_counted(params: Raw) -> None:
    log = Recording()
    said = ServerLog("docs", log)
    said.take(params, 0.0)
    said.tell(1.0)
    assert log.lines == [("warning", "messages dropped", {"server": "docs", "count": 1})]


@given(st.text(), st.integers(0, 20))
def test_any_text_is_made_printable_within_its_bound(text: str, max_chars: int) -> None:
    shown = printable(text, max_chars)
    assert shown.isprintable()
    assert len(shown) <= max_chars


@given(st.binary(max_size=60))
def test_any_bytes_are_a_line_or_are_counted(params: bytes) -> None:
    log = Recording()
    said = ServerLog("docs", log)
    said.take(Raw(params), 0.0)
    said.close()
    assert len(log.lines) == 1
