"""From a ws URL to a WebSocket connection, or to the reason why there is none."""

from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Final

import pytest
import trio
import trio.testing
from wsproto.events import (
    AcceptConnection,
    RejectConnection,
    Request,
)

from tests.providers.mcp.linking import Inbox, at, linked
from tests.providers.mcp.websocket.websockets import Caller, way
from tests.servers.raw_http import Asked, Peer, serving
from tooldispatchd.http.reach import OAuth
from tooldispatchd.providers.mcp import websocket
from tooldispatchd.providers.mcp.link import LinkError

NOT_IT: Final = "its answer to the upgrade request is not WebSocket's"
ACCEPTED: Final = b"HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"


async def why_not(
    script: Callable[[Peer], Awaitable[None]],
    *,
    headers: tuple[tuple[str, str], ...] = (),
    oauth: OAuth | None = None,
) -> LinkError:
    async with serving(script) as server, linked(way(server, headers=headers, oauth=oauth), is_opened=False) as far:
        with trio.fail_after(5), pytest.raises(LinkError) as caught:
            await far.link.open()
        return caught.value


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, 'it wants credentials: a token, headers, or auth = "oauth" (HTTP 401)'), (302, "it answered with HTTP 302")],
)
async def test_an_upgrade_that_is_refused_says_so(status: int, words: str) -> None:
    async def script(peer: Peer) -> None:
        caller = Caller(peer)
        await caller.next(Request)
        await caller.send(RejectConnection(status_code=status, headers=[(b"content-length", b"0")]))
        await peer.wait_for_close()

    error = await why_not(script)
    assert error.why == words
    assert error.extras == {"http_status": status}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "it broke the connection off instead of upgrading it; is it wss?"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "it answered in TLS: is it wss?"),
        (b"SSH-2.0-x\r\n\r\n", NOT_IT),
        (ACCEPTED + b"Sec-WebSocket-Accept: bm90IGl0\r\n\r\n", NOT_IT),
        (ACCEPTED + b"Sec-WebSocket-Accept: \xff\r\n\r\n", NOT_IT),
        (b"HTTP/1.1 101 Go\r\nUpgrade: \xff\r\nConnection: \xff\r\n\r\n", NOT_IT),
        (b"HTTP/1.1 101 Switching Protocols\r\nX: " + b"x" * 100_000, NOT_IT),
        # Under wsproto's own bound of 16 KiB only if it is read bit by bit.
        (b"HTTP/1.1 103 Hints\r\n" + b"a:\n" * 20_000 + b"\r\n", NOT_IT),
    ],
)
async def test_an_answer_that_is_no_upgrade_is_no_connection(answer: bytes, words: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.send(answer)

    assert (await why_not(script)).why == words


async def test_a_subprotocol_that_was_not_offered_is_refused() -> None:
    async def script(peer: Peer) -> None:
        caller = Caller(peer)
        request = await caller.next(Request)
        assert isinstance(request, Request)
        request.subprotocols.append("other")
        await caller.send(AcceptConnection(subprotocol="other"))
        await peer.wait_for_close()

    assert (await why_not(script)).why == NOT_IT


async def test_a_server_that_does_not_answer_the_upgrade_is_left_in_time() -> None:
    async def script(peer: Peer) -> None:
        await peer.wait_for_close()

    async with serving(script) as server, trio.open_nursery() as nursery:
        link = websocket.WebSocketLink(at(server.url), Inbox(), nursery, upgrade_s=0.1)
        with pytest.raises(LinkError, match=r"^it did not answer the upgrade request within 0\.1 s$"):
            await link.open()
        await link.close()


@pytest.mark.parametrize(
    ("headers", "name"), [((), f"tooldispatchd/{version('tooldispatchd')}"), ((("user-agent", "me/1"),), "me/1")]
)
async def test_the_client_is_named(headers: tuple[tuple[str, str], ...], name: str) -> None:
    asked: list[Asked] = []

    async def script(peer: Peer) -> None:
        asked.append(await peer.read_request())

    await why_not(script, headers=headers)
    assert asked[0].headers["user-agent"] == name


async def test_nobody_listening_is_no_connection() -> None:
    async with serving(Peer.wait_for_close) as server:
        pass
    async with linked(way(server), is_opened=False) as far:
        with pytest.raises(LinkError, match=r"^cannot connect to 127\.0\.0\.1"):
            await far.link.open()


@pytest.mark.parametrize("value", ["se\ncret", "sécret"])
async def test_a_header_that_is_none_is_not_shown_in_the_error(value: str) -> None:
    error = await why_not(Peer.wait_for_close, headers=(("X-Key", value),))
    assert error.why == "cannot write the upgrade request: a header of it is not HTTP"


async def test_oauth_is_for_http() -> None:
    error = await why_not(Peer.wait_for_close, oauth=OAuth(grant="client_credentials"))
    assert error.why == "OAuth is for http(s) URLs only; a WebSocket server takes a token or headers"


async def test_a_plain_connection_is_not_sent_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://user:secret@127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    spec = at("ws://mcp.example/x")
    async with trio.open_nursery() as nursery:
        link = websocket.WebSocketLink(spec, Inbox(), nursery)
        with pytest.raises(LinkError) as caught:
            await link.open()
        assert caught.value.why == "cannot go through the proxy http://127.0.0.1:1 with ws://: only wss:// is tunnelled"
        await link.close()
