"""Tokens of an endpoint that the configuration names: got, renewed and kept."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.providers.mcp.oauth.asking import call, until
from tests.providers.mcp.recording import Recording
from tests.servers.authorization_server import OAuthServer, Recorder, serving
from tooldispatchd.catalog.masker import Masker
from tooldispatchd.http.oauth.authorizer import EndpointAuthorizer
from tooldispatchd.http.oauth.refusals import AuthorizationError
from tooldispatchd.http.oauth.tokens import Tokens, TokenStore
from tooldispatchd.http.reach import OAuth, Reach
from tooldispatchd.http.wire import HttpWire

GIVEN = {"token_type": "bearer", "access_token": "secret-access"}


class Api:
    """The wires of one daemon to what `server` guards, and what it logged; no token is too fresh to be replaced."""

    def __init__(self, server: OAuthServer, home: Path, *, fresh_s: float = 0.0, url: str = "", **oauth: Any) -> None:
        server.secrets["daemon"] = "secret-of-client"
        known: dict[str, Any] = {
            "grant": "client_credentials",
            "client_id": "daemon",
            "client_secret": "secret-of-client",
            "scopes": ("tools",),
            "token_url": f"{server.url}/token",
        }
        self.reach = Reach(
            url=url or server.mcp,
            headers=(("X-Key", "secret-key"),),
            oauth=OAuth(**(known | oauth)),
        )
        self.log = Recording()
        self.masker = Masker()
        self.authorizer = EndpointAuthorizer(
            self.reach,
            TokenStore({"XDG_STATE_HOME": str(home)}, Tokens),
            warn=self.log.warning,
            debug=self.log.debug,
            learn=self.masker.learn,
            fresh_s=fresh_s,
        )

    @asynccontextmanager
    async def wire(self) -> AsyncIterator[HttpWire]:
        async with HttpWire(self.reach, max_bytes=1 << 20, authorizer=self.authorizer) as wire:
            yield wire

    async def call(self) -> int:
        with trio.fail_after(10):
            async with self.wire() as wire:
                return await call(wire)


def refreshing(server: OAuthServer, home: Path, refresh_token: str, **oauth: Any) -> Api:
    resource = (("resource", server.mcp),)
    return Api(server, home, grant="refresh_token", refresh_token=refresh_token, parameters=resource, **oauth)


def paths(server: OAuthServer) -> list[str]:
    return [request.path for request in server.requests]


def stored(home: Path) -> list[str]:
    """The entries on disk."""
    return [path.read_text() for path in home.rglob("*.json")]


# --- client credentials ---


async def test_a_token_is_got_before_the_first_request_and_used_for_all(tmp_path: Path) -> None:
    server = OAuthServer()
    async with serving(server):
        api = Api(server, tmp_path)
        assert [await api.call() for _ in range(3)] == [200, 200, 200]
    assert paths(server) == ["/token", "/mcp", "/mcp", "/mcp"]
    [asked] = server.asked("/token")
    assert asked.form == {"grant_type": "client_credentials", "scope": "tools"}
    assert asked.headers["authorization"].startswith("Basic ")
    assert stored(tmp_path) == []


async def test_the_secret_is_shown_and_parameters_are_told_as_configured(tmp_path: Path) -> None:
    server = OAuthServer()
    async with serving(server):
        api = Api(server, tmp_path, client_auth="client_secret_post", parameters=(("audience", "https://api.test/"),))
        assert await api.call() == 200
    [asked] = server.asked("/token")
    assert asked.form["client_secret"] == "secret-of-client"
    assert asked.form["audience"] == "https://api.test/"
    assert "authorization" not in asked.headers


async def test_requests_at_the_same_time_cost_one_token(tmp_path: Path) -> None:
    server = OAuthServer()
    statuses: list[int] = []
    async with serving(server):
        api = Api(server, tmp_path)

        async def ask() -> None:
            statuses.append(await api.call())

        async with trio.open_nursery() as nursery:
            for _ in range(16):
                nursery.start_soon(ask)
    assert statuses == [200] * 16
    assert len(server.asked("/token")) == 1


async def test_a_token_that_is_due_is_replaced_before_it_is_refused(tmp_path: Path) -> None:
    server = OAuthServer()
    async with serving(server):
        given = GIVEN | {"access_token": server.grant("tools"), "expires_in": 0.001}
        server.replies["/token"] = (200, {}, json.dumps(given).encode())
        api = Api(server, tmp_path)
        assert [await api.call() for _ in range(2)] == [200, 200]
    assert paths(server) == ["/token", "/mcp", "/token", "/mcp"]


async def test_a_token_that_the_api_has_forgotten_is_replaced_by_one_more(tmp_path: Path) -> None:
    server = OAuthServer()
    async with serving(server):
        api = Api(server, tmp_path)
        assert await api.call() == 200
        assert api.masker.secrets == set(server.tokens)
        server.tokens.clear()
        assert await api.call() == 200
        # Known are the tokens that there are.
        assert api.masker.secrets == set(server.tokens)
    assert paths(server) == ["/token", "/mcp", "/mcp", "/token", "/mcp"]


async def test_many_refused_requests_cost_one_token(tmp_path: Path) -> None:
    server = OAuthServer()
    statuses: list[int] = []
    async with serving(server):
        api = Api(server, tmp_path)
        assert await api.call() == 200
        server.tokens.clear()

        async def ask() -> None:
            statuses.append(await api.call())

        async with trio.open_nursery() as nursery:
            for _ in range(16):
                nursery.start_soon(ask)
    assert statuses == [200] * 16
    assert len(server.asked("/token")) == 2


async def test_what_is_refused_twice_is_the_answer(tmp_path: Path) -> None:
    server = OAuthServer()
    server.replies["/mcp"] = (401, {}, b"")
    async with serving(server):
        assert await Api(server, tmp_path).call() == 401
    assert paths(server) == ["/token", "/mcp", "/token", "/mcp"]


async def test_a_token_that_was_just_got_is_not_replaced(tmp_path: Path) -> None:
    server = OAuthServer()
    server.replies["/mcp"] = (401, {}, b"")
    async with serving(server):
        assert await Api(server, tmp_path, fresh_s=60.0).call() == 401
    assert paths(server) == ["/token", "/mcp"]


async def test_a_token_that_lacks_a_right_is_not_replaced(tmp_path: Path) -> None:
    server = OAuthServer()
    server.granted_scope = "other"
    async with serving(server):
        assert await Api(server, tmp_path).call() == 403
    assert paths(server) == ["/token", "/mcp"]


async def test_without_a_token_nothing_is_sent_and_all_that_wait_share_the_reason(tmp_path: Path) -> None:
    server = OAuthServer()
    whys: list[str] = []
    async with serving(server):
        api = Api(server, tmp_path, client_secret="wrong")

        async def ask() -> None:
            with pytest.raises(AuthorizationError) as caught:
                await api.call()
            assert not caught.value.was_sent
            whys.append(caught.value.why)

        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(ask)
    assert whys == ["cannot get a token: HTTP 401 invalid_client"] * 8
    assert paths(server) == ["/token"]


async def test_neither_side_is_shown_what_is_the_others(tmp_path: Path) -> None:
    server, there = OAuthServer(), Recorder((200, {}, b"{}"))
    async with serving(server), serving(there):
        api = Api(server, tmp_path, url=f"{there.url}/v1")
        assert await api.call() == 200
    assert "secret-key" not in repr(server.requests)
    assert "secret-of-client" not in there.received
    assert "secret-access" in there.received
    assert "secret" not in repr((api.authorizer, api.log.lines))


# --- refresh tokens ---


async def test_a_refresh_token_that_stays_is_not_stored(tmp_path: Path) -> None:
    server = OAuthServer()
    server.rotates = False
    async with serving(server):
        api = refreshing(server, tmp_path, server.refresh_token("tools"))
        assert await api.call() == 200
        server.tokens.clear()
        assert await api.call() == 200
    assert len(server.asked("/token")) == 2
    assert stored(tmp_path) == []


async def test_a_refresh_token_that_was_replaced_is_stored_and_used_by_the_next_daemon(tmp_path: Path) -> None:
    server = OAuthServer()
    async with serving(server):
        first = server.refresh_token("tools")
        assert await refreshing(server, tmp_path, first).call() == 200
        [entry] = stored(tmp_path)
        [left] = server.refresh_tokens
        assert left in entry
        # The stored access token is used while it is good, and what is stored after that.
        assert await refreshing(server, tmp_path, first).call() == 200
        assert len(server.asked("/token")) == 1
        server.tokens.clear()
        last = refreshing(server, tmp_path, first)
        assert await last.call() == 200
        assert last.masker.secrets == {*server.tokens, *server.refresh_tokens}
    assert [request.form["refresh_token"] for request in server.asked("/token")] == [first, left]


async def test_two_daemons_with_one_store_refresh_once(tmp_path: Path) -> None:
    server = OAuthServer()
    async with serving(server):
        token = server.refresh_token("tools")
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(refreshing(server, tmp_path, token).call)
    assert len(server.asked("/token")) == 1
    assert len(server.asked("/mcp")) == 2


async def test_another_refresh_token_in_the_configuration_begins_anew(tmp_path: Path) -> None:
    server = OAuthServer()
    async with serving(server):
        first, second = server.refresh_token("tools"), server.refresh_token("tools")
        assert await refreshing(server, tmp_path, first).call() == 200
        assert await refreshing(server, tmp_path, second).call() == 200
    assert [request.form["refresh_token"] for request in server.asked("/token")] == [first, second]


async def test_a_client_without_a_secret_says_its_name(tmp_path: Path) -> None:
    server = OAuthServer()
    async with serving(server):
        api = refreshing(server, tmp_path, server.refresh_token("tools"), client_secret=None)
        assert await api.call() == 200
    [asked] = server.asked("/token")
    assert asked.form["client_id"] == "daemon"
    assert "authorization" not in asked.headers


async def test_a_refresh_token_that_is_over_is_said(tmp_path: Path) -> None:
    server = OAuthServer()
    async with serving(server):
        api = refreshing(server, tmp_path, "secret-refresh-over")
        with pytest.raises(AuthorizationError) as caught:
            await api.call()
    assert caught.value.why == "cannot refresh its token: HTTP 400 invalid_grant"
    assert paths(server) == ["/token"]


async def test_a_cancelled_call_does_not_lose_the_refresh_token_that_is_under_way(tmp_path: Path) -> None:
    server = OAuthServer()
    gate = server.gates["/token"] = trio.Event()
    async with serving(server):
        api = refreshing(server, tmp_path, server.refresh_token("tools"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(api.call)
            await until(lambda: server.asked("/token"))
            nursery.cancel_scope.cancel()
            gate.set()
        [entry] = stored(tmp_path)
        [left] = server.refresh_tokens
        assert left in entry
        assert await api.call() == 200
    assert len(server.asked("/token")) == 1


async def test_a_store_that_cannot_be_written_is_warned_of_and_the_newest_token_used(tmp_path: Path) -> None:
    server = OAuthServer()
    gate = server.gates["/token"] = trio.Event()
    async with serving(server):
        api = refreshing(server, tmp_path, server.refresh_token("tools"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(api.call)
            await until(lambda: server.asked("/token"))
            # The directory is somebody else's business from here on.
            (tmp_path / "tooldispatchd" / "oauth").chmod(0o755)
            gate.set()
        (tmp_path / "tooldispatchd" / "oauth").chmod(0o700)
        server.tokens.clear()
        assert await api.call() == 200
    [(_, event, fields)] = [line for line in api.log.lines if line[0] == "warning"]
    assert event == "tokens not stored"
    assert "secret" not in str(fields)
    assert len(stored(tmp_path)) == 1


async def test_without_a_place_for_tokens_none_is_risked(tmp_path: Path) -> None:
    server = OAuthServer()
    (tmp_path / "tooldispatchd").write_text("")
    async with serving(server):
        with pytest.raises(AuthorizationError, match=r"cannot make .*: Not a directory"):
            await refreshing(server, tmp_path, server.refresh_token("tools")).call()
    assert server.requests == []
