"""A person's logout: what `tooldispatchd login NAME --forget` runs. Without the SDK, which takes most of a second."""

from collections.abc import Mapping

from tooldispatchd.providers.mcp.oauth.accounts import entry_name
from tooldispatchd.providers.mcp.oauth.errors import AuthorizationError
from tooldispatchd.providers.mcp.oauth.tokens import TokenStore, TokenStoreError
from tooldispatchd.providers.mcp.server import Reach


async def forget(reach: Reach, environ: Mapping[str, str]) -> bool:
    """Remove the tokens for the server of `reach`; whether there were any. Raises `AuthorizationError`."""
    assert reach.oauth is not None
    store, entry = TokenStore(environ), entry_name(reach.url, reach.oauth)
    try:
        async with store.lock(entry):
            return store.forget(entry)
    except TokenStoreError as error:
        raise AuthorizationError(str(error)) from None
