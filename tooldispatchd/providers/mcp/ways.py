"""Which way leads to a server: its command, or what its URL and the configuration say.

Nothing of the network is imported before a server needs it: ways are values, and their links bring the rest.
"""

from collections.abc import Callable, Hashable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit

import trio

from tooldispatchd.children.family import Family
from tooldispatchd.providers.mcp.link import Inbox, Link, Transport
from tooldispatchd.providers.mcp.server import Reach, Server
from tooldispatchd.providers.mcp.stdio import Housing, StdioWay

if TYPE_CHECKING:
    # The one name of the wire that a signature here needs; to import it costs 35 ms, and there are no Structs here.
    from tooldispatchd.providers.mcp.http.wire import Authorizer

_PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443}

# What closing takes, in seconds: the sum of the steps that each module of a link states, here so that none is imported.
STREAMABLE_CLOSE_S: Final = 5.0
PAIR_CLOSE_S: Final = 3.0
WEBSOCKET_CLOSE_S: Final = 3.0


class Authorizers(Protocol):
    """Who gets tokens for servers with `reach.oauth`: `oauth.accounts.Accounts`."""

    def authorizer(self, name: str, reach: Reach) -> "Authorizer":
        """What authorises the requests of one connection to the server `name`. Raises `LinkError`."""


def way_to(
    server: Server, family: Family, authorizers: Authorizers | None = None, house: Callable[[], Housing] | None = None
) -> Transport:
    """The way to `server`; children are spawned in `family` or by what `house` makes, tokens are of `authorizers`."""
    reach = server.reach
    return StdioWay(server, family, house) if reach is None else url_way(server, reach, authorizers)


def preload(url: str) -> None:
    """Import what a connection to a URL needs, which takes 50 ms: for a daemon, before anybody waits."""
    import_module(f"tooldispatchd.providers.mcp.{'websocket' if _is_websocket(url) else 'http.streamable'}")


def _is_websocket(url: str) -> bool:
    return url.partition(":")[0].lower() in {"ws", "wss"}


def url_way(server: Server, reach: Reach, authorizers: Authorizers | None = None) -> Transport:
    """The way to a server behind a URL."""
    if _is_websocket(reach.url):
        return WebSocketWay(server, reach)
    if reach.transport == "sse":
        return PairWay(server, reach, authorizers)
    return StreamableWay(server, reach, authorizers)


class _HttpWay:
    """What both forms of HTTP have in common."""

    needs_tasks = True
    is_http = True

    def __init__(self, server: Server, reach: Reach, authorizers: Authorizers | None = None) -> None:
        self.origin: Hashable = origin_of(reach.url)
        self._server = server
        self._reach = reach
        self._authorizers = authorizers

    def _authorize(self) -> "Callable[[], Authorizer] | None":
        if self._authorizers is None or self._reach.oauth is None:
            return None
        return partial(self._authorizers.authorizer, self._server.name, self._reach)


class StreamableWay(_HttpWay):
    """Streamable HTTP."""

    may_probe = True
    close_s = STREAMABLE_CLOSE_S

    def link(self, inbox: Inbox, nursery: trio.Nursery | None) -> Link:
        """A new link, not yet opened."""
        # Imported here: h11 and TLS are for those who have such a server.
        from tooldispatchd.providers.mcp.http.streamable import StreamableLink  # noqa: PLC0415

        assert nursery is not None
        return StreamableLink(self._server, inbox, nursery, authorize=self._authorize())

    def older(self) -> Transport | None:
        """The pair, unless the configuration asks for this way."""
        if self._reach.transport != "auto":
            return None
        return PairWay(self._server, self._reach, self._authorizers)


class PairWay(_HttpWay):
    """The older pair of a stream and an endpoint."""

    may_probe = False
    close_s = PAIR_CLOSE_S

    def link(self, inbox: Inbox, nursery: trio.Nursery | None) -> Link:
        """A new link, not yet opened."""
        # As above.
        from tooldispatchd.providers.mcp.http.pair import PairLink  # noqa: PLC0415

        assert nursery is not None
        return PairLink(self._server, inbox, nursery, authorize=self._authorize())

    def older(self) -> None:
        """There is none."""
        return


class WebSocketWay:
    """WebSocket."""

    needs_tasks = True
    is_http = False
    may_probe = True
    close_s = WEBSOCKET_CLOSE_S

    def __init__(self, server: Server, reach: Reach) -> None:
        self.origin: Hashable = origin_of(reach.url)
        self._server = server

    def link(self, inbox: Inbox, nursery: trio.Nursery | None) -> Link:
        """A new link, not yet opened."""
        # As above, and wsproto besides.
        from tooldispatchd.providers.mcp.websocket import WebSocketLink  # noqa: PLC0415

        assert nursery is not None
        return WebSocketLink(self._server, inbox, nursery)

    def older(self) -> None:
        """There is none."""
        return


def origin_of(url: str) -> tuple[str, str, int, str]:
    """Scheme, host, port and path: one host may serve several MCP servers, each of its own era."""
    try:
        parts = urlsplit(url)
        scheme = parts.scheme.lower()
        return scheme, parts.hostname or "", parts.port or _PORTS.get(scheme, 0), parts.path or "/"
    except ValueError:
        # The link says what is wrong with it.
        return "", "", 0, url
