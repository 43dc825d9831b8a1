"""A server in memory, for keepers under a clock that jumps: it opens, lists, answers and dies as the test says."""

import math
from collections.abc import Hashable
from typing import Any

import msgspec
import trio

from tooldispatchd.providers.mcp.dialects import Dialect
from tooldispatchd.providers.mcp.link import Bell, Inbox, LinkError
from tooldispatchd.providers.mcp.messages import Outgoing

OBJECT = {"type": "object"}


class ScriptedServer:
    """It is the `Way` to itself. `tools` are the names that it lists, `refusals` why its next openings fail, in order.

    `links` has every link that was made, the latest last; `opened_at` when each was to open. `takes_s` is what an
    opening takes.
    """

    needs_tasks = False
    is_http = False
    may_probe = True
    close_s = 1.0

    def __init__(self, *tools: str) -> None:
        self.origin: Hashable = self
        self.tools = list(tools)
        self.refusals: list[LinkError] = []
        self.takes_s = 0.0
        self.links: list[ScriptedLink] = []
        self.opened_at: list[float] = []

    @property
    def link_now(self) -> "ScriptedLink":
        return self.links[-1]

    def link(self, inbox: Inbox, nursery: trio.Nursery | None) -> "ScriptedLink":
        link = ScriptedLink(self, inbox)
        self.links.append(link)
        return link

    def older(self) -> None:
        return None


class ScriptedLink:
    """One connection to it. `calls` are the requests of tools that came, `said` all methods, `given_up` in order."""

    def __init__(self, server: ScriptedServer, inbox: Inbox) -> None:
        self.dialect: Dialect | None = None
        self.is_read_beside = False
        self.calls: list[dict[str, Any]] = []
        self.said: list[str] = []
        self.is_closed = False
        self.stderr_tail = ""
        self.pid: int | None = None
        self.ended: dict[str, object] = {}
        self._server = server
        self._inbox = inbox
        self._bell = Bell()
        self._replies: list[bytes] = []

    # --- the test's side ---

    def answer(self, text: str, call: int = -1) -> None:
        """Answer one of the calls."""
        self._reply(self.calls[call]["id"], {"content": [{"type": "text", "text": text}]})

    def change_tools(self, *tools: str) -> None:
        """Have other tools from now on, and say so."""
        self._server.tools = list(tools)
        self._replies.append(b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}')
        self._bell.ring()

    def die(self, why: str = "it ended") -> None:
        self._bell.lose(why)

    # --- the connection's side ---

    async def open(self) -> None:
        self._server.opened_at.append(trio.current_time())
        await trio.sleep(self._server.takes_s)
        if self._server.refusals:
            raise self._server.refusals.pop(0)

    async def greeted(self) -> None:
        pass

    def send(self, message: Outgoing) -> None:
        request = msgspec.json.decode(message.line)
        method = request["method"]
        self.said.append(method)
        if method == "initialize":
            capabilities = {"tools": {"listChanged": True}}
            greeting = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": {"name": "s"}}
            self._reply(request["id"], greeting)
        elif method == "tools/list":
            self._reply(
                request["id"], {"tools": [{"name": name, "inputSchema": OBJECT} for name in self._server.tools]}
            )
        elif method == "tools/call":
            self.calls.append(request)

    def flush(self) -> bool:
        return True

    async def turn(self, until: float) -> None:
        if not self._replies:
            await self._bell.wait(until if until < math.inf else math.inf)
        replies, self._replies = self._replies, []
        for reply in replies:
            await self._inbox.take(reply)

    def wake(self) -> None:
        self._bell.ring()

    def give_up(self, number: int) -> bool:
        return False

    def drop(self) -> None:
        pass

    async def close(self) -> None:
        self.is_closed = True

    def _reply(self, number: int, result: object) -> None:
        self._replies.append(msgspec.json.encode({"jsonrpc": "2.0", "id": number, "result": result}))
        self._bell.ring()
