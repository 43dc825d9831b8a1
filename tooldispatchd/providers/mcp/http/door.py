"""The ways to a server behind an http(s) URL, and all that the rest of the package may know of this wing."""

from collections.abc import Callable, Hashable

import trio

from tooldispatchd.http.reach import Reach
from tooldispatchd.http.wire import Authorizer
from tooldispatchd.providers.mcp.http import pair, posting, streamable
from tooldispatchd.providers.mcp.link import Inbox, Link, Transport, origin_of
from tooldispatchd.providers.mcp.server import Server

# Makes the authorizer of one link, or raises `LinkError`.
Authorize = Callable[[], Authorizer]


def http_way(server: Server, reach: Reach, authorize: Authorize | None = None) -> Transport:
    """The way that the configuration names; "auto" begins with Streamable HTTP."""
    return (PairWay if server.transport == "sse" else StreamableWay)(server, reach, authorize)


class _HttpWay:
    """What both forms of HTTP have in common."""

    needs_tasks = True
    is_http = True

    def __init__(self, server: Server, reach: Reach, authorize: Authorize | None = None) -> None:
        self.origin: Hashable = origin_of(reach.url)
        self._server = server
        self._reach = reach
        self._authorize = authorize


class StreamableWay(_HttpWay):
    """Streamable HTTP."""

    may_probe = True
    close_s = posting.CLOSE_S + posting.DELETE_S

    def link(self, inbox: Inbox, nursery: trio.Nursery | None) -> Link:
        assert nursery is not None
        return streamable.StreamableLink(self._server, inbox, nursery, authorize=self._authorize)

    def older(self) -> Transport | None:
        # Unless the configuration asks for this way.
        if self._server.transport != "auto":
            return None
        return PairWay(self._server, self._reach, self._authorize)


class PairWay(_HttpWay):
    """HTTP+SSE: the older pair of a stream and an endpoint."""

    may_probe = False
    close_s = posting.CLOSE_S

    def link(self, inbox: Inbox, nursery: trio.Nursery | None) -> Link:
        assert nursery is not None
        return pair.PairLink(self._server, inbox, nursery, authorize=self._authorize)

    def older(self) -> None:
        return
