import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.runner.lines import Merger, Voice
from tooldispatchd.wire.splitting import AGENT_PORTS, HOLD_BYTES, LineRoute, Splitter, way_of

REQUEST = b'{"__port":"tool_req","id":"1","name":"echo"}\n'
OTHER = b'{"__port":"log","text":"tool_req"}\n'


def cut(whole: bytes, at: list[int]) -> list[bytes]:
    """`whole` in pieces."""
    places = sorted({place % (len(whole) + 1) for place in at} | {0, len(whole)})
    return [whole[begin:end] for begin, end in pairwise(places)]


def spoken(pieces: list[tuple[LineRoute, bytes]], way: LineRoute) -> bytes:
    return b"".join(piece for to, piece in pieces if to is way)


@pytest.mark.parametrize("port", sorted(AGENT_PORTS))
def test_a_line_with_an_agents_port_goes_to_the_daemon(port: str) -> None:
    assert way_of(json.dumps({"x": [1], "__port": port}).encode()) is LineRoute.DAEMON


@pytest.mark.parametrize(
    "line",
    [
        b'{"__port":"tool_resp","id":"1"}',
        b'{"__port":"log"}',
        b'{"__port":1}',
        b'{"id":"1","name":"echo","input":1}',
        b'{"inner":{"__port":"tool_req"}}',
        b'["__port","tool_req"]',
        b'"__port"',
        b'{"__port":"tool_req"',
        b'{"__port":"tool_req"} {}',
        b'see "__port":"tool_req"',
        b'\xff{"__port":"tool_req"}',
        b"[" * 100_000 + b"__port",
        b"",
    ],
)
def test_every_other_line_goes_past_it(line: bytes) -> None:
    assert way_of(line) is LineRoute.PAST


def test_a_port_that_is_spelled_with_escapes_is_a_port() -> None:
    assert way_of(rb'{"\u005f_port":"tool_\u0072eq","id":"1"}') is LineRoute.DAEMON


LINES = st.lists(
    st.sampled_from([REQUEST, OTHER, b"\n", b"text\r\n", b"  > \n", b' \t{"__port":"ping"}\n', b"\xff\x00\n", b"{\n"])
    | st.binary(max_size=20).map(lambda text: text.replace(b"\n", b"") + b"\n"),
    max_size=12,
)


@given(LINES, st.sampled_from([b"", b"{half", b"half", REQUEST[:-1], b" "]), st.lists(st.integers(0, 999), max_size=9))
def test_each_line_goes_its_way_wherever_the_bytes_are_cut(lines: list[bytes], last: bytes, at: list[int]) -> None:
    splitter = Splitter()
    pieces = [piece for chunk in cut(b"".join(lines) + last, at) for piece in splitter.split(chunk)]
    pieces += splitter.end()
    for way in LineRoute:
        assert spoken(pieces, way) == b"".join(line for line in [*lines, last] if line and way_of(line) is way)


def test_a_prompt_does_not_wait_for_its_newline() -> None:
    assert Splitter().split(b"  Password: ") == [(LineRoute.PAST, b"  Password: ")]


def test_an_unfinished_object_waits_for_its_newline() -> None:
    splitter = Splitter()
    assert splitter.split(REQUEST[:-1]) == []
    assert splitter.split(b"\n") == [(LineRoute.DAEMON, REQUEST)]


def test_a_very_long_object_goes_past_in_pieces() -> None:
    splitter = Splitter()
    chunk = b'{"text":"' + b"x" * HOLD_BYTES
    assert splitter.split(chunk) == [(LineRoute.PAST, chunk)]
    assert splitter.split(b'"}\n' + REQUEST) == [(LineRoute.PAST, b'"}\n'), (LineRoute.DAEMON, REQUEST)]


def test_a_very_long_request_is_the_daemons_to_refuse() -> None:
    splitter = Splitter()
    chunk = b'{"__port":"tool_req","id":"1","input":"' + b"x" * HOLD_BYTES
    assert splitter.split(chunk) == [(LineRoute.DAEMON, chunk)]
    assert splitter.split(b'"}\n' + OTHER) == [(LineRoute.DAEMON, b'"}\n'), (LineRoute.PAST, OTHER)]


@given(st.data(), LINES, LINES)
def test_merged_lines_are_whole_and_in_the_order_of_each(
    data: st.DataObject, ours: list[bytes], theirs: list[bytes]
) -> None:
    daemon = [b"d" + line for line in theirs]
    stdin = [b"s" + line for line in ours]
    waiting = {
        Voice.DAEMON: cut(b"".join(daemon), data.draw(st.lists(st.integers(0, 999), max_size=9))),
        Voice.STDIN: cut(b"".join(stdin), data.draw(st.lists(st.integers(0, 999), max_size=9))),
    }
    merger = Merger()
    merged = b""
    while any(waiting.values()):
        voice = data.draw(st.sampled_from([voice for voice in Voice if waiting[voice]]))
        merged += merger.merge(voice, waiting[voice].pop(0))
    merged += merger.end(Voice.DAEMON) + merger.end(Voice.STDIN)
    lines = (
        merged.splitlines(keepends=True) if b"\r" not in merged else [line + b"\n" for line in merged.split(b"\n")[:-1]]
    )
    assert [line for line in lines if line.startswith(b"d")] == daemon
    assert [line for line in lines if line.startswith(b"s")] == stdin
    assert len(lines) == len(daemon) + len(stdin)


def test_a_last_line_of_stdin_gets_its_newline_and_one_of_the_daemons_is_dropped() -> None:
    merger = Merger()
    assert merger.merge(Voice.STDIN, b"a\nb") == b"a\n"
    assert merger.merge(Voice.DAEMON, b"{}\n{") == b"{}\n"
    assert merger.end(Voice.DAEMON) == b""
    assert merger.end(Voice.STDIN) == b"b\n"


def test_a_very_long_line_is_passed_on_in_pieces_and_the_other_voice_waits_for_its_end() -> None:
    merger = Merger()
    long = b"x" * (HOLD_BYTES + 1)
    assert merger.merge(Voice.DAEMON, long) == long
    assert merger.merge(Voice.STDIN, b"a\n") == b""
    assert merger.merge(Voice.DAEMON, b"y") == b"y"
    assert merger.merge(Voice.DAEMON, b"\nz\n") == b"\nz\na\n"


def test_a_very_long_line_that_is_cut_by_its_end_does_not_silence_the_other_voice() -> None:
    merger = Merger()
    merger.merge(Voice.DAEMON, b"x" * (HOLD_BYTES + 1))
    assert merger.merge(Voice.STDIN, b"a\n") == b""
    assert merger.end(Voice.DAEMON) == b"\na\n"


def test_a_voice_that_must_wait_is_not_heard_without_end() -> None:
    merger = Merger()
    merger.merge(Voice.DAEMON, b"x" * (HOLD_BYTES + 1))
    merger.merge(Voice.STDIN, b"a\n" * HOLD_BYTES)
    assert [merger.accepts(voice) for voice in Voice] == [True, False]
