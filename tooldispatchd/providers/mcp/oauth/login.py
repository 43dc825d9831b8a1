"""A person's login at a server: what `tooldispatchd login` runs. It imports the SDK.

ask the server ─▶ its challenge ─▶ discovery, registration ─▶ the browser ─▶ the code ─▶ tokens ─▶ stored, tried

The server is asked, and the tokens are tried, by a connection as the daemon opens it: so the challenge is the one that
the daemon would meet, and tokens with which it could not serve are known now.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import trio
from mcp.shared.auth import AuthorizationCodeResult
from msgspec.structs import replace

from tooldispatchd.calls.connection import ConnectionState
from tooldispatchd.calls.memory import Memory
from tooldispatchd.checkers.inplace import IN_PLACE
from tooldispatchd.providers.mcp.connection import Connection
from tooldispatchd.providers.mcp.http.errors import WireError
from tooldispatchd.providers.mcp.http.wire import Headers, HttpRequest, HttpWire
from tooldispatchd.providers.mcp.oauth.accounts import bearer, entry_name
from tooldispatchd.providers.mcp.oauth.challenge import Challenge, missing_scopes, read_challenge, union
from tooldispatchd.providers.mcp.oauth.errors import AuthorizationError
from tooldispatchd.providers.mcp.oauth.flow import MAX_ANSWER_BYTES, UNKNOWN_CLIENT, OAuthClient, obtain
from tooldispatchd.providers.mcp.oauth.providers import Person
from tooldispatchd.providers.mcp.oauth.redirect import RedirectListener, open_listener, port_in
from tooldispatchd.providers.mcp.oauth.tokens import Grant, TokenStore, TokenStoreError
from tooldispatchd.providers.mcp.remembered import Eras
from tooldispatchd.providers.mcp.server import Reach, Server
from tooldispatchd.providers.mcp.ways import url_way


async def log_in(
    server: Server, environ: Mapping[str, str], show: Callable[[str], None], trusted: tuple[str, ...] = ()
) -> Path:
    """Get tokens for a server that is reached with OAuth, and store them in the file that is returned.

    `show` is given the address for the browser. To the origins that are `trusted` the server may lead besides, now and
    with these tokens. Raises `WireError` with words for the person: an `UntrustedError` where another such origin would
    do, and other `AuthorizationError`s.
    """
    assert server.reach is not None
    assert server.reach.oauth is not None
    store, entry = TokenStore(environ), entry_name(server.reach.url, server.reach.oauth)
    try:
        before = store.read(entry) or Grant()
        login = _Login(server.reach, store, entry, replace(before, trusted=(*before.trusted, *trusted)))
        challenge = await _ask(server)
        grant = await login.obtain(challenge, show)
        async with store.lock(entry):
            store.write(entry, grant)
        refused = await _try(server, grant)
        if refused is not None:
            missing = missing_scopes(grant.scope, refused.scope) if refused.asks_for_more else ()
            if missing:
                async with store.lock(entry):
                    store.write(entry, replace(grant, wanted=union(grant.scope, refused.scope)))
            raise _refusal(refused, missing)
        return store.path_of(entry)
    except TokenStoreError as error:
        raise AuthorizationError(str(error)) from None


class _Login:
    """The flows of one login, which begins with what was kept `before`; more than one where a client is unknown."""

    def __init__(self, reach: Reach, store: TokenStore, entry: str, before: Grant) -> None:
        assert reach.oauth is not None
        self._reach = reach
        self._oauth = reach.oauth
        self._store = store
        self._entry = entry
        self._before = before
        self._granted = Grant()

    async def obtain(self, challenge: Challenge, show: Callable[[str], None]) -> Grant:
        """What the person consented to, as the answer to `challenge`."""
        before = self._before
        scopes = self._oauth.scopes
        wanted = union(*scopes, before.wanted) if scopes else union(challenge.scope, before.wanted)
        # A 401, whatever it was: a step-up would leave out what a first token needs.
        asked = Challenge(401, scope=wanted, resource_metadata=challenge.resource_metadata)
        try:
            await self._flow(Grant(client=before.client), asked, show)
        except AuthorizationError as error:
            if error.said != UNKNOWN_CLIENT or before.client is None:
                raise
            # The authorization server has forgotten the registration that was kept.
            await self._flow(Grant(), asked, show)
        return self._granted

    async def _flow(self, before: Grant, asked: Challenge, show: Callable[[str], None]) -> None:
        async with (
            HttpWire(self._reach, max_bytes=MAX_ANSWER_BYTES) as wire,
            open_listener(self._oauth.redirect_port, port_in(before.client)) as listener,
        ):
            for origin in self._before.trusted:
                wire.trust(origin)
            client = OAuthClient(self._reach.url, self._oauth, wire.fetch, self._keep, self._registered, wire.admit)
            await obtain(client, before, asked, person=_person(listener, show))

    def _keep(self, grant: Grant) -> None:
        self._granted = replace(grant, trusted=self._before.trusted)

    async def _registered(self, client: dict[str, object]) -> None:
        """Keep a registration before the person is asked, who may give up."""
        try:
            async with self._store.lock(self._entry):
                kept = self._store.read(self._entry) or Grant()
                self._store.write(self._entry, replace(kept, client=client))
        except TokenStoreError as error:
            raise AuthorizationError(str(error)) from None


def _person(listener: RedirectListener, show: Callable[[str], None]) -> Person:
    async def send_away(url: str) -> None:  # noqa: ASYNC124  # the SDK awaits it
        listener.expect(url)
        show(url)

    async def await_redirect() -> AuthorizationCodeResult:
        said = await listener.redirected()
        return AuthorizationCodeResult(code=said.code, state=said.state, iss=said.iss)

    return Person(listener.uri, send_away, await_redirect)


# --- the server ------------------------------------------------------------------------------------------------------


class _Probe:
    """The `Authorizer` of one connection: it shows one token, or none, and keeps the first challenge."""

    def __init__(self, token: str | None) -> None:
        self.challenge: Challenge | None = None
        self.wire: HttpWire | None = None
        self._token = token

    def authorizer(self, name: str, reach: Reach) -> "_Probe":  # noqa: ARG002  # there is one server
        return self

    async def credentials(self, asked: HttpRequest, wire: HttpWire) -> Headers:  # noqa: ARG002  # all requests are equal
        self.wire = wire
        return bearer(self._token)

    async def challenged(
        self,
        asked: HttpRequest,  # noqa: ARG002
        status: int,
        headers: Mapping[str, str],
        wire: HttpWire,  # noqa: ARG002
    ) -> Headers | None:
        self.challenge = self.challenge or read_challenge(status, headers.get("www-authenticate", ""))
        return None


# A login has one connection, which nobody else waits for.
LOGIN_BYTES: Final = 512 * 1024 * 1024


class _NoLog:
    """What the connection of a login says of itself is told by how the login ends."""

    def debug(self, event: str, **fields: object) -> None:
        """Nothing."""

    info = warning = error = debug


async def _connect(server: Server, probe: _Probe) -> str | None:
    """Open a connection, and end it: why it did not come up, None where it did."""
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


async def _ask(server: Server) -> Challenge:
    """What the server says to the daemon's first requests without a token. Raises `WireError` where it says nothing."""
    probe = _Probe(None)
    why = await _connect(server, probe)
    if why is not None and (probe.wire is None or not probe.wire.has_answered):
        raise WireError(why)
    return probe.challenge or Challenge(200)


async def _try(server: Server, grant: Grant) -> Challenge | None:
    """How the server refuses a new token, which is better known now than at the first call; None where it does not."""
    probe = _Probe(grant.access_token)
    return None if await _connect(server, probe) is None else probe.challenge


def _refusal(refused: Challenge, missing: tuple[str, ...]) -> AuthorizationError:
    why = f"the tokens are stored, but the server refuses them (HTTP {refused.status})"
    if missing:
        why += f": it wants {' '.join(missing)} too, which the next login asks for"
    return AuthorizationError(why)
