"""How a server behind a URL is reached, as it is configured; all of it values."""

import msgspec

from tooldispatchd.catalog.restspecs import RestApiSpec
from tooldispatchd.catalog.specs import McpSpec


class OAuth(msgspec.Struct, frozen=True, kw_only=True):
    """The daemon's identity at an authorization server; as `OAuthSpec`, with its secrets read.

    Where the configuration names the token endpoint itself, that is `token_url`; the client shows its secret there by
    `client_auth` (RFC 7591, 2: `client_secret_basic` or `client_secret_post`), and `parameters` go along with each form
    (an `audience`, a `resource`).
    """

    grant: str
    client_id: str | None = None
    client_secret: str | None = None
    client_metadata_url: str | None = None
    private_key: str | None = None
    algorithm: str = "RS256"
    scopes: tuple[str, ...] = ()
    redirect_port: int | None = None
    token_url: str | None = None
    refresh_token: str | None = None
    client_auth: str = "client_secret_basic"
    parameters: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        """Which grant; the rest may be secret."""
        return f"OAuth(grant={self.grant!r})"


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """How a server behind a URL is reached, and with what.

    `headers` go with every request to the URL's own origin, the bearer token of the configuration among them. `ca`,
    `cert` and `key` are paths of PEM files. `hosts` (HOST or HOST:PORT) are where redirects and discovery may lead
    besides, to private addresses only if `private`.
    """

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    oauth: OAuth | None = None
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    hosts: tuple[str, ...] = ()
    private: bool = False

    def __repr__(self) -> str:
        """The place; what goes there may be secret, and a query may hold a key."""
        return f"Reach(url={self.url.partition('?')[0]!r})"


def reach_by(
    table: McpSpec | RestApiSpec, url: str, headers: tuple[tuple[str, str], ...] = (), oauth: OAuth | None = None
) -> Reach:
    """How a URL is reached as a table says."""
    return Reach(
        url=url,
        headers=headers,
        oauth=oauth,
        ca=table.ca,
        cert=table.cert,
        key=table.key,
        hosts=table.hosts,
        private=table.private,
    )
