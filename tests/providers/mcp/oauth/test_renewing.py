"""What a person has consented to, kept and renewed in a daemon."""

import time
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from tests.providers.mcp.oauth.asking import PERSON, Daemon, call, refused_for, until
from tests.servers.authorization_server import OAuthServer, Reply, serving
from tooldispatchd.http.oauth.refusals import AuthorizationError
from tooldispatchd.http.oauth.tokens import TokenStore
from tooldispatchd.http.wire import HttpWire
from tooldispatchd.providers.mcp.oauth.grants import Grant, entry_name

LOGIN = "it needs a login: run tooldispatchd login docs"


def has_asked(server: OAuthServer, before: int) -> bool:
    return len(server.asked("/mcp")) > before


def insufficient(scope: str) -> Reply:
    """What a server says whose token is good and lacks `scope`."""
    return 403, {"WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{scope}"'}, b""


async def test_without_a_login_nothing_is_asked_and_the_login_is_named(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    async with serving(server), daemon.wire(server, PERSON) as wire:
        with pytest.raises(AuthorizationError) as caught:
            await call(wire)
    assert (caught.value.why, caught.value.was_sent) == (LOGIN, False)
    assert server.requests == []


async def test_a_login_is_seen_by_a_daemon_that_runs(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    async with serving(server), daemon.wire(server, PERSON) as wire:
        with pytest.raises(AuthorizationError):
            await call(wire)
        daemon.store(server, PERSON, Grant(access_token=server.grant("tools"), scope="tools"))
        assert await call(wire) == 200


async def test_a_token_is_renewed_before_it_is_over_and_the_new_one_is_stored(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    async with serving(server), daemon.wire(server, PERSON) as wire:
        old, refresh = server.grant("tools"), server.refresh_token("tools")
        daemon.store(server, PERSON, Grant(access_token=old, refresh_token=refresh, scope="tools", refresh_at=1.0))
        assert await call(wire) == 200
        stored = daemon.stored(server, PERSON)
    [asked] = server.asked("/token")
    assert asked.form["refresh_token"] == refresh
    assert len(server.asked("/mcp")) == 1
    assert stored is not None
    assert stored.access_token not in {None, old}
    assert stored.refresh_token in server.refresh_tokens
    assert stored.refresh_at == pytest.approx(time.time() + 3590, abs=5)
    assert stored.server is not None


async def test_a_refused_token_is_refreshed_and_not_logged_in_anew(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.rotates = False
    async with serving(server), daemon.wire(server, PERSON) as wire:
        refresh = server.refresh_token("tools")
        daemon.store(server, PERSON, Grant(access_token="over", refresh_token=refresh, scope="tools"))
        assert await call(wire) == 200
        stored = daemon.stored(server, PERSON)
    assert [request.path for request in server.requests] == ["/mcp", "/token", "/mcp"]
    # A server that gives no new refresh token means the old one.
    assert stored is not None
    assert stored.refresh_token == refresh


async def test_many_refused_requests_cost_one_refresh(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    statuses: list[int] = []
    async with serving(server), daemon.wire(server, PERSON) as one, daemon.wire(server, PERSON) as another:
        refresh = server.refresh_token("tools")
        daemon.store(server, PERSON, Grant(access_token="over", refresh_token=refresh, scope="tools"))

        async def ask(wire: HttpWire) -> None:
            statuses.append(await call(wire))

        async with trio.open_nursery() as nursery:
            for wire in (one, another) * 8:
                nursery.start_soon(ask, wire)
    assert statuses == [200] * 16
    assert len(server.asked("/token")) == 1


async def test_two_daemons_with_one_store_refresh_once(tmp_path: Path) -> None:
    server, one, another = OAuthServer(), Daemon(tmp_path), Daemon(tmp_path)
    async with serving(server), one.wire(server, PERSON) as first, another.wire(server, PERSON) as second:
        refresh = server.refresh_token("tools")
        one.store(server, PERSON, Grant(access_token="over", refresh_token=refresh, scope="tools"))
        statuses: list[int] = []

        async def ask(wire: HttpWire) -> None:
            statuses.append(await call(wire))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, first)
            nursery.start_soon(ask, second)
    assert statuses == [200, 200]
    assert len(server.asked("/token")) == 1


async def test_a_refresh_token_that_is_over_needs_a_login_and_is_not_tried_again(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    async with serving(server), daemon.wire(server, PERSON) as wire:
        daemon.store(server, PERSON, Grant(access_token="over", refresh_token="over too", scope="tools"))
        for _ in range(2):
            with pytest.raises(AuthorizationError) as caught:
                await call(wire)
            assert caught.value.why == LOGIN
        stored = daemon.stored(server, PERSON)
    assert len(server.asked("/token")) == 1
    assert stored is not None
    assert (stored.access_token, stored.refresh_token) == (None, None)
    assert stored.client is not None
    assert daemon.warnings == [("token dropped", None), ("no token", LOGIN)]


async def test_a_refresh_token_that_is_over_by_other_words_needs_a_login_too(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.replies["/token"] = (200, {}, b'{"error":"bad_refresh_token"}')
    async with serving(server), daemon.wire(server, PERSON) as wire:
        daemon.store(server, PERSON, Grant(access_token="over", refresh_token="over too", scope="tools"))
        with pytest.raises(AuthorizationError, match=LOGIN):
            await call(wire)


@pytest.mark.parametrize("status", [403, 404, 429, 503])
async def test_a_refresh_that_fails_for_now_keeps_the_login(tmp_path: Path, status: int) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.replies["/token"] = (status, {}, b"")
    async with serving(server), daemon.wire(server, PERSON) as wire:
        refresh = server.refresh_token("tools")
        daemon.store(server, PERSON, Grant(access_token="over", refresh_token=refresh, scope="tools"))
        with pytest.raises(AuthorizationError) as caught:
            await call(wire)
        assert caught.value.why == f"cannot refresh its token: HTTP {status}"
        server.replies.clear()
        assert await call(wire) == 200


async def test_a_step_up_within_what_was_granted_refreshes(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.needed_scope = "write"
    async with serving(server), daemon.wire(server, PERSON) as wire:
        narrow, refresh = server.grant("tools"), server.refresh_token("tools write")
        daemon.store(server, PERSON, Grant(access_token=narrow, refresh_token=refresh, scope="tools write"))
        assert await call(wire) == 200


async def test_a_step_up_beyond_it_fails_that_call_alone_and_the_next_login_asks_for_it(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    async with serving(server), daemon.wire(server, PERSON) as wire:
        token, refresh = server.grant("tools"), server.refresh_token("tools")
        daemon.store(server, PERSON, Grant(access_token=token, refresh_token=refresh, scope="tools"))
        server.needed_scope = "write"
        with pytest.raises(AuthorizationError) as caught:
            await call(wire)
        server.needed_scope = "tools"
        assert await call(wire) == 200
        stored = daemon.stored(server, PERSON)
    assert caught.value.why == "it needs a login for another scope (write): run tooldispatchd login docs"
    assert caught.value.extras == {"http_status": 403, "missing_scopes": ["write"]}
    assert not caught.value.was_sent
    assert stored is not None
    assert stored.wanted == "tools write"
    assert not server.asked("/token")


@pytest.mark.parametrize("refresh", [None, "over"])
async def test_a_token_that_is_refused_for_a_scope_it_has_is_kept_for_all_others(
    tmp_path: Path, refresh: str | None
) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    async with serving(server), daemon.wire(server, PERSON) as wire, daemon.wire(server, PERSON) as other:
        token = server.grant("tools")
        daemon.store(server, PERSON, Grant(access_token=token, refresh_token=refresh, scope="tools write"))
        server.needed_scope = "write"
        for _ in range(2):
            await refused_for("write", wire)
        server.needed_scope = "tools"
        assert await call(other) == 200
        stored = daemon.stored(server, PERSON)
    assert stored is not None
    assert (stored.access_token, stored.refresh_token) == (token, None)
    assert len(server.asked("/token")) == (refresh is not None)


async def test_a_new_login_survives_the_next_refusal_for_a_scope_it_has(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.needed_scope = "write"
    async with serving(server), daemon.wire(server, PERSON) as wire:
        daemon.store(server, PERSON, Grant(access_token=server.grant("tools"), scope="tools write"))
        await refused_for("write", wire)
        daemon.store(server, PERSON, Grant(access_token=server.grant("tools write"), scope="tools write"))
        assert await call(wire) == 200


async def test_a_token_that_was_renewed_for_a_refusal_is_not_renewed_for_the_next_one(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    async with serving(server), daemon.wire(server, PERSON) as wire:
        token, refresh = server.grant("tools"), server.refresh_token("tools write admin")
        daemon.store(server, PERSON, Grant(access_token=token, refresh_token=refresh, scope="tools write admin"))
        server.replies["/mcp"] = insufficient("write")
        await refused_for("write", wire)
        server.replies["/mcp"] = insufficient("admin")
        await refused_for("admin", wire)
        await refused_for("admin", wire)
    assert len(server.asked("/token")) == 1


async def test_a_step_up_of_one_call_is_no_failure_of_another_that_waits(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    failures: list[object] = []
    async with serving(server), daemon.wire(server, PERSON) as wire:
        daemon.store(server, PERSON, Grant(access_token=server.grant("tools"), scope="tools"))

        async def ask() -> None:
            with pytest.raises(AuthorizationError) as caught:
                await call(wire)
            failures.append(caught.value.extras["missing_scopes"])

        # Held as by another process, so that both wait for one flow.
        async with (
            trio.open_nursery() as nursery,
            TokenStore(daemon.environ, Grant).lock(entry_name(server.mcp, PERSON)),
        ):
            for scope in ("write", "admin"):
                server.replies["/mcp"] = insufficient(scope)
                asked = len(server.asked("/mcp"))
                nursery.start_soon(ask)
                await until(partial(has_asked, server, asked))
                await trio.testing.wait_all_tasks_blocked(0.02)
    assert failures == [["write"], ["admin"]]


async def test_the_same_step_up_is_written_down_once(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.needed_scope = "write"
    async with serving(server), daemon.wire(server, PERSON) as wire:
        daemon.store(server, PERSON, Grant(access_token=server.grant("tools"), scope="tools"))
        [file] = (tmp_path / "tooldispatchd" / "oauth").glob("*.json")
        inodes = [file.stat().st_ino]
        for _ in range(3):
            with pytest.raises(AuthorizationError):
                await call(wire)
            inodes.append(file.stat().st_ino)
    assert inodes[0] != inodes[1]
    assert inodes[1] == inodes[2] == inodes[3]


async def test_a_server_that_wants_other_scopes_each_time_fills_no_file(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    async with serving(server), daemon.wire(server, PERSON) as wire:
        daemon.store(server, PERSON, Grant(access_token=server.grant("tools"), scope="tools"))
        for number in range(6):
            server.replies["/mcp"] = insufficient(f"{number}" * 2000)
            with pytest.raises(AuthorizationError):
                await call(wire)
        stored = daemon.stored(server, PERSON)
    assert stored is not None
    assert stored.wanted is not None
    assert len(stored.wanted) <= 4096


async def test_a_step_up_that_names_no_scope_leaves_the_scopes_to_the_login(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    async with serving(server), daemon.wire(server, PERSON) as wire:
        daemon.store(server, PERSON, Grant(access_token=server.grant("tools"), scope="tools"))
        server.replies["/mcp"] = (403, {"WWW-Authenticate": 'Bearer error="insufficient_scope"'}, b"")
        with pytest.raises(AuthorizationError) as caught:
            await call(wire)
        stored = daemon.stored(server, PERSON)
    assert (caught.value.why, caught.value.extras) == (LOGIN, {"http_status": 403})
    assert stored is not None
    assert (stored.access_token is not None, stored.wanted) == (True, None)


async def test_a_cancelled_call_does_not_lose_the_token_that_is_under_way(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    gate = server.gates["/token"] = trio.Event()
    async with serving(server), daemon.wire(server, PERSON) as wire:
        refresh = server.refresh_token("tools")
        daemon.store(server, PERSON, Grant(access_token="over", refresh_token=refresh, scope="tools"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, wire)
            await until(lambda: server.asked("/token"))
            nursery.cancel_scope.cancel()
            gate.set()
        stored = daemon.stored(server, PERSON)
        assert stored is not None
        assert stored.refresh_token in server.refresh_tokens
        assert await call(wire) == 200
    assert len(server.asked("/token")) == 1


async def test_a_cancelled_call_waits_for_no_server_that_hangs(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.hangs.add("/token")
    async with serving(server), daemon.wire(server, PERSON) as wire:
        daemon.store(server, PERSON, Grant(access_token="over", refresh_token="refresh", scope="tools"))
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, wire)
            await until(lambda: server.asked("/token"))
            nursery.cancel_scope.cancel()
        assert trio.current_time() - began < 3.0


async def test_a_store_that_cannot_be_written_is_warned_of_and_the_token_used(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    async with serving(server), daemon.wire(server, PERSON) as wire:
        refresh = server.refresh_token("tools")
        daemon.store(server, PERSON, Grant(access_token="over", refresh_token=refresh, scope="tools"))
        gate = server.gates["/token"] = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, wire)
            await until(lambda: server.asked("/token"))
            # The directory is somebody else's business from here on.
            (tmp_path / "tooldispatchd" / "oauth").chmod(0o755)
            gate.set()
        assert await call(wire) == 200
    [(event, warning)] = daemon.warnings
    assert event == "tokens not stored"
    assert "a login will be needed after a restart" in str(warning)
    assert not any(secret in str(daemon.log.lines) for secret in server.given)


async def test_a_login_after_such_a_warning_is_taken_up(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.expires_in = 1
    async with serving(server), daemon.wire(server, PERSON) as wire:
        refresh = server.refresh_token("tools")
        daemon.store(server, PERSON, Grant(access_token="over", refresh_token=refresh, scope="tools"))
        gate = server.gates["/token"] = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, wire)
            await until(lambda: server.asked("/token"))
            (tmp_path / "tooldispatchd" / "oauth").chmod(0o755)
            gate.set()
        (tmp_path / "tooldispatchd" / "oauth").chmod(0o700)
        server.tokens.clear()
        server.refresh_tokens.clear()
        daemon.store(server, PERSON, Grant(access_token=server.grant("tools"), scope="tools"))
        # Until what it has in memory is due.
        until_due = time.time() + 0.8
        await until(lambda: time.time() > until_due)
        assert await call(wire) == 200


async def test_a_store_that_others_can_read_is_refused(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    async with serving(server), daemon.wire(server, PERSON) as wire:
        daemon.store(server, PERSON, Grant(access_token=server.grant("tools"), scope="tools"))
        (tmp_path / "tooldispatchd" / "oauth").chmod(0o755)
        with pytest.raises(AuthorizationError, match="others may get at it"):
            await call(wire)
    assert server.requests == []
