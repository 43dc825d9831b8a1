"""Which of the SDK's providers serves a grant, and how one is given what is known and asked what it learned.

This module imports the SDK, which takes most of a second: it is imported by `accounts.preload` and by a login.
A provider is made for one flow and thrown away after it. The SDK's own would live as long as the connection and hold
their lock while a request is out, so that one call that takes a minute would hold up all others.
"""

import logging
import time
import warnings
from collections.abc import Awaitable, Callable
from typing import Final

import httpx2
import jwt
import msgspec
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.utils import is_valid_client_metadata_url
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, ValidationError

from tooldispatchd.providers.mcp.oauth.errors import AuthorizationError
from tooldispatchd.providers.mcp.oauth.tokens import Grant
from tooldispatchd.providers.mcp.server import OAuth

# The SDK logs its failures with what other servers answered and with what the flow keeps secret.
logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL + 1)

# A token or a scope goes into a header, and headers of 16 KiB are what servers take at most.
MAX_TOKEN: Final = 16_384
# How long before its end a token is replaced: longer than a request is under way.
EARLY_S: Final = 10.0
# Seconds; ten years and more mean "never", and larger numbers are no time at all.
MAX_LIFETIME_S: Final = 315_360_000

Provider = OAuthClientProvider


class Person:
    """Who can be asked to consent: where the browser comes back to, how it is opened, and what it came back with."""

    __slots__ = ("await_redirect", "redirect_uri", "show")

    def __init__(
        self,
        redirect_uri: str,
        show: Callable[[str], Awaitable[None]],
        await_redirect: Callable[[], Awaitable[AuthorizationCodeResult]],
    ) -> None:
        self.redirect_uri = redirect_uri
        self.show = show
        self.await_redirect = await_redirect


class FlowTokenStorage:
    """The SDK's `TokenStorage`, for one flow.

    Within it `keep` is called once for each set of tokens, and `registered` with a new registration.
    """

    def __init__(self, tokens: OAuthToken | None, client: OAuthClientInformationFull | None) -> None:
        self._tokens = tokens
        self._client = client
        self.keep: Callable[[], None] = lambda: None
        self.registered: Callable[[dict[str, object]], Awaitable[None]] | None = None

    async def get_tokens(self) -> OAuthToken | None:
        """Those that the flow begins with."""
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Refuse what cannot be a token, and keep the rest.

        Nothing is awaited: a refresh token that was replaced at the server must not be lost to a cancelled call.
        """
        for value in (tokens.access_token, tokens.refresh_token or "-", tokens.scope or "-"):
            if not 0 < len(value) <= MAX_TOKEN or not value.isascii() or not value.isprintable():
                raise ValueError("a token that cannot be sent")
        self.keep()

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """The registration that the flow begins with."""
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Hand on a new registration: who gives up now would register once more."""
        if self.registered is not None:
            await self.registered(_registration(client_info))


def make_provider(
    url: str, oauth: OAuth, grant: Grant, person: Person | None = None
) -> tuple[Provider, FlowTokenStorage]:
    """A provider for one flow that knows what `grant` holds, and the memory that it writes to.

    Raises `AuthorizationError` where the grant is not one.
    """
    try:
        tokens = None
        if grant.access_token is not None:
            tokens = OAuthToken(access_token=grant.access_token, refresh_token=grant.refresh_token, scope=grant.scope)
        memory = FlowTokenStorage(tokens, _client_of(oauth, grant, person))
        provider = _provider(url, oauth, memory, person)
        context = provider.context
        if grant.server is not None:
            context.oauth_metadata = OAuthMetadata.model_validate(grant.server)
        if grant.resource is not None:
            context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(grant.resource)
        context.auth_server_url = grant.issuer
    except ValidationError:
        # Its text would show the values.
        raise AuthorizationError("what is stored of its authorization server cannot be used; log in again") from None
    return provider, memory


def grant_of(provider: Provider, oauth: OAuth) -> Grant:
    """What a provider holds once it has tokens."""
    context = provider.context
    tokens, client = context.current_tokens, context.client_info
    return Grant(
        access_token=None if tokens is None else tokens.access_token,
        refresh_token=None if tokens is None else tokens.refresh_token,
        scope=None if tokens is None else tokens.scope,
        refresh_at=_refresh_at(tokens),
        # A secret of the configuration is not for this file.
        client=None if client is None or oauth.client_id is not None else _registration(client),
        resource=_document(context.protected_resource_metadata),
        issuer=context.auth_server_url,
        server=_document(context.oauth_metadata),
    )


def _registration(client: OAuthClientInformationFull) -> dict[str, object]:
    return client.model_dump(mode="json", exclude_none=True)


def suit_client(provider: Provider, oauth: OAuth, document: bytes) -> None:
    """Let a client of the configuration show its secret in the way that the authorization server takes.

    `document` is metadata that the provider is about to read. The SDK takes HTTP Basic, which every server should take
    (RFC 6749, 2.3.1) and some do not.
    """
    client = provider.context.client_info
    if oauth.client_secret is None or client is None:
        return
    try:
        said = msgspec.json.decode(document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    if isinstance(said, dict) and "token_endpoint" in said:
        client.token_endpoint_auth_method = _method(oauth, said)


def _method(oauth: OAuth, server: dict[str, object]) -> str:
    """How the client of the configuration authenticates itself at a token endpoint (RFC 8414, 2)."""
    if oauth.client_secret is None:
        return "none"
    taken = server.get("token_endpoint_auth_methods_supported")
    takes_post_alone = isinstance(taken, list) and "client_secret_post" in taken and "client_secret_basic" not in taken
    return "client_secret_post" if takes_post_alone else "client_secret_basic"


def _provider(url: str, oauth: OAuth, memory: FlowTokenStorage, person: Person | None) -> Provider:
    scope = " ".join(oauth.scopes) or None
    if oauth.grant == "authorization_code":
        if oauth.client_metadata_url is not None and not is_valid_client_metadata_url(oauth.client_metadata_url):
            raise AuthorizationError("oauth.client_metadata_url is no https URL with a path")
        metadata = OAuthClientMetadata(
            client_name="tooldispatchd",
            redirect_uris=[AnyUrl(person.redirect_uri)] if person is not None else None,
            token_endpoint_auth_method="none",  # noqa: S106  # no password: a program on a desk keeps no secret
            scope=scope,
        )
        return OAuthClientProvider(
            url,
            metadata,
            memory,
            None if person is None else person.show,
            None if person is None else person.await_redirect,
            client_metadata_url=oauth.client_metadata_url,
        )
    assert oauth.client_id is not None
    with warnings.catch_warnings():
        # It asks for an issuer to bind the client to; discovery is held to the origins that the configuration lists.
        warnings.simplefilter("ignore")
        if oauth.grant == "private_key_jwt":
            return PrivateKeyJWTOAuthProvider(url, memory, oauth.client_id, _signer(oauth), scope)
        return ClientCredentialsOAuthProvider(url, memory, oauth.client_id, oauth.client_secret or "", scope=scope)


def _signer(oauth: OAuth) -> Callable[[str], Awaitable[str]]:
    """What signs an assertion for an audience (RFC 7523, 2.2)."""
    assert oauth.client_id is not None
    sign = SignedJWTParameters(
        issuer=oauth.client_id,
        subject=oauth.client_id,
        signing_key=oauth.private_key or "",
        signing_algorithm=oauth.algorithm,
    ).create_assertion_provider()

    async def signed(audience: str) -> str:
        try:
            return await sign(audience)
        except (jwt.PyJWTError, ValueError, TypeError):
            # The cause may show the key.
            raise AuthorizationError(
                f"cannot sign with its private key, which is not one for {oauth.algorithm}"
            ) from None

    return signed


def _client_of(oauth: OAuth, grant: Grant, person: Person | None) -> OAuthClientInformationFull | None:
    """The client of the configuration, or the one that was registered, unless that one cannot be redirected here."""
    if oauth.client_id is not None:
        return OAuthClientInformationFull(
            client_id=oauth.client_id,
            client_secret=oauth.client_secret,
            token_endpoint_auth_method=_method(oauth, grant.server or {}),
        )
    if grant.client is None:
        return None
    client = OAuthClientInformationFull.model_validate(grant.client)
    if person is not None and person.redirect_uri not in [str(uri) for uri in client.redirect_uris or ()]:
        return None
    return client


def _refresh_at(tokens: OAuthToken | None) -> float | None:
    lifetime_s = tokens.expires_in if tokens is not None else None
    # Some servers say 0 of a token that never ends.
    if lifetime_s is None or not 0 < lifetime_s <= MAX_LIFETIME_S:
        return None
    return time.time() + lifetime_s - min(EARLY_S, lifetime_s / 4)


def _document(model: OAuthMetadata | ProtectedResourceMetadata | None) -> dict[str, object] | None:
    return None if model is None else model.model_dump(mode="json", exclude_none=True)


def shadow(url: str) -> httpx2.Request:
    """A request that stands for all requests to a server: what a flow authorises is read off it.

    Its revision is the first whose authorization names the resource (RFC 8707), which the later ones ask of every flow.
    """
    return httpx2.Request("POST", url, headers={"MCP-Protocol-Version": "2025-06-18"})
