"""The authorizer of an API whose token endpoint the configuration names.

    credentials ── none yet, or due ──┐                 ┌─ client_credentials ─▶ token           (RFC 6749, 4.4)
                                      ├─▶ one flow ─────┤
    challenged ─── 401 ───────────────┘                 └─ refresh_token ──────▶ token           (RFC 6749, 6)
                                                             └── a new refresh token, which is stored

Access tokens are in memory. A refresh token that replaces the configured one is stored at once: the old one may be
good for nothing any more.
"""

import hashlib
import math
import time
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Final

import msgspec

from tooldispatchd.http.oauth.endpoint import EndpointAnswer, GivenToken, bearer, token_request
from tooldispatchd.http.oauth.flows import FLOW_S, FRESH_S, SharedFlow, carry_through
from tooldispatchd.http.oauth.refusals import AuthorizationError
from tooldispatchd.http.oauth.tokens import Learn, Tokens, TokenStore, TokenStoreError, learn_nothing
from tooldispatchd.http.reach import Reach
from tooldispatchd.http.wire import MAX_FETCHED_BYTES, Debug, Headers, HttpWire, to_nobody

REFRESH_TOKEN: Final = "refresh_token"  # noqa: S105  # no password

# The token that this task's request left with: another task may have replaced it when the challenge comes.
_used: ContextVar[str | None] = ContextVar("_used", default=None)


class EndpointAuthorizer:
    """The `wire.Authorizer` of all wires to the API of `reach`, which has `oauth.token_url`.

    The grant is `client_credentials` or `refresh_token`. The token endpoint is reached with the certificates of
    `reach`, and with none of its headers. `warn` is told what the operator has to mend, `debug` each request; neither
    is told a token. `learn` is told each.
    """

    def __init__(
        self,
        reach: Reach,
        store: TokenStore[Tokens],
        *,
        warn: Debug = to_nobody,
        debug: Debug = to_nobody,
        learn: Learn = learn_nothing,
        fresh_s: float = FRESH_S,
    ) -> None:
        oauth = reach.oauth
        assert oauth is not None
        assert oauth.token_url is not None
        self._oauth = oauth
        self._endpoint = Reach(url=oauth.token_url, ca=reach.ca, cert=reach.cert, key=reach.key)
        self._store = store
        self._entry = _entry_name(reach)
        self._warn = warn
        self._debug = debug
        self._learn = learn
        self._tokens = Tokens(refresh_token=oauth.refresh_token)
        # Whether the file is older than the tokens in memory, since it could not be written.
        self._is_ahead = False
        self._fresh_s = fresh_s
        self._given_at = -math.inf
        self._shared = SharedFlow()

    def __repr__(self) -> str:
        return f"EndpointAuthorizer({self._oauth.grant!r})"

    async def credentials(self, wire: HttpWire) -> Headers:  # noqa: ARG002  # of the protocol
        """The bearer token, a new one where it is due. Raises `AuthorizationError`."""
        if _is_due(self._tokens):
            await self._shared.run(lambda: _is_due(self._tokens), self._obtain)
        _used.set(self._tokens.access_token)
        return bearer(self._tokens.access_token)

    async def challenged(
        self,
        status: int,
        headers: Mapping[str, str],  # noqa: ARG002  # of the protocol
        wire: HttpWire,  # noqa: ARG002
    ) -> Headers | None:
        """Another token after a 401; None where it would be refused as well. Raises `AuthorizationError`."""
        refused = _used.get()
        if status != 401:
            return None

        def is_needed() -> bool:
            is_fresh = time.monotonic() - self._given_at < self._fresh_s
            return self._tokens.access_token == refused and not is_fresh

        await self._shared.run(is_needed, self._obtain)
        token = self._tokens.access_token
        return None if token == refused else bearer(token)

    def refused(self, headers: Mapping[str, str]) -> None:
        """Leave it to the status."""

    async def _obtain(self) -> None:
        steps = self._refresh if self._oauth.grant == REFRESH_TOKEN else self._ask_as_client
        await carry_through(steps, FLOW_S, lambda: True)

    async def _ask_as_client(self) -> None:
        answer = await self._ask({"grant_type": "client_credentials"})
        given = answer.token
        if given is None:
            raise AuthorizationError(f"cannot get a token: {answer}", said=answer.error)
        self._take(given)

    async def _refresh(self) -> None:
        """Use the refresh token, unless another process that has the same one did it just now."""
        refused = self._tokens.access_token
        async with self._store.lock(self._entry):
            if not self._is_ahead:
                self._use(self._store.read(self._entry) or self._tokens)
            if self._tokens.access_token != refused and not _is_due(self._tokens):
                return
            used = self._tokens.refresh_token or ""
            answer = await self._ask({"grant_type": REFRESH_TOKEN, REFRESH_TOKEN: used})
            given = answer.token
            if given is None:
                raise AuthorizationError(f"cannot refresh its token: {answer}", said=answer.error)
            self._take(given)
            if self._tokens.refresh_token != self._oauth.refresh_token:
                self._keep()

    async def _ask(self, form: dict[str, str]) -> EndpointAnswer:
        """Ask the token endpoint; a wire for each question, as they are an hour apart."""
        oauth = self._oauth
        form = form | dict(oauth.parameters)
        if oauth.scopes:
            form["scope"] = " ".join(oauth.scopes)
        if oauth.client_secret is None and oauth.client_id is not None:
            # A client without a secret only says its name (RFC 6749, 3.2.1).
            form["client_id"] = oauth.client_id
        headers, body = token_request(form, oauth.client_id or "", oauth.client_secret, oauth.client_auth)
        headers.append(("Accept", "application/json"))
        async with HttpWire(self._endpoint, max_bytes=MAX_FETCHED_BYTES, debug=self._debug) as wire:
            return EndpointAnswer(*await wire.fetch("POST", self._endpoint.url, headers, body))

    def _take(self, given: GivenToken) -> None:
        """Use a token; nothing is awaited since the answer came, or it could be lost."""
        self._given_at = time.monotonic()
        self._use(
            Tokens(
                access_token=given.access_token,
                refresh_token=given.refresh_token or self._tokens.refresh_token,
                refresh_at=given.refresh_at(time.time()),
            )
        )

    def _use(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._learn(self._entry, tokens.secrets)

    def _keep(self) -> None:
        """Store the tokens; where that fails, they last as long as the daemon."""
        try:
            self._store.write(self._entry, self._tokens)
        except TokenStoreError as error:
            self._is_ahead = True
            why = f"a refresh token is not stored, and the configured one may be over after a restart: {error}"
            self._warn("tokens not stored", reason=why)
        else:
            self._is_ahead = False


def _is_due(tokens: Tokens) -> bool:
    return tokens.access_token is None or (tokens.refresh_at is not None and tokens.refresh_at <= time.time())


def _entry_name(reach: Reach) -> str:
    """The name of the entry for what came of one refresh token: another one in the configuration begins anew."""
    oauth = reach.oauth
    assert oauth is not None
    key = msgspec.json.encode([oauth.token_url, oauth.client_id, sorted(oauth.scopes), oauth.refresh_token])
    return hashlib.sha256(key).hexdigest()[:40]
