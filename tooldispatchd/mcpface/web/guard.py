"""Who may come in over HTTP: the `Host`, the `Origin` and the bearer token of a request, in this order. Pure.

Whoever fails learns that alone: a refusal does not tell which profiles there are, nor how near a token was.
"""

import hashlib
import hmac
import math
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from tooldispatchd.mcpface.paramheaders import PREFIX, TOKEN
from tooldispatchd.wire.webplaces import WebPlace

METADATA: Final = "/.well-known/oauth-protected-resource"
_SCHEME: Final = b"bearer "
_ALLOWED_METHODS: Final = "GET, POST, DELETE"
_ALLOWED_HEADERS: Final = (
    "Accept, Authorization, Content-Type, Last-Event-ID, Mcp-Method, Mcp-Name, MCP-Protocol-Version, Mcp-Session-Id"
)
# A day, after which browsers ask again; they keep it for two hours at most.
_PREFLIGHT_S: Final = 86_400

_HOST: Final = re.compile(r"[A-Za-z0-9.:_\[\]-]{1,255}")

Headers = list[tuple[str, str]]


# For a person who looks. Who may not come in (401, 403, 421) is told nothing.
_WORDS: Final = {
    400: "This is no request of MCP's Streamable HTTP.",
    404: "There is no such session of this token: begin anew with initialize.",
    405: "This is an address for MCP clients, which use POST.",
    406: "What comes here are events: send the header Accept: text/event-stream.",
    408: "The request took too long to come.",
    413: "The body is longer than limits.max_line_bytes.",
    415: "The body must be JSON: send the header Content-Type: application/json.",
    431: "The head of the request is too long.",
    503: "There is no room now: try again later.",
}


class RefusalError(Exception):
    """A request that is not served; `event` is for the log, where it says anything, `words` for a person."""

    def __init__(
        self, status: int, headers: Headers | None = None, *, event: str | None = None, words: str = ""
    ) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers or []
        self.event = event
        self.words = words or _WORDS.get(status, "")


class Head(msgspec.Struct, frozen=True):
    """The head of a request: names of headers in lower case, as h11 gives them."""

    method: str
    target: str
    headers: Sequence[tuple[bytes, bytes]]

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    def get(self, name: bytes) -> str | None:
        """The value of a header that may stand once; raises `RefusalError`."""
        found = [value for key, value in self.headers if key == name]
        if len(found) > 1:
            raise RefusalError(400)
        return found[0].decode("latin-1") if found else None

    def under(self, prefix: str) -> dict[str, str]:
        """The headers whose names begin so, each of which may stand once; raises `RefusalError`."""
        names = [name for name, _ in self.headers if name.startswith(prefix.encode())]
        return {name.decode("latin-1"): self.get(name) or "" for name in names}


class Credential(msgspec.Struct, frozen=True):
    """What a request may open: a profile, and whose it is. A session is its holder's, and nobody else's.

    `token` goes on to the daemon, which compares it once more. `until` is when trio's clock says that it has expired.
    """

    profile: str | None
    holder: str
    token: str | None = None
    until: float = math.inf

    @property
    def whose(self) -> tuple[str | None, str]:
        """What is the same when the holder comes with a newer token."""
        return self.profile, self.holder

    def __repr__(self) -> str:
        return f"Credential({self.profile!r})"


class Unverified(msgspec.Struct, frozen=True):
    """A token that only the place's authorization server can have given."""

    token: str

    def __repr__(self) -> str:
        return "Unverified()"


class Guard:
    """The guard of one place."""

    def __init__(self, place: WebPlace) -> None:
        self._place = place
        self._hosts = None if place.hosts is None else frozenset(place.hosts)
        self._origins = frozenset(place.origins)
        self._digests = {name: bytes.fromhex(digest) for name, digest in place.tokens.items()}

    def check_place(self, head: Head) -> None:
        """Whether the request means this place, and comes from a page that may call; raises `RefusalError`."""
        host = (head.get(b"host") or "").lower()
        if self._hosts is not None and host not in self._hosts:
            raise RefusalError(421, event="host refused")
        origin = (head.get(b"origin") or "").lower()
        if origin and origin not in self._origins and not self._is_own(origin, host):
            raise RefusalError(403, event="origin refused")

    def _is_own(self, origin: str, host: str) -> bool:
        """Whether a page of this very place asks; a proxy before it may speak TLS."""
        return self._hosts is not None and origin in {f"http://{host}", f"https://{host}"}

    def cors(self, head: Head) -> Headers:
        """What lets a page of a listed origin read the answer."""
        origin = head.get(b"origin")
        if origin is None or origin.lower() not in self._origins:
            return []
        exposed = "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate"
        return [
            ("Access-Control-Allow-Origin", origin),
            ("Access-Control-Expose-Headers", exposed),
            ("Vary", "Origin"),
        ]

    def preflight(self, head: Head) -> Headers:
        """The answer to a browser that asks whether a page may call; raises `RefusalError` for one that may not."""
        allowed = self.cors(head)
        if not allowed:
            raise RefusalError(403)
        names = map(str.strip, (head.get(b"access-control-request-headers") or "").lower().split(","))
        asked = [name for name in names if name.startswith(PREFIX) and TOKEN.fullmatch(name)]
        return [
            *allowed,
            ("Access-Control-Allow-Methods", _ALLOWED_METHODS),
            ("Access-Control-Allow-Headers", ", ".join([_ALLOWED_HEADERS, *asked])),
            ("Access-Control-Max-Age", str(_PREFLIGHT_S)),
        ]

    def identify(self, head: Head) -> Credential | Unverified:
        """Whose request it is, as far as this place alone can tell; raises `RefusalError`."""
        written = [value for key, value in head.headers if key == b"authorization"]
        if len(written) > 1:
            raise RefusalError(400)
        shown = written[0].strip() if written else b""
        if shown[: len(_SCHEME)].lower() != _SCHEME:
            if shown or self._place.open_profile is None or self._place.issuer is not None:
                raise self.unauthorised(head)
            return Credential(self._place.open_profile, "")
        token = shown[len(_SCHEME) :].strip()
        profile = self._profile_of(token)
        if profile is not None:
            return Credential(profile, "token", token.decode(errors="replace"))
        if self._place.issuer is not None:
            return Unverified(token.decode("latin-1"))
        if self._digests:
            raise self.unauthorised(head, "invalid_token", event="token refused")
        # A token for a profile that has none is ignored, as everywhere.
        return Credential(self._place.open_profile, "")

    def _profile_of(self, token: bytes) -> str | None:
        """The profile that has this token: all are compared, so that the time does not tell which came near."""
        digest = hashlib.sha256(token).digest()
        found = None
        for name, expected in self._digests.items():
            if hmac.compare_digest(digest, expected):
                found = name
        return found

    def unauthorised(self, head: Head, error: str | None = None, *, event: str | None = None) -> RefusalError:
        """A refusal for want of a token (RFC 6750, 3), which says where to get one (RFC 9728, 5.1) if that is known."""
        said = [f'error="{error}"'] if error and self._place.issuer is not None else []
        status = 403 if error == "insufficient_scope" else 401
        if self._place.issuer is not None:
            if self._place.issuer.scopes:
                said.append(f'scope="{" ".join(self._place.issuer.scopes)}"')
            said.append(f'resource_metadata="{self._origin(head)}{METADATA}{self._place.path}"')
        return RefusalError(status, [("WWW-Authenticate", " ".join(("Bearer", ", ".join(said))).strip())], event=event)

    def metadata(self, head: Head) -> bytes | None:
        """What a client must know to get a token (RFC 9728, 2), where it asks for that; else None."""
        issuer = self._place.issuer
        if issuer is None or head.method != "GET" or head.path not in {METADATA, METADATA + self._place.path}:
            return None
        told: dict[str, object] = {
            "resource": issuer.audience if "://" in issuer.audience else f"{self._origin(head)}{self._place.path}",
            "authorization_servers": [issuer.issuer],
            "bearer_methods_supported": ["header"],
        }
        if issuer.scopes:
            told["scopes_supported"] = issuer.scopes
        return msgspec.json.encode(told)

    def _origin(self, head: Head) -> str:
        """Where clients know the place: that of its audience, which a proxy may have, else as this one named it."""
        issuer = self._place.issuer
        if issuer is not None and issuer.audience.startswith(("https://", "http://")):
            scheme, _, rest = issuer.audience.partition("://")
            return f"{scheme}://{rest.partition('/')[0]}"
        # Among `hosts` where there are any; on a Unix socket whatever the client said, cut to what a header may hold.
        host = head.get(b"host") or ""
        return f"{self._place.scheme}://{host if _HOST.fullmatch(host) else 'localhost'}"
