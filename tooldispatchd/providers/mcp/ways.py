"""The door to the wings: how a server is reached, by its command or by what its URL and the configuration say.

The wings are imported where a server needs them, and nowhere else: h11, wsproto and TLS take 50 ms and some MiB, and a
daemon without servers behind URLs has no use for them.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from tooldispatchd.children.family import Family
from tooldispatchd.providers.mcp.link import Transport
from tooldispatchd.providers.mcp.reach import Reach
from tooldispatchd.providers.mcp.server import Server
from tooldispatchd.providers.mcp.stdio import Housing, StdioWay

if TYPE_CHECKING:
    # For a signature alone; there are no Structs here.
    from tooldispatchd.providers.mcp.http.door import Authorizer


class Authorizers(Protocol):
    """The source of tokens for servers with `reach.oauth`; `oauth.accounts.Accounts`."""

    def authorizer(self, name: str, reach: Reach) -> "Authorizer":
        """The authorizer of the requests of one connection to the server `name`. Raises `LinkError`."""


def way_to(
    server: Server, family: Family, authorizers: Authorizers | None = None, house: Callable[[], Housing] | None = None
) -> Transport:
    """The way to `server`. Children are spawned in `family`, or by what `house` makes; tokens come of `authorizers`."""
    reach = server.reach
    return StdioWay(server, family, house) if reach is None else url_way(server, reach, authorizers)


def url_way(server: Server, reach: Reach, authorizers: Authorizers | None = None) -> Transport:
    if _is_websocket(reach.url):
        from tooldispatchd.providers.mcp.websocket import WebSocketWay  # noqa: PLC0415  # as the module says

        return WebSocketWay(server, reach)
    from tooldispatchd.providers.mcp.http.door import http_way  # noqa: PLC0415  # as the module says

    if authorizers is None or reach.oauth is None:
        return http_way(server, reach)
    return http_way(server, reach, partial(authorizers.authorizer, server.name, reach))


def preload(url: str) -> None:
    """Import the wing of a URL, at the start of the daemon, so that no call waits for it."""
    import_module(f"tooldispatchd.providers.mcp.{'websocket' if _is_websocket(url) else 'http.door'}")


def _is_websocket(url: str) -> bool:
    return url.partition(":")[0].lower() in {"ws", "wss"}
