"""Authorization servers in a configuration, as `specs` has all other tables."""

from typing import Annotated

from msgspec import Meta

from tooldispatchd.catalog.secrecy import Spec
from tooldispatchd.catalog.speckinds import ISSUER_PATTERN, SCOPE_PATTERN, SOME_WORD_PATTERN


class HttpAuthSpec(Spec, frozen=True, kw_only=True):
    """`[http_auth.NAME]`: an authorization server whose tokens open a [place for MCP clients](mcp-face.md), which names
    it as `auth=NAME`."""

    issuer: Annotated[str, Meta(pattern=ISSUER_PATTERN, max_length=2_048)]
    """Its URL, as the `iss` of its tokens has it. Only `https://`, but on this machine."""
    audience: Annotated[str, Meta(pattern=SOME_WORD_PATTERN, max_length=2_048)]
    """What `aud` of a token must name. As a rule the URL that clients know the place by, which they are then told as
    the `resource` to ask tokens for."""
    scopes: tuple[Annotated[str, Meta(pattern=SCOPE_PATTERN, max_length=256)], ...] = ()
    """Scopes that a token must have, all of them; clients are told to ask for these. By default none."""
    jwks: Annotated[str, Meta(pattern=ISSUER_PATTERN, max_length=2_048)] | None = None
    """The URL of its keys; by default what its metadata says."""
