"""What differs between the protocol's revisions once one of them is agreed: how a message is written.

`Legacy` is every revision with a handshake (2024-11-05 to 2025-11-25), `Modern` the stateless one (2026-07-28).
"""

from typing import Protocol

from tooldispatchd.providers.mcp.messages import Outgoing
from tooldispatchd.providers.mcp.server import McpTool
from tooldispatchd.wire.lines import Text


class Dialect(Protocol):
    """How messages are written for one server."""

    revision: str
    """The agreed revision; "" before `initialize` is answered."""
    is_modern: bool
    """Whether there is no session: each request says all that it needs, and a closed response is a cancelled call."""

    def request(self, number: int, method: str, params: dict[str, object]) -> Outgoing:
        """A request other than a tool's call."""

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

    def notification(self, method: str, params: dict[str, object] | None = None) -> Outgoing:
        """A notification."""

    def headers(self, message: Outgoing) -> list[tuple[str, str]]:
        """The HTTP headers that the revision asks for with this message, besides those of HTTP itself."""
