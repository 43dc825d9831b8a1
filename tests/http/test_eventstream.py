import time
import tracemalloc

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.http.eventstream import (
    MAX_RETRY_MS,
    EventStream,
    EventTooLargeError,
    ServerSentEvent,
)

MIB = 1024 * 1024


def decoded(stream: bytes) -> list[ServerSentEvent]:
    return EventStream(MIB).feed(stream)


def feed_again_and_again(decoder: EventStream, chunk: bytes) -> None:
    for _ in range(1001):
        decoder.feed(chunk)


def cut_into(stream: bytes, places: list[int]) -> list[bytes]:
    ends = sorted(place % (len(stream) + 1) for place in places)
    return [stream[start:end] for start, end in zip([0, *ends], [*ends, len(stream)], strict=True)]


def test_an_event_has_its_type_its_data_and_its_id() -> None:
    assert decoded(b"event: endpoint\nid: 7\ndata: /messages\n\n") == [
        ServerSentEvent("endpoint", b"/messages", "7", None)
    ]


def test_an_event_that_names_no_type_is_a_message() -> None:
    assert decoded(b"data: {}\n\n") == [ServerSentEvent("message", b"{}", None, None)]


def test_lines_of_data_are_joined_by_newlines() -> None:
    assert decoded(b"data: a\ndata:\ndata\ndata:  b\n\n")[0].data == b"a\n\n\n b"


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_a_line_ends_in_each_of_three_ways(end: bytes) -> None:
    stream = end.join([b"data: a", b"data: b", b"", b"data: c", b"", b""])
    assert [event.data for event in decoded(stream)] == [b"a\nb", b"c"]


def test_an_event_is_there_with_the_cr_that_ends_it_and_the_lf_is_no_line_of_its_own() -> None:
    stream = EventStream(MIB)
    assert [event.data for event in stream.feed(b"data: a\r\n\r")] == [b"a"]
    assert [event.data for event in stream.feed(b"\ndata: b\r\r")] == [b"b"]


def test_a_byte_order_mark_at_the_beginning_is_passed_over_however_it_is_cut() -> None:
    stream = EventStream(MIB)
    assert stream.feed(b"\xef") == []
    assert stream.feed(b"\xbb") == []
    assert [event.data for event in stream.feed(b"\xbfdata: a\n\n")] == [b"a"]


def test_what_only_begins_like_a_byte_order_mark_is_the_name_of_a_field() -> None:
    stream = EventStream(MIB)
    stream.feed(b"\xef\xbb")
    assert [event.data for event in stream.feed(b"x: y\ndata: a\n\n")] == [b"a"]


def test_comments_and_unknown_fields_say_nothing() -> None:
    assert decoded(b": ping\n\n:\n\nother: x\n\nDATA: x\n\n") == []


def test_the_id_stays_until_another_is_given_or_it_is_taken_back() -> None:
    events = decoded(b"id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n")
    assert [event.id for event in events] == ["1", "1", ""]


def test_an_id_with_a_nul_is_ignored() -> None:
    assert decoded(b"id: 1\ndata: a\n\nid: 2\x003\ndata: b\n\n")[1].id == "1"


def test_an_event_without_data_counts_if_it_gives_an_id_or_a_time() -> None:
    assert decoded(b"id: 1\n\nretry: 500\n\nevent: ping\n\n") == [
        ServerSentEvent("message", b"", "1", None),
        ServerSentEvent("message", b"", "1", 500),
    ]


@pytest.mark.parametrize("value", [b"", b"1.5", b"-1", b"+1", b"1_000", b"\xd9\xa3", b"5 "])
def test_a_time_to_reconnect_is_digits_only(value: bytes) -> None:
    assert decoded(b"data: a\nretry: " + value + b"\n\n")[0].retry_ms is None


def test_a_time_to_reconnect_of_a_thousand_digits_is_the_longest_there_is() -> None:
    assert decoded(b"data: a\nretry: " + b"9" * 5000 + b"\n\n")[0].retry_ms == MAX_RETRY_MS
    assert decoded(b"data: a\nretry: " + b"0" * 5000 + b"7\n\n")[0].retry_ms == 7


@pytest.mark.parametrize("stream", [b"%b:\n", b"id: %b\n", b"event: %b\n", b"retry: 9%b\n"])
def test_of_a_long_line_that_is_no_data_nothing_is_copied(stream: bytes) -> None:
    decoder = EventStream(16 * MIB)
    before, end = stream.split(b"%b")
    decoder.feed(before)
    for _ in range(128):
        decoder.feed(b"9" * (64 * 1024))
    tracemalloc.start()
    try:
        decoder.feed(end + b"\n")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MIB


def test_an_event_that_its_stream_does_not_end_is_none() -> None:
    assert decoded(b"data: a\n\ndata: b\n") == [ServerSentEvent("message", b"a", None, None)]


def test_an_event_over_the_bound_is_refused_after_those_before_it() -> None:
    with pytest.raises(EventTooLargeError, match="over 100 bytes") as caught:
        EventStream(100).feed(b"data: a\n\ndata: " + b"x" * 100 + b"\n\n")
    assert caught.value.is_too_large
    assert [event.data for event in caught.value.before] == [b"a"]


@pytest.mark.parametrize("stream", [b"data: x\n", b"x", b":x", b"data: x\r\n", b"id: 1\n", b"other\n"])
def test_no_stream_makes_the_decoder_hold_more_than_the_bound(stream: bytes) -> None:
    decoder = EventStream(1000)
    with pytest.raises(EventTooLargeError):
        feed_again_and_again(decoder, stream)


def test_any_number_of_comments_is_within_the_bound() -> None:
    decoder = EventStream(100)
    for _ in range(1000):
        assert decoder.feed(b": still here\n") == []


def test_a_large_event_in_small_chunks_takes_linear_time() -> None:
    stream = EventStream(64 * MIB)
    started = time.process_time()
    stream.feed(b"data: ")
    for _ in range(256 * 1024):
        stream.feed(b"x" * 64)
    [event] = stream.feed(b"\n\n")
    assert len(event.data) == 16 * MIB
    # A quadratic decoder would copy 2 TiB for this.
    assert time.process_time() - started < 5


FIELD = st.one_of(
    st.sampled_from(
        [b"data: x", b"data:", b"data", b"id: 1", b"id:", b"event: e", b"retry: 12", b":c", b"", b"", b"z: y"]
    ),
    st.binary(max_size=8),
)
STREAM = st.lists(st.tuples(FIELD, st.sampled_from([b"\n", b"\r", b"\r\n"])), max_size=20).map(
    lambda lines: b"".join(line + end for line, end in lines)
)


@given(stream=STREAM, places=st.lists(st.integers(0, 10_000), max_size=8))
def test_cutting_a_stream_anywhere_gives_the_same_events(stream: bytes, places: list[int]) -> None:
    decoder = EventStream(MIB)
    events = [event for chunk in cut_into(stream, places) for event in decoder.feed(chunk)]
    assert events == decoded(stream)


WORD = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_characters="\x7f\x85"), max_size=6)
BLOCK = st.builds(
    lambda lines, more: [*lines, "data:x", *more],
    st.lists(st.one_of(WORD.map("data: {}".format), WORD.map("event:{}".format), WORD.map(":{}".format)), max_size=4),
    st.lists(st.one_of(WORD.map("data:{}".format), WORD.map("id: {}".format), st.just("retry: 77")), max_size=4),
)


@given(blocks=st.lists(BLOCK, max_size=6), end=st.sampled_from(["\n", "\r", "\r\n"]))
def test_it_reads_what_httpx2_reads(blocks: list[list[str]], end: str) -> None:
    text = "".join(end.join(lines) + end + end for lines in blocks)
    answer = httpx2.Response(200, headers={"Content-Type": "text/event-stream; charset=utf-8"}, content=text.encode())
    answer.request = httpx2.Request("GET", "http://127.0.0.1/")
    expected = list(httpx2.EventSource(answer))
    assert [(event.event, event.data.decode(), event.id or "", event.retry_ms) for event in decoded(text.encode())] == [
        (event.event, event.data, event.id, event.retry) for event in expected
    ]


def test_a_long_line_of_data_is_not_copied() -> None:
    decoder, piece = EventStream(16 * MIB), b"x" * (64 * 1024)
    tracemalloc.start()
    try:
        decoder.feed(b"event: message\ndata: ")
        for _ in range(128):
            decoder.feed(piece)
        [event] = decoder.feed(b"\n\n")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(event.data) == 8 * MIB
    # A growing array is an eighth larger than what it holds.
    assert peak < 10 * MIB
