"""The faults of a server that more than one module gives: `why` is a phrase that follows the server's name."""

from tooldispatchd.providers.mcp.server import Server
from tooldispatchd.wire.faults import Code, Fault


def unavailable(server: Server, why: str, extras: dict[str, object] | None = None) -> Fault:
    """The server has not begun what it was asked; another try makes sense."""
    shown = {"server": server.name, "reason": why, **(extras or {})}
    return Fault(Code.SERVER_UNAVAILABLE, f"server {server.name} is not available: {why}", shown)


def call_failed(server: Server, why: str, extras: dict[str, object] | None = None) -> Fault:
    """The request reached the server and went wrong there."""
    shown = {"server": server.name, "reason": why, **(extras or {})}
    return Fault(Code.TOOL_FAILED, f"the call failed at server {server.name}: {why}", shown)


def too_large(server: Server) -> Fault:
    """The answer was over the bound on one answer."""
    detail = f"the answer is larger than {server.max_content_bytes} bytes"
    return Fault(Code.TOOL_FAILED, detail, {"server": server.name, "limit": "content_bytes"})
