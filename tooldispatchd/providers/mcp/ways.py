"""The door to the wings: how a server is reached, by its command or by what its URL and the configuration say.

The wings are imported where a server needs them, and nowhere else: h11, wsproto and TLS take 50 ms and some MiB, and a
daemon without servers behind URLs has no use for them.
"""

from collections.abc import Callable
from importlib import import_module

from tooldispatchd.children.family import Family
from tooldispatchd.http.reach import Reach
from tooldispatchd.providers.mcp.link import Authorizers, Transport
from tooldispatchd.providers.mcp.server import Server
from tooldispatchd.providers.mcp.stdio import ChildPlace, Housing, PipeWatch, StdioWay


def way_to(
    server: Server,
    family: Family,
    authorizers: Authorizers | None = None,
    *,
    house: Callable[[], Housing] | None = None,
    place: Callable[[], ChildPlace] | None = None,
    watch: PipeWatch | None = None,
) -> Transport:
    """The way to `server`. Children are spawned in `family`, or by what `house` makes; tokens come of `authorizers`.

    Each child takes a `place` first; their pipes are in the set of `watch`.
    """
    reach = server.reach
    if reach is None:
        return StdioWay(server, family, house=house, place=place, watch=watch)
    return url_way(server, reach, authorizers)


def url_way(server: Server, reach: Reach, authorizers: Authorizers | None = None) -> Transport:
    if _is_websocket(reach.url):
        from tooldispatchd.providers.mcp.websocket import WebSocketWay  # noqa: PLC0415  # as the module says

        return WebSocketWay(server, reach)
    if authorizers is not None and reach.oauth is not None:
        return authorizers.way(server, reach)
    from tooldispatchd.providers.mcp.http.door import http_way  # noqa: PLC0415  # as the module says

    return http_way(server, reach)


def preload(url: str) -> None:
    """Import the wing of a URL, at the start of the daemon, so that no call waits for it."""
    import_module(f"tooldispatchd.providers.mcp.{'websocket' if _is_websocket(url) else 'http.door'}")


def _is_websocket(url: str) -> bool:
    return url.partition(":")[0].lower() in {"ws", "wss"}
