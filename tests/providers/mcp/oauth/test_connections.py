"""Whole connections to a server that wants tokens: what an agent is told."""

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio
from msgspec.structs import replace

from tests.providers.mcp.connecting import DEFAULT, SOON_S, Session
from tests.providers.mcp.linking import SHARE
from tests.providers.mcp.oauth.asking import PERSON, SECRET, Daemon, logged_in, reach_of
from tests.servers.authorization_server import OAuthServer, serving
from tooldispatchd.checkers.pool import IN_PLACE
from tooldispatchd.http.oauth.tokens import TokenStore
from tooldispatchd.http.reach import OAuth
from tooldispatchd.providers.mcp.connection import Connection
from tooldispatchd.providers.mcp.oauth.grants import Grant, entry_name
from tooldispatchd.providers.mcp.remembered import Eras
from tooldispatchd.providers.mcp.ways import url_way
from tooldispatchd.wire.faults import Code, Fault

SDK = Path(__file__).parents[3] / "servers" / "sdk_oauth_server.py"
LOGIN = "it needs a login: run tooldispatchd login docs"


@asynccontextmanager
async def connected(daemon: Daemon, server: OAuthServer, oauth: OAuth) -> AsyncIterator[Session]:
    """A session whose connection has opened, or failed to."""
    session = Session()
    reach = reach_of(server, oauth)
    told = replace(DEFAULT, name="docs", reach=reach)
    async with trio.open_nursery() as nursery:
        session.connection = Connection(
            told,
            share=SHARE,
            way=url_way(told, reach, daemon.accounts),
            eras=Eras(),
            opening=trio.CapacityLimiter(1),
            checkers=IN_PLACE,
            log=session.log,
            batch_done=session.batch_done,
        )
        nursery.start_soon(session.own)
        with trio.fail_after(SOON_S):
            await session.opened.wait()
        yield session
        session.connection.close()


async def test_a_server_that_nobody_has_logged_in_at_is_not_available(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    async with serving(server), connected(daemon, server, PERSON) as session:
        fault = session.fault()
    assert fault.code is Code.SERVER_UNAVAILABLE
    assert LOGIN in fault.detail
    assert server.requests == []


def assert_lacks_write(fault: object, why: str) -> None:
    assert isinstance(fault, Fault)
    assert fault.code is Code.SERVER_UNAVAILABLE
    assert fault.extras == {
        "server": "docs",
        "reason": why,
        "ran": "no",
        "http_status": 403,
        "missing_scopes": ["write"],
    }


async def test_after_a_login_its_tools_can_be_called(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    async with serving(server):
        daemon.store(server, PERSON, Grant(access_token=server.grant("tools"), scope="tools"))
        async with connected(daemon, server, PERSON) as session:
            assert await session.text() == "it was called"


async def test_a_client_without_a_person_gets_its_token_in_the_handshake(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.secrets["daemon"] = "secret-of-client"
    async with serving(server), connected(daemon, server, SECRET) as session:
        assert await session.text() == "it was called"
    assert len(server.asked("/token")) == 1


async def test_a_call_that_needs_more_than_was_granted_fails_alone(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    async with serving(server):
        token = server.grant("tools")
        daemon.store(server, PERSON, Grant(access_token=token, scope="tools"))
        async with connected(daemon, server, PERSON) as session:
            server.needed_scope = "write"
            fault = await session.call()
            server.needed_scope = "tools"
            assert await session.text() == "it was called"
    assert_lacks_write(fault, "it needs a login for another scope (write): run tooldispatchd login docs")
    assert isinstance(fault, Fault)
    assert token not in fault.content()


async def test_a_server_that_wants_more_scopes_for_its_handshake_names_them(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.needed_scope = "tools write"
    async with serving(server):
        daemon.store(server, PERSON, Grant(access_token=server.grant("tools"), scope="tools"))
        async with connected(daemon, server, PERSON) as session:
            fault = session.fault()
    assert fault.code is Code.SERVER_UNAVAILABLE
    assert fault.extras["missing_scopes"] == ["write"]


async def test_a_call_that_is_refused_for_a_scope_it_has_fails_alone(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    async with serving(server):
        daemon.store(server, PERSON, Grant(access_token=server.grant("tools"), scope="tools write"))
        async with connected(daemon, server, PERSON) as one, connected(daemon, server, PERSON) as other:
            server.needed_scope = "write"
            fault = await one.call()
            server.needed_scope = "tools"
            assert await other.text() == "it was called"
            assert await one.text() == "it was called"
    why = "the server refused its token for want of the scope write, although it was granted (HTTP 403)"
    assert_lacks_write(fault, why)


async def test_a_step_up_that_a_client_is_not_granted_names_the_scopes_that_are_missing(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    server.secrets["daemon"] = "secret-of-client"
    server.granted_scope = "tools"
    async with serving(server), connected(daemon, server, SECRET) as session:
        server.needed_scope = "tools write"
        fault = await session.call()
        server.needed_scope = "tools"
        assert await session.text() == "it was called"
    assert_lacks_write(fault, "the server refused its token for want of the scope write (HTTP 403)")


async def test_a_login_that_is_over_makes_the_server_unavailable_for_that_call(tmp_path: Path) -> None:
    server, daemon = OAuthServer(), Daemon(tmp_path)
    async with serving(server):
        daemon.store(server, PERSON, Grant(access_token=server.grant("tools"), scope="tools"))
        async with connected(daemon, server, PERSON) as session:
            server.tokens.clear()
            fault = await session.call()
    assert isinstance(fault, Fault)
    assert fault.code is Code.SERVER_UNAVAILABLE
    assert fault.extras == {"server": "docs", "reason": LOGIN, "ran": "no", "http_status": 401}


@asynccontextmanager
async def sdk_server() -> AsyncIterator[OAuthServer]:
    """Where the official SDK's server is, which is its own authorization server and in a process of its own."""
    process = await trio.lowlevel.open_process([sys.executable, str(SDK)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        server = OAuthServer()
        with trio.fail_after(30):
            said = b""
            while not said.endswith(b"\n"):
                said += await process.stdout.receive_some()
        server.url = f"http://127.0.0.1:{int(said)}"
        yield server
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            await process.stdout.aclose()


async def test_the_sdks_server_is_logged_in_at_called_and_called_again_after_a_refresh(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    async with sdk_server() as server:
        sent = await logged_in(daemon, reach_of(server, PERSON))
        async with connected(daemon, server, PERSON) as session:
            assert await session.text() == "it was called"
        stored = daemon.stored(server, PERSON)
        assert stored is not None
        TokenStore(daemon.environ, Grant).write(entry_name(server.mcp, PERSON), replace(stored, refresh_at=1.0))
        # As after a restart: what is in the file counts.
        again = Daemon(tmp_path)
        async with connected(again, server, PERSON) as session:
            assert await session.text() == "it was called"
        renewed = daemon.stored(server, PERSON)
    assert (sent["scope"], sent["resource"]) == ("tools", server.mcp)
    assert renewed is not None
    assert renewed.access_token != stored.access_token
    assert renewed.refresh_token != stored.refresh_token
    assert not again.warnings
