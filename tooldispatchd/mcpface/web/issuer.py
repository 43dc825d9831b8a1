"""Tokens of an authorization server: JWTs that it signed for this place (RFC 9068, RFC 7519).

    token ─▶ its key among the issuer's, fetched in a thread where it is not known ─▶ signature, iss, aud, exp ─▶ scopes

Only signatures with a public key count: with `none` or a shared secret anybody could sign who knows the keys.
"""

import http.client
import math
import time
from base64 import urlsafe_b64decode
from typing import Final
from urllib import request
from urllib.parse import urlsplit

import jwt
import msgspec
import trio

from tooldispatchd.mcpface.web.exchange import MissingScopeError, NoKeysError
from tooldispatchd.mcpface.web.logbook import LogBook
from tooldispatchd.wire.webplaces import TokenIssuer

ALGORITHMS: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
MIN_RSA_BITS: Final = 2048
KEY_TYPES: Final = frozenset({"RSA", "EC", "OKP"})
# Clocks of servers differ by seconds.
LEEWAY_S: Final = 30
# A withdrawn key is good for no longer than this.
KEYS_S: Final = 3600.0
# Who shows keys that nobody knows must not have the issuer asked all the time.
AGAIN_S: Final = 30.0
FETCH_S: Final = 10.0
# A key has 1 KiB, or 4 with its certificates; issuers have a handful.
MAX_DOCUMENT_BYTES: Final = 256 * 1024
MAX_KEYS: Final = 64
_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_WELL_KNOWN: Final = "/.well-known/"
# A server that is not there, one that speaks no HTTP or is named by no URL, and a document that is none.
_UNREAD: Final = (OSError, http.client.HTTPException, ValueError, RecursionError)
# A thread that waits for a name server cannot be ended: two for each issuer, and nobody waits for them.
_THREADS: Final = 2


JsonKey = dict[str, object]


class _Metadata(msgspec.Struct):
    issuer: str
    jwks_uri: str


class _Keys(msgspec.Struct):
    keys: list[JsonKey]


class _Claims(msgspec.Struct):
    exp: float
    sub: str = ""
    client_id: str = ""
    azp: str = ""
    scope: str = ""
    scp: str | list[str] = ""


class _FetchError(Exception):
    """The issuer's keys cannot be had."""


class IssuerTokens:
    """The tokens of one issuer, and its keys as they were last fetched."""

    def __init__(self, issuer: TokenIssuer, log: LogBook) -> None:
        self._issuer = issuer
        self._log = log
        self._keys: dict[str, JsonKey] = {}
        self._fetched_at = -math.inf
        self._tried_at = -math.inf
        self._fetching = trio.Lock()
        self._limiter = trio.CapacityLimiter(_THREADS)

    async def verify(self, token: str) -> tuple[str, float] | None:
        """Whose token it is, and until when; None where it is not good here.

        Raises `MissingScopeError` and `NoKeysError`.
        """
        try:
            head = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, RecursionError):
            return None
        algorithm, name = head.get("alg"), head.get("kid", "")
        if algorithm not in ALGORITHMS or not isinstance(name, str):
            return None
        written = await self._key(name)
        # A key that says what it is for is good for nothing else.
        if written is None or written.get("alg", algorithm) != algorithm:
            return None
        claims = self._read(token, written, algorithm)
        if claims is None:
            return None
        granted = claims.scope.split() + (claims.scp.split() if isinstance(claims.scp, str) else claims.scp)
        if not set(self._issuer.scopes) <= set(granted):
            raise MissingScopeError
        who = claims.sub, claims.client_id or claims.azp
        if not any(who):
            return None
        until = trio.current_time() + claims.exp + LEEWAY_S - time.time()
        return msgspec.json.encode((self._issuer.issuer, *who)).decode(), until

    def _read(self, token: str, written: JsonKey, algorithm: str) -> _Claims | None:
        try:
            key = jwt.PyJWK(written, algorithm)
            claims = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                issuer=self._issuer.issuer,
                audience=self._issuer.audience,
                leeway=LEEWAY_S,
                options={"require": ["exp", "iss", "aud"]},
            )
            return msgspec.convert(claims, _Claims)
        except (jwt.PyJWTError, msgspec.ValidationError, ValueError, TypeError, RecursionError):
            # Whatever is wrong with it, it is not ours to tell.
            return None

    async def _key(self, name: str) -> JsonKey | None:
        """The key of that name; raises `NoKeysError` where there are none at all."""
        now = trio.current_time()
        if name not in self._keys or now > self._fetched_at + KEYS_S:
            async with self._fetching:
                # Another request may have asked meanwhile.
                is_due = name not in self._keys or now > self._fetched_at + KEYS_S
                if is_due and trio.current_time() >= self._tried_at + AGAIN_S:
                    await self._fetch()
        if not self._keys or trio.current_time() > self._fetched_at + 2 * KEYS_S:
            raise NoKeysError
        return self._keys.get(name)

    async def _fetch(self) -> None:
        self._tried_at = trio.current_time()
        try:
            with trio.fail_after(FETCH_S):
                self._keys = await trio.to_thread.run_sync(
                    _fetch_keys, self._issuer, abandon_on_cancel=True, limiter=self._limiter
                )
            self._fetched_at = trio.current_time()
        except (_FetchError, *_UNREAD, trio.TooSlowError) as error:
            why = str(error) if isinstance(error, _FetchError) else type(error).__name__
            self._log.tell("issuer's keys not fetched", issuer=self._issuer.issuer, why=why)


def _fetch_keys(issuer: TokenIssuer) -> dict[str, JsonKey]:
    """The keys of an issuer by their names; blocks. Raises `_FetchError`, and what `_UNREAD` lists."""
    url = issuer.jwks or _find_keys(issuer.issuer)
    listed = msgspec.json.decode(_get(url), type=_Keys).keys
    fit = (each for each in listed[:MAX_KEYS] if each.get("use", "sig") == "sig" and _is_strong(each))
    keys = {str(each.get("kid", "")): each for each in fit}
    if not keys:
        raise _FetchError("it has none that can be used")
    return keys


def _is_strong(key: JsonKey) -> bool:
    """Whether a key is of a kind that signs, and no RSA key that can be factored (NIST SP 800-131A: 2,048 bits)."""
    if key.get("kty") != "RSA":
        return key.get("kty") in KEY_TYPES
    try:
        return int.from_bytes(urlsafe_b64decode(str(key.get("n", "")) + "==")).bit_length() >= MIN_RSA_BITS
    except ValueError:
        return False


def _find_keys(issuer: str) -> str:
    """Where an issuer's metadata says that its keys are (RFC 8414, 3; OpenID Connect Discovery, 4)."""
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    places = (
        f"{origin}{_WELL_KNOWN}oauth-authorization-server{path}",
        f"{origin}{path}{_WELL_KNOWN}openid-configuration",
    )
    for place in places:
        try:
            found = msgspec.json.decode(_get(place), type=_Metadata)
        except _UNREAD:
            continue
        if found.issuer == issuer:
            return found.jwks_uri
    raise _FetchError("it has no metadata")


class _NoRedirects(request.HTTPRedirectHandler):
    """A redirect is an error: keys come from where the configuration or the issuer says."""

    def redirect_request(
        self, _req: object, _fp: object, _code: object, _msg: object, _headers: object, _newurl: object
    ) -> None:
        return None


def _get(url: str) -> bytes:
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOCAL):
        raise _FetchError("its keys are not at an https URL")
    named = request.getproxies_environment()
    proxy = named.get("https") or named.get("all")
    # This machine is reached without one, as servers are; `urllib` itself goes by NO_PROXY.
    ways = {} if proxy is None or parts.hostname in _LOCAL else {"https": proxy}
    opener = request.build_opener(request.ProxyHandler(ways), _NoRedirects)
    with opener.open(request.Request(url, headers={"Accept": "application/json"}), timeout=FETCH_S) as answer:  # noqa: S310
        body: bytes = answer.read(MAX_DOCUMENT_BYTES + 1)
    if len(body) > MAX_DOCUMENT_BYTES:
        raise _FetchError("it sends too much")
    return body
