"""Through a proxy: what it is told, and what it is not."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NoReturn

import pytest
import trio
from trio.testing import MockClock

from tests.http.certificates import Authority
from tests.http.names import answer_names
from tests.servers.raw_http import Peer, RawServer, Script, polite, serving
from tooldispatchd.http.errors import WireError
from tooldispatchd.http.network import Files, open_connection
from tooldispatchd.http.places import Origin
from tooldispatchd.http.reach import Reach
from tooldispatchd.http.wire import HttpWire


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def tunnelling_to(port: int) -> Script:
    """A proxy whose every tunnel leads to one port of this machine."""

    async def script(peer: Peer) -> None:
        await peer.read_request()
        onward = await trio.open_tcp_stream("127.0.0.1", port)
        await peer.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        async with onward, trio.open_nursery() as nursery:
            nursery.start_soon(_copy, peer.stream, onward, nursery.cancel_scope)
            nursery.start_soon(_copy, onward, peer.stream, nursery.cancel_scope)

    return script


async def _copy(source: trio.abc.Stream, target: trio.abc.Stream, both: trio.CancelScope) -> None:
    async for chunk in source:
        await target.send_all(chunk)
    both.cancel()


@asynccontextmanager
async def tls_server(authority: Authority) -> AsyncIterator[RawServer]:
    async with serving(polite, context=authority.server_context("mcp.test")) as server:
        yield server


async def ask(reach: Reach) -> int:
    with trio.fail_after(5):
        async with HttpWire(reach, max_bytes=1000) as wire:
            async with wire.exchange("POST", (), b"{}") as reply:
                await reply.read(1000)
            async with wire.exchange("POST", (), b"{}") as reply:
                return reply.status


async def test_tls_goes_through_a_tunnel_that_knows_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    async with tls_server(authority) as server, serving(tunnelling_to(server.port)) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://user:pw@127.0.0.1:{proxy.port}")
        reach = Reach(url="https://mcp.test/mcp", ca=authority.ca, headers=(("Authorization", "Bearer hunter2"),))
        assert await ask(reach) == 200
        [asked] = proxy.asked
        assert (asked.method, asked.target) == ("CONNECT", "mcp.test:443")
        assert asked.headers == {"host": "mcp.test:443", "proxy-authorization": "Basic dXNlcjpwdw=="}
        assert "proxy-authorization" not in server.asked[0].headers
        assert server.asked[0].headers["host"] == "mcp.test"
        assert len(server.asked) == 2


async def test_plain_http_is_asked_of_the_proxy_by_its_whole_url(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(polite) as proxy:
        monkeypatch.setenv("http_proxy", f"http://user:pw@127.0.0.1:{proxy.port}")
        assert await ask(Reach(url="http://mcp.test:8080/mcp?a=b")) == 200
        assert proxy.asked[0].target == "http://mcp.test:8080/mcp?a=b"
        assert proxy.asked[0].headers["host"] == "mcp.test:8080"
        assert proxy.asked[0].headers["proxy-authorization"] == "Basic dXNlcjpwdw=="
        assert proxy.connections == 1


async def test_a_proxy_that_refuses_a_tunnel_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(peer: Peer) -> None:
        await peer.read_request()
        await peer.answer(status="407 Proxy Authentication Required")

    async with serving(refuse) as proxy:
        monkeypatch.setenv("https_proxy", f"http://user:hunter2@127.0.0.1:{proxy.port}")
        with pytest.raises(WireError) as caught:
            await ask(Reach(url="https://mcp.test/mcp"))
        assert caught.value.why == (
            f"the proxy http://127.0.0.1:{proxy.port} refused a tunnel to mcp.test:443 (HTTP 407)"
        )
        assert not caught.value.was_sent


async def test_a_proxy_that_is_no_proxy_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def mumble(peer: Peer) -> None:
        await peer.read_request()
        await peer.send(b"220 mail.test ESMTP\r\n\r\n")

    async with serving(mumble) as proxy:
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.port}")
        with pytest.raises(WireError, match="gave no tunnel: the server's answer is not HTTP"):
            await ask(Reach(url="https://mcp.test/mcp"))


async def test_a_proxy_that_is_not_there_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", "http://user:hunter2@127.0.0.1:1")
    for url in ("https://mcp.test/mcp", "http://mcp.test/mcp"):
        with pytest.raises(WireError) as caught:
            await ask(Reach(url=url))
        assert caught.value.why == (
            "cannot use the proxy that the environment names: cannot connect to 127.0.0.1 port 1: Connection refused"
        )


async def test_a_socks_proxy_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", "socks5h://127.0.0.1:1080")
    with pytest.raises(WireError, match="cannot use a socks5h proxy"):
        await ask(Reach(url="https://mcp.test/mcp"))


async def test_a_proxy_is_told_the_address_that_was_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(tmp_path)
    answer_names(mcp_test=[["8.8.8.8"], ["127.0.0.1"]])
    async with tls_server(authority) as server, serving(tunnelling_to(server.port)) as proxy:
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.port}")
        reach = Reach(url="https://own.test/", ca=authority.ca, hosts=("mcp.test",))
        async with HttpWire(reach, max_bytes=1000) as wire:
            assert (await wire.fetch("GET", "https://mcp.test/x", (), b""))[0] == 200
        assert [asked.target for asked in proxy.asked] == ["8.8.8.8:443"]


async def test_a_proxy_leads_to_no_private_address(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_names(mcp_test=[["10.0.0.1"]])
    async with serving(polite) as proxy:
        monkeypatch.setenv("all_proxy", f"http://127.0.0.1:{proxy.port}")
        async with HttpWire(Reach(url="http://own.test/", hosts=("mcp.test",)), max_bytes=1000) as wire:
            with pytest.raises(WireError, match="has the private address"):
                await wire.fetch("GET", "https://mcp.test/x", (), b"")
            with pytest.raises(WireError, match="cannot know which address a proxy would find"):
                await wire.fetch("GET", "http://mcp.test/x", (), b"")
        assert proxy.connections == 0


async def test_cancelling_a_tunnel_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    is_asked = trio.Event()

    async def silent(peer: Peer) -> None:
        await peer.read_request()
        is_asked.set()
        await peer.wait_for_close()

    with trio.fail_after(5):
        async with serving(silent) as proxy:
            monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.port}")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, Reach(url="https://mcp.test/mcp"))
                await is_asked.wait()
                nursery.cancel_scope.cancel()
            await proxy.wait_until_closed(1)


class Silent(trio.abc.HostnameResolver):
    """A name server that does not answer."""

    async def getaddrinfo(self, *_: object) -> NoReturn:
        await trio.sleep_forever()

    async def getnameinfo(self, *_: object) -> NoReturn:
        await trio.sleep_forever()


@pytest.mark.parametrize("must_be_public", [False, True])
async def test_connecting_takes_ten_seconds_at_most(autojump_clock: MockClock, must_be_public: bool) -> None:
    trio.socket.set_custom_hostname_resolver(Silent())
    started = trio.current_time()
    with pytest.raises(WireError, match=r"cannot connect to https://mcp\.test within 10 s"):
        await open_connection(
            Origin("https", "mcp.test", 443), files=Files(), proxy=None, must_be_public=must_be_public
        )
    assert trio.current_time() - started == 10.0
