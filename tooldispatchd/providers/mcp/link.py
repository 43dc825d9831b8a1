"""The interface between a connection and its transport: messages out, messages in, and how a link ends.

    Connection ── send, flush, give_up ──▶ Link ══ stdio, Streamable HTTP, HTTP+SSE, WebSocket ══▶ server
        ▲                                   │
        └────────── Inbox: take, fail ◀─────┘

A link knows bytes and framing, nothing of tools. The connection's owner is the one task that opens it, drives it with
`turn` and closes it; whatever other tasks a link needs live in the nursery that it was made with.
"""

import math
from collections.abc import Hashable
from typing import Final, Protocol
from urllib.parse import urlsplit

import msgspec
import trio

from tooldispatchd.calls.memory import Share
from tooldispatchd.checkers.pool import Running
from tooldispatchd.http.reach import Reach
from tooldispatchd.providers.mcp.dialects import Dialect
from tooldispatchd.providers.mcp.messages import Incoming, Outgoing
from tooldispatchd.providers.mcp.server import Server
from tooldispatchd.wire.faults import Fault

_PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443}

# What a server has not taken yet: several of the largest requests that an agent may send.
MAX_QUEUED_BYTES: Final = 64 * 1024 * 1024
# Notifications and answers that wait for their turn, however small: a server that asks without reading would else make
# them without an end.
MAX_NOTICES: Final = 10_000


# Why a server that says too much at once is ended.
NO_ROOM: Final = "it says more at once than limits.buffered_bytes has room for"


class LinkError(Exception):
    """The server cannot be reached, or is gone; `why` follows its name in a fault, and `extras` are added to it."""

    def __init__(self, why: str, extras: dict[str, object] | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.extras = extras or {}


class Inbox(Hashable, Protocol):
    """Where a link puts what comes in. Any task of the link may call these.

    What is half read, and what is still to be sent, is held on `share`; what is large is read by `checkers`.
    """

    share: Share
    checkers: Running

    async def take_chunk(self, chunk: bytes) -> None:
        """Bytes of a stream of lines, cut anywhere."""

    def take_now(self, chunk: bytes) -> bool:
        """As `take_chunk`, as far as no turn of the loop is needed; false where `take_rest` is to go on."""

    async def take_rest(self) -> None:
        """Deal with what `take_now` has left, if it has left anything."""

    async def take(self, message: bytes | msgspec.Raw, number: int | None = None) -> None:
        """One whole JSON message (or batch), as it came: in the response to request `number`, where it has one."""

    def take_message(self, message: Incoming) -> None:
        """One message that is read already."""

    def fail(self, number: int, fault: Fault, *, is_unbegun: bool = False) -> None:
        """End request `number` with `fault`, as no answer will come. A number that is not waiting is ignored.

        `is_unbegun` is whether nothing of the request was begun: it was not sent, or turned away for want of a token.
        """

    def is_waiting(self, number: int) -> bool:
        """Whether request `number` still waits for its answer."""

    def debug(self, event: str, **fields: object) -> None:
        """Log a step of the transport at debug; never the content of a message, or a URL beyond its origin."""


class Bell:
    """Wakes one waiting task. A loss stays: the first one counts, and each later `wait` raises it."""

    __slots__ = ("_event", "_loss")

    def __init__(self) -> None:
        self._event = trio.Event()
        self._loss: tuple[str, dict[str, object]] | None = None

    @property
    def is_lost(self) -> bool:
        return self._loss is not None

    def ring(self) -> None:
        """Let `wait` return: the one that waits now, or else the next."""
        self._event.set()

    def lose(self, why: str, extras: dict[str, object] | None = None) -> None:
        """The server is gone: `wait` raises that as a `LinkError`."""
        if self._loss is None:
            self._loss = why, extras or {}
        self._event.set()

    async def wait(self, until: float) -> None:
        """Wait for `ring`, or for the time `until`. Raises `LinkError` once the server is gone."""
        if not self.is_lost:
            with trio.move_on_at(until) if until < math.inf else trio.CancelScope():
                await self._event.wait()
            self._event = trio.Event()
        if self._loss is not None:
            why, extras = self._loss
            # A new one each time: an exception that is raised again keeps what it was raised through before.
            raise LinkError(why, extras)


class Link(Protocol):
    """One connection of the transport to a server, from `open` to `close`; never used again after that."""

    dialect: Dialect | None
    """The dialect that is spoken, for the headers of messages; the handshake sets it before each of its own."""
    is_read_beside: bool
    """Whether what the server says is dealt with beside the owner's turns, who is to be woken then."""

    async def open(self) -> None:
        """Spawn or connect. Raises `LinkError`. The caller bounds it."""

    async def greeted(self) -> None:
        """The handshake is done: open what else the transport has (a stream for the server's own messages)."""

    def send(self, message: Outgoing) -> None:
        """Queue a message; it leaves with `flush`, or before."""

    def flush(self) -> bool:
        """Send what is queued as far as it goes now; false where more lies unread than the server may leave unread."""

    async def turn(self, until: float) -> None:
        """Wait until the server did something, `wake` was called or the time is `until`, and deal with it.

        Raises `LinkError` once the server is gone, after what it had still said has gone into the inbox.
        """

    def wake(self) -> None:
        """Let `turn` return soon."""

    def give_up(self, number: int) -> bool:
        """Stop waiting for request `number`; whether that alone tells the server."""

    def drop(self) -> None:
        """Forget what is queued and end every exchange: the connection is over, and nothing is sent any more."""

    async def close(self) -> None:
        """Leave nothing behind. Bounded by itself, and never raises for what the server does."""

    @property
    def pid(self) -> int | None:
        """The server's process, where that is the daemon's child and has not ended."""

    @property
    def stderr_tail(self) -> str:
        """What the server wrote to stderr: the end, and where that is cut, the beginning; "" where it has none."""

    @property
    def ended(self) -> dict[str, object]:
        """How the link ended, as fields for the log; known after `close`."""


class Transport(Protocol):
    """How a server is reached, as a value that makes links."""

    origin: Hashable
    """The command, or the origin of the URL: what the server's era is remembered by."""
    needs_tasks: bool
    """Whether links of this way need a nursery."""
    close_s: float
    """The longest that closing a link takes."""
    is_http: bool
    """Whether each message is an HTTP request."""
    may_probe: bool
    """Whether a server on this way may be of a revision without a handshake."""

    def link(self, inbox: Inbox, nursery: trio.Nursery | None) -> Link:
        """A new link, not yet opened."""

    def older(self) -> "Transport | None":
        """The way to try where a server refuses both forms of POST; None where there is none."""


class Authorizers(Protocol):
    """The source of tokens for servers with `reach.oauth`; `oauth.accounts.Accounts`."""

    def way(self, server: Server, reach: Reach) -> Transport:
        """The way over HTTP to a server that wants a token, on which each request has one."""


class AccountTokens(Authorizers, Protocol):
    """Of a whole daemon: it also knows which token each server is shown."""

    def shown(self, reach: Reach) -> str | None:
        """The token that a server is shown now; None where there is none yet."""


def origin_of(url: str) -> tuple[str, str, int, str]:
    """Scheme, host, port and path: one host may serve several MCP servers, each of its own era."""
    try:
        parts = urlsplit(url)
        scheme = parts.scheme.lower()
        return scheme, parts.hostname or "", parts.port or _PORTS.get(scheme, 0), parts.path or "/"
    except ValueError:
        # The link says what is wrong with it.
        return "", "", 0, url
