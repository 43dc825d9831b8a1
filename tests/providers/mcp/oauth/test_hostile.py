"""Servers that lead a flow astray: where nothing secret goes, and what is said of it."""

import base64
import logging
from pathlib import Path

import pytest
import trio
import trio.testing
from msgspec.structs import replace

from tests.http.names import answer_names
from tests.providers.mcp.oauth.asking import PERSON, SECRET, Daemon, call
from tests.providers.mcp.recording import Recording
from tests.servers.authorization_server import OAuthServer, Recorder, Reply, serving
from tooldispatchd.http.oauth.flows import FLOW_S
from tooldispatchd.http.oauth.refusals import AuthorizationError
from tooldispatchd.http.oauth.tokens import TokenStore, learn_nothing
from tooldispatchd.http.reach import Reach
from tooldispatchd.http.wire import Headers, HttpWire
from tooldispatchd.providers.mcp.oauth import flow
from tooldispatchd.providers.mcp.oauth.accounts import OAuthAccount
from tooldispatchd.providers.mcp.oauth.documents import Challenge, RegisteredClient
from tooldispatchd.providers.mcp.oauth.grants import Grant
from tooldispatchd.wire.lines import Text

PROTECTED = "/.well-known/oauth-protected-resource/mcp"
SERVER = "/.well-known/oauth-authorization-server"
# As it is, and as HTTP Basic has it.
SECRETS = ("secret-of-client", base64.b64encode(b"daemon:secret-of-client").decode())


def host_of(origin: OAuthServer | Recorder) -> str:
    return origin.url.removeprefix("http://")


async def failure(daemon: Daemon, server: OAuthServer, **reach: object) -> str:
    async with daemon.wire(server, SECRET, **reach) as wire:
        with pytest.raises(AuthorizationError) as caught:
            await call(wire)
    assert caught.value.__cause__ is None
    assert not any(secret in repr(caught.value) for secret in SECRETS)
    return caught.value.why


async def outcome(daemon: Daemon, server: OAuthServer) -> str:
    """The status of a call, or why there was none."""
    async with daemon.wire(server, SECRET) as wire:
        with trio.fail_after(5):
            try:
                return str(await call(wire))
            except AuthorizationError as error:
                return error.why


async def test_an_authorization_server_elsewhere_must_be_listed(tmp_path: Path) -> None:
    server, elsewhere, daemon = OAuthServer(), OAuthServer(), Daemon(tmp_path)
    elsewhere.secrets["daemon"] = "secret-of-client"
    async with serving(server), serving(elsewhere):
        server.resource_metadata = {"authorization_servers": [elsewhere.url]}
        why = await failure(daemon, server)
        assert why == (
            f"cannot get a token: its authorization server is {elsewhere.url}, which is not among its `hosts`; "
            f'to trust it, add hosts = ["{host_of(elsewhere)}"] to its table'
        )
        assert elsewhere.requests == []


async def test_one_that_is_listed_must_not_have_a_private_address_unless_it_is_listed_by_that(tmp_path: Path) -> None:
    server, elsewhere, daemon = OAuthServer(), OAuthServer(), Daemon(tmp_path)
    elsewhere.secrets["daemon"] = "secret-of-client"
    elsewhere.tokens = server.tokens
    async with serving(server), serving(elsewhere):
        address = elsewhere.url
        elsewhere.url = address.replace("127.0.0.1", "login.test")
        answer_names(login_test=[["127.0.0.1"]])
        server.resource_metadata = {"authorization_servers": [elsewhere.url]}
        why = await failure(daemon, server, hosts=(host_of(elsewhere),))
        assert "login.test has the private address 127.0.0.1" in why
        assert elsewhere.requests == []
        elsewhere.url = address
        server.resource_metadata = {"authorization_servers": [address]}
        async with daemon.wire(server, SECRET, hosts=(host_of(elsewhere),)) as wire:
            assert await call(wire) == 200


async def test_all_that_an_authorization_server_elsewhere_needs_is_said_at_once(tmp_path: Path) -> None:
    server, elsewhere, daemon = OAuthServer(), OAuthServer(), Daemon(tmp_path)
    async with serving(server), serving(elsewhere):
        elsewhere.url = elsewhere.url.replace("127.0.0.1", "login.test")
        answer_names(login_test=[["127.0.0.1"]])
        server.resource_metadata = {"authorization_servers": [elsewhere.url]}
        why = await failure(daemon, server)
    assert why == (
        f"cannot get a token: its authorization server is {elsewhere.url}, which is not among its `hosts`; "
        f'to trust it, add hosts = ["{host_of(elsewhere)}"] and private = true to its table'
    )


async def test_one_that_is_listed_and_may_be_private_gives_tokens_and_gets_no_header(tmp_path: Path) -> None:
    server, elsewhere, daemon = OAuthServer(), OAuthServer(), Daemon(tmp_path)
    elsewhere.secrets["daemon"] = "secret-of-client"
    elsewhere.tokens = server.tokens
    headers = (("x-api-key", "secret-header"),)
    async with serving(server), serving(elsewhere):
        server.resource_metadata = {"authorization_servers": [elsewhere.url]}
        async with daemon.wire(server, SECRET, hosts=(host_of(elsewhere),), private=True, headers=headers) as wire:
            assert await call(wire) == 200
    assert len(elsewhere.asked("/token")) == 1
    assert "secret-header" not in repr(elsewhere.requests)
    assert "Bearer" not in repr(elsewhere.requests)


async def test_a_token_endpoint_elsewhere_gets_nothing(tmp_path: Path) -> None:
    server, thief, daemon = OAuthServer(), Recorder(), Daemon(tmp_path)
    async with serving(server), serving(thief):
        server.metadata = {"token_endpoint": f"{thief.url}/token"}
        assert "is not among its `hosts`" in await failure(daemon, server)
    assert thief.requests == []


@pytest.mark.parametrize("path", [PROTECTED, SERVER, "/token"])
@pytest.mark.parametrize("status", [302, 307, 308])
async def test_a_redirect_to_elsewhere_is_not_followed(tmp_path: Path, path: str, status: int) -> None:
    server, thief, daemon = OAuthServer(), Recorder(), Daemon(tmp_path)
    async with serving(server), serving(thief):
        server.replies[path] = (status, {"Location": f"{thief.url}/x"}, b"")
        assert f"HTTP {status}" in await failure(daemon, server)
    assert thief.requests == []


@pytest.mark.parametrize("status", [307, 308])
async def test_a_token_request_is_not_redirected_even_to_a_listed_host(tmp_path: Path, status: int) -> None:
    server, other, daemon = OAuthServer(), Recorder(), Daemon(tmp_path)
    async with serving(server), serving(other):
        server.replies["/token"] = (status, {"Location": f"{other.url}/x"}, b"")
        await failure(daemon, server, hosts=(host_of(other),), private=True)
    assert other.requests == []


@pytest.mark.parametrize(
    ("path", "reply"),
    [
        (PROTECTED, (200, {}, b"<html>")),
        (PROTECTED, (200, {}, b'{"resource": 5}')),
        (PROTECTED, (200, {}, b"[" * 60_000)),
        (PROTECTED, (200, {}, b" " * 100_000)),
        (PROTECTED, (500, {}, b"")),
        (SERVER, (200, {}, b'{"issuer":"http://[","token_endpoint":"http://["}')),
        (SERVER, (200, {}, b"\xff\xfe")),
        (SERVER, (200, {}, b"{" + b'"a":' * 60_000)),
        (SERVER, (200, {}, b"x" * 5_000_000)),
        ("/token", (200, {}, b"{}")),
        ("/token", (200, {}, b"\xff")),
        ("/token", (400, {}, b"\xff\xff")),
        ("/token", (200, {}, b'{"access_token":"a","token_type":"mac"}')),
        ("/token", (200, {}, b'{"access_token":"a\\nb","token_type":"Bearer"}')),
        ("/token", (200, {}, b'{"access_token":"\\u00e9","token_type":"Bearer"}')),
        ("/token", (200, {}, b'{"access_token":"a","token_type":"Bearer","expires_in":1' + b"0" * 4000 + b"}")),
        ("/token", (400, {}, b'{"error":"secret-of-client","error_description":"secret-of-client"}')),
    ],
)
async def test_answers_that_make_no_sense_are_a_failure_in_our_own_words(
    tmp_path: Path, path: str, reply: Reply, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.secrets["daemon"] = "secret-of-client"
    server.replies[path] = reply
    with caplog.at_level(logging.DEBUG):
        async with serving(server):
            if path == PROTECTED:
                server.needed_scope = ""
                # What it may not say is passed over where the older way works (2025-03-26).
                found = await outcome(daemon, server)
                assert found == "200" or found.startswith("cannot get a token: ")
            else:
                assert (await failure(daemon, server)).startswith("cannot get a token: ")
    assert not any(secret in caplog.text + "".join(capsys.readouterr()) for secret in SECRETS)


@pytest.mark.parametrize(
    "challenge",
    [
        'Bearer resource_metadata="http://["',
        'Bearer resource_metadata="file:///etc/passwd"',
        'Bearer resource_metadata="http://user:password@127.0.0.1/"',
        'Bearer scope="' + "a " * 30_000,
        "Bearer " + "scope=" * 9_000,
        'Bearer scope="\u00e9", error="\u00e9", resource_metadata="\u00e9"',
        'Negotiate abc, Bearer realm="x", scope="tools"',
    ],
)
async def test_challenges_that_make_no_sense_end_within_the_flow(tmp_path: Path, challenge: str) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.secrets["daemon"] = "secret-of-client"
    server.replies["/mcp"] = (401, {"WWW-Authenticate": challenge[:60_000].strip()}, b"")
    async with serving(server):
        found = await outcome(daemon, server)
    assert found == "401" or found.startswith("cannot get a token: ")


async def test_what_an_authorization_server_is_to_be_shown_is_not_shown_to_the_server(tmp_path: Path) -> None:
    server, elsewhere, daemon = OAuthServer(), Recorder(), Daemon(tmp_path)
    async with serving(server), serving(elsewhere):
        server.resource_metadata = {"authorization_servers": [elsewhere.url]}
        why = await failure(daemon, server, hosts=(host_of(elsewhere),), private=True)
    assert why == "cannot get a token: the authorization server's metadata cannot be read"
    assert not server.asked("/token")


async def test_metadata_of_another_resource_is_refused(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.resource_metadata = {"resource": "https://bank.example/mcp"}
    async with serving(server):
        assert await failure(daemon, server) == "cannot get a token: the server's metadata describes another resource"
    assert not server.asked("/token")


async def test_metadata_of_another_issuer_is_refused(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.metadata = {"issuer": "https://bank.example"}
    async with serving(server):
        why = await failure(daemon, server)
    assert why == "cannot get a token: the authorization server's metadata names another issuer"
    assert not server.asked("/token")


async def test_a_token_that_the_server_redirects_away_with_stays_here(tmp_path: Path) -> None:
    server, thief, daemon = OAuthServer(), Recorder(reply=(200, {}, b"{}")), Daemon(tmp_path)
    async with serving(server), serving(thief):
        token = server.grant("tools")
        daemon.store(server, PERSON, Grant(access_token=token, scope="tools"))
        server.replies["/mcp"] = (307, {"Location": f"{thief.url}/mcp"}, b"")
        async with daemon.wire(server, PERSON, hosts=(host_of(thief),), private=True) as wire:
            assert await call(wire) == 200
    assert len(thief.requests) == 1
    assert token not in thief.received


async def test_a_flow_that_takes_too_long_is_ended(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    began = trio.current_time()

    class Never(HttpWire):
        async def fetch(self, method: str, url: str, headers: Headers, body: Text) -> tuple[int, bytes]:
            await trio.sleep_forever()
            raise AssertionError

    async with Never(Reach(url="http://127.0.0.1/mcp"), max_bytes=1) as wire:
        with pytest.raises(AuthorizationError, match="cannot get a token: it took longer than 30 s"):
            await flow.OAuthFlow("http://127.0.0.1/mcp", SECRET, wire, print).obtain(Grant(), Challenge(401))
    assert trio.current_time() - began == FLOW_S


def test_nothing_secret_is_in_any_repr() -> None:
    grant = Grant(
        access_token="hunter2",
        refresh_token="hunter2",
        client=RegisteredClient(client_id="a", client_secret="hunter2"),
        scope="a",
    )
    shown = repr((grant, grant.client, replace(SECRET, client_secret="hunter2"), Reach(url="http://a/?key=hunter2")))
    oauth = replace(SECRET, client_secret="hunter2")
    account = OAuthAccount(TokenStore({}, Grant), "http://a/?key=hunter2", oauth, Recording(), learn_nothing)
    assert "hunter2" not in shown + repr(account)
