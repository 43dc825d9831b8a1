"""The older pair: a stream that speaks, an endpoint that listens, and how either can fail."""

import pytest
import trio

from tests.providers.mcp.linking import (
    STREAM_HEAD,
    Handle,
    Inbox,
    Linked,
    Speaks,
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
from tooldispatchd.providers.mcp.http import pair
from tooldispatchd.providers.mcp.http.door import PairWay
from tooldispatchd.providers.mcp.link import LinkError
from tooldispatchd.wire.faults import Code

OLD = Speaks("")
OTHER = '; it may need transport = "http"'
WANTS_CREDENTIALS = 'it wants credentials: a token, headers, or auth = "oauth" (HTTP 401)'


def way(url: str, *, max_bytes: int = 1024 * 1024) -> PairWay:
    server = at(url, max_bytes=max_bytes, transport="sse")
    assert server.reach is not None
    return PairWay(server, server.reach)


class Site:
    """Sends its endpoint first, then the answer to whatever is posted there; `post` is how a POST is dealt with."""

    def __init__(self, endpoint: bytes = b"/messages?session=1", *, post: Handle | None = None) -> None:
        self._endpoint = endpoint
        self._post = post
        self.speaker: Peer | None = None

    async def __call__(self, peer: Peer, asked: Asked) -> None:
        if asked.method == "GET":
            self.speaker = peer
            await peer.send(STREAM_HEAD + event(self._endpoint, name="endpoint"))
            await peer.wait_for_close()
            raise EOFError
        if self._post is not None:
            await self._post(peer, asked)
            return
        await peer.send(b"HTTP/1.1 202 Accepted\r\nContent-Length: 8\r\n\r\nAccepted")
        if b'"id"' in asked.body:
            assert self.speaker is not None
            await self.speaker.send(event(answer_to(number_of(asked)), name="message"))


async def why_not(handle: Handle, **settings: int) -> LinkError:
    """Why a server that deals with the GET so cannot be opened."""
    async with serving(each(handle)) as server, linked(way(server.url, **settings), OLD, is_opened=False) as far:
        with trio.fail_after(5), pytest.raises(LinkError) as caught:
            await far.link.open()
        return caught.value


async def test_answers_come_by_the_stream() -> None:
    async with serving(each(Site())) as server, linked(way(server.url), OLD) as far:
        assert await far.result("initialize") == {"a": 1}
        far.tell("notifications/initialized")
        await far.link.greeted()
        assert await far.result() == {"a": 1}
    assert [(asked.method, asked.target) for asked in server.asked] == [
        ("GET", "/mcp"),
        ("POST", "/messages?session=1"),
        ("POST", "/messages?session=1"),
        ("POST", "/messages?session=1"),
    ]
    assert server.connections == 2


@pytest.mark.parametrize("endpoint", ["/x?a=b", "x?a=b", "{origin}/x?a=b"])
async def test_the_endpoint_may_be_named_in_full_or_from_where_the_stream_is(endpoint: str) -> None:
    site = Site()
    async with serving(each(site)) as server:
        site._endpoint = endpoint.format(origin=server.url.removesuffix("/mcp")).encode()
        async with linked(way(server.url), OLD) as far:
            await far.result("initialize")
    assert server.asked[-1].target == "/x?a=b"


@pytest.mark.parametrize(
    ("endpoint", "words"),
    [
        (b"http://example.com/x", "its endpoint is at another origin, http://example.com"),
        (b"//127.0.0.1:1/x", "its endpoint is at another origin, http://127.0.0.1:1"),
        (b"file:///etc/passwd", "cannot use a URL of scheme 'file' and host '': expected http or https"),
        (b"http://[oops/x", "its endpoint is not a URL"),
        (b"\xff\xfe", "its endpoint is not a URL"),
        (b"/" + b"x" * 9000, "its endpoint is longer than 8192 bytes"),
    ],
)
async def test_an_endpoint_that_cannot_be_trusted_is_refused(endpoint: bytes, words: str) -> None:
    assert (await why_not(streaming(event(endpoint, name="endpoint"), is_ended=False))).why == words


@pytest.mark.parametrize(
    ("handle", "words", "status"),
    [
        (answering(b"", "404 Not Found"), f"there is nothing at its URL (HTTP 404){OTHER}", 404),
        (answering(b"", "400 Bad Request"), f"it answered with HTTP 400{OTHER}", 400),
        (answering(b"", "401 Unauthorized"), WANTS_CREDENTIALS, 401),
        (answering(b"{}"), f"it answered GET with something else than events{OTHER}", 200),
        (streaming(), "it closed its event stream", None),
        (streaming(event(b"{}")), "it closed its event stream", None),
    ],
)
async def test_a_stream_that_does_not_come_is_why_it_cannot_be_opened(
    handle: Handle, words: str, status: int | None
) -> None:
    error = await why_not(handle)
    assert error.why == words
    assert error.extras.get("http_status") == status


async def test_a_server_that_cannot_be_reached_is_why_it_cannot_be_opened() -> None:
    async with serving(each(Site())) as server:
        url = server.url
    async with linked(way(url), OLD, is_opened=False) as far:
        with pytest.raises(LinkError, match=r"^cannot connect to 127\.0\.0\.1 port"):
            await far.link.open()


async def test_a_server_that_names_no_endpoint_is_left_in_time() -> None:
    async with serving(each(streaming(event(b"{}"), is_ended=False))) as server, trio.open_nursery() as nursery:
        link = pair.PairLink(at(server.url), Inbox(), nursery)
        link.endpoint_s = 0.1
        with pytest.raises(LinkError, match=r"^it named no endpoint within 0\.1 s$"):
            await link.open()
        await link.close()


async def _until_spoken(far: Linked, site: Site) -> Peer:
    await far.result("initialize")
    assert site.speaker is not None
    return site.speaker


async def test_the_end_of_the_stream_is_the_end_of_the_link_after_what_was_said() -> None:
    site = Site()
    async with serving(each(site)) as server, linked(way(server.url), OLD) as far:
        speaker = await _until_spoken(far, site)
        await speaker.send(event(b'{"method":"last"}') + b"0\r\n\r\n")
        with pytest.raises(LinkError, match=r"^it closed its event stream$"):
            await far.turn()
        assert far.inbox.messages[-1] == b'{"method":"last"}'


async def test_a_stream_that_breaks_is_the_end_of_the_link() -> None:
    site = Site()
    async with serving(each(site)) as server, linked(way(server.url), OLD) as far:
        speaker = await _until_spoken(far, site)
        speaker.reset()
        with pytest.raises(LinkError, match="broke the connection off"):
            await far.turn()


async def test_an_event_over_the_bound_is_the_end_of_the_link() -> None:
    site = Site()
    async with serving(each(site)) as server, linked(way(server.url, max_bytes=4096), OLD) as far:
        speaker = await _until_spoken(far, site)
        await speaker.send(chunk(b"data: " + b"x" * 5000))
        with pytest.raises(LinkError, match="over 4096 bytes"):
            await far.turn()


async def _closed(peer: Peer, asked: Asked) -> None:
    raise EOFError


@pytest.mark.parametrize(
    ("post", "code"),
    [
        (answering(b"", "500 Internal Server Error"), Code.TOOL_FAILED),
        (answering(b"", "404 Not Found"), Code.TOOL_FAILED),
        (answering(b"", "429 Too Many Requests"), Code.SERVER_UNAVAILABLE),
        (_closed, Code.TOOL_FAILED),
    ],
)
async def test_a_post_that_is_refused_fails_that_request_alone(post: Handle, code: Code) -> None:
    site = Site(post=post)
    async with serving(each(site)) as server, linked(way(server.url), OLD) as far:
        assert (await far.fault()).code is code
        far.tell("notifications/x")
        assert (await far.fault()).code is code
        assert far.link.ended == {"undelivered": 1}
        site._post = None
        assert await far.result() == {"a": 1}


async def test_a_post_that_hangs_holds_no_other_up_and_can_be_given_up() -> None:
    async def hang_first(peer: Peer, asked: Asked) -> None:
        if number_of(asked) == 1:
            await peer.wait_for_close()
            raise EOFError
        assert site.speaker is not None
        await peer.answer(b"", "202 Accepted")
        await site.speaker.send(event(answer_to(number_of(asked))))

    site = Site(post=hang_first)
    async with serving(each(site)) as server, linked(way(server.url), OLD) as far:
        one = far.ask()
        assert await far.result() == {"a": 1}
        assert not far.link.give_up(one)
        assert not far.link.give_up(77)
        with trio.fail_after(5):
            while not server.closed:
                await trio.sleep(0.001)


async def test_a_second_endpoint_is_ignored() -> None:
    site = Site()
    async with serving(each(site)) as server, linked(way(server.url), OLD) as far:
        speaker = await _until_spoken(far, site)
        await speaker.send(event(b"/elsewhere", name="endpoint"))
        assert await far.result() == {"a": 1}
        assert server.asked[-1].target == "/messages?session=1"


async def test_the_owner_may_be_cancelled_at_any_time() -> None:
    async with serving(each(Site(post=_hang))) as server:
        with trio.move_on_after(0.1) as limit:
            async with linked(way(server.url), OLD) as far:
                far.ask()
                await trio.sleep_forever()
        assert limit.cancelled_caught


async def _hang(peer: Peer, asked: Asked) -> None:
    await peer.wait_for_close()
    raise EOFError
