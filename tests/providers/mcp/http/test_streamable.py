"""Requests over Streamable HTTP: every form of answer, and every way in which one can be missing."""

from functools import partial

import msgspec
import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.http.wires import MIB
from tests.providers.mcp.linking import (
    STREAM_END,
    STREAM_HEAD,
    BusyInbox,
    Handle,
    Linked,
    answer_to,
    answering,
    at,
    chunk,
    each,
    event,
    linked,
    number_of,
    streaming,
)
from tests.servers.raw_http import Asked, Peer, serving
from tooldispatchd.http.errors import status_words
from tooldispatchd.providers.mcp.http import posting
from tooldispatchd.providers.mcp.http.door import StreamableWay
from tooldispatchd.wire.faults import Code, Fault


def way(url: str, *, max_bytes: int = 1024 * 1024) -> StreamableWay:
    server = at(url, max_bytes=max_bytes)
    assert server.reach is not None
    return StreamableWay(server, server.reach)


async def json_answers(peer: Peer, asked: Asked) -> None:
    await peer.answer(answer_to(number_of(asked)))


async def stream_answers(peer: Peer, asked: Asked) -> None:
    await streaming(event(answer_to(number_of(asked))))(peer, asked)


async def fault_after(handle: Handle, *, max_bytes: int = 1024 * 1024) -> Fault:
    """The fault of one request to a server that deals with it so."""
    async with serving(each(handle)) as server, linked(way(server.url, max_bytes=max_bytes)) as far:
        return await far.fault()


# --- answers ---------------------------------------------------------------------------------------------------------


async def test_an_answer_may_be_one_json_body() -> None:
    async with serving(each(json_answers)) as server, linked(way(server.url)) as far:
        assert await far.result() == {"a": 1}
        assert await far.result() == {"a": 1}
    assert server.connections == 1


async def test_a_large_json_body_is_let_go_of_uncopied_where_its_exchange_is_given_up_meanwhile() -> None:
    inbox = BusyInbox()
    async with (
        serving(each(answering(b"x" * 2 * MIB))) as server,
        linked(way(server.url, max_bytes=4 * MIB), inbox=inbox) as far,
    ):
        far.ask()
        await inbox.until(lambda: bool(inbox.views))
        assert inbox.let_go == []
    assert inbox.gave_what_was_taken()


async def test_an_answer_may_come_in_a_stream_whose_tcp_connection_is_used_again() -> None:
    async with serving(each(stream_answers)) as server, linked(way(server.url)) as far:
        assert await far.result() == {"a": 1}
        await trio.testing.wait_all_tasks_blocked()
        assert await far.result() == {"a": 1}
    assert server.connections == 1


async def test_a_stream_that_stays_open_after_the_answer_holds_nothing_up() -> None:
    async def handle(peer: Peer, asked: Asked) -> None:
        await streaming(event(answer_to(number_of(asked))), is_ended=False)(peer, asked)

    async with serving(each(handle)) as server, linked(way(server.url)) as far:
        assert await far.result() == {"a": 1}
        assert await far.result() == {"a": 1}
        with trio.fail_after(2):
            while server.closed < 2:
                await trio.sleep(0.01)


async def test_messages_before_the_answer_reach_the_inbox_in_order() -> None:
    async def handle(peer: Peer, asked: Asked) -> None:
        said = event(b'{"method":"notifications/progress"}') + event(b'{"method":"ping","id":9}', name="message")
        ignored = event(b"noise", name="noise") + chunk(b": a comment\n\n") + event(id_="7")
        await streaming(said, ignored, event(answer_to(number_of(asked))))(peer, asked)

    async with serving(each(handle)) as server, linked(way(server.url)) as far:
        assert await far.result() == {"a": 1}
        assert far.inbox.messages[:2] == [b'{"method":"notifications/progress"}', b'{"method":"ping","id":9}']
        assert len(far.inbox.messages) == 3


async def test_an_answer_on_the_stream_of_another_request_counts() -> None:
    first: list[Peer] = []

    async def handle(peer: Peer, asked: Asked) -> None:
        if number_of(asked) == 1:
            first.append(peer)
            await peer.send(STREAM_HEAD)
            return
        await first[0].send(event(answer_to(2)) + event(answer_to(1)) + STREAM_END)
        await streaming()(peer, asked)

    async with serving(each(handle)) as server, linked(way(server.url)) as far:
        one = far.ask()
        with trio.fail_after(5):
            while not first:
                await trio.sleep(0.001)
        assert await far.result() == {"a": 1}
        assert await far.inbox.result(one) == {"a": 1}


async def test_a_request_bears_the_protocol_s_headers_and_the_configuration_s() -> None:
    async with serving(each(json_answers)) as server:
        spec = at(server.url, headers=(("X-Key", "k"),))
        assert spec.reach is not None
        async with linked(StreamableWay(spec, spec.reach)) as far:
            await far.result("tools/call")
    (asked,) = server.asked
    assert asked.method == "POST"
    assert asked.target == "/mcp"
    assert asked.headers["accept"] == "application/json, text/event-stream"
    assert asked.headers["content-type"] == "application/json"
    assert asked.headers["mcp-protocol-version"] == "2025-11-25"
    assert asked.headers["x-key"] == "k"
    assert not asked.body.endswith(b"\n")


async def test_requests_run_at_the_same_time() -> None:
    both = trio.Event()
    here: list[int] = []

    async def handle(peer: Peer, asked: Asked) -> None:
        here.append(number_of(asked))
        if len(here) == 2:
            both.set()
        await both.wait()
        await json_answers(peer, asked)

    async with serving(each(handle)) as server, linked(way(server.url)) as far:
        one, two = far.ask(), far.ask()
        assert await far.inbox.result(one) == {"a": 1}
        assert await far.inbox.result(two) == {"a": 1}


async def test_requests_beyond_the_bound_wait_for_their_turn_and_are_all_answered() -> None:
    count = posting.MAX_AT_ONCE + 30
    here = 0
    all_here = trio.Event()

    async def handle(peer: Peer, asked: Asked) -> None:
        nonlocal here
        here += 1
        if here == posting.MAX_AT_ONCE:
            all_here.set()
        await all_here.wait()
        await json_answers(peer, asked)

    async with serving(each(handle)) as server, linked(way(server.url)) as far:
        numbers = [far.ask() for _ in range(count)]
        for number in numbers:
            assert await far.inbox.result(number) == {"a": 1}
    assert server.connections == posting.MAX_AT_ONCE


# --- answers that are missing ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("401 Unauthorized", 'it wants credentials: a token, headers, or auth = "oauth" (HTTP 401)'),
        ("403 Forbidden", "the server refused the request (HTTP 403)"),
        ("404 Not Found", "there is nothing at its URL (HTTP 404)"),
        ("405 Method Not Allowed", "its URL takes no such request (HTTP 405)"),
        ("500 Internal Server Error", "it answered with HTTP 500"),
        ("304 Not Modified", "it answered with HTTP 304"),
    ],
)
async def test_a_status_of_no_success_is_the_request_s_fault(status: str, words: str) -> None:
    head = f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"

    async def handle(peer: Peer, asked: Asked) -> None:
        await peer.send(head.encode())

    fault = await fault_after(handle)
    assert fault.code is Code.TOOL_FAILED
    assert fault.extras == {"server": "far", "reason": words, "http_status": int(status[:3])}
    assert fault.detail == f"the call failed at server far: {words}"


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("name", ["Authorization", "X-Api-Key"])
def test_credentials_that_were_sent_were_refused(status: int, name: str) -> None:
    spec = at("", headers=((name, "secret"),))
    assert status_words(status, spec.reach) == f"the server refused the credentials (HTTP {status})"


def test_the_name_of_the_client_is_no_credential() -> None:
    spec = at("", headers=(("User-Agent", "me"),))
    assert status_words(401, spec.reach) == 'it wants credentials: a token, headers, or auth = "oauth" (HTTP 401)'


@pytest.mark.parametrize("status", ["404 Not Found", "405 Method Not Allowed"])
async def test_a_server_of_the_older_transport_is_taken_for_one_where_this_one_is_asked_for(status: str) -> None:
    async with serving(each(answering(b"", status))) as server:
        spec = at(server.url, transport="http")
        assert spec.reach is not None
        async with linked(StreamableWay(spec, spec.reach)) as far:
            assert str((await far.fault("initialize")).extras["reason"]).endswith('; it may need transport = "sse"')
            assert "transport" not in str((await far.fault("tools/call")).extras["reason"])


async def test_too_many_requests_say_when_to_try_again() -> None:
    fault = await fault_after(answering(b"{}", "429 Too Many Requests", "Retry-After: 3\r\n"))
    assert fault.code is Code.SERVER_UNAVAILABLE
    assert fault.extras["http_status"] == 429
    assert fault.extras["retry_after_ms"] == 3000


async def test_a_server_out_of_order_is_unavailable() -> None:
    fault = await fault_after(answering(b"<html>", "503 Service Unavailable"))
    assert fault.code is Code.SERVER_UNAVAILABLE
    assert "retry_after_ms" not in fault.extras


async def test_a_refusal_that_bears_a_json_rpc_error_is_the_answer() -> None:
    error = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32020,"message":"headers"}}'
    async with serving(each(answering(error, "400 Bad Request"))) as server, linked(way(server.url)) as far:
        number = far.ask()
        await far.inbox.until(lambda: number in far.inbox.answers)
        assert far.inbox.answers[number].error == msgspec.Raw(b'{"code":-32020,"message":"headers"}')


@pytest.mark.parametrize(
    ("status", "body"),
    [
        ("400 Bad Request", b'{"error":"invalid_request"}'),
        ("400 Bad Request", b"[" * 100),
        ("400 Bad Request", b" " * 70_000),
        ("401 Unauthorized", b'{"error":{"code":-32001,"message":"who are you"}}'),
    ],
)
async def test_a_refusal_whose_body_is_no_json_rpc_error_stays_one(status: str, body: bytes) -> None:
    assert (await fault_after(answering(body, status))).extras["http_status"] == int(status[:3])


async def test_nobody_listening_is_unavailable() -> None:
    async with serving(each(json_answers)) as server:
        url = server.url
    async with linked(way(url)) as far:
        fault = await far.fault()
    assert fault.code is Code.SERVER_UNAVAILABLE
    assert fault.detail.startswith("server far is not available: cannot connect to 127.0.0.1")


async def _closed(peer: Peer, asked: Asked) -> None:
    raise EOFError


async def _reset(peer: Peer, asked: Asked) -> None:
    peer.reset()
    raise EOFError


async def _cut_body(peer: Peer, asked: Asked) -> None:
    await peer.send(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"id":1')
    raise EOFError


async def _cut_event(peer: Peer, asked: Asked) -> None:
    await peer.send(STREAM_HEAD + chunk(b'data: {"id":'))
    raise EOFError


async def _no_http(peer: Peer, asked: Asked) -> None:
    await peer.send(b"hello\r\n\r\n")
    await peer.wait_for_close()


@pytest.mark.parametrize("handle", [_closed, _reset, _cut_body, _cut_event, _no_http])
async def test_what_breaks_once_the_request_was_sent_is_a_failed_call(handle: Handle) -> None:
    fault = await fault_after(handle)
    assert fault.code is Code.TOOL_FAILED
    assert fault.extras["server"] == "far"
    assert fault.extras["reason"]


async def test_one_request_s_failure_touches_no_other() -> None:
    release = trio.Event()

    async def handle(peer: Peer, asked: Asked) -> None:
        if number_of(asked) == 1:
            await release.wait()
            await json_answers(peer, asked)
        raise EOFError

    async with serving(each(handle)) as server, linked(way(server.url)) as far:
        one = far.ask()
        await far.fault()
        release.set()
        assert await far.inbox.result(one) == {"a": 1}


@pytest.mark.parametrize(
    ("handle", "words"),
    [
        (streaming(), "its event stream ended before the answer"),
        (streaming(event(b'{"method":"x"}')), "its event stream ended before the answer"),
        (answering(b""), "its HTTP response is empty"),
        (answering(b" \n"), "its HTTP response is empty"),
        (answering(b'{"id":77,"result":{}}'), 'its HTTP response is no answer to it: {"id":77,"result":{}}'),
        (answering(b"not json"), "its HTTP response is no answer to it: not json"),
    ],
)
async def test_a_response_without_the_answer_is_a_failed_call(handle: Handle, words: str) -> None:
    fault = await fault_after(handle)
    assert fault.code is Code.TOOL_FAILED
    assert fault.extras["reason"] == words


async def test_another_content_type_is_a_failed_call() -> None:
    async def handle(peer: Peer, asked: Asked) -> None:
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>")

    assert (await fault_after(handle)).extras["reason"] == "its HTTP response is text/html and no JSON"


@pytest.mark.parametrize("status", ["200 OK", "201 Created", "203 x", "206 Partial Content", "299 x"])
@pytest.mark.parametrize("media_type", ["application/json", "text/plain", ""])
@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf"])
async def test_any_success_with_a_body_is_an_answer(status: str, media_type: str, before: bytes) -> None:
    async def handle(peer: Peer, asked: Asked) -> None:
        body = before + answer_to(number_of(asked))
        head = f"HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        await peer.send(head.encode() + body)

    async with serving(each(handle)) as server, linked(way(server.url)) as far:
        assert await far.result() == {"a": 1}


@pytest.mark.parametrize("status", ["202 Accepted", "204 No Content"])
async def test_a_success_without_a_body_is_no_answer(status: str) -> None:
    async def handle(peer: Peer, asked: Asked) -> None:
        await peer.send(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())

    assert (await fault_after(handle)).extras["reason"] == "its HTTP response is empty"


def answered(far: Linked, number: int) -> bool:
    return number not in far.inbox.waiting


@pytest.mark.parametrize(
    "body", [b'{"result":{}}', b'{"id":null,"result":{}}', b'event: message\ndata: {"result":{}}\n\n']
)
async def test_a_body_without_an_id_is_the_answer_of_the_request_and_so_is_a_stream_of_another_type(
    body: bytes,
) -> None:
    async with serving(each(answering(body))) as server, linked(way(server.url)) as far:
        number = far.ask()
        await far.inbox.until(partial(answered, far, number))
        assert isinstance(far.inbox.answers[number].result, msgspec.Raw)


async def test_an_error_without_an_id_is_the_answer_of_the_request_in_whose_response_it_stands() -> None:
    error = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}'

    async def handle(peer: Peer, asked: Asked) -> None:
        if number_of(asked) == 1:
            await trio.sleep_forever()
        await (answering(error) if number_of(asked) == 2 else streaming(event(error)))(peer, asked)

    async with serving(each(handle)) as server, linked(way(server.url)) as far:
        far.ask()
        for _ in range(2):
            number = far.ask()
            await far.inbox.until(partial(answered, far, number))
            assert isinstance(far.inbox.answers[number].error, msgspec.Raw)


@pytest.mark.parametrize(
    "handle",
    [
        answering(b" " * 5000),
        streaming(event(b"x" * 5000)),
        # Never ends, and never says how long it is.
        streaming(chunk(b"data: " + b"x" * 5000), is_ended=False),
    ],
)
async def test_an_answer_over_the_bound_fails_that_call_alone(handle: Handle) -> None:
    fault = await fault_after(handle, max_bytes=4096)
    assert fault.code is Code.TOOL_FAILED
    assert fault.extras["limit"] == "content_bytes"


async def test_an_answer_that_came_before_an_event_over_the_bound_counts() -> None:
    async def handle(peer: Peer, asked: Asked) -> None:
        both = b"data: " + answer_to(number_of(asked)) + b"\n\ndata: " + b"x" * 5000
        await streaming(chunk(both))(peer, asked)

    async with serving(each(handle)) as server, linked(way(server.url, max_bytes=4096)) as far:
        assert await far.result() == {"a": 1}


@given(
    st.sampled_from([b"", STREAM_HEAD, b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"]),
    st.lists(
        st.binary(max_size=40)
        | st.sampled_from([chunk(b"data: {}\n\n"), chunk(b"id: 1\nretry: 0\ndata:\n\n"), chunk(b"data: "), STREAM_END])
    ),
)
@settings(max_examples=examples(25))
def test_whatever_a_server_sends_is_an_answer_or_a_fault(head: bytes, chunks: list[bytes]) -> None:
    async def handle(peer: Peer, asked: Asked) -> None:
        await peer.send(head + b"".join(chunks))
        raise EOFError

    async def run() -> None:
        async with serving(each(handle)) as server, linked(way(server.url)) as far:
            assert (await far.fault()).code in {Code.TOOL_FAILED, Code.SERVER_UNAVAILABLE}

    trio.run(run)
