"""What an MCP server's authorization server has granted, as it is kept."""

import hashlib

import msgspec

from tooldispatchd.http.oauth.tokens import Tokens
from tooldispatchd.http.reach import OAuth
from tooldispatchd.providers.mcp.oauth.documents import AuthorizationServer, ProtectedResource, RegisteredClient


class Grant(Tokens, frozen=True, kw_only=True):
    """The tokens of an authorization server, and all that is needed to ask it again.

    Without `server` a token is refreshed where a server without metadata would have its token endpoint.
    """

    client: RegisteredClient | None = None
    resource: ProtectedResource | None = None
    server: AuthorizationServer | None = None
    wanted: str | None = None
    """Scopes that a server has asked for and that only a person can grant: the next login asks for them."""
    trusted: tuple[str, ...] = ()
    """Origins that the configuration does not list, to which a person who logged in said yes."""

    @property
    def secrets(self) -> tuple[str, ...]:
        secret = None if self.client is None else self.client.client_secret
        return super().secrets if secret is None else (*super().secrets, secret)


def entry_name(url: str, oauth: OAuth) -> str:
    """The name of the entry that holds what `oauth` was granted at the server `url`."""
    key = msgspec.json.encode([url, oauth.client_id or oauth.client_metadata_url, oauth.grant, sorted(oauth.scopes)])
    return hashlib.sha256(key).hexdigest()[:40]
