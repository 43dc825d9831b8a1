"""One flow for a token: its requests in their order, on the server's own wire, within one bound.

    refresh:  refresh token ──────────────────────────────────────────────────────────────────────────▶ token
    obtain:   challenge ─▶ metadata of resource and authorization server ─▶ client? ─▶ consent? ─▶ token

The wire keeps the rules of where a request may go. Nothing of a call goes through a flow.
"""

import base64
import hashlib
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeVar
from urllib.parse import urlencode, urlsplit, urlunsplit

import msgspec
from msgspec.structs import replace

from tooldispatchd.http.errors import PrivateAddressError, UntrustedOriginError, WireError
from tooldispatchd.http.network import public_addresses
from tooldispatchd.http.oauth.endpoint import OVER, EndpointAnswer, GivenToken, read_document, token_request
from tooldispatchd.http.oauth.flows import FLOW_S, carry_through
from tooldispatchd.http.oauth.refusals import AuthorizationError
from tooldispatchd.http.places import is_literal, place
from tooldispatchd.http.reach import OAuth
from tooldispatchd.http.wire import Debug, Headers, HttpWire, to_nobody
from tooldispatchd.installation import needs
from tooldispatchd.providers.mcp.greeting import MODERN
from tooldispatchd.providers.mcp.oauth.documents import (
    AuthorizationServer,
    Challenge,
    ProtectedResource,
    RegisteredClient,
    read_registration,
    union,
)
from tooldispatchd.providers.mcp.oauth.grants import Grant
from tooldispatchd.providers.mcp.oauth.redirect import Redirected
from tooldispatchd.providers.mcp.oauth.refusals import UntrustedError

# To find the browser, to log in there, to read what is asked and to answer it.
PERSON_S: Final = 300.0
# How long a signed assertion is valid: longer than the clocks of two machines differ.
ASSERTION_S: Final = 300

# The error of an authorization server that has forgotten a registration.
UNKNOWN_CLIENT: Final = "invalid_client"
_Result = TypeVar("_Result")


class Person(NamedTuple):
    """A person who can be asked: `consent` shows a URL, and returns what the browser brings back with that state."""

    redirect_uri: str
    consent: Callable[[str, str], Awaitable[Redirected]]


class OAuthFlow:
    """A flow for the server at `url`, used once.

    `keep` is given the new grant at once when there is a token, `registered` a new registration, `debug` each step.
    """

    def __init__(
        self,
        url: str,
        oauth: OAuth,
        wire: HttpWire,
        keep: Callable[[Grant], None],
        *,
        registered: Callable[[RegisteredClient], Awaitable[None]] | None = None,
        debug: Debug = to_nobody,
    ) -> None:
        self._url = url
        self._own = place(url)
        self._oauth = oauth
        self._wire = wire
        self._keep = keep
        self._registered = registered
        self._debug = debug
        # As the grant has them, until discovery finds others.
        self._resource: ProtectedResource | None = None
        self._server = self._assumed_server()
        self._is_at_token = False

    async def refresh(self, grant: Grant) -> Grant | None:
        """Use the refresh token of `grant`; None where that brought another token, which was kept.

        Else it can be used no more, or there is none, and the result is the rest of the grant: without any token, and
        without a registration that the authorization server does not know. Raises `AuthorizationError` where it may
        work later.
        """
        return await self._bounded(lambda: self._refresh(grant), FLOW_S)

    async def obtain(self, grant: Grant, challenge: Challenge, person: Person | None = None) -> None:
        """Answer a challenge of the server with a new token, with the client and the metadata of `grant`.

        A `person` has `PERSON_S` to consent. Raises `AuthorizationError`.
        """
        limit_s = FLOW_S if person is None else FLOW_S + PERSON_S
        await self._bounded(lambda: self._obtain(grant, challenge, person), limit_s)

    async def _bounded(self, steps: Callable[[], Awaitable[_Result]], limit_s: float) -> _Result:
        async def explained() -> _Result:
            try:
                return await steps()
            except UntrustedOriginError as error:
                raise await _untrusted(error) from None

        return await carry_through(explained, limit_s, lambda: self._is_at_token)

    # --- the two flows -----------------------------------------------------------------------------------------------

    async def _refresh(self, grant: Grant) -> Grant | None:
        left = replace(grant, access_token=None, refresh_token=None, refresh_at=None)
        self._resource, self._server = grant.resource, grant.server or self._server
        client = self._configured() or grant.client
        if grant.refresh_token is None or client is None:
            return left
        form = {"grant_type": "refresh_token", "refresh_token": grant.refresh_token, "client_id": client.client_id}
        answer = await self._ask_for_token(client, form)
        given = answer.token
        if given is not None:
            self._take(given, grant)
            return None
        # A proxy in between may answer with any status; these two are the token endpoint's own (RFC 6749, 5.2).
        if answer.status not in {400, 401} and answer.error not in OVER:
            raise AuthorizationError(f"cannot refresh its token: {answer}")
        return replace(left, client=None) if answer.error == UNKNOWN_CLIENT else left

    async def _obtain(self, grant: Grant, challenge: Challenge, person: Person | None) -> None:
        self._resource, self._server = grant.resource, grant.server or self._server
        if grant.server is None or not challenge.asks_for_more:
            self._resource = await self._find_resource(challenge.resource_metadata) or grant.resource
            self._server = await self._find_server()
        # Those of the challenge, else all that there are; at a step-up those granted too.
        offered = self._server.scopes_supported
        listed = None if self._resource is None else self._resource.scopes_supported
        scope = challenge.scope or union(*((offered if listed is None else listed) or ()))
        if scope is not None and self._oauth.grant == "authorization_code" and "offline_access" in (offered or ()):
            # OpenID Connect Core, 11: without it there is no refresh token.
            scope = union(scope, "offline_access")
        if challenge.asks_for_more:
            scope = union(grant.scope, scope)
        wanted = {} if scope is None else {"scope": scope}
        client = self._configured()
        if person is not None:
            client = client or await self._client(grant.client, person, wanted)
            form = await self._consented(client, person, wanted)
        else:
            assert client is not None
            form = {"grant_type": "client_credentials"} | wanted | self._assertion()
        answer = await self._ask_for_token(client, form)
        given = answer.token
        if given is None:
            raise AuthorizationError(f"cannot get a token: {answer}", said=answer.error)
        # A secret of the configuration is not for the file of the grant.
        known = None if self._oauth.client_id is not None else client
        asked = replace(grant, refresh_token=None, scope=scope, client=known)
        self._take(given, replace(asked, resource=self._resource, server=self._server))

    def _take(self, given: GivenToken, before: Grant) -> None:
        """Keep a token; what the answer leaves out stays as it was, or as it was asked for (RFC 6749, 5.1 and 6).

        Nothing is awaited since the answer came, or the token could be lost.
        """
        grant = replace(
            before,
            access_token=given.access_token,
            refresh_token=given.refresh_token or before.refresh_token,
            scope=before.scope if given.scope is None else given.scope,
            refresh_at=given.refresh_at(time.time()),
        )
        self._keep(grant)

    # --- metadata ----------------------------------------------------------------------------------------------------

    async def _find_resource(self, named: str | None) -> ProtectedResource | None:
        """The server's metadata: where its challenge `named` it, or at its well-known places (RFC 9728, 3.1)."""
        root = f"{self._own.origin}/.well-known/oauth-protected-resource"
        exact = root + self._own.target.partition("?")[0].rstrip("/")
        has_failed = False
        for url in dict.fromkeys((named or exact, exact, root)):
            status, found = await self._discover(url, ProtectedResource)
            if found is not None and not found.covers(self._url):
                raise AuthorizationError("cannot get a token: the server's metadata describes another resource")
            if found is not None:
                return found
            has_failed = has_failed or status >= 500 or status == 429
        if has_failed:
            # It may name another authorization server, which alone may be shown the client's secret.
            raise AuthorizationError("cannot get a token: the server's metadata cannot be read")
        return None

    async def _find_server(self) -> AuthorizationServer:
        """The authorization server that the resource names; without a name the server's own origin (MCP 2025-03-26)."""
        assumed = self._assumed_server()
        named = None if self._resource is None else self._resource.authorization_servers[0]
        # RFC 8414, 3.1 and 5; OpenID Connect Discovery, 4.
        at = place(named or assumed.issuer)
        root, path = f"{at.origin}", at.target.partition("?")[0].rstrip("/")
        urls = [f"{root}/.well-known/{name}{path}" for name in ("oauth-authorization-server", "openid-configuration")]
        if path:
            urls.append(f"{root}{path}/.well-known/openid-configuration")
        for url in urls:
            status, found = await self._discover(url, AuthorizationServer)
            if status >= 500:
                break
            if found is None:
                continue
            # An origin is written with and without a slash; a name that was given, as it was given (RFC 8414, 3.3).
            if found.issuer not in ({named} if named is not None else {assumed.issuer, f"{assumed.issuer}/"}):
                raise AuthorizationError("cannot get a token: the authorization server's metadata names another issuer")
            # Before a person is asked for consent in vain.
            self._wire.territory.admit(found.token_endpoint)
            return found
        if named is not None:
            # The guessed addresses are the resource's own, which must not see a secret of its authorization server.
            raise AuthorizationError("cannot get a token: the authorization server's metadata cannot be read")
        return assumed

    def _assumed_server(self) -> AuthorizationServer:
        """The server's own origin as an authorization server without metadata (MCP 2025-03-26, "Fallbacks")."""
        root = str(self._own.origin)
        return AuthorizationServer(
            issuer=root,
            authorization_endpoint=f"{root}/authorize",
            token_endpoint=f"{root}/token",
            registration_endpoint=f"{root}/register",
        )

    # --- the client --------------------------------------------------------------------------------------------------

    def _configured(self) -> RegisteredClient | None:
        """The client of the configuration, with a way to show its secret that the server takes (RFC 8414, 2)."""
        if self._oauth.client_id is None:
            return None
        taken = self._server.token_endpoint_auth_methods_supported or ()
        # Every server should take HTTP Basic (RFC 6749, 2.3.1), and some do not.
        takes_post_alone = "client_secret_post" in taken and "client_secret_basic" not in taken
        return RegisteredClient(
            client_id=self._oauth.client_id,
            client_secret=self._oauth.client_secret,
            token_endpoint_auth_method="client_secret_post" if takes_post_alone else "client_secret_basic",
        )

    async def _client(self, kept: RegisteredClient | None, person: Person, wanted: dict[str, str]) -> RegisteredClient:
        """A client with a document of its own, or one that was registered before, or a new registration."""
        document, issuer = self._oauth.client_metadata_url, self._server.issuer
        if document is not None:
            found = place(document)
            # draft-ietf-oauth-client-id-metadata-document, 3.
            if found.origin.scheme != "https" or found.target == "/":
                raise AuthorizationError("oauth.client_metadata_url is no https URL with a path")
            if self._server.client_id_metadata_document_supported:
                return RegisteredClient(client_id=document, redirect_uris=(person.redirect_uri,), issuer=issuer)
        if kept is not None and person.redirect_uri in kept.redirect_uris and kept.issuer in {None, issuer}:
            return kept
        # RFC 7591.
        failed, other = "cannot register at its authorization server", "oauth.client_id names a client"
        if self._server.registration_endpoint is None:
            raise AuthorizationError(f"{failed}: it registers nobody; {other}")
        asked: dict[str, object] = {
            "client_name": "tooldispatchd",
            "redirect_uris": [person.redirect_uri],
            # A program on a desk keeps no secret.
            "token_endpoint_auth_method": "none",
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "application_type": "native",
            **wanted,
        }
        headers = [("Content-Type", "application/json")]
        body = msgspec.json.encode(asked)
        answer = await self._send("registration", "POST", self._server.registration_endpoint, headers, body)
        client = read_registration(answer.body, self._server.issuer) if answer.status in {200, 201} else None
        if client is None:
            raise AuthorizationError(f"{failed}: {answer}; {other}")
        if self._registered is not None:
            # A person who gives up at the browser should not cause another registration.
            await self._registered(client)
        return client

    # --- the token ---------------------------------------------------------------------------------------------------

    async def _consented(self, client: RegisteredClient, person: Person, wanted: dict[str, str]) -> dict[str, str]:
        """The form for a token after a person said yes in the browser (RFC 6749, 4.1; PKCE: RFC 7636)."""
        state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(64)
        known = {"client_id": client.client_id, "redirect_uri": person.redirect_uri}
        asked = known | {
            "response_type": "code",
            "state": state,
            "code_challenge": base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("="),
            "code_challenge_method": "S256",
            "resource": self._resource_name(),
            **wanted,
        }
        if "offline_access" in wanted.get("scope", "").split():
            # OpenID Connect Core, 11.
            asked["prompt"] = "consent"
        # It is printed at a terminal, so everything but plain ASCII is escaped.
        page = place(self._server.authorization_endpoint).url
        came = await person.consent(f"{page}{'&' if '?' in page else '?'}{urlencode(asked)}", state)
        # RFC 9207, 2.4: else a code of another server could be redeemed here.
        if came.iss is None and self._server.authorization_response_iss_parameter_supported:
            raise AuthorizationError(
                "cannot get a token: the browser came back without the authorization server's name"
            )
        if came.iss not in {None, self._server.issuer}:
            raise AuthorizationError("cannot get a token: the browser came back from another authorization server")
        return known | {"grant_type": "authorization_code", "code": came.code, "code_verifier": verifier}

    def _assertion(self) -> dict[str, str]:
        """The members of a form that authenticate a client with a key (RFC 7523, 2.2); none for one with a secret."""
        if self._oauth.grant != "private_key_jwt":
            return {}
        try:
            # It comes with the extra, and brings a library of cryptography along.
            import jwt  # noqa: PLC0415
        except ModuleNotFoundError:
            raise AuthorizationError(f"private_key_jwt {needs('oauth')}") from None
        name, key, algorithm = self._oauth.client_id, self._oauth.private_key or "", self._oauth.algorithm
        now = int(time.time())
        claims = {"iss": name, "sub": name, "aud": self._server.issuer, "iat": now, "exp": now + ASSERTION_S}
        try:
            signed = jwt.encode(claims | {"jti": secrets.token_hex(16)}, key, algorithm)
        except (jwt.PyJWTError, ValueError, TypeError):
            # The cause may show the key.
            why = f"cannot sign with its private key, which is not one for {algorithm}"
            raise AuthorizationError(why) from None
        kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
        return {"client_assertion_type": kind, "client_assertion": signed}

    async def _ask_for_token(self, client: RegisteredClient, form: dict[str, str]) -> EndpointAnswer:
        """The token endpoint's answer to a form."""
        form = form | {"resource": self._resource_name()}
        headers, body = token_request(form, client.client_id, client.client_secret, client.token_endpoint_auth_method)
        return await self._send("token", "POST", self._server.token_endpoint, headers, body)

    def _resource_name(self) -> str:
        """The resource that a token is for (RFC 8707, 2): the name that the server gives itself, else its URL."""
        if self._resource is not None:
            return self._resource.resource
        parts = urlsplit(self._url)
        return urlunsplit(parts._replace(netloc=parts.netloc.lower(), fragment=""))

    # --- requests ----------------------------------------------------------------------------------------------------

    async def _discover(self, url: str, kind: type[_Result]) -> tuple[int, _Result | None]:
        """The status of a request for metadata, and the document if it is one."""
        answer = await self._send("discovery", "GET", url, [("MCP-Protocol-Version", MODERN[0])])
        return answer.status, read_document(answer.body, kind) if answer.status == 200 else None

    async def _send(self, step: str, method: str, url: str, headers: Headers, body: bytes = b"") -> EndpointAnswer:
        # A registration or a document may be lost to a cancelled call, a token may not.
        self._is_at_token = step == "token"
        origin = str(place(url).origin)
        status = None
        try:
            status, said = await self._wire.fetch(method, url, [*headers, ("Accept", "application/json")], body)
        finally:
            # Of an address no more than the origin: a path or a query may hold a key.
            self._debug("oauth step", step=step, origin=origin, status=status)
        return EndpointAnswer(status, said)


async def _untrusted(refused: UntrustedOriginError) -> UntrustedError:
    """The error for an origin that is not listed; it names at once all that the configuration would need."""
    origin = place(refused.origin).origin
    is_private = False
    try:
        # An address, and localhost, say themselves where they are.
        if not is_literal(origin.host):
            await public_addresses(origin.host, origin.port)
    except PrivateAddressError:
        is_private = True
    except WireError:
        # It cannot be found now; whoever lists it will see.
        pass
    return UntrustedError(refused.origin, is_private=is_private)
