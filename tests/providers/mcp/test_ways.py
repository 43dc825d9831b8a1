import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress

import msgspec
import pytest
import trio

from tests.providers.mcp.linking import LEGACY, Inbox, answering, at, each
from tests.servers.raw_http import serving
from tooldispatchd.children.family import open_family
from tooldispatchd.http.reach import OAuth, Reach
from tooldispatchd.http.wire import Headers, HttpWire
from tooldispatchd.providers.mcp.http.door import PairWay, StreamableWay, http_way
from tooldispatchd.providers.mcp.link import LinkError, Transport, origin_of
from tooldispatchd.providers.mcp.server import Server
from tooldispatchd.providers.mcp.stdio import StdioWay
from tooldispatchd.providers.mcp.ways import way_to
from tooldispatchd.providers.mcp.websocket import WebSocketWay


async def way(server: Server) -> Transport:
    async with open_family() as family:
        return way_to(server, family)


@pytest.mark.parametrize(
    ("url", "transport", "kind", "may_probe"),
    [
        ("http://a.example/mcp", "auto", StreamableWay, True),
        ("https://a.example/mcp", "http", StreamableWay, True),
        ("https://a.example/sse", "sse", PairWay, False),
        ("ws://a.example/", "auto", WebSocketWay, True),
        ("WSS://a.example/", "auto", WebSocketWay, True),
    ],
)
async def test_a_url_and_its_transport_say_the_way(url: str, transport: str, kind: type, *, may_probe: bool) -> None:
    found = await way(at(url, transport=transport))
    assert type(found) is kind
    assert found.needs_tasks
    assert found.may_probe is may_probe
    assert found.is_http is (kind is not WebSocketWay)


async def test_a_command_is_a_child() -> None:
    found = await way(Server(name="near", argv=("true",), max_line_bytes=1, max_content_bytes=1))
    assert type(found) is StdioWay
    assert not found.needs_tasks


async def test_only_streamable_http_that_nobody_asked_for_has_an_older_way() -> None:
    older = (await way(at("http://a.example/mcp"))).older()
    assert type(older) is PairWay
    assert (await way(at("http://a.example/mcp", transport="http"))).older() is None
    assert (await way(at("http://a.example/mcp", transport="sse"))).older() is None
    assert (await way(at("ws://a.example/"))).older() is None


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://A.example", ("http", "a.example", 80, "/")),
        ("https://a.example:8443/mcp?key=secret", ("https", "a.example", 8443, "/mcp")),
        ("wss://[::1]/x", ("wss", "::1", 443, "/x")),
        ("http://a.example:99999999/", ("", "", 0, "http://a.example:99999999/")),
    ],
)
def test_an_era_is_remembered_by_where_the_server_is(url: str, origin: tuple[str, str, int, str]) -> None:
    assert origin_of(url) == origin


@pytest.mark.parametrize("transport", ["http", "sse"])
@pytest.mark.parametrize("url", ["http://", "http://a.example:99999999/", "http://u:p@a.example/", "http://[x/"])
async def test_a_url_that_is_none_is_why_a_link_cannot_be_opened(url: str, transport: str) -> None:
    found = await way(at(url, transport=transport))
    async with trio.open_nursery() as nursery:
        link = found.link(Inbox(), nursery)
        with pytest.raises(LinkError, match=r"^cannot use "):
            await link.open()
        await link.close()


class Token:
    """An authorizer that has a token."""

    async def credentials(self, wire: HttpWire) -> Headers:
        return [("Authorization", "Bearer t")]

    async def challenged(self, status: int, headers: Mapping[str, str], wire: HttpWire) -> None:
        return None

    def refused(self, headers: Mapping[str, str]) -> None:
        pass


class Tokens:
    """Has a token for the server `far`, and for no other."""

    def way(self, server: Server, reach: Reach) -> Transport:
        def authorize() -> Token:
            if server.name != "far":
                raise LinkError("it needs a login")
            return Token()

        return http_way(server, reach, authorize)


@pytest.mark.parametrize("transport", ["auto", "sse"])
async def test_a_server_with_oauth_is_authorised_whichever_way(transport: str) -> None:
    async with serving(each(answering(b"", "404 Not Found"))) as server, trio.open_nursery() as nursery:
        spec = at(server.url, transport=transport, oauth=OAuth(grant="client_credentials"))
        async with open_family() as family:
            link = way_to(spec, family, Tokens()).link(Inbox(), nursery)
            stranger = way_to(msgspec.structs.replace(spec, name="stranger"), family, Tokens()).link(Inbox(), nursery)
        with suppress(LinkError):
            await link.open()
        link.send(LEGACY.request(1, "tools/call", {}))
        link.flush()
        with trio.fail_after(5):
            while not server.asked:
                await trio.sleep(0.001)
        assert server.asked[0].headers["authorization"] == "Bearer t"
        with pytest.raises(LinkError, match=r"^it needs a login$"):
            await stranger.open()
        await link.close()
        await stranger.close()


def test_ways_bring_nothing_of_the_network_before_a_server_needs_it() -> None:
    code = "import sys, tooldispatchd.providers.mcp.ways; print({'h11', 'wsproto', 'ssl', 'httpx2'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert "h11" not in done.stdout
    assert "wsproto" not in done.stdout
    assert "httpx2" not in done.stdout
