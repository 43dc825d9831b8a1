"""A request to a token endpoint (RFC 6749, 3.2) and its answer, as values; no I/O.

Requests are written here by hand, each a form of a few members: oauthlib would refuse a token endpoint on
http://127.0.0.1 unless the environment of the whole process allows it.
"""

import base64
from typing import Final, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import msgspec

# A token or a scope goes into a header, and headers of 16 KiB are what servers take at most.
MAX_TOKEN: Final = 16_384
# How long before its end a token is replaced: longer than a request is under way.
EARLY_S: Final = 10.0
# Seconds; ten years and more mean "never", and larger numbers are no time at all.
MAX_LIFETIME_S: Final = 315_360_000

# RFC 6749, 4.1.2.1 and 5.2; RFC 7591, 3.2.2; RFC 8707, 2. Nothing else that a server writes is shown.
_ERRORS: Final = frozenset(
    {
        *("invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type"),
        *("invalid_scope", "access_denied", "unsupported_response_type", "server_error", "temporarily_unavailable"),
        *("invalid_redirect_uri", "invalid_client_metadata", "invalid_target"),
    }
)
# The errors of a refresh token that can be used no more, also with HTTP 200: the last one is GitHub's.
OVER: Final = frozenset({"invalid_grant", "invalid_client", "unauthorized_client", "bad_refresh_token"})

_Document = TypeVar("_Document")


def read_document(body: bytes, kind: type[_Document]) -> _Document | None:
    """A JSON body as a value of `kind`, in which servers may write numbers as text; None where it is none."""
    try:
        return msgspec.json.decode(body, type=kind, strict=False)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


class GivenToken(msgspec.Struct, frozen=True):
    """The answer of a token endpoint (RFC 6749, 5.1)."""

    access_token: str
    token_type: str = "Bearer"  # noqa: S105  # no password
    expires_in: float | None = None
    scope: str | None = None
    refresh_token: str | None = None

    def __post_init__(self) -> None:
        if self.token_type.lower() != "bearer":
            raise ValueError("a token that is not shown as this one is")
        for value in (self.access_token, self.refresh_token or "-", self.scope or "-"):
            if not 0 < len(value) <= MAX_TOKEN or not value.isascii() or not value.isprintable():
                raise ValueError("a token that cannot be sent")

    def __repr__(self) -> str:
        return "GivenToken(…)"

    def refresh_at(self, now: float) -> float | None:
        """When a token that was given at `now` is due to be replaced; None where its end is not known."""
        # Some servers say 0 of a token that never ends.
        if self.expires_in is None or not 0 < self.expires_in <= MAX_LIFETIME_S:
            return None
        return now + self.expires_in - min(EARLY_S, self.expires_in / 4)


class _SaidError(msgspec.Struct):
    error: str


class EndpointAnswer(NamedTuple):
    """The answer of an authorization server; as text, what may be shown of a refusal."""

    status: int
    body: bytes

    @property
    def token(self) -> GivenToken | None:
        """The token that a token endpoint gave."""
        return read_document(self.body, GivenToken) if self.status in {200, 201} else None

    @property
    def error(self) -> str | None:
        """The `error` of a refusal, where it is one of those that are known."""
        said = read_document(self.body, _SaidError)
        return said.error if said is not None and said.error in _ERRORS | OVER else None

    def __str__(self) -> str:
        if self.status < 400 and self.error is None:
            return "the answer makes no sense"
        return f"HTTP {self.status}" + (f" {self.error}" if self.error else "")


def token_request(
    form: dict[str, str], client_id: str, secret: str | None, method: str | None
) -> tuple[list[tuple[str, str]], bytes]:
    """The headers and the body of a request for a token.

    A client with a secret shows it by `method`, in the words of RFC 7591, 2: `client_secret_basic` or
    `client_secret_post`.
    """
    headers = [("Content-Type", "application/x-www-form-urlencoded")]
    if secret is not None and method == "client_secret_basic":
        # RFC 6749, 2.3.1: each is encoded as in a form, so that neither holds a colon.
        pair = f"{quote(client_id, safe='')}:{quote(secret, safe='')}"
        headers.append(("Authorization", f"Basic {base64.b64encode(pair.encode()).decode()}"))
    elif secret is not None and method == "client_secret_post":
        form = form | {"client_id": client_id, "client_secret": secret}
    return headers, urlencode(form).encode()


def bearer(token: str | None) -> tuple[tuple[str, str], ...]:
    """The header that shows a token (RFC 6750, 2.1); none where there is none."""
    return () if token is None else (("Authorization", f"Bearer {token}"),)
