"""The way to a server behind a ws(s) URL, and all that the rest of the package may know of this wing."""

from collections.abc import Hashable

import trio

from tooldispatchd.providers.mcp.link import Inbox, Link, origin_of
from tooldispatchd.providers.mcp.reach import Reach
from tooldispatchd.providers.mcp.server import Server
from tooldispatchd.providers.mcp.websocket.link import CLOSE_S, WebSocketLink


class WebSocketWay:
    """One URL, of which each link is a connection of its own."""

    needs_tasks = True
    is_http = False
    may_probe = True
    close_s = CLOSE_S

    def __init__(self, server: Server, reach: Reach) -> None:
        self.origin: Hashable = origin_of(reach.url)
        self._server = server

    def link(self, inbox: Inbox, nursery: trio.Nursery | None) -> Link:
        assert nursery is not None
        return WebSocketLink(self._server, inbox, nursery)

    def older(self) -> None:
        return
