"""A person's login and logout at a server, for `tooldispatchd login`.

    connect without a token ─▶ its challenge ─▶ a flow, with the browser ─▶ store the tokens ─▶ connect with them

Both connections are opened as the daemon opens them: so the challenge is the one that the daemon would meet, and tokens
that would not serve it are found out now.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import trio
from msgspec.structs import replace

from tooldispatchd.calls.connection import ConnectionState
from tooldispatchd.calls.memory import Memory
from tooldispatchd.checkers.pool import IN_PLACE
from tooldispatchd.http.errors import WireError
from tooldispatchd.http.oauth.endpoint import bearer
from tooldispatchd.http.oauth.refusals import AuthorizationError
from tooldispatchd.http.oauth.tokens import TokenStore
from tooldispatchd.http.reach import Reach
from tooldispatchd.http.wire import MAX_FETCHED_BYTES, Headers, HttpWire
from tooldispatchd.providers.mcp.connection import Connection
from tooldispatchd.providers.mcp.http.door import http_way
from tooldispatchd.providers.mcp.link import Transport
from tooldispatchd.providers.mcp.oauth.documents import (
    Challenge,
    RegisteredClient,
    missing_scopes,
    read_challenge,
    union,
)
from tooldispatchd.providers.mcp.oauth.flow import UNKNOWN_CLIENT, OAuthFlow, Person
from tooldispatchd.providers.mcp.oauth.grants import Grant, entry_name
from tooldispatchd.providers.mcp.oauth.redirect import Redirected, open_listener, port_in
from tooldispatchd.providers.mcp.remembered import Eras
from tooldispatchd.providers.mcp.server import Server
from tooldispatchd.providers.mcp.ways import url_way


async def log_in(
    server: Server, environ: Mapping[str, str], show: Callable[[str], None], trusted: tuple[str, ...] = ()
) -> Path:
    """Get tokens for a server that is reached with OAuth, and store them in the file that is returned.

    `show` is given the address for the browser. The server may lead to the `trusted` origins too, now and whenever
    these tokens are used. Raises `WireError` with words for the person: an `UntrustedError` where trust in another
    origin would help, and other `AuthorizationError`s.
    """
    assert server.reach is not None
    assert server.reach.oauth is not None
    store, entry = TokenStore(environ, Grant), entry_name(server.reach.url, server.reach.oauth)
    before = store.read(entry) or Grant()
    before = replace(before, trusted=(*before.trusted, *trusted))
    probe = _Probe(None)
    why = await _connect(server, probe)
    if why is not None and (probe.wire is None or not probe.wire.has_answered):
        raise WireError(why)
    grant = await _Login(server.reach, store, entry, show).obtain(before, probe.challenge or Challenge(200))
    async with store.lock(entry):
        store.write(entry, grant)
    # A refusal of the new token is better found now than at the first call.
    probe = _Probe(grant.access_token)
    refused = None if await _connect(server, probe) is None else probe.challenge
    if refused is None:
        return store.path_of(entry)
    why = f"the tokens are stored, but the server refuses them (HTTP {refused.status})"
    missing = missing_scopes(grant.scope, refused.scope) if refused.asks_for_more else ()
    if missing:
        async with store.lock(entry):
            store.write(entry, replace(grant, wanted=union(grant.scope, refused.scope)))
        why += f": it wants {' '.join(missing)} too, which the next login asks for"
    raise AuthorizationError(why)


async def forget(reach: Reach, environ: Mapping[str, str]) -> bool:
    """Remove the tokens for the server of `reach`; whether there were any. Raises `AuthorizationError`."""
    assert reach.oauth is not None
    store, entry = TokenStore(environ, Grant), entry_name(reach.url, reach.oauth)
    async with store.lock(entry):
        return store.forget(entry)


class _Login:
    """The flows of one login: a second one where the authorization server does not know the stored client."""

    def __init__(self, reach: Reach, store: TokenStore[Grant], entry: str, show: Callable[[str], None]) -> None:
        assert reach.oauth is not None
        self._reach = reach
        self._oauth = reach.oauth
        self._store = store
        self._entry = entry
        self._show = show

    async def obtain(self, before: Grant, challenge: Challenge) -> Grant:
        """Ask the person for consent to what `challenge` wants, with the client and the trusted origins of `before`."""
        wanted = union(*(self._oauth.scopes or (challenge.scope,)), before.wanted)
        # A 401, whatever it was: at a step-up a flow would leave out the discovery that a first token needs.
        asked = Challenge(401, scope=wanted, resource_metadata=challenge.resource_metadata)
        fresh = Grant(trusted=before.trusted)
        try:
            return await self._flow(replace(fresh, client=before.client), asked)
        except AuthorizationError as error:
            if error.said != UNKNOWN_CLIENT or before.client is None:
                raise
        # The authorization server has forgotten the stored registration.
        return await self._flow(fresh, asked)

    async def _flow(self, before: Grant, asked: Challenge) -> Grant:
        granted: list[Grant] = []
        async with (
            HttpWire(self._reach, max_bytes=MAX_FETCHED_BYTES) as wire,
            open_listener(self._oauth.redirect_port, port_in(before.client)) as listener,
        ):
            for origin in before.trusted:
                wire.territory.trust(origin)

            async def consent(url: str, state: str) -> Redirected:
                self._show(url)
                return await listener.redirected(state)

            async def registered(client: RegisteredClient) -> None:
                # Stored before the person is asked: else giving up would cost another registration.
                async with self._store.lock(self._entry):
                    kept = self._store.read(self._entry) or Grant()
                    self._store.write(self._entry, replace(kept, client=client))

            flow = OAuthFlow(self._reach.url, self._oauth, wire, granted.append, registered=registered)
            await flow.obtain(before, asked, Person(listener.uri, consent))
        return granted[0]


# --- the server ------------------------------------------------------------------------------------------------------


class _Probe:
    """The `Authorizer` of one connection: shows one token, or none, and keeps the first challenge."""

    def __init__(self, token: str | None) -> None:
        self.challenge: Challenge | None = None
        self.wire: HttpWire | None = None
        self._token = token

    def way(self, server: Server, reach: Reach) -> Transport:
        return http_way(server, reach, lambda: self)

    async def credentials(self, wire: HttpWire) -> Headers:
        self.wire = wire
        return bearer(self._token)

    async def challenged(
        self,
        status: int,
        headers: Mapping[str, str],
        wire: HttpWire,  # noqa: ARG002
    ) -> Headers | None:
        self.challenge = self.challenge or read_challenge(status, headers.get("www-authenticate", ""))
        return None

    def refused(self, headers: Mapping[str, str]) -> None:
        """Leave it to the status."""


# A login has one connection at a time, and the process does nothing else.
LOGIN_BYTES: Final = 512 * 1024 * 1024


class _NoLog:
    """Drops everything: how the login ends tells the person enough."""

    def debug(self, event: str, **fields: object) -> None:
        pass

    info = warning = error = debug


async def _connect(server: Server, probe: _Probe) -> str | None:
    """Open a connection and close it; why it did not come up, None where it did."""
    assert server.reach is not None
    connection = Connection(
        server,
        way=url_way(server, server.reach, probe),
        eras=Eras(),
        opening=trio.CapacityLimiter(1),
        checkers=IN_PLACE,
        share=Memory(LOGIN_BYTES).share(None),
        log=_NoLog(),
        batch_done=lambda: None,
    )
    whys: list[str | None] = []

    def settled() -> None:
        is_open = connection.state is ConnectionState.OPEN
        whys.append(None if is_open or connection.fault is None else str(connection.fault.extras.get("reason")))
        connection.close()

    await connection.run(settled)
    return whys[0]
