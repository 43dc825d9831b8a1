"""Connections of APIs: whose they are, how long they are kept, and what authorises them."""

import json
from functools import partial
from pathlib import Path

import trio

from tests.http.certificates import Authority
from tests.providers.rest.calls import calling, calling_at, catalog_of
from tests.servers.raw_http import Peer, polite, serving
from tooldispatchd.agent.calls.restplan import ApiAuthorizers
from tooldispatchd.catalog.rest.declared import BuiltRequest
from tooldispatchd.daemon.logs import open_log
from tooldispatchd.http.oauth.authorizer import EndpointAuthorizer
from tooldispatchd.http.oauth.tokens import Tokens, TokenStore
from tooldispatchd.providers.rest.apiwires import ApiWire
from tooldispatchd.wire.faults import Code


async def test_tools_at_one_origin_share_connections() -> None:
    async with serving(polite) as server:
        url = f"http://127.0.0.1:{server.port}"
        tools = {"a": {"rest": {"url": f"{url}/a"}}, "b": {"rest": {"url": f"{url}/b"}}}
        async with calling(catalog_of(tools, {})) as caller:
            await caller.value(name="a")
            await caller.value(name="b")
        assert (server.connections, [asked.target for asked in server.asked]) == (1, ["/a", "/b"])


async def test_apis_with_other_credentials_share_none() -> None:
    async with serving(polite) as server:
        base = {"base_url": f"http://127.0.0.1:{server.port}"}
        apis = {"a": {**base, "token": "one"}, "b": {**base, "token": "two"}}
        tools = {name: {"rest": {"api": name, "path": "/"}} for name in apis}
        async with calling(catalog_of(tools, apis)) as caller:
            await caller.value(name="a")
            await caller.value(name="b")
        assert server.connections == 2
        assert [asked.headers["authorization"] for asked in server.asked] == ["Bearer one", "Bearer two"]


async def test_calls_at_the_same_time_have_a_connection_each() -> None:
    together = trio.Event()

    async def script(peer: Peer) -> None:
        await peer.read_request()
        if len(peer.asked) == 3:
            together.set()
        await together.wait()
        await peer.answer()

    with trio.fail_after(5):
        async with calling_at(script, {}) as (caller, server), trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(_ask, caller.wire("api"))
        assert server.connections == 3


async def _ask(wire: ApiWire) -> None:
    async with wire.exchange("GET", BuiltRequest("/", "")) as reply:
        await reply.read(100)


async def test_a_connection_that_nobody_uses_is_closed_without_another_call() -> None:
    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.answer(headers="Keep-Alive: timeout=2\r\n")
        await peer.wait_for_close()

    with trio.fail_after(5):
        async with calling_at(script, {}) as (caller, server):
            await caller.value()
            await server.wait_until_closed(1)
            await caller.value()
            assert server.connections == 2


async def test_a_certificate_is_shown_and_an_authority_trusted(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("client")
    context = authority.server_context("127.0.0.1", asks_for_client=True)
    async with serving(polite, context=context) as server:
        api = {"base_url": f"https://127.0.0.1:{server.port}", "ca": authority.ca}
        tools = {"t": {"rest": {"api": "api", "path": "/"}}}
        async with calling(catalog_of(tools, {"api": {**api, "cert": cert, "key": key}})) as caller:
            assert await caller.value() == {}
        async with calling(catalog_of(tools, {"api": api})) as caller:
            await caller.fault()
        assert len(server.asked) == 1


async def test_a_certificate_is_shown_to_nobody_else(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("client")
    context = authority.server_context("127.0.0.1", asks_for_client=True)
    async with serving(polite, context=context) as other:

        async def leading(peer: Peer) -> None:
            await peer.read_request()
            await peer.answer(b"", "307 x", f"Location: https://127.0.0.1:{other.port}/\r\n")
            await peer.wait_for_close()

        async with serving(leading, context=context) as server:
            api = {"base_url": f"https://127.0.0.1:{server.port}", "hosts": [f"127.0.0.1:{other.port}"]}
            api |= {"ca": authority.ca, "cert": cert, "key": key}
            async with calling(catalog_of({"t": {"rest": {"api": "api", "path": "/"}}}, {"api": api})) as caller:
                await caller.fault()
        assert (len(server.asked), len(other.asked)) == (1, 0)


async def test_a_token_is_got_and_got_again(tmp_path: Path) -> None:
    given: list[str] = []

    async def tokens(peer: Peer) -> None:
        asked = await peer.read_request()
        given.append(asked.body.decode())
        await peer.answer(json.dumps({"access_token": f"t{len(given)}", "token_type": "Bearer"}).encode())
        await peer.wait_for_close()

    async def api(peer: Peer) -> None:
        while True:
            asked = await peer.read_request()
            await peer.answer(b"[]", "200 OK" if asked.headers["authorization"] == "Bearer t2" else "401 x")

    oauth = {"token_url": "", "client_id": "me", "client_secret_env": "SECRET", "scopes": ["a", "b"]}
    async with serving(tokens) as server:
        oauth["token_url"] = f"http://127.0.0.1:{server.port}/token"
        store = TokenStore({"STATE_DIRECTORY": str(tmp_path)}, Tokens)
        async with serving(api) as other:
            tools = {"t": {"rest": {"api": "api", "path": "/"}}}
            apis = {"api": {"base_url": f"http://127.0.0.1:{other.port}", "auth": "oauth", "oauth": oauth}}
            catalog = catalog_of(tools, apis)
            async with calling(catalog, authorizer=partial(EndpointAuthorizer, store=store, fresh_s=0)) as caller:
                assert await caller.value() == []
                assert await caller.value() == []
        assert len(other.asked) == 3
    assert given == ["grant_type=client_credentials&scope=a+b"] * 2
    assert server.asked[0].headers["authorization"] == "Basic bWU6U0VDUkVU"


async def test_apis_of_one_client_share_a_token_which_no_refusal_repeats(tmp_path: Path) -> None:
    async def tokens(peer: Peer) -> None:
        await peer.read_request()
        await peer.answer(b'{"access_token": "token-of-endpoint", "token_type": "Bearer"}')

    async def api(peer: Peer) -> None:
        asked = await peer.read_request()
        await peer.answer(f"got {asked.headers['authorization']}".encode(), "403 x")

    async with serving(tokens) as server, serving(api) as other:
        oauth = {"token_url": f"http://127.0.0.1:{server.port}/", "client_id": "me", "client_secret_env": "SECRET"}
        table = {"base_url": f"http://127.0.0.1:{other.port}", "auth": "oauth", "oauth": oauth}
        tools = {name: {"rest": {"api": name, "path": "/"}} for name in "ab"}
        catalog = catalog_of(tools, {"a": table, "b": table})
        authorizers = ApiAuthorizers(open_log("error"), catalog.masker, {"STATE_DIRECTORY": str(tmp_path)})
        async with calling(catalog, authorizer=authorizers.make) as caller:
            values = [await caller.value(name=name) for name in "ab"]
        assert len(server.asked) == 1
    said = {"error": "HTTP 403 Forbidden", "http_status": 403, "body": "got Bearer …"}
    assert values == [said, said]


async def test_without_a_token_nothing_is_sent(tmp_path: Path) -> None:
    async def tokens(peer: Peer) -> None:
        await peer.read_request()
        await peer.answer(b'{"error": "invalid_client"}', "401 x")

    async with serving(tokens) as server, serving(polite) as other:
        oauth = {"token_url": f"http://127.0.0.1:{server.port}/", "client_id": "me", "client_secret_env": "SECRET"}
        apis = {"api": {"base_url": f"http://127.0.0.1:{other.port}", "auth": "oauth", "oauth": oauth}}
        catalog = catalog_of({"t": {"rest": {"api": "api", "path": "/"}}}, apis)
        store = TokenStore({"STATE_DIRECTORY": str(tmp_path)}, Tokens)
        async with calling(catalog, authorizer=partial(EndpointAuthorizer, store=store)) as caller:
            fault = await caller.fault()
        assert other.connections == 0
    assert (fault.code, fault.extras["ran"]) == (Code.SERVER_UNAVAILABLE, "no")
    assert "SECRET" not in fault.detail
