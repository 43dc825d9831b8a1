"""Revisions with a handshake, 2024-11-05 to 2025-11-25: what was said in `initialize` holds for all that follows."""

from typing import Final

import msgspec

from tooldispatchd.providers.mcp.headers import VERSION, name_in
from tooldispatchd.providers.mcp.messages import (
    CALL,
    Outgoing,
    call_of,
    call_params,
    notification_line,
    request_line,
)
from tooldispatchd.providers.mcp.server import McpTool
from tooldispatchd.wire.lines import Text

# The revisions before knew no such header.
_WITH_HEADER: Final = frozenset({"2025-06-18", "2025-11-25"})


class Legacy:
    """The `Dialect` of one revision with a handshake; `revision` is "" until `initialize` is answered."""

    __slots__ = ("_headers", "revision")

    is_modern: bool = False

    def __init__(self, revision: str = "") -> None:
        self.revision = revision
        self._headers = [(VERSION, revision)] if revision in _WITH_HEADER else []

    def request(self, number: int, method: str, params: dict[str, object]) -> Outgoing:
        """A request other than a tool's call."""
        return Outgoing(request_line(number, method, params), method, number, name_in(method, params))

    def call(
        self,
        number: int,
        tool: McpTool,
        arguments: Text,
        *,
        meta: dict[str, object] | None = None,
        answered: dict[str, object] | None = None,
    ) -> Outgoing:
        """A call of `tool` with `arguments`, a compact JSON object; `answered` are further members of `params`."""
        if tool.method != CALL:
            return self.request(number, tool.method, call_params(arguments, meta, answered))
        # What the server is to know beside the arguments (MCP, "General fields": `_meta`).
        more = {**(answered or {}), **({} if meta is None else {"_meta": meta})}
        return call_of(number, tool.name, arguments, b"," + msgspec.json.encode(more)[1:-1] if more else b"")

    def notification(self, method: str, params: dict[str, object] | None = None) -> Outgoing:
        """A notification."""
        return Outgoing(notification_line(method, params), method)

    def headers(self, message: Outgoing) -> list[tuple[str, str]]:
        """The negotiated revision on everything but `initialize` (2025-06-18 and 2025-11-25, "Transports")."""
        return [] if message.method == "initialize" else list(self._headers)
