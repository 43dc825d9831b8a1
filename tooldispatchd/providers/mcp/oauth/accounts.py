"""The daemon's accounts at authorization servers: one for each server, client and grant, whoever uses the server.

    HttpWire ── credentials ─▶ OAuthAuthorizer ─▶ OAuthAccount ── the token, as long as it is good
             ── challenged ──▶                         └───────── one flow at a time, whose token or failure all share

Each connection of an agent has its own `OAuthAuthorizer`; all those of a server share one `OAuthAccount`, which lives
as long as the daemon. It never opens a browser: where a person is needed, its error names the command to run.
"""

import math
import time
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import Final

from msgspec.structs import replace

from tooldispatchd.http.oauth.endpoint import bearer
from tooldispatchd.http.oauth.flows import FRESH_S, SharedFlow
from tooldispatchd.http.oauth.refusals import AuthorizationError
from tooldispatchd.http.oauth.tokens import Learn, TokenStore, TokenStoreError, learn_nothing
from tooldispatchd.http.reach import OAuth, Reach
from tooldispatchd.http.wire import Headers, HttpWire
from tooldispatchd.providers.mcp.http.door import http_way
from tooldispatchd.providers.mcp.link import Transport
from tooldispatchd.providers.mcp.logmessages import BoundLog
from tooldispatchd.providers.mcp.oauth.documents import MAX_HEADER, Challenge, missing_scopes, read_challenge, union
from tooldispatchd.providers.mcp.oauth.flow import OAuthFlow
from tooldispatchd.providers.mcp.oauth.grants import Grant, entry_name
from tooldispatchd.providers.mcp.oauth.refusals import login_needed, scopes_refused
from tooldispatchd.providers.mcp.server import Server

# Different reasons logged for one account between two tokens: a server may want other scopes each time.
MAX_WARNED: Final = 8

# The token that this task's request left with. An exchange asks for credentials and meets its challenge in one task,
# and another task may have replaced the token meanwhile: only one that was refused itself is over.
_used: ContextVar[str | None] = ContextVar("_used", default=None)


class Accounts:
    """All accounts of the daemon. `log` is told why there is no token, and each step to one; never a token, which
    `learn` is told alone.
    """

    def __init__(self, environ: Mapping[str, str], log: BoundLog, learn: Learn = learn_nothing) -> None:
        self._store = TokenStore(environ, Grant)
        self._log = log
        self._learn = learn
        self._accounts: dict[tuple[str, OAuth], OAuthAccount] = {}

    def way(self, server: Server, reach: Reach) -> Transport:
        """As `link.Authorizers.way`; an authorizer for each link."""
        return http_way(server, reach, partial(self.authorizer, server.name, reach))

    def shown(self, reach: Reach) -> str | None:
        """As `link.AccountTokens.shown`."""
        account = None if reach.oauth is None else self._accounts.get((reach.url, reach.oauth))
        return None if account is None else account.access_token

    def authorizer(self, name: str, reach: Reach) -> "OAuthAuthorizer":
        """Authorise the requests of one connection to the server `name`, which has `reach.oauth`."""
        assert reach.oauth is not None
        # With its secret: a client with another one does not get this one's tokens.
        whose = (reach.url, reach.oauth)
        account = self._accounts.get(whose)
        if account is None:
            account = self._accounts[whose] = OAuthAccount(self._store, reach.url, reach.oauth, self._log, self._learn)
        return OAuthAuthorizer(name, account)


class OAuthAuthorizer:
    """The `http.wire.Authorizer` of one connection to the server `name`."""

    def __init__(self, name: str, account: "OAuthAccount") -> None:
        self._name = name
        self._account = account

    async def credentials(self, wire: HttpWire) -> Headers:
        """The bearer token, renewed if it is over; none where a challenge must tell first how to get one."""
        token = await self._account.token(self._name, wire)
        _used.set(token)
        return bearer(token)

    async def challenged(self, status: int, headers: Mapping[str, str], wire: HttpWire) -> Headers | None:
        """Another token for one more attempt; None where none would help."""
        challenge = read_challenge(status, headers.get("www-authenticate", ""))
        if status == 403 and not challenge.asks_for_more:
            return None
        token = await self._account.answer(challenge, self._name, wire, refused=_used.get())
        return None if token is None else bearer(token)

    def refused(self, headers: Mapping[str, str]) -> None:
        """Raise `AuthorizationError` for a step-up that no other token answers."""
        challenge = read_challenge(403, headers.get("www-authenticate", ""))
        if challenge.asks_for_more:
            raise self._account.too_narrow(challenge)


class OAuthAccount:
    """The daemon's account for the server at `url`, and its token."""

    def __init__(self, store: TokenStore[Grant], url: str, oauth: OAuth, log: BoundLog, learn: Learn) -> None:
        self._store = store
        self._entry = entry_name(url, oauth)
        self._url = url
        self._oauth = oauth
        self._log = log
        self._learn = learn
        # The reasons logged since there was a token: many calls that fail for the same one are one warning.
        self._warned: set[str] = set()
        # Only a person's consent is worth a file: the other grants can ask anew at any time.
        self._has_person = oauth.grant == "authorization_code"
        self._grant = Grant()
        # Whether the file is older than the grant in memory, since it could not be written.
        self._is_ahead = False
        self._given_at = -math.inf
        self._answered: Challenge | None = None
        # The token that a refresh brought after a 403.
        self._stepped_up: str | None = None
        self._shared = SharedFlow()

    def __repr__(self) -> str:
        return f"OAuthAccount({self._url.partition('?')[0]!r}, {self._oauth.grant!r})"

    @property
    def access_token(self) -> str | None:
        """The token that is there now, good or not."""
        return self._grant.access_token

    async def token(self, name: str, wire: HttpWire) -> str | None:
        """The token for a request; None where there is none yet. Raises `AuthorizationError`."""
        if not self._has_person:
            # A 401 says when it is over, and where to get another.
            return self._grant.access_token
        if self._grant.access_token is None:
            self._read()
        token = self._grant.access_token
        if token is None:
            raise login_needed(name)
        is_due = self._grant.refresh_at is not None and self._grant.refresh_at <= time.time()
        if not is_due or self._grant.refresh_token is None:
            return token
        return await self._share(partial(self._renew, None, name, wire), refused=token)

    async def answer(self, challenge: Challenge, name: str, wire: HttpWire, *, refused: str | None) -> str | None:
        """The token to try after `refused` was challenged; None where none would help. Raises `AuthorizationError`."""
        if refused is not None and refused == self._grant.access_token:
            # It may have just been got for the same reason.
            is_same = challenge.status == 401 or challenge == self._answered
            if is_same and time.monotonic() - self._given_at < FRESH_S:
                return None
        get = self._renew if self._has_person else self._obtain
        try:
            token = await self._share(partial(get, challenge, name, wire), refused=refused)
        except AuthorizationError as error:
            if error.why not in self._warned and len(self._warned) < MAX_WARNED:
                self._warned.add(error.why)
                self._log.warning("no token", server=name, reason=error.why)
            raise
        self._answered = challenge
        return None if token == refused else token

    def too_narrow(self, challenge: Challenge) -> AuthorizationError:
        """The server's refusal for the scopes of `challenge`, with whatever token there is."""
        return scopes_refused(challenge.scope, granted=self._grant.scope)

    async def _share(self, get: Callable[[], Awaitable[None]], *, refused: str | None) -> str | None:
        """Run one flow for all tasks that wait for another token than the `refused` one."""
        await self._shared.run(lambda: self._grant.access_token in {None, refused}, get)
        return self._grant.access_token

    async def _renew(self, challenge: Challenge | None, name: str, wire: HttpWire) -> None:
        """Get another token without a person: one that another process stored, or by the refresh token."""
        refused = self._grant.access_token
        async with self._store.lock(self._entry):
            self._read()
            if self._grant.access_token in {None, refused}:
                await self._refresh(challenge, name, wire)

    async def _refresh(self, challenge: Challenge | None, name: str, wire: HttpWire) -> None:
        """Use the refresh token. Where that fails, drop the access token after a 401 only.

        After a 403 one request lacks a scope, and the token still serves all others.
        """
        status = None if challenge is None else challenge.status
        is_step_up = challenge is not None and challenge.asks_for_more
        if challenge is not None and is_step_up:
            self._demand(challenge, name)
            if self._grant.access_token == self._stepped_up:
                # It was got for an earlier 403: another one would be refused too.
                return
        refused = self._grant.access_token
        left = await self._flow(name, wire).refresh(self._grant)
        if left is None:
            self._stepped_up = self._grant.access_token if is_step_up else None
            return
        if is_step_up:
            if self._grant.refresh_token is not None:
                self._put(replace(left, access_token=refused))
            return
        if self._is_ahead:
            # The grant that could not be stored is over, and a person who saw the warning may have logged in since.
            self._is_ahead = False
            self._read()
            if self._grant.access_token not in {None, refused}:
                return
        self._put(left)
        self._log.warning("token dropped", server=name, http_status=status)
        raise login_needed(name, status=status)

    def _demand(self, challenge: Challenge, name: str) -> None:
        """Raise `AuthorizationError` for a step-up beyond what was granted; the next login asks for those scopes."""
        granted = self._grant.scope
        missing = missing_scopes(granted, challenge.scope)
        if challenge.scope is not None and not missing:
            return
        # A server that names no scope leaves the choice to the next login.
        wanted = union(self._grant.wanted, granted, challenge.scope) if missing else self._grant.wanted
        if wanted is not None and len(wanted) > MAX_HEADER:
            # A server may want others each time: only the last ones are kept.
            wanted = union(granted, challenge.scope)
        if wanted != self._grant.wanted:
            self._put(replace(self._grant, wanted=wanted))
        raise login_needed(name, status=challenge.status, missing=missing)

    async def _obtain(self, challenge: Challenge, name: str, wire: HttpWire) -> None:
        """Get a token for a client that needs no person."""
        if self._oauth.scopes:
            more = challenge.scope if challenge.asks_for_more else None
            challenge = replace(challenge, scope=union(*self._oauth.scopes, more))
        await self._flow(name, wire).obtain(self._grant, challenge)

    def _flow(self, name: str, wire: HttpWire) -> OAuthFlow:
        """A flow over `wire`, which may go to the origins that a person trusted at the login."""
        for origin in self._grant.trusted:
            wire.territory.trust(origin)
        debug = partial(self._log.debug, server=name)
        return OAuthFlow(self._url, self._oauth, wire, self._keep, debug=debug)

    def _keep(self, grant: Grant) -> None:
        """Use the grant of a flow; nothing is awaited between the server's answer and this."""
        self._given_at = time.monotonic()
        self._warned.clear()
        self._put(grant)

    def _put(self, grant: Grant) -> None:
        """Use `grant` from now on and store it; where that fails, it lasts as long as the daemon."""
        self._use(grant)
        if not self._has_person:
            return
        try:
            self._store.write(self._entry, grant)
        except TokenStoreError as error:
            self._is_ahead = True
            why = f"a token is not stored, and a login will be needed after a restart: {error}"
            self._log.warning("tokens not stored", reason=why)
        else:
            self._is_ahead = False

    def _read(self) -> None:
        """Use the grant in the file: a login, or another daemon, may have changed it. Raises as `token`."""
        if not self._is_ahead:
            self._use(self._store.read(self._entry) or Grant())

    def _use(self, grant: Grant) -> None:
        self._grant = grant
        self._learn(self._entry, grant.secrets)
