"""One flow of a provider, driven request by request on our wire, within one bound.

    refused ─▶ provider ─▶ metadata? ─▶ registration? ─▶ consent? ─▶ token ─▶ authorised
                    each of these requests is a `fetch`, under the wire's guard

A provider is an `httpx2.Auth`: it yields requests and is sent their answers. It never sees a request to the server
itself, only a shadow of one and what that was answered with, so that nothing of a call goes through a flow.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NamedTuple, Protocol

import httpx2
import msgspec
import trio
from mcp.client.auth import OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from msgspec.structs import replace

from tooldispatchd.providers.mcp.http.errors import PrivateAddressError, UntrustedOriginError, WireError
from tooldispatchd.providers.mcp.http.network import public_addresses
from tooldispatchd.providers.mcp.http.places import is_literal, place
from tooldispatchd.providers.mcp.http.wire import Debug, to_nobody
from tooldispatchd.providers.mcp.oauth.challenge import Challenge
from tooldispatchd.providers.mcp.oauth.errors import AuthorizationError, UntrustedError
from tooldispatchd.providers.mcp.oauth.providers import Person, Provider, grant_of, make_provider, shadow, suit_client
from tooldispatchd.providers.mcp.oauth.tokens import Grant
from tooldispatchd.providers.mcp.server import OAuth

# Registrations go where they are kept as soon as there is one.
Register = Callable[[dict[str, object]], Awaitable[None]]

# All requests of a flow together; a person who consents has time of his own.
FLOW_S: Final = 30.0
# To find the browser, to log in there, to read what is asked and to answer it.
PERSON_S: Final = 300.0
# Metadata, registrations and tokens are a few kilobytes.
MAX_ANSWER_BYTES: Final = 64 * 1024
# Discovery asks at six places at most; then come registration and token.
MAX_REQUESTS: Final = 12
# What a token request that is under way may still take when nobody waits for it any more.
FINISH_S: Final = 2.0

# RFC 6749, 4.1.2.1 and 5.2; RFC 7591, 3.2.2; RFC 8707, 2. Nothing else that a server writes is shown.
_ERRORS: Final = frozenset(
    {
        *("invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type"),
        *("invalid_scope", "access_denied", "unsupported_response_type", "server_error", "temporarily_unavailable"),
        *("invalid_redirect_uri", "invalid_client_metadata", "invalid_target"),
    }
)
# What an authorization server says that has forgotten a registration.
UNKNOWN_CLIENT: Final = "invalid_client"
# What a refresh token that is of no use any more is called, also with HTTP 200: the last one is GitHub's.
_OVER: Final = frozenset({"invalid_grant", "invalid_client", "unauthorized_client", "bad_refresh_token"})
# What the SDK's own sentences begin with, and ours for them: the rest of its sentences may be secret.
_SAID: Final = (
    ("State parameter mismatch", "the browser came back with another state than it was sent with"),
    ("Authorization response iss mismatch", "the browser came back from another authorization server"),
    ("Authorization response missing iss", "the browser came back without the authorization server's name"),
    ("Authorization server metadata issuer mismatch", "the authorization server's metadata names another issuer"),
    ("Protected resource metadata request failed", "the server's metadata cannot be read"),
    ("Protected resource ", "the server's metadata describes another resource"),
)
# What the SDK lets out of metadata, tokens and addresses that make no sense; httpx2's errors are no ValueErrors.
_NONSENSE: Final = (ValueError, TypeError, ArithmeticError, RecursionError, httpx2.InvalidURL, httpx2.StreamError)
# The wire frames each request itself.
_FRAMING: Final = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding"})


class Fetch(Protocol):
    """As `Wire.fetch`: one request to where the server may lead; status, headers and body. Raises `WireError`."""

    def __call__(
        self, method: str, url: str, headers: list[tuple[str, str]], body: bytes, max_bytes: int
    ) -> Awaitable[tuple[int, dict[str, str], bytes]]:
        """Send it."""


async def _forget(_client: dict[str, object]) -> None:
    """Keep no registration but with its token."""


def _anywhere(_url: str) -> None:
    """Refuse no address before it is asked."""


class OAuthClient(NamedTuple):
    """Who asks: for the server at `url`, by `fetch`; `keep` is given what there is as soon as there is a token.

    `registered` is given a new registration, `debug` each step; `admit` raises `WireError` for what `fetch` would
    refuse to ask.
    """

    url: str
    oauth: OAuth
    fetch: Fetch
    keep: Callable[[Grant], None]
    registered: Register = _forget
    admit: Callable[[str], None] = _anywhere
    debug: Debug = to_nobody

    def flow(self, grant: Grant, person: Person | None = None) -> "Flow":
        """A flow that starts from what `grant` holds."""
        provider, memory = make_provider(self.url, self.oauth, grant, person)
        memory.keep = lambda: self.keep(grant_of(provider, self.oauth))
        memory.registered = self.registered
        limit_s = FLOW_S if person is None else FLOW_S + PERSON_S
        adjust = partial(suit_client, provider, self.oauth)
        flow = Flow(provider, self.url, self.fetch, adjust=adjust, admit=self.admit, limit_s=limit_s)
        flow.debug = self.debug
        return flow


async def renew(client: OAuthClient, grant: Grant) -> Grant | None:
    """Use the refresh token of `grant`; None where that brought another token, which was kept.

    Else it is of no use any more, or there is none, and the result is what is left: without any token, and without a
    registration that the authorization server does not know. Raises `AuthorizationError` where it may work later.
    """
    left = replace(grant, access_token=None, refresh_token=None, refresh_at=None)
    if grant.refresh_token is None:
        return left
    flow = client.flow(grant)
    if await flow.renew():
        return None
    return replace(left, client=None) if flow.said == UNKNOWN_CLIENT else left


async def obtain(client: OAuthClient, grant: Grant, challenge: Challenge, *, person: Person | None = None) -> None:
    """Answer a challenge of the server with a new token, with the client and the metadata of `grant`.

    A `person` has `PERSON_S` to consent. Raises `AuthorizationError`.
    """
    await client.flow(grant, person).obtain(challenge)


class Flow:
    """One flow, from its first request to the header that it was made for; used once.

    `adjust` is given each document that was found before the provider takes it up. `limit_s` bounds all of it. `said`
    is the error of the last request, where that is a registered one.
    """

    def __init__(
        self,
        provider: Provider,
        url: str,
        fetch: Fetch,
        *,
        adjust: Callable[[bytes], None],
        admit: Callable[[str], None],
        limit_s: float,
    ) -> None:
        self.said: str | None = None
        self.debug: Debug = to_nobody
        self._provider = provider
        self._fetch = fetch
        self._adjust = adjust
        self._admit = admit
        self._limit_s = limit_s
        self._request = shadow(url)
        self._left = MAX_REQUESTS
        self._is_at_token = False
        self._status: int | None = None
        self._failure: AuthorizationError | None = None

    async def renew(self) -> bool:
        """Use the refresh token; whether there is a new token. Raises `AuthorizationError` where it may work later."""
        # One second after the epoch: that is what the SDK takes for "expired", and its 0 for "no end".
        self._provider.context.token_expiry_time = 1.0
        await self._run(None)
        if self._provider.context.current_tokens is not None:
            return True
        # What stands in between may answer with any status; these two are the token endpoint's own (RFC 6749, 5.2).
        if self._status not in {400, 401} and self.said not in _OVER:
            raise AuthorizationError(f"cannot refresh its token: {self._last()}")
        return False

    async def obtain(self, challenge: Challenge) -> None:
        """Answer a challenge with a new token. Raises `AuthorizationError`."""
        header = {"WWW-Authenticate": challenge.header()}
        await self._run(httpx2.Response(challenge.status, headers=header, request=self._request))

    async def _run(self, refused: httpx2.Response | None) -> None:
        """Drive the flow in a task that outlives a cancelled caller for as long as a token is under way.

        Who takes a refresh token may replace it (RFC 6749, 6): an answer that is dropped would be a login that is lost.
        """
        ended = trio.Event()
        scope = trio.CancelScope(shield=True, deadline=trio.current_time() + self._limit_s)

        async def run() -> None:
            with scope:
                await self._guarded(refused)
            ended.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            try:
                await ended.wait()
            finally:
                # Cancelled, or interrupted at the terminal.
                if not ended.is_set():
                    scope.deadline = min(scope.deadline, trio.current_time() + (FINISH_S if self._is_at_token else 0.0))
        if scope.cancelled_caught:
            raise AuthorizationError(f"cannot get a token: it took longer than {self._limit_s:.0f} s")
        if self._failure is not None:
            raise self._failure

    async def _guarded(self, refused: httpx2.Response | None) -> None:
        """The flow with its failure in words of ours, and without its cause: that holds what other servers wrote."""
        try:
            await self._drive(refused)
        except AuthorizationError as error:
            self._failure = error
        except UntrustedOriginError as error:
            self._failure = await _untrusted(error)
        except WireError as error:
            self._failure = AuthorizationError(f"cannot get a token: {error.why}")
        except OAuthRegistrationError:
            why = f"cannot register at its authorization server: {self._last()}; oauth.client_id names a client"
            self._failure = AuthorizationError(why)
        except OAuthTokenError:
            self._failure = AuthorizationError(f"cannot get a token: {self._last()}", said=self.said)
        except OAuthFlowError as error:
            said = str(error)
            why = next(
                (ours for theirs, ours in _SAID if said.startswith(theirs)), "nothing says where tokens are given"
            )
            self._failure = AuthorizationError(f"cannot get a token: {why}")
        except _NONSENSE:
            self._failure = AuthorizationError("cannot get a token: the answers on the way to it make no sense")

    async def _drive(self, refused: httpx2.Response | None) -> None:
        """Until the shadow request is authorised: the first time for a refresh, the second where it was `refused`."""
        steps = self._provider.async_auth_flow(self._request)
        try:
            outgoing = await anext(steps)
            while outgoing is not self._request or refused is not None:
                if outgoing is self._request and refused is not None:
                    answer, refused = refused, None
                else:
                    answer = await self._send(outgoing)
                outgoing = await steps.asend(answer)
                self._is_at_token = False
        finally:
            # It holds nothing but a lock of its own, and awaits nothing.
            await steps.aclose()

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        self._left -= 1
        if self._left < 0:
            raise AuthorizationError(f"cannot get a token: more than {MAX_REQUESTS} requests led to none")
        context = self._provider.context
        if request.method == "POST" and context.auth_server_url is not None and context.oauth_metadata is None:
            # The SDK would guess addresses at the server itself, and show it what another one is to be shown.
            raise AuthorizationError("cannot get a token: the authorization server's metadata cannot be read")
        self._status = self.said = None
        # A registration or a document may be lost.
        self._is_at_token = b"grant_type=" in request.read()
        headers = [(name, value) for name, value in request.headers.multi_items() if name not in _FRAMING]
        try:
            self._status, _, body = await self._fetch(
                request.method, str(request.url), headers, request.read(), MAX_ANSWER_BYTES
            )
        finally:
            self.debug("oauth step", step=self._step(request), origin=_origin(request), status=self._status)
        if request.method == "POST":
            self.said = _error_in(body)
        elif self._status < 300:
            self._adjust(body)
            self._look_ahead(body)
        # The SDK reads none of the headers: redirects have been followed.
        return httpx2.Response(self._status, content=body, request=request)

    def _step(self, request: httpx2.Request) -> str:
        if self._is_at_token:
            return "token"
        return "registration" if request.method == "POST" else "discovery"

    def _look_ahead(self, document: bytes) -> None:
        """Refuse a token endpoint that may not be asked before a person is asked for consent in vain."""
        endpoint = _member(document, "token_endpoint")
        if endpoint is not None:
            self._admit(endpoint)

    def _last(self) -> str:
        """What the last request came to."""
        if self._status is None:
            return "there was no answer"
        if self._status < 400 and self.said is None:
            return "the answer makes no sense"
        return f"HTTP {self._status}" + (f" {self.said}" if self.said else "")


def _origin(request: httpx2.Request) -> str:
    """Where a request goes; a path or a query may hold a key."""
    return f"{request.url.scheme}://{request.url.netloc.decode()}"


def _error_in(body: bytes) -> str | None:
    """The `error` of a failed request, where it is one of those that are registered."""
    error = _member(body, "error")
    return error if error in _ERRORS | _OVER else None


def _member(body: bytes, name: str) -> str | None:
    """The text that is a member of a JSON object."""
    try:
        said = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    value = said.get(name) if isinstance(said, dict) else None
    return value if isinstance(value, str) else None


async def _untrusted(refused: UntrustedOriginError) -> UntrustedError:
    """What to tell of an origin that is not listed: all that would have to be, at once."""
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
