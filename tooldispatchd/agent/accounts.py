"""OAuth as the layers above see it: the daemon's accounts at authorization servers, and a person's login to one.

Nothing of it is imported where no server needs it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from tooldispatchd.agent.log import Log
from tooldispatchd.agent.servervalues import reach_of
from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.catalog.servers import Binding
from tooldispatchd.providers.mcp.link import LinkError
from tooldispatchd.providers.mcp.server import Reach
from tooldispatchd.providers.mcp.ways import Authorizers


class LoginError(Exception):
    """A person cannot be logged in or out; `why` is for them."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def accounts_of(catalog: Catalog, environ: Mapping[str, str], log: Log) -> Authorizers | None:
    """The accounts of a daemon that has servers with `auth = "oauth"`; None where it has none.

    What they need takes most of a second to import, which is done here, before anybody waits.
    """
    if not any(binding.spec.auth and binding.spec.enabled for binding in catalog.servers.values()):
        return None
    from tooldispatchd.providers.mcp.oauth.accounts import Accounts, preload  # noqa: PLC0415  # as the module says

    try:
        preload()
    except LinkError as error:
        # Each of these servers says so too, when it is opened.
        log.warning("oauth not available", reason=error.why)

    def warn(sentence: str) -> None:
        log.warning("tokens not stored", reason=sentence)

    return Accounts(environ, warn)


async def log_in(binding: Binding, environ: Mapping[str, str], show: Callable[[str], None]) -> Path:
    """Get tokens for a server, with a person's help: the file that they are in.

    `show` is given the address that the person is to open. Raises `LoginError`.
    """
    reach = _reach(binding)
    from tooldispatchd.providers.mcp.http.errors import WireError  # noqa: PLC0415  # as the module says
    from tooldispatchd.providers.mcp.oauth import login  # noqa: PLC0415

    try:
        return await login.log_in(reach, environ, show)
    except WireError as error:
        raise LoginError(error.why) from error


async def log_out(binding: Binding, environ: Mapping[str, str]) -> bool:
    """Forget the tokens for a server; whether there were any. Raises `LoginError`."""
    # Without the extra: who has uninstalled it wants the tokens gone all the more.
    reach = reach_of(binding)
    assert reach is not None
    from tooldispatchd.providers.mcp.http.errors import WireError  # noqa: PLC0415  # as the module says
    from tooldispatchd.providers.mcp.oauth import logout  # noqa: PLC0415

    try:
        return await logout.forget(reach, environ)
    except WireError as error:
        raise LoginError(error.why) from error


def _reach(binding: Binding) -> Reach:
    """Where a server with OAuth is; raises `LoginError` where the extra is not installed."""
    from tooldispatchd.providers.mcp.oauth.accounts import preload  # noqa: PLC0415  # as the module says

    try:
        preload()
    except LinkError as error:
        raise LoginError(error.why) from error
    reach = reach_of(binding)
    assert reach is not None
    return reach
