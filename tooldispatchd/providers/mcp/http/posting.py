"""What both forms of HTTP have in common as links: each message is a POST, sent by the outbox in tasks of its own."""

from collections.abc import Callable

import trio

from tooldispatchd.providers.mcp.bell import Bell
from tooldispatchd.providers.mcp.dialect import Dialect
from tooldispatchd.providers.mcp.http.errors import WireError
from tooldispatchd.providers.mcp.http.outbox import NOTICE_S, Outbox, Sent
from tooldispatchd.providers.mcp.http.peer import HttpPeer
from tooldispatchd.providers.mcp.http.wire import Authorizer, HttpWire
from tooldispatchd.providers.mcp.link import Inbox, LinkError
from tooldispatchd.providers.mcp.messages import Outgoing
from tooldispatchd.providers.mcp.server import Server
from tooldispatchd.providers.mcp.tasks import Tasks


class PostingLink:
    """A link that POSTs; how a message is POSTed, and what else there is, its form of HTTP says."""

    def __init__(
        self,
        server: Server,
        inbox: Inbox,
        nursery: trio.Nursery,
        *,
        authorize: Callable[[], Authorizer] | None,
        notice_s: float = NOTICE_S,
    ) -> None:
        assert server.reach is not None
        self.dialect: Dialect | None = None
        self._reach = server.reach
        self._server = server
        self._authorize = authorize
        self._inbox = inbox
        self._bell = Bell()
        self._tasks = Tasks(nursery)
        self._outbox = Outbox(
            self._tasks,
            inbox.share,
            post_request=self._request,
            post_notice=self._notify,
            is_waiting=inbox.is_waiting,
            notice_s=notice_s,
        )
        self._peer: HttpPeer | None = None
        self._undelivered = 0

    def send(self, message: Outgoing) -> None:
        """Queue a message."""
        self._outbox.add(message, self.dialect)

    def flush(self) -> bool:
        """Begin to send what is queued; whether what waits is within the bounds."""
        return self._outbox.flush()

    async def turn(self, until: float) -> None:
        """Wait for `wake`, for the end of the link or for the time; what comes in is taken by other tasks."""
        await self._bell.wait(until)

    def wake(self) -> None:
        """Let `turn` return soon."""
        self._bell.ring()

    def drop(self) -> None:
        """End all exchanges, and begin none any more."""
        self._outbox.drop()
        self._tasks.cancel()

    @property
    def stderr_tail(self) -> str:
        """It has none."""
        return ""

    @property
    def ended(self) -> dict[str, object]:
        """How many notifications and answers the server did not take."""
        return {"undelivered": self._undelivered}

    def _meet(self) -> HttpPeer:
        """The server, to which nothing is connected yet. Raises `LinkError`."""
        authorizer = None if self._authorize is None else self._authorize()
        try:
            wire = HttpWire(
                self._reach, max_bytes=self._server.max_line_bytes, authorizer=authorizer, debug=self._inbox.debug
            )
        except WireError as error:
            raise LinkError(error.why, error.extras) from error
        self._peer = HttpPeer(self._server, wire, self._inbox, self._bell)
        return self._peer

    async def _request(self, sent: Sent) -> None:
        """POST a request, and see to it that it is answered or failed."""
        raise NotImplementedError

    async def _notify(self, sent: Sent) -> None:
        """POST what has no answer. That it does not arrive is nobody's failure yet."""
        raise NotImplementedError
