"""Tokens got and renewed in a daemon, by which the requests of many connections are authorised."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import trio
import trio.testing
from msgspec.structs import replace

from tests.providers.mcp.oauth.asking import SECRET, Daemon, call, keys, refused_for, until
from tests.servers.authorization_server import OAuthServer, serving
from tooldispatchd.http.oauth.refusals import AuthorizationError
from tooldispatchd.http.reach import OAuth
from tooldispatchd.http.wire import HttpWire
from tooldispatchd.installation import needs


async def test_a_client_with_a_secret_gets_a_token_at_the_first_request(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.secrets["daemon"] = "secret-of-client"
    async with serving(server), daemon.wire(server, SECRET) as wire:
        assert await call(wire) == 200
        assert await call(wire) == 200
        assert daemon.masker.secrets == set(server.tokens)
    [asked] = server.asked("/token")
    assert asked.form["resource"] == server.mcp
    assert asked.form["scope"] == "tools"
    assert len(server.asked("/mcp")) == 3


async def test_a_client_shows_its_secret_in_the_form_where_the_server_takes_it_only_there(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.secrets["daemon"] = "secret-of-client"
    server.metadata = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    async with serving(server), daemon.wire(server, SECRET) as wire:
        assert await call(wire) == 200
    [asked] = server.asked("/token")
    assert "authorization" not in asked.headers


async def test_a_wrong_secret_is_said_and_not_shown(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    async with serving(server), daemon.wire(server, SECRET) as wire:
        with pytest.raises(AuthorizationError) as caught:
            await call(wire)
    assert caught.value.why == "cannot get a token: HTTP 401 invalid_client"


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
async def test_a_client_with_a_key_signs_for_its_authorization_server(tmp_path: Path, algorithm: str) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    private, public = keys(algorithm)
    server.public_keys["daemon"] = (public, algorithm)
    oauth = OAuth(grant="private_key_jwt", client_id="daemon", private_key=private, algorithm=algorithm)
    async with serving(server), daemon.wire(server, oauth) as wire:
        assert await call(wire) == 200
    [claims] = server.assertions
    assert (claims["iss"], claims["sub"], claims["aud"]) == ("daemon", "daemon", server.url)


async def test_a_key_that_does_not_sign_so_is_said_and_not_shown(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    private, _ = keys("ES256")
    oauth = OAuth(grant="private_key_jwt", client_id="daemon", private_key=private, algorithm="RS256")
    async with serving(server), daemon.wire(server, oauth) as wire:
        with pytest.raises(AuthorizationError) as caught:
            await call(wire)
    assert caught.value.why == "cannot sign with its private key, which is not one for RS256"
    assert caught.value.__cause__ is None
    assert not server.asked("/token")


async def test_configured_scopes_are_asked_for_whatever_the_server_says(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.secrets["daemon"] = "secret-of-client"
    server.challenge_scope = "everything"
    async with serving(server), daemon.wire(server, replace(SECRET, scopes=("tools", "more"))) as wire:
        assert await call(wire) == 200
    assert server.asked("/token")[0].form["scope"] == "tools more"


async def test_metadata_is_found_at_its_well_known_place_where_no_header_names_it(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.secrets["daemon"] = "secret-of-client"
    server.shows_metadata_in_challenge = False
    server.is_oidc = True
    async with serving(server), daemon.wire(server, SECRET) as wire:
        assert await call(wire) == 200
    assert len(server.asked("/.well-known/oauth-protected-resource/mcp")) == 1
    assert len(server.asked("/.well-known/openid-configuration")) == 1


async def test_metadata_of_an_issuer_with_a_path_is_found_at_each_place_for_it(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.secrets["daemon"] = "secret-of-client"
    async with serving(server), daemon.wire(server, SECRET) as wire:
        issuer = f"{server.url}/tenant/"
        server.resource_metadata = {"authorization_servers": [issuer]}
        document = json.dumps(
            {"issuer": issuer, "authorization_endpoint": f"{server.url}/a", "token_endpoint": f"{server.url}/token"}
        )
        server.replies["/tenant/.well-known/openid-configuration"] = (200, {}, document.encode())
        assert await call(wire) == 200
    assert [request.path for request in server.requests][2:-1] == [
        "/.well-known/oauth-authorization-server/tenant",
        "/.well-known/openid-configuration/tenant",
        "/tenant/.well-known/openid-configuration",
        "/token",
    ]


async def test_a_server_without_metadata_gives_tokens_at_its_own_origin(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.secrets["daemon"] = "secret-of-client"
    server.shows_metadata_in_challenge = False
    server.replies["/.well-known/oauth-protected-resource/mcp"] = (404, {}, b"")
    server.replies["/.well-known/oauth-authorization-server"] = (404, {}, b"")
    server.challenge_scope = "tools"
    async with serving(server), daemon.wire(server, SECRET) as wire:
        assert await call(wire) == 200
    [asked] = server.asked("/token")
    assert asked.form["resource"] == server.mcp


async def test_a_token_that_is_over_is_replaced_and_the_request_tried_once_more(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.secrets["daemon"] = "secret-of-client"
    async with serving(server), daemon.wire(server, SECRET) as wire:
        assert await call(wire) == 200
        server.tokens.clear()
        daemon.accounts = Daemon(tmp_path).accounts
        async with daemon.wire(server, SECRET) as other:
            assert await call(other) == 200
    assert len(server.asked("/token")) == 2


async def test_a_token_that_is_refused_at_once_is_not_replaced_again(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.secrets["daemon"] = "secret-of-client"
    server.expires_in = -1
    async with serving(server), daemon.wire(server, SECRET) as wire:
        assert await call(wire) == 401
        assert await call(wire) == 401
    assert len(server.asked("/token")) == 1


async def test_a_step_up_asks_for_what_it_had_and_for_more(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.secrets["daemon"] = "secret-of-client"
    async with serving(server), daemon.wire(server, SECRET) as wire:
        assert await call(wire) == 200
        server.needed_scope = "write"
        assert await call(wire) == 200
    assert server.asked("/token")[-1].form["scope"] == "tools write"


async def test_a_step_up_that_brings_no_more_is_not_repeated(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.secrets["daemon"] = "secret-of-client"
    server.granted_scope = "tools"
    async with serving(server), daemon.wire(server, SECRET) as wire:
        assert await call(wire) == 200
        server.needed_scope = "write"
        await refused_for("write", wire)
        await refused_for("write", wire)
    assert len(server.asked("/token")) == 2


async def test_a_refusal_for_another_reason_is_the_callers(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.replies["/mcp"] = (403, {"WWW-Authenticate": 'Bearer error="access_denied"'}, b"")
    async with serving(server), daemon.wire(server, SECRET) as wire:
        assert await call(wire) == 403
    assert len(server.requests) == 1


async def test_many_requests_without_a_token_cost_one_flow(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.secrets["daemon"] = "secret-of-client"
    statuses: list[int] = []
    async with serving(server), daemon.wire(server, SECRET) as one, daemon.wire(server, SECRET) as another:

        async def ask(wire: HttpWire) -> None:
            statuses.append(await call(wire))

        async with trio.open_nursery() as nursery:
            for wire in (one, another) * 5:
                nursery.start_soon(ask, wire)
    assert statuses == [200] * 10
    assert len(server.asked("/token")) == 1


async def test_a_failure_is_shared_by_all_who_waited_for_the_token(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    gate = server.gates["/token"] = trio.Event()
    failures: list[str] = []
    async with serving(server), daemon.wire(server, SECRET) as wire:

        async def ask() -> None:
            try:
                await call(wire)
            except AuthorizationError as error:
                failures.append(error.why)

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(ask)
            await until(lambda: len(server.asked("/mcp")) == 5)
            await trio.testing.wait_all_tasks_blocked(0.02)
            gate.set()
    assert failures == ["cannot get a token: HTTP 401 invalid_client"] * 5
    assert len(server.asked("/token")) == 1


async def test_one_who_has_another_secret_is_given_nothing(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.secrets["daemon"] = "secret-of-client"
    async with serving(server), daemon.wire(server, SECRET) as wire:
        assert await call(wire) == 200
        async with daemon.wire(server, replace(SECRET, client_secret="guessed")) as other:
            with pytest.raises(AuthorizationError):
                await call(other)


async def test_tokens_of_a_client_without_a_person_are_not_stored(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.secrets["daemon"] = "secret-of-client"
    async with serving(server), daemon.wire(server, SECRET) as wire:
        assert await call(wire) == 200
    assert list(tmp_path.iterdir()) == []


async def test_each_step_to_a_token_is_logged_and_nothing_that_is_secret(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.secrets["daemon"] = "secret-of-client"
    async with serving(server), daemon.wire(server, SECRET) as wire:
        assert await call(wire) == 200
    steps = [(fields["step"], fields["status"]) for _, event, fields in daemon.log.lines if event == "oauth step"]
    statuses = [fields["status"] for _, event, fields in daemon.log.lines if event == "http answered"]
    assert steps == [("discovery", 200), ("discovery", 200), ("token", 200)]
    assert statuses == [401, 200, 200, 200, 200]
    assert {level for level, _, _ in daemon.log.lines} == {"debug"}
    assert "secret" not in str(daemon.log.lines)
    assert "?" not in str(daemon.log.lines)


async def test_a_token_that_cannot_be_got_is_warned_of_once(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    async with serving(server), daemon.wire(server, SECRET) as wire:
        for _ in range(3):
            with pytest.raises(AuthorizationError):
                await call(wire)
    assert daemon.warnings == [("no token", "cannot get a token: HTTP 401 invalid_client")]


def run(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout


def test_an_account_imports_no_cryptography_until_a_key_is_used() -> None:
    program = """
import sys
from tooldispatchd.providers.mcp.oauth import accounts, login
accounts.Accounts({}, print)
print(sorted({"mcp", "pydantic", "httpx2", "cryptography", "jwt"} & sys.modules.keys()))
"""
    assert run(program) == "[]\n"


async def test_without_the_extra_a_client_with_a_key_is_told_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    monkeypatch.setitem(sys.modules, "jwt", None)
    oauth = OAuth(grant="private_key_jwt", client_id="daemon", private_key="key")
    async with serving(server), daemon.wire(server, oauth) as wire:
        with pytest.raises(AuthorizationError) as caught:
            await call(wire)
    assert caught.value.why == f"private_key_jwt {needs('oauth')}"
    assert not server.asked("/token")
