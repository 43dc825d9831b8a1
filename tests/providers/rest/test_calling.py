"""A request on its way and back: what is sent, what an answer becomes, and what a failure is told as."""

import gzip
import zlib

import pytest
import trio

from tests.providers.rest.calls import MIB, calling_at, says
from tests.servers.raw_http import Peer, polite, serving
from tooldispatchd.calls.content import Wanted
from tooldispatchd.wire.faults import Code
from tooldispatchd.wire.messages import ContentKind

CITY = {"type": "{city: string, units?: string} -> json"}


async def test_a_request_is_what_its_table_says() -> None:
    rest = {"path": "/v1/${parameters.city}", "headers": {"X-Trace": "t-${parameters.units}"}}
    api = {"headers": {"Accept": "application/json", "X-Fixed": "1"}, "query": {"v": "2 &"}}
    async with calling_at(polite, rest, tool=CITY, api=api) as (caller, server):
        assert await caller.value({"city": "New York", "units": "C"}) == {}
    [asked] = server.asked
    assert (asked.method, asked.target) == ("GET", "/base/v1/New%20York?v=2%20%26")
    assert asked.headers["x-trace"] == "t-C"
    assert asked.headers["accept"] == "application/json"
    assert asked.headers["x-fixed"] == "1"
    assert asked.headers["user-agent"].startswith("tooldispatchd/")
    assert "content-length" not in asked.headers


async def test_a_body_has_its_length_and_its_media_type() -> None:
    async with calling_at(polite, {"method": "PUT", "body": "${parameters.city}"}, tool=CITY) as (caller, server):
        await caller.value({"city": "é"})
    [asked] = server.asked
    assert (asked.method, asked.body) == ("PUT", '"é"'.encode())
    assert asked.headers["content-type"] == "application/json"


async def test_an_input_of_which_no_request_can_be_made_sends_none() -> None:
    async with calling_at(polite, {"path": "/${parameters.city}"}, tool=CITY) as (caller, server):
        fault = await caller.fault({"city": ".."})
    assert fault.code is Code.INVALID_INPUT
    assert fault.extras == {
        "violations": [{"path": "/city", "message": 'a segment of the path cannot be empty, "." or ".."'}],
        "ran": "no",
    }
    assert server.connections == 0


async def test_a_large_input_is_built_by_a_checker() -> None:
    text = "x" * 300_000
    async with calling_at(polite, {"body": {"t": "${parameters.city}"}}, tool=CITY) as (caller, server):
        await caller.value({"city": text})
    assert server.asked[0].body == b'{"t":"' + text.encode() + b'"}'


async def test_a_large_input_may_be_refused_as_any_other() -> None:
    async with calling_at(polite, {"headers": {"X": "${parameters.city}"}}, tool=CITY) as (caller, server):
        fault = await caller.fault({"city": "\n" * 300_000})
    assert (fault.code, fault.extras["ran"]) == (Code.INVALID_INPUT, "no")
    assert server.connections == 0


# --- credentials ---


@pytest.mark.parametrize(
    ("api", "header", "value"),
    [
        ({"token": "tok"}, "authorization", "Bearer tok"),
        ({"basic": {"user": "u é", "password": "p:w"}}, "authorization", "Basic dSDDqTpwOnc="),
        ({"basic": {"user": "sk_1"}}, "authorization", "Basic c2tfMTo="),
        ({"api_key": {"header": "X-Key", "value": "k 1"}}, "x-key", "k 1"),
        ({"api_key": {"cookie": "sid", "value": "a;b"}}, "cookie", "sid=a%3Bb"),
    ],
)
async def test_credentials_go_along(api: dict[str, object], header: str, value: str) -> None:
    async with calling_at(polite, {}, api=api) as (caller, server):
        await caller.value()
    assert server.asked[0].headers[header] == value


async def test_a_key_may_be_an_entry_of_the_query() -> None:
    api = {"api_key": {"query": "key", "value": "a&b"}}
    async with calling_at(polite, {"path": "/t?x=1"}, api=api) as (caller, server):
        await caller.value()
    assert server.asked[0].target == "/base/t?x=1&key=a%26b"


async def test_a_cookie_of_the_tool_stands_beside_that_of_its_api() -> None:
    rest = {"cookies": {"a": "${parameters.city}"}}
    api = {"api_key": {"cookie": "sid", "value": "1"}}
    async with calling_at(polite, rest, tool=CITY, api=api) as (caller, server):
        await caller.value({"city": "x"})
    assert server.asked[0].headers["cookie"] == "a=x; sid=1"


# --- answers ---


@pytest.mark.parametrize(
    ("body", "media_type", "value"),
    [
        (b'{"a": [1, null]}', "application/json", {"a": [1, None]}),
        (b'{"a": 1}', "application/problem+json; charset=utf-8", {"a": 1}),
        (b'{"a": 1}', "", {"a": 1}),
        (b"plain", "", "plain"),
        (b"plain", "text/plain", "plain"),
        (b"3", "text/plain", "3"),
        (b"<a/>", "application/xml", "<a/>"),
        (b"<a/>", "application/atom+xml", "<a/>"),
        (b"OK", "application/json", "OK"),
        (b"", "application/json", None),
        (b" \n", "application/json", None),
        (b" \n", "text/plain", " \n"),
        (b"\xef\xbb\xbf{}", "application/json", {}),
        ('"é"'.encode("utf-16"), "application/json", "é"),
        ("é".encode("latin-1"), "text/plain; charset=ISO-8859-1", "é"),
        ("é".encode("latin-1"), 'text/plain; charset="latin1"', "é"),
        ("ж".encode("koi8-r"), "text/plain; charset=koi8-r", "ж"),
        ("é".encode(), "text/plain; charset=zip", "é"),
        ("é".encode(), "text/plain; charset=iso-8859-77", "é"),
        (b"\xff", "text/plain", "\ufffd"),
        ("é".encode("utf-16-be"), "text/plain; charset=utf-16be", "é"),
        ("\ufeffé".encode("utf-16-le"), "text/plain", "é"),
    ],
)
async def test_a_body_is_a_value_or_a_text(body: bytes, media_type: str, value: object) -> None:
    async with calling_at(says(body, media_type), {}) as (caller, _):
        assert await caller.value() == value


async def test_no_content_is_null() -> None:
    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.send(b"HTTP/1.1 204 No Content\r\nContent-Type: application/json\r\n\r\n")

    async with calling_at(script, {"method": "DELETE"}) as (caller, _):
        assert await caller.value() is None


async def test_an_image_is_a_part() -> None:
    async with calling_at(says(b"\x89PNG", "image/png"), {}) as (caller, _):
        assert await caller.value() == [{"type": "image", "data": "iVBORw==", "mimeType": "image/png"}]
        answer = await caller.answer(wanted=Wanted(ContentKind.BLOCKS))
    assert (answer.content, answer.kind) == ("[image/png, 4 B]", ContentKind.BLOCKS)


async def test_any_other_file_is_a_resource() -> None:
    async with calling_at(says(b"PK\0", "application/zip"), {}) as (caller, _):
        value = await caller.value()
    resource = {"uri": "urn:tooldispatchd:answer", "mimeType": "application/zip", "blob": "UEsA"}
    assert value == [{"type": "resource", "resource": resource}]


async def test_an_answer_is_checked_against_the_declared_type() -> None:
    tool = {"type": "{} -> {a: int}"}
    async with calling_at(says(b'{"a": "x"}'), {}, tool=tool) as (caller, _):
        fault = await caller.fault()
    assert fault.code is Code.INVALID_OUTPUT
    assert fault.extras["answer"] == '{"a":"x"}'


@pytest.mark.parametrize(
    ("body", "media_type", "content"),
    [
        (b"", "application/json", "null"),
        (b'{"a": "7"}', "application/json", '{"a":"7"}'),
        (b"a,b\n1,2\n", "text/csv", '"a,b\\n1,2\\n"'),
        (b"OK", "application/json", '"OK"'),
        (b"\x89PNG", "image/png", '[{"type":"image","data":"iVBORw==","mimeType":"image/png"}]'),
    ],
)
async def test_with_warnings_an_answer_that_breaks_the_type_is_given(
    body: bytes, media_type: str, content: str
) -> None:
    async with calling_at(says(body, media_type), {}, tool={"type": "{} -> {a: int}"}) as (caller, _):
        answer = await caller.answer(warns=True)
    assert answer.content == content
    assert answer.warning is not None
    assert "type" in answer.warning


async def test_json_in_a_text_is_the_value_that_the_type_needs() -> None:
    async with calling_at(says(b'{"a": 1}', "text/plain"), {}, tool={"type": "{} -> {a: int}"}) as (caller, _):
        answer = await caller.answer()
    assert (answer.content, answer.warning) == ('{"a":1}', None)


async def test_json_that_cannot_be_read_is_a_text_and_says_why() -> None:
    async with calling_at(says(b'{"a": 1e400}', "application/json"), {}, tool={"type": "{} -> json"}) as (caller, _):
        answer = await caller.answer()
    assert answer.content == '"{\\"a\\": 1e400}"'
    assert answer.warning is not None
    assert "out of range" in answer.warning


async def test_a_tool_that_gives_a_text_gives_any_body_as_one() -> None:
    async with calling_at(says(b'{"a": 1}'), {}, tool={"type": "{} -> string"}) as (caller, _):
        assert await caller.value() == '{"a": 1}'


async def test_a_part_of_the_answer_may_be_picked() -> None:
    async with calling_at(says(b'{"data": {"a/b": [{"x": 5}]}}'), {"pick": "/data/a~1b/0/x"}) as (caller, _):
        assert await caller.value() == 5


async def test_what_is_not_there_is_null() -> None:
    async with calling_at(says(b'{"data": []}'), {"pick": "/data/3"}) as (caller, _):
        assert await caller.value() is None


async def test_an_expression_may_shape_the_answer() -> None:
    rest = {"map": "{'n': input.items.size(), 'first': input.items[0].name}"}
    async with calling_at(says(b'{"items": [{"name": "a"}, {"name": "b"}]}'), rest) as (caller, _):
        assert await caller.value() == {"n": 2, "first": "a"}


async def test_an_expression_that_fails_is_told() -> None:
    async with calling_at(says(b'{"items": []}'), {"map": "input.items[0].name"}) as (caller, _):
        fault = await caller.fault()
    assert fault.code is Code.TOOL_FAILED


async def test_an_answer_too_large_for_an_expression_is_told() -> None:
    async with calling_at(says(b'"' + b"x" * 300_000 + b'"'), {"map": "input"}) as (caller, _):
        fault = await caller.fault()
    assert fault.extras["limit"] == "expression"


@pytest.mark.parametrize("pick", [{}, {"pick": "/items"}])
async def test_a_large_answer_is_read_by_a_checker(pick: dict[str, object]) -> None:
    body = b'{"items": [' + b"1," * 200_000 + b"2]}"
    async with calling_at(says(body), pick) as (caller, _):
        value = await caller.value()
    items = value if pick else value["items"]  # type: ignore[index]  # a record
    assert len(items) == 200_001  # type: ignore[arg-type]  # a list


# --- refusals ---


@pytest.mark.parametrize(
    ("status", "media_type", "body", "said"),
    [
        (
            "404 Not Found",
            "application/json",
            b'{"message": "no such city"}',
            {"error": "HTTP 404 Not Found", "http_status": 404, "body": {"message": "no such city"}},
        ),
        (
            "500 x",
            "text/html",
            b"<h1>Oops",
            {"error": "HTTP 500 Internal Server Error", "http_status": 500, "body": "<h1>Oops"},
        ),
        ("503 x", "application/octet-stream", b"\0", {"error": "HTTP 503 Service Unavailable", "http_status": 503}),
        ("400 x", "application/json", b"{", {"error": "HTTP 400 Bad Request", "http_status": 400, "body": "{"}),
        ("499 x", "", b"", {"error": "HTTP 499", "http_status": 499}),
        ("304 x", "", b"", {"error": "HTTP 304 Not Modified", "http_status": 304}),
    ],
)
async def test_a_status_over_2xx_is_the_apis_own_error(
    status: str, media_type: str, body: bytes, said: dict[str, object]
) -> None:
    async with calling_at(says(body, media_type, status), {}) as (caller, _):
        answer = await caller.answer()
        assert answer.is_error
        assert await caller.value() == said


@pytest.mark.parametrize(("said", "after_ms"), [("7", 7_000), ("0", 0), ("Wed, 21 Oct 2015 07:28:00 GMT", 0)])
async def test_a_refusal_says_when_to_try_again(said: str, after_ms: int) -> None:
    async with calling_at(says(b"", "", "429 x", f"Retry-After: {said}\r\n"), {}) as (caller, _):
        value = await caller.value()
    assert value == {"error": "HTTP 429 Too Many Requests", "http_status": 429, "retry_after_ms": after_ms}


async def test_a_long_refusal_is_cut() -> None:
    async with calling_at(says(b"x" * 200_000, "text/plain", "500 x"), {}) as (caller, _):
        value = await caller.value()
    assert value["body"] == "x" * 8_000 + "…"  # type: ignore[index]  # a record


async def test_a_refusal_whose_body_never_comes_is_told_without_it() -> None:
    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.send(b"HTTP/1.1 500 x\r\nContent-Length: 5\r\nContent-Type: text/plain\r\n\r\nhalf")
        await peer.wait_for_close()

    async with calling_at(script, {}) as (caller, _):
        assert await caller.value() == {"error": "HTTP 500 Internal Server Error", "http_status": 500, "body": "half"}


async def test_a_refusal_repeats_no_secret() -> None:
    async def script(peer: Peer) -> None:
        asked = await peer.read_request()
        await peer.answer(f"{asked.target} {asked.headers}".encode(), "401 x")

    api = {
        "token": "secret-token",
        "query": {"token": "secret key&1"},
        "api_key": {"cookie": "sid", "value": "secret;cookie/1"},
    }
    rest = {
        "path": "/t?api_key=inline-secret&token=other-secret-and-more",
        "headers": {"X-Auth-Token": "Custom other-secret-${parameters.city}"},
    }
    async with calling_at(script, rest, tool=CITY, api=api) as (caller, _):
        answer = await caller.answer({"city": "Paris"})
    for secret in ("secret-token", "secret%20key", "inline-secret", "other-secret", "-and-more", "cookie/1"):
        assert secret not in str(answer.content)
    assert "Custom" in str(answer.content)


@pytest.mark.parametrize(
    ("body", "media_type", "said"),
    [
        (b'{"m": ["a sec\\/ret+1 b"]}', "application/json", {"m": ["a … b"]}),
        (b'{"sec\\u002fret+1": 1}', "application/json", {"…": 1}),
        (b'{"m": "' + b"x" * 7_985 + b'sec\\/ret+1"}', "application/json", '{"m": "' + "x" * 7_985 + "……"),
        (b'{"m": "sec\\u002Fret+1', "application/json", '{"m": "…'),
        ('{"m": "pass-wörd", "n": "dTpwYXNzLXfDtnJk"}'.encode(), "application/json", {"m": "…", "n": "…"}),
        (b"sec%2Fret%2B1", "text/plain", "…"),
        (b'{"m":"sec\\/ret+1"}', "text/html", '{"m":"…"}'),
    ],
)
async def test_a_secret_of_the_daemon_is_masked_however_a_refusal_writes_it(
    body: bytes, media_type: str, said: object
) -> None:
    api = {"basic": {"user": "u", "password": "pass-wörd"}, "headers": {"X-Key": "sec/ret+1"}}
    async with calling_at(says(body, media_type, "401 x"), {}, api=api) as (caller, _):
        value = await caller.value()
    assert value["body"] == said  # type: ignore[index]  # a record


# --- bounds ---


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_bomb_ends_at_the_bound(encoding: str) -> None:
    zeros = b"\0" * (64 * MIB)
    body = gzip.compress(zeros) if encoding == "gzip" else zlib.compress(zeros)
    script = says(body, headers=f"Content-Encoding: {encoding}\r\n")
    async with calling_at(script, {}, max_bytes=MIB) as (caller, _):
        fault = await caller.fault()
    assert (fault.code, fault.extras["limit"]) == (Code.TOOL_FAILED, "content_bytes")


async def test_an_answer_that_says_that_it_is_too_large_is_not_read() -> None:
    async with calling_at(says(b"x" * 2_000, "text/plain"), {}, api={"max_bytes": 1_024}) as (caller, _):
        fault = await caller.fault()
    assert fault.detail == "the answer is larger than 1024 bytes"
    assert fault.extras["http_status"] == 200


async def test_chunks_without_end_end_at_the_bound() -> None:
    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            await peer.send(b"400\r\n" + b"x" * 1024 + b"\r\n")

    async with calling_at(script, {}, max_bytes=100_000) as (caller, _):
        assert (await caller.fault()).extras["limit"] == "content_bytes"


async def test_an_answer_for_which_there_is_no_room_is_refused() -> None:
    async with calling_at(says(b"x" * 3 * MIB, "text/plain"), {}, memory=4 * MIB) as (caller, _):
        assert (await caller.fault()).code is Code.TOO_MANY


async def test_an_answer_that_is_too_long_as_json_is_refused() -> None:
    async with calling_at(says(b"\0" * 1_000, "text/plain"), {}) as (caller, _):
        fault = await caller.fault(max_content_bytes=4_096)
    assert fault.extras == {"limit": "content_bytes"}


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nha",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\0",
        b"HTTP/1.1 200",
        b"SSH-2.0-OpenSSH\r\n",
    ],
)
async def test_half_an_answer_is_a_failure_that_may_have_run(answer: bytes) -> None:
    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.send(answer)

    async with calling_at(script, {"method": "POST"}) as (caller, _):
        fault = await caller.fault()
    assert (fault.code, fault.ran(may_have=True).extras["ran"]) == (Code.TOOL_FAILED, "maybe")
    assert fault.extras["server"] == "api"


async def test_an_api_that_is_not_there_is_unavailable() -> None:
    async with calling_at(polite, {}) as (caller, server):
        port = server.port
    async with calling_at(polite, {}, api={"base_url": f"http://127.0.0.1:{port}/"}) as (caller, _):
        fault = await caller.fault()
    assert (fault.code, fault.extras["ran"]) == (Code.SERVER_UNAVAILABLE, "no")


# --- ends ---


async def test_a_cancelled_call_closes_its_connection() -> None:
    has_come, is_closed = trio.Event(), trio.Event()

    async def script(peer: Peer) -> None:
        await peer.read_request()
        has_come.set()
        await peer.wait_for_close()
        is_closed.set()

    async with calling_at(script, {}) as (caller, _):
        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(caller.outcome)
                await has_come.wait()
                nursery.cancel_scope.cancel()
            await is_closed.wait()
    assert caller.share.held == 0


async def test_calls_one_after_another_share_a_connection() -> None:
    async with calling_at(polite, {}) as (caller, server):
        for _ in range(3):
            await caller.value()
        assert server.connections == 1


async def test_nothing_is_left_when_the_wires_are_closed(nothing_left: None) -> None:
    async with serving(polite):
        pass
    async with calling_at(polite, {}) as (caller, server):
        await caller.value()
    assert server.connections == 1
