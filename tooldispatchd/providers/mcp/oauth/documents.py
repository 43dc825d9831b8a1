"""The documents of a flow, read into values: challenges, metadata, registrations; no I/O.

A document that does not fit its type is None to the caller, and nothing of it is quoted.
"""

import re
from typing import Annotated, Final

import msgspec

from tooldispatchd.http.errors import WireError
from tooldispatchd.http.oauth.endpoint import read_document
from tooldispatchd.http.places import place

# A challenge is a few hundred bytes; the bound keeps the search short whatever a server sends.
MAX_HEADER: Final = 4096

# Values in visible ASCII, as a header may have them.
_PARAMETER: Final = re.compile(
    r"\b([A-Za-z_]{1,32})\s{0,4}=\s{0,4}(?:\"([\x20\x21\x23-\x7e]{0,2048})\"|([\x21\x23-\x2b\x2d-\x7e]{1,2048}))"
)
# RFC 6749, appendix A.4.
_SCOPES: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*")

# --- challenges ------------------------------------------------------------------------------------------------------


class Challenge(msgspec.Struct, frozen=True):
    """A server's 401 or 403 (RFC 6750, 3; RFC 9728, 5.1); a part that it leaves out is None."""

    status: int
    error: str | None = None
    scope: str | None = None
    resource_metadata: str | None = None

    @property
    def asks_for_more(self) -> bool:
        """Whether the token was good and its scope too narrow: a step-up."""
        return self.status == 403 and self.error == "insufficient_scope"


def read_challenge(status: int, header: str) -> Challenge:
    """The challenge in the `WWW-Authenticate` header of an answer, "" where it has none."""
    said: dict[str, str] = {}
    for name, quoted, bare in _PARAMETER.findall(header[:MAX_HEADER]):
        # Of two that contradict each other the first counts, as in any header that may stand once.
        said.setdefault(name.lower(), quoted or bare)
    scope = said.get("scope")
    return Challenge(
        status,
        error=said.get("error"),
        scope=scope if scope is not None and _SCOPES.fullmatch(scope) else None,
        resource_metadata=said.get("resource_metadata"),
    )


def union(*scopes: str | None) -> str | None:
    """All scopes of these lists, in order, each once; None where there is none."""
    return " ".join(dict.fromkeys(scope for listed in scopes for scope in (listed or "").split())) or None


def missing_scopes(granted: str | None, wanted: str | None) -> tuple[str, ...]:
    """The scopes of `wanted` that are not among those of `granted`, in order, each once."""
    held = set((granted or "").split())
    return tuple(scope for scope in dict.fromkeys((wanted or "").split()) if scope not in held)


# --- documents -------------------------------------------------------------------------------------------------------


def _check_urls(*urls: str | None) -> None:
    """Raise `ValueError`, which msgspec reports as a document that does not fit."""
    try:
        for url in urls:
            if url is not None:
                place(url)
    except WireError as error:
        raise ValueError(error.why) from None


class ProtectedResource(msgspec.Struct, frozen=True):
    """The metadata of a server that wants tokens (RFC 9728, 2)."""

    resource: str
    authorization_servers: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    scopes_supported: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        _check_urls(self.resource, *self.authorization_servers)

    def covers(self, url: str) -> bool:
        """Whether a token for this resource is one for `url`: the same origin, and the same path or one below it."""
        own, asked = place(self.resource), place(url)
        base, path = (found.target.partition("?")[0].rstrip("/") + "/" for found in (own, asked))
        return own.origin == asked.origin and path.startswith(base)


class AuthorizationServer(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of an authorization server (RFC 8414, 2)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    registration_endpoint: str | None = None
    scopes_supported: tuple[str, ...] | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] | None = None
    client_id_metadata_document_supported: bool | None = None
    authorization_response_iss_parameter_supported: bool | None = None

    def __post_init__(self) -> None:
        # A person is sent to one of these: never to a `javascript:` or a `file:`.
        _check_urls(self.issuer, self.authorization_endpoint, self.token_endpoint, self.registration_endpoint)


class RegisteredClient(msgspec.Struct, frozen=True, kw_only=True):
    """A client as an authorization server knows it (RFC 7591, 3.2.1).

    `issuer` is the server that registered it, by which nobody else is shown its secret.
    """

    client_id: str
    client_secret: str | None = None
    token_endpoint_auth_method: str | None = None
    redirect_uris: tuple[str, ...] = ()
    issuer: str | None = None

    def __repr__(self) -> str:
        return "RegisteredClient(…)"


def read_registration(body: bytes, issuer: str) -> RegisteredClient | None:
    """The client that `issuer` registered; None where the daemon cannot authenticate itself as it was told to."""
    said = read_document(body, dict[str, object])
    if said is None:
        return None
    # Some servers write null or "" for what they have nothing to say of.
    kept = {name: value for name, value in said.items() if value is not None and value != ""}
    try:
        client = msgspec.convert(kept | {"issuer": issuer}, RegisteredClient)
    except msgspec.ValidationError:
        return None
    # A server may choose another method than it was asked for (RFC 7591, 3.2.1).
    known = {"client_secret_basic", "client_secret_post"} if client.client_secret is not None else set[str]()
    return client if client.token_endpoint_auth_method in {None, "none", *known} else None
