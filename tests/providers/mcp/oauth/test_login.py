"""A whole login, with a browser that does as it is told."""

from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
import trio

from tests.http.names import answer_names
from tests.providers.mcp.oauth.asking import PERSON, Daemon, call, logged_in, reach_of, server_of
from tests.servers.authorization_server import OAuthServer, Recorder, serving
from tooldispatchd.http.errors import WireError
from tooldispatchd.http.oauth.refusals import AuthorizationError
from tooldispatchd.http.oauth.tokens import TokenStore
from tooldispatchd.http.reach import OAuth, Reach
from tooldispatchd.providers.mcp.oauth.documents import RegisteredClient
from tooldispatchd.providers.mcp.oauth.grants import Grant, entry_name
from tooldispatchd.providers.mcp.oauth.login import forget, log_in
from tooldispatchd.providers.mcp.oauth.redirect import open_listener
from tooldispatchd.providers.mcp.oauth.refusals import UntrustedError


async def failed(daemon: Daemon, reach: Reach, tamper: Callable[[str], str] = str) -> str:
    with pytest.RaisesGroup(WireError) as caught:
        await logged_in(daemon, reach, tamper)
    error = caught.value.exceptions[0]
    assert isinstance(error, WireError)
    return error.why


async def test_who_logs_in_can_call_and_goes_on_calling_when_the_token_is_over(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    async with serving(server):
        sent = await logged_in(daemon, reach_of(server, PERSON))
        async with daemon.wire(server, PERSON) as wire:
            assert await call(wire) == 200
            server.tokens.clear()
            assert await call(wire) == 200
    assert sent["code_challenge_method"] == "S256"
    assert sent["resource"] == server.mcp
    assert sent["scope"] == "tools"
    assert sent["redirect_uri"].startswith("http://127.0.0.1:")
    [registered] = server.clients.values()
    assert registered["application_type"] == "native"
    assert [request.form["grant_type"] for request in server.asked("/token")] == ["authorization_code", "refresh_token"]


async def test_a_server_that_serves_strangers_too_is_logged_in_at(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.replies["/mcp"] = (200, {"Content-Type": "application/json"}, b"{}")
    async with serving(server):
        await logged_in(daemon, reach_of(server, PERSON))
        assert daemon.stored(server, PERSON) is not None


async def test_a_second_login_at_the_same_port_keeps_the_registration(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    async with serving(server):
        port = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
        number = port.socket.getsockname()[1]
        await port.aclose()
        oauth = OAuth(grant="authorization_code", redirect_port=number)
        await logged_in(daemon, reach_of(server, oauth))
        await logged_in(daemon, reach_of(server, oauth))
    assert len(server.clients) == 1


async def test_a_second_login_comes_back_to_the_same_port_and_keeps_the_registration(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    async with serving(server):
        first = await logged_in(daemon, reach_of(server, PERSON))
        second = await logged_in(daemon, reach_of(server, PERSON))
    assert len(server.clients) == 1
    assert first["redirect_uri"] == second["redirect_uri"]


async def test_a_login_after_one_that_was_refused_keeps_the_registration(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.denies = True
    async with serving(server):
        await failed(daemon, reach_of(server, PERSON))
        server.denies = False
        await logged_in(daemon, reach_of(server, PERSON))
    assert len(server.clients) == 1


async def test_where_the_port_is_taken_meanwhile_another_one_is_registered(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    async with serving(server):
        first = await logged_in(daemon, reach_of(server, PERSON))
        async with open_listener(urlsplit(first["redirect_uri"]).port):
            second = await logged_in(daemon, reach_of(server, PERSON))
    assert first["redirect_uri"] != second["redirect_uri"]
    assert len(server.clients) == 2


async def test_a_registration_that_was_forgotten_is_made_anew_in_the_same_login(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    async with serving(server):
        await logged_in(daemon, reach_of(server, PERSON))

        def forget_clients(url: str) -> str:
            if list(server.clients) == ["client-0"]:
                server.clients = {"client-x": {}}
            return url

        await logged_in(daemon, reach_of(server, PERSON), forget_clients)
        stored = daemon.stored(server, PERSON)
    assert stored is not None
    assert stored.client is not None
    assert stored.client.client_id == "client-1"


async def test_a_refresh_of_a_client_that_was_forgotten_lets_the_next_login_register(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    async with serving(server), daemon.wire(server, PERSON) as wire:
        await logged_in(daemon, reach_of(server, PERSON))
        server.tokens.clear()
        server.replies["/token"] = (401, {}, b'{"error":"invalid_client"}')
        with pytest.raises(AuthorizationError, match="it needs a login"):
            await call(wire)
        server.replies.clear()
        await logged_in(daemon, reach_of(server, PERSON))
        assert await call(wire) == 200
    assert len(server.clients) == 2


async def test_a_server_that_looks_at_the_revision_first_is_asked_in_one(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.wants_revision, server.challenge_scope = True, "tools extra"
    async with serving(server):
        sent = await logged_in(daemon, reach_of(server, PERSON))
    assert sent["scope"] == "tools extra"
    assert {request.headers.get("mcp-method") for request in server.asked("/mcp")} >= {"server/discover"}


async def test_tokens_that_the_server_refuses_for_their_scope_are_told_of_and_the_next_login_asks(
    tmp_path: Path,
) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.needed_scope, server.challenge_scope, server.granted_scope = "tools write", "tools", "tools"
    async with serving(server):
        why = await failed(daemon, reach_of(server, PERSON))
        server.granted_scope = None
        sent = await logged_in(daemon, reach_of(server, PERSON))
    assert why == (
        "the tokens are stored, but the server refuses them (HTTP 403): "
        "it wants write too, which the next login asks for"
    )
    assert sent["scope"] == "tools write"


async def test_where_the_person_trusts_the_way_to_it_the_daemon_goes_that_way_too(tmp_path: Path) -> None:
    server, elsewhere, daemon = OAuthServer(), OAuthServer(), Daemon(tmp_path)
    server.tokens = elsewhere.tokens
    async with serving(server), serving(elsewhere):
        elsewhere.url = elsewhere.url.replace("127.0.0.1", "login.test")
        answer_names(login_test=[["127.0.0.1"]])
        server.resource_metadata = {"authorization_servers": [elsewhere.url]}
        elsewhere.resource = server.mcp
        with pytest.raises(UntrustedError) as caught:
            await log_in(server_of(reach_of(server, PERSON)), daemon.environ, print)
        assert elsewhere.requests == []
        trusted = (caught.value.origin,)
        await logged_in(daemon, reach_of(server, PERSON), trusted=trusted)
        async with daemon.wire(server, PERSON) as wire:
            assert await call(wire) == 200
            server.tokens.clear()
            assert await call(wire) == 200
        # What was said yes to once is not asked again.
        await logged_in(daemon, reach_of(server, PERSON))
    assert (caught.value.host, caught.value.is_private) == (elsewhere.url.removeprefix("http://"), True)
    assert len(elsewhere.asked("/token")) == 3


async def test_a_token_endpoint_elsewhere_is_told_of_before_the_person_is_asked(tmp_path: Path) -> None:
    server, elsewhere, daemon, shown = OAuthServer(), Recorder(), Daemon(tmp_path), list[str]()
    async with serving(server), serving(elsewhere):
        server.metadata = {"token_endpoint": f"{elsewhere.url}/token"}
        with pytest.raises(UntrustedError):
            await log_in(server_of(reach_of(server, PERSON)), daemon.environ, shown.append)
    assert (shown, elsewhere.requests, server.clients) == ([], [], {})


async def test_a_client_of_the_configuration_is_not_registered_and_not_stored(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    oauth = OAuth(grant="authorization_code", client_id="ours", client_secret="secret-of-client", redirect_port=0)
    async with serving(server):
        server.clients["ours"] = {"redirect_uris": _Any()}
        await logged_in(daemon, reach_of(server, oauth))
        stored = daemon.stored(server, oauth)
    assert stored is not None
    assert stored.client is None
    assert not server.asked("/register")
    assert server.asked("/token")[0].headers["authorization"].startswith("Basic ")


async def test_a_client_with_a_document_of_its_own_needs_no_registration(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.metadata = {"client_id_metadata_document_supported": True}
    document = "https://client.example/daemon.json"
    oauth = OAuth(grant="authorization_code", client_metadata_url=document)
    server.clients[document] = {"redirect_uris": _Any()}
    async with serving(server):
        sent = await logged_in(daemon, reach_of(server, oauth))
        async with daemon.wire(server, oauth) as wire:
            server.tokens.clear()
            assert await call(wire) == 200
    assert sent["client_id"] == document
    assert server.asked("/token")[1].form["client_id"] == document
    assert not server.asked("/register")


async def test_a_document_that_cannot_be_one_is_said(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    oauth = OAuth(grant="authorization_code", client_metadata_url="http://client.example/")
    async with serving(server):
        with pytest.raises(AuthorizationError, match="client_metadata_url is no https URL with a path"):
            await log_in(server_of(reach_of(server, oauth)), daemon.environ, print)


class _Any:
    """Whatever is looked for is in it."""

    def __contains__(self, value: object) -> bool:
        return True


async def test_scopes_that_a_server_asked_for_since_are_asked_for(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    async with serving(server):
        daemon.store(server, PERSON, Grant(wanted="tools write"))
        sent = await logged_in(daemon, reach_of(server, PERSON))
        stored = daemon.stored(server, PERSON)
    assert sent["scope"] == "tools write"
    assert stored is not None
    assert stored.wanted is None


async def test_a_person_who_says_no_is_understood(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.denies = True
    async with serving(server):
        why = await failed(daemon, reach_of(server, PERSON))
        stored = daemon.stored(server, PERSON)
    assert why == "the authorization server refused the login (access_denied)"
    assert stored is not None
    assert stored.access_token is None


async def test_a_code_from_another_authorization_server_is_not_redeemed(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.iss = "https://bank.example"
    async with serving(server):
        why = await failed(daemon, reach_of(server, PERSON))
    assert why == "cannot get a token: the browser came back from another authorization server"
    assert not server.asked("/token")


async def test_a_redirect_without_the_name_that_was_promised_is_not_redeemed(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.iss = None
    async with serving(server):
        why = await failed(daemon, reach_of(server, PERSON))
    assert why == "cannot get a token: the browser came back without the authorization server's name"
    assert not server.asked("/token")


async def test_a_code_of_somebody_else_is_refused_by_its_proof(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    async with serving(server):

        def swap(url: str) -> str:
            code = dict(parse_qsl(urlsplit(url).query))["code"]
            server.codes["stolen"] = server.codes[code] | {"code_challenge": "another"}
            return url.replace(code, "stolen")

        why = await failed(daemon, reach_of(server, PERSON), swap)
    assert why == "cannot get a token: HTTP 400 invalid_grant"


async def test_a_server_that_registers_nobody_asks_for_a_client(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.replies["/register"] = (403, {}, b"secret")
    async with serving(server):
        with pytest.raises(AuthorizationError) as caught:
            await log_in(server_of(reach_of(server, PERSON)), daemon.environ, print)
    assert caught.value.why == ("cannot register at its authorization server: HTTP 403; oauth.client_id names a client")


async def test_an_authorization_server_without_a_place_to_register_asks_for_a_client(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.metadata = {"registration_endpoint": None}
    async with serving(server):
        why = await failed(daemon, reach_of(server, PERSON))
    assert why == "cannot register at its authorization server: it registers nobody; oauth.client_id names a client"
    assert not server.asked("/register")


async def test_a_registration_that_cannot_be_used_is_not_kept(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.replies["/register"] = (201, {}, b'{"client_id":"c","token_endpoint_auth_method":"private_key_jwt"}')
    async with serving(server):
        why = await failed(daemon, reach_of(server, PERSON))
        assert daemon.stored(server, PERSON) is None
    assert why == (
        "cannot register at its authorization server: the answer makes no sense; oauth.client_id names a client"
    )


async def test_a_registration_of_another_authorization_server_is_not_shown(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    async with serving(server):
        client = RegisteredClient(
            client_id="other", redirect_uris=("http://127.0.0.1:9999/callback",), issuer="https://bank.example"
        )
        store = TokenStore(daemon.environ, Grant)
        store.write(entry_name(server.mcp, PERSON), Grant(client=client))
        sent = await logged_in(daemon, reach_of(server, PERSON))
    assert sent["client_id"] == "client-0"


async def test_a_page_with_a_query_of_its_own_keeps_it(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    async with serving(server):
        server.metadata = {"authorization_endpoint": f"{server.url}/authorize?tenant=a"}
        sent = await logged_in(daemon, reach_of(server, PERSON))
    assert sent["tenant"] == "a"
    assert sent["response_type"] == "code"


async def test_a_page_is_shown_in_plain_letters(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    async with serving(server):
        server.metadata = {"authorization_endpoint": f"{server.url}/authorize?\x1b[31m\n=1"}
        sent = await logged_in(daemon, reach_of(server, PERSON))
    assert sent["\x1b[31m"] == "1"


async def test_a_refresh_token_is_asked_for_where_it_is_a_scope(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.metadata = {"scopes_supported": ["tools", "offline_access"]}
    async with serving(server):
        sent = await logged_in(daemon, reach_of(server, PERSON))
    assert (sent["scope"], sent["prompt"]) == ("tools offline_access", "consent")


async def test_a_person_is_never_sent_to_what_is_no_page(tmp_path: Path) -> None:
    server, daemon, shown = OAuthServer(), Daemon(tmp_path), list[str]()
    server.metadata = {"authorization_endpoint": "javascript:alert(1)"}
    async with serving(server):
        with pytest.raises(AuthorizationError):
            await log_in(server_of(reach_of(server, PERSON)), daemon.environ, shown.append)
    assert shown == []


async def test_tokens_that_the_server_itself_refuses_are_told_of(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.replies["/mcp"] = (401, {}, b"")
    async with serving(server):
        why = await failed(daemon, reach_of(server, PERSON))
    assert why == "the tokens are stored, but the server refuses them (HTTP 401)"


async def test_who_logs_out_leaves_no_tokens(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    async with serving(server):
        reach = reach_of(server, PERSON)
        await logged_in(daemon, reach)
        assert await forget(reach, daemon.environ)
        assert not await forget(reach, daemon.environ)
        async with daemon.wire(server, PERSON) as wire:
            with pytest.raises(AuthorizationError, match="it needs a login: run tooldispatchd login docs"):
                await call(wire)


async def test_a_server_that_is_not_there_is_said(tmp_path: Path) -> None:
    server, daemon = Recorder(), Daemon(tmp_path)
    async with serving(server):
        gone = server.url
    with pytest.raises(WireError, match="cannot connect to"):
        await log_in(server_of(Reach(url=gone, oauth=PERSON)), daemon.environ, print)
