import json
import time

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tests.providers.rest.calls import calling_at, says, streams
from tests.servers.raw_http import Peer
from tooldispatchd.calls.content import Wanted
from tooldispatchd.catalog.restspecs import RestStreamSpec
from tooldispatchd.providers.rest.tokenstreams import TokenStream
from tooldispatchd.wire.faults import Code
from tooldispatchd.wire.messages import ContentKind

LINES = RestStreamSpec(format="json-lines", line_prefix="data: ")


def token(text: str) -> bytes:
    return json.dumps({"type": "token", "content": text}).encode()


def done(**fields: object) -> bytes:
    return json.dumps({"type": "done", **fields}).encode()


def events(*objects: bytes) -> list[bytes]:
    return [b"data: " + each + b"\n\n" for each in objects]


SSE: dict[str, object] = {"stream": {}}


async def test_tokens_are_told_as_they_come_and_the_answer_at_the_end() -> None:
    script = streams(*events(token("Hello"), token(" world"), done(answer="Hello, world!")))
    async with calling_at(script, SSE) as (caller, server):
        assert await caller.value() == "Hello, world!"
    assert "".join(caller.updates) == "Hello world"
    assert server.asked[0].headers["accept"].startswith("text/event-stream")


@pytest.mark.parametrize(
    ("objects", "value"),
    [
        ([token("a"), token("b"), done()], "ab"),
        ([token("a"), done(answer=None)], "a"),
        ([token("a"), done(answer={"n": [1]})], {"n": [1]}),
        ([token("a"), b"[DONE]", token("b")], "a"),
        ([token("a"), done(answer="x"), token("b")], "x"),
        ([token("a"), token("b")], "ab"),
        ([done(answer="")], ""),
        ([token("a"), b'{"type": "ping"}', b"garbage", b"[1]", b'{"type": 3}', b"{}", token("b"), done()], "ab"),
        ([b'{"type": "token", "content": 5}', b'{"type": "token"}', token("b"), done()], "b"),
        ([], ""),
    ],
)
async def test_the_answer_is_what_the_last_object_says_or_all_tokens(objects: list[bytes], value: object) -> None:
    async with calling_at(streams(*events(*objects)), SSE) as (caller, _):
        assert await caller.value() == value


async def test_lines_of_json_are_a_stream_too() -> None:
    pieces = (
        b"data: " + token("a") + b"\r\n: comment\ndata: " + token("b")[:5],
        token("b")[5:] + b"\n\n" + done(answer="c"),
    )
    rest = {"stream": {"format": "json-lines", "line_prefix": "data: "}}
    async with calling_at(streams(*pieces), rest) as (caller, _):
        assert await caller.value() == "c"


async def test_a_last_line_need_not_be_ended() -> None:
    async with calling_at(streams(b"data: " + token("a")), SSE) as (caller, _):
        assert await caller.value() == "a"
    rest = {"stream": {"format": "json-lines"}}
    async with calling_at(streams(token("a") + b"\n", token("b")), rest) as (caller, _):
        assert await caller.value() == "ab"


async def test_other_fields_may_be_named() -> None:
    stream = {
        "discriminator_field": "kind",
        "token_value": "delta",
        "token_field": "text",
        "done_value": "stop",
        "answer_field": "final",
    }
    objects = [b'{"kind": "delta", "text": "a"}', b'{"kind": "stop", "final": "b"}']
    async with calling_at(streams(*events(*objects)), {"stream": stream}) as (caller, _):
        assert await caller.value() == "b"
    assert caller.updates == ["a"]


async def test_what_was_passed_over_is_told_to_whom_it_concerns() -> None:
    script = streams(*events(token("a"), b"garbage", b'{"type": "ping"}', b"[1]", done()))
    async with calling_at(script, SSE) as (caller, _):
        answer = await caller.answer(wanted=Wanted(ContentKind.JSON, details=True))
    assert answer.details == Raw(b'{"skipped":2}')


async def test_no_token_that_is_told_holds_a_secret() -> None:
    script = streams(*events(token("a secret-key b"), done(answer="c")))
    async with calling_at(script, SSE, api={"headers": {"X-Key": "secret-key"}}) as (caller, _):
        assert await caller.value() == "c"
    assert caller.updates == ["a … b"]


async def test_a_stream_without_one_object_is_a_failure() -> None:
    async with calling_at(says(b"<html>\n<body>\n", "text/html"), {"stream": {"format": "json-lines"}}) as (caller, _):
        fault = await caller.fault()
    assert fault.code is Code.TOOL_FAILED
    assert "2 lines that are no objects" in fault.detail


async def test_a_stream_over_its_bytes_fails_with_what_came() -> None:
    script = streams(*events(*[token("x" * 100)] * 100))
    async with calling_at(script, SSE, max_bytes=2_000) as (caller, _):
        fault = await caller.fault()
    assert fault.extras["limit"] == "content_bytes"
    assert "x" * 100 in str(fault.extras["stdout_tail"])


async def test_a_line_that_is_too_long_ends_the_stream() -> None:
    line = b'{"type": "token", "content": "' + b"x" * (1024 * 1024)
    async with calling_at(streams(token("a") + b"\n", line), {"stream": {"format": "json-lines"}}) as (caller, _):
        fault = await caller.fault()
    assert (fault.extras["limit"], fault.extras["stdout_tail"]) == ("content_bytes", "a")


async def test_a_stream_that_breaks_fails_with_what_came() -> None:
    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + events(token("so far"))[0])

    async with calling_at(script, SSE) as (caller, _):
        fault = await caller.fault()
    assert (fault.code, fault.extras["stdout_tail"]) == (Code.TOOL_FAILED, "so far")


async def test_a_stream_that_is_cancelled_says_what_came() -> None:
    has_told = trio.Event()
    async with calling_at(streams(*events(token("so far")), ends=False), SSE) as (caller, server):
        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(caller.outcome)
                while not caller.updates:
                    await trio.sleep(0.01)
                has_told.set()
                nursery.cancel_scope.cancel()
            await server.wait_until_closed(1)
    assert caller.said == {"stdout_tail": "so far"}


async def test_an_end_is_an_end_though_the_connection_stays_open() -> None:
    with trio.fail_after(5):
        async with calling_at(streams(*events(token("a"), done()), ends=False), SSE) as (caller, server):
            assert await caller.value() == "a"
            await server.wait_until_closed(1)


async def test_a_refusal_is_no_stream() -> None:
    async with calling_at(says(b'{"m": 1}', status="401 x"), SSE) as (caller, _):
        answer = await caller.answer()
    assert answer.is_error


async def test_the_answer_of_a_stream_is_checked() -> None:
    script = streams(*events(done(answer="x")))
    async with calling_at(script, SSE, tool={"type": "{} -> int"}) as (caller, _):
        assert (await caller.fault()).code is Code.INVALID_OUTPUT


async def test_many_tokens_are_one_answer() -> None:
    script = streams(b"".join(events(*[token("ab")] * 5_000)))
    async with calling_at(script, SSE) as (caller, _):
        assert await caller.value() == "ab" * 5_000
    assert "".join(caller.updates) == "ab" * 5_000


def test_an_object_of_many_members_costs_what_its_bytes_do() -> None:
    many = b'{"type": "token", "content": "x", ' + b", ".join(b'"%d": 1' % number for number in range(70_000)) + b"}"
    stream = TokenStream(RestStreamSpec(format="json-lines"), 10_000_000)
    stream.feed(many)
    took = []
    for _ in range(3):
        before = time.process_time()
        assert stream.feed(b"\n" + many[:-1]) == "x"
        took.append(time.process_time() - before)
        stream.feed(b"}")
    # Decoded whole, it took 44 ms.
    assert min(took) < 0.01


def test_a_field_may_be_the_token_and_the_answer() -> None:
    stream = TokenStream(RestStreamSpec(format="json-lines", token_field="text", answer_field="text"), 1_000)
    assert stream.feed(b'{"type": "token", "text": "a"}\n{"type": "done", "text": {"b": 1}}\n') == "a"
    assert stream.answer == b'{"b": 1}'


@given(st.lists(st.text(max_size=5), max_size=8), st.lists(st.integers(1, 40), max_size=30))
def test_wherever_it_is_cut_a_stream_says_the_same(texts: list[str], cuts: list[int]) -> None:
    for spec, whole in (
        (RestStreamSpec(), b"".join(events(*map(token, texts)))),
        (LINES, b"".join(b"data: " + token(text) + b"\n" for text in texts)),
    ):
        stream, left = TokenStream(spec, 10_000), whole
        for cut in cuts:
            stream.feed(left[:cut])
            left = left[cut:]
        stream.feed(left)
        stream.end()
        assert stream.text.decode() == "".join(texts)


@given(st.binary(max_size=200))
def test_any_bytes_are_no_defect(data: bytes) -> None:
    for spec in (RestStreamSpec(), LINES):
        stream = TokenStream(spec, 10_000)
        stream.feed(data)
        stream.end()
