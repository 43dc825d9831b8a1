"""The face that the daemon shows to one MCP client: messages and lines in and out; no I/O, no clock.

`METHODS` says which part serves a method, and in which revisions. A request says its revision itself, or has that
of the handshake. Both kinds may come on one face, as from a client that tries the newer one first.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from tooldispatchd.mcpface.alarms import Alarms
from tooldispatchd.mcpface.clientside import ClientRequest, ClientSide, Said, server_info
from tooldispatchd.mcpface.daemonside import DaemonLine, DaemonSide, Phase
from tooldispatchd.mcpface.jsonrpc import METHOD_UNKNOWN, WRONG_PARAMS
from tooldispatchd.mcpface.revisions import R2024_11, R2025_11, R2026_07, REVISIONS, ClientOffer, Params
from tooldispatchd.mcpface.toolcalls import ToolCalls

# A client gives up its start after 10 s and more; a session whose servers take longer is told of without instructions.
OPENING_S: Final = 5.0


class _Method(msgspec.Struct, frozen=True):
    serve: Callable[[ClientRequest], None]
    since: str = R2024_11.name
    until: str = R2026_07.name
    waits: bool = True
    """Whether it is served only when the session is open."""


class Face:
    """One MCP client's session with the daemon."""

    def __init__(self, *, profile: str | None, token: str | None, now: float) -> None:
        self._alarms = Alarms(now)
        self._client = ClientSide(self)
        self._daemon = DaemonSide(self._client, profile=profile, token=token)
        self._tools = ToolCalls(self._client, self._daemon)
        self._is_initialized = False
        self._daemon.listeners["tools_changed"] = self._tools_changed
        self._methods = {
            "initialize": _Method(self._initialize, until=R2025_11.name, waits=False),
            "ping": _Method(self._ping, until=R2025_11.name, waits=False),
            "tools/list": _Method(self._tools.list),
            "tools/call": _Method(self._tools.call),
        }

    @property
    def to_client(self) -> list[Said]:
        """What is to be said to the client; drained by the caller."""
        return self._client.to_client

    @property
    def to_daemon(self) -> list[bytes]:
        """Lines for the daemon, each with its newline; drained by the caller."""
        return self._daemon.to_daemon

    @property
    def wake_at(self) -> float:
        """When `wake` is to be called."""
        return math.inf if self.is_over else self._alarms.next_at

    @property
    def is_over(self) -> bool:
        """Whether the daemon's channel is lost: nothing can be served any more."""
        return self._daemon.phase is Phase.LOST

    def take_client(self, message: bytes, now: float, revision: str | None = None) -> int:
        """Take a message of the client; returns its ticket. `revision` is the header, over HTTP."""
        self._alarms.now = now
        return self._client.take(message, revision)

    def take_daemon(self, line: bytes, now: float) -> None:
        """Take one line of the daemon."""
        self._alarms.now = now
        self._daemon.take(line)

    def abandon(self, ticket: int) -> None:
        """The response stream of this ticket was closed: its requests are cancelled."""
        for request in [one for one in self._client.open.values() if one.ticket == ticket]:
            self._cancel(request)

    def lost(self, why: str) -> None:
        """The daemon's channel ended: every open request is answered."""
        self._daemon.lost(why)
        for request in list(self._client.open.values()):
            self._daemon.refuse(request)

    def wake(self, now: float) -> None:
        """Do what is due."""
        self._alarms.now = now
        self._alarms.run()

    def serve(self, request: ClientRequest) -> None:
        """Give a request to the part that serves it."""
        method = self._methods.get(request.method)
        if method is None or not method.since <= request.revision.name <= method.until:
            self._client.fail(request, METHOD_UNKNOWN, f"there is no method {request.method[:100]!r}")
        elif method.waits:
            # A client that comes without a handshake is served all the same.
            self._daemon.open([])
            self._daemon.when_open(request, method.serve)
        else:
            method.serve(request)

    def hear(self, method: str, params: Params) -> None:
        """Take a notification of the client."""
        if method == "notifications/initialized":
            self._is_initialized = True
        elif method == "notifications/cancelled" and isinstance(params.request_id, msgspec.Raw):
            request = self._client.find(params.request_id)
            # A client may not take back its handshake.
            if request is not None and request.method != "initialize":
                self._cancel(request)

    def _cancel(self, request: ClientRequest) -> None:
        request.cancel()
        self._client.drop(request)

    def _initialize(self, request: ClientRequest) -> None:
        if request.params.protocol_version is None:
            self._client.fail(request, WRONG_PARAMS, "initialize says a protocolVersion")
            return
        known = REVISIONS.get(request.params.protocol_version)
        self._client.revision = R2025_11 if known is None or known.is_stateless else known
        self._client.offer = request.params.capabilities or ClientOffer()
        request.revision = self._client.revision
        self._daemon.open(self._client.offer.answers())
        answer = partial(self._welcome, request)
        self._daemon.when_settled(answer)
        self._alarms.after(OPENING_S, answer)

    def _welcome(self, request: ClientRequest) -> None:
        if self._daemon.phase in (Phase.REFUSED, Phase.LOST):
            self._daemon.refuse(request)
            return
        result: dict[str, object] = {
            "protocolVersion": request.revision.name,
            "capabilities": self._capabilities(),
            "serverInfo": server_info(),
        }
        if self._daemon.instructions:
            result["instructions"] = self._daemon.instructions
        self._client.answer(request, result)

    def _capabilities(self) -> dict[str, object]:
        return {"tools": {"listChanged": True}}

    def _ping(self, request: ClientRequest) -> None:
        self._client.answer(request, {})

    def _tools_changed(self, line: DaemonLine) -> None:
        self._daemon.tools = line.tools
        if self._is_initialized:
            self._client.notify("notifications/tools/list_changed")
