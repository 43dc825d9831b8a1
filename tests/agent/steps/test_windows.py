"""Looks into a stored text: windows of it are the whole of it, and a search takes linear time."""

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.agent.steps.windows import (
    MAX_LINE_BYTES,
    SHOWN_BYTES,
    Look,
    LookReply,
    grep_output,
    query_output,
    read_output,
)
from tooldispatchd.wire.heavy import content_of


def asked(work: object, text: str | bytes, tmp_path: Path, **fields: object) -> object:
    """What the look gives, or the key that is wrong."""
    file = tmp_path / "1"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    look = Look(str(file), **{"max_bytes": 64 * 1024, "limit": 50, **fields})  # type: ignore[arg-type]  # its own keys
    reply, said = work(msgspec.msgpack.encode(look), bytearray())  # type: ignore[operator]  # one of the three
    found = msgspec.msgpack.decode(reply, type=LookReply)
    if found.why is not None:
        return found.key
    content = content_of(bytearray(said), found.size, is_quoted=found.is_quoted)
    return json.loads(content if isinstance(content, str) else json.loads(content.literal))


@given(st.text(max_size=60), st.integers(1, 9))
def test_all_windows_together_are_the_text(tmp_path_factory: pytest.TempPathFactory, text: str, size: int) -> None:
    place, offset, found = tmp_path_factory.getbasetemp(), 0, ""
    for _ in range(200):
        window = asked(read_output, text, place, offset=offset, bytes=size)
        assert isinstance(window, dict)
        assert window["offset"] == offset
        found += window["text"]
        if window["next_offset"] is None:
            break
        offset = window["next_offset"]
    assert found == text


@pytest.mark.parametrize(
    ("fields", "text", "offset", "next_offset"),
    [
        ({"line": 1}, "one\ntwo\ndré\n", 0, None),
        ({"line": 2, "lines": 1}, "two\n", 4, 8),
        ({"line": 3}, "dré\n", 8, None),
        ({"line": 4}, "", 13, None),
        ({"line": 99}, "", 13, None),
        ({"offset": 11}, "\n", 12, None),
        ({"offset": 99}, "", 13, None),
        ({"offset": 10, "bytes": 1}, "é", 10, 12),
        ({"offset": 1, "lines": 2}, "ne\ntwo\n", 1, 8),
    ],
)
def test_a_window_begins_at_a_line_or_a_byte(
    tmp_path: Path, fields: dict[str, object], text: str, offset: int, next_offset: int | None
) -> None:
    window = asked(read_output, "one\ntwo\ndré\n", tmp_path, **fields)
    assert isinstance(window, dict)
    assert (window["text"], window["offset"], window["next_offset"], window["of"]) == (text, offset, next_offset, 13)


def test_a_window_whose_escapes_are_long_still_fits(tmp_path: Path) -> None:
    window = asked(read_output, "\x01" * 10_000, tmp_path, max_bytes=1024)
    assert isinstance(window, dict)
    assert len(json.dumps(window)) < 1200
    assert window["next_offset"] == window["bytes"] > 100


def test_lines_with_a_match_are_found_with_their_places(tmp_path: Path) -> None:
    assert asked(grep_output, "é one\r\ntwo\nONE", tmp_path, pattern="one$", ignore_case=True) == {
        "matches": [{"line": 1, "offset": 0, "text": "é one"}, {"line": 3, "offset": 12, "text": "ONE"}],
        "found": 2,
        "is_all": True,
    }
    limited = asked(grep_output, "a\n" * 10, tmp_path, pattern="a", limit=2)
    assert isinstance(limited, dict)
    assert (len(limited["matches"]), limited["found"], limited["is_all"]) == (2, 10, False)


def test_of_a_long_line_what_is_around_the_match_is_shown(tmp_path: Path) -> None:
    # Its pieces end within characters.
    text = "é" * (MAX_LINE_BYTES + 7) + "needle" + "z" * 9_000
    found = asked(grep_output, text, tmp_path, pattern="needle")
    assert isinstance(found, dict)
    assert found["found"] == 1
    assert "needle" in found["matches"][0]["text"]
    assert len(found["matches"][0]["text"]) <= SHOWN_BYTES + 2
    assert found["matches"][0]["line"] == 1


@pytest.mark.parametrize("pattern", ["(", "a(?=b)", r"(a)\1", "x" * 2_000])
def test_a_pattern_that_cannot_be_searched_in_linear_time_is_refused(tmp_path: Path, pattern: str) -> None:
    assert asked(grep_output, "a", tmp_path, pattern=pattern) == "pattern"


def test_a_pattern_that_ruins_others_takes_no_time(tmp_path: Path) -> None:
    found = asked(grep_output, "a" * 60_000 + "!", tmp_path, pattern="(a+)+$")
    assert found == {"matches": [], "found": 0, "is_all": True}


def test_a_search_that_takes_too_long_says_how_far_it_came(tmp_path: Path) -> None:
    found = asked(grep_output, "a\n" * 10, tmp_path, pattern="a", grep_s=-1.0)
    assert found == {"matches": [], "found": 0, "is_all": False, "searched_bytes": 0}


@pytest.mark.parametrize(
    ("text", "query", "found"),
    [
        ('{"a":[{"n":1},{"n":2}]}', "a[?n > `1`].n", [2]),
        ("[1,2]", "length(@)", 2),
        ('{"a":1}', "b", None),
        ('{"a":1}', "a[", "query"),
        ('{"a":1}', "length(a)", "query"),
        ("no json", "@", "handle"),
    ],
)
def test_a_query_finds_something_in_a_document(tmp_path: Path, text: str, query: str, found: object) -> None:
    assert asked(query_output, text, tmp_path, query=query) == found


def test_a_large_finding_is_quoted_where_it_is_found(tmp_path: Path) -> None:
    assert asked(query_output, json.dumps({"a": "x" * 100_000}), tmp_path, query="a") == "x" * 100_000


def test_a_file_that_is_gone_blames_no_key(tmp_path: Path) -> None:
    reply, _ = read_output(msgspec.msgpack.encode(Look(str(tmp_path / "gone"), 1024)), bytearray())
    assert msgspec.msgpack.decode(reply, type=LookReply) == LookReply("No such file or directory")
