"""OAuth as the layers above see it: the daemon's accounts at authorization servers, and a person's login to one.

Nothing of it is imported where no server needs it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tooldispatchd.agent.log import Log
from tooldispatchd.agent.tools.servervalues import reach_of
from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.catalog.servers import Binding
from tooldispatchd.catalog.specs import LimitsSpec
from tooldispatchd.providers.mcp.link import AccountTokens
from tooldispatchd.providers.mcp.server import Server

# As much as a login reads of a server, a page of its list of tools among it; with room.
MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024


class LoginError(Exception):
    """A person cannot be logged in or out; `why` is for them.

    `untrusted` is the origin to which the way leads and which the configuration would have to list, if it is that; and
    `lines` are what would list it.
    """

    def __init__(self, why: str, *, untrusted: str | None = None, lines: tuple[str, ...] = ()) -> None:
        super().__init__(why)
        self.why = why
        self.untrusted = untrusted
        self.lines = lines


def accounts_of(catalog: Catalog, environ: Mapping[str, str], log: Log) -> AccountTokens | None:
    """The accounts of a daemon that has servers with `auth = "oauth"`; None where it has none."""
    if not any(binding.spec.auth and binding.spec.enabled for binding in catalog.servers.values()):
        return None
    from tooldispatchd.providers.mcp.oauth.accounts import Accounts  # noqa: PLC0415  # as the module says

    return Accounts(environ, log, catalog.masker.learn)


async def log_in(
    binding: Binding, environ: Mapping[str, str], show: Callable[[str], None], trusted: tuple[str, ...] = ()
) -> Path:
    """Get tokens for a server, with a person's help: the file that they are in.

    `show` is given the address that the person is to open; `trusted` are origins that the person said yes to. Raises
    `LoginError`.
    """
    spec = binding.spec
    server = Server(
        name=binding.name,
        reach=reach_of(binding),
        transport=spec.transport,
        protocol=spec.protocol,
        handshake_s=spec.handshake_s or LimitsSpec().handshake_s,
        max_line_bytes=MAX_ANSWER_BYTES,
        max_content_bytes=MAX_ANSWER_BYTES,
    )
    from tooldispatchd.http.errors import WireError  # noqa: PLC0415  # as the module says
    from tooldispatchd.providers.mcp.oauth import login  # noqa: PLC0415
    from tooldispatchd.providers.mcp.oauth.refusals import UntrustedError  # noqa: PLC0415

    try:
        return await login.log_in(server, environ, show, trusted)
    except UntrustedError as error:
        hosts = ", ".join(f'"{host}"' for host in (*spec.hosts, error.host))
        lines = (f"hosts = [{hosts}]", *(("private = true",) if error.is_private else ()))
        where = f"{error.origin}, at a private address," if error.is_private else error.origin
        why = f"its authorization server {where} is not among its `hosts`"
        raise LoginError(why, untrusted=error.origin, lines=lines) from error
    except WireError as error:
        raise LoginError(error.why) from error


async def log_out(binding: Binding, environ: Mapping[str, str]) -> bool:
    """Forget the tokens for a server; whether there were any. Raises `LoginError`."""
    reach = reach_of(binding)
    assert reach is not None
    from tooldispatchd.http.errors import WireError  # noqa: PLC0415  # as the module says
    from tooldispatchd.providers.mcp.oauth import login  # noqa: PLC0415

    try:
        return await login.forget(reach, environ)
    except WireError as error:
        raise LoginError(error.why) from error
