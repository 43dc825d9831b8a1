"""What a failed exchange is to the agent: a fault for its one request.

What never reached the server, or what it turned away for now, is `server_unavailable` and worth another try; what
failed once it was there is `tool_failed`, since nobody knows what it did before.
"""

from typing import Final

from tooldispatchd.providers.mcp.server import Server
from tooldispatchd.wire.faults import Code, Fault

# Names that people look up; others are shown as the bare number.
_WORDS: Final = {
    401: "the server refused the credentials (HTTP 401)",
    403: "the server refused the credentials (HTTP 403)",
    404: "there is nothing at its URL (HTTP 404)",
    405: "its URL takes no such request (HTTP 405)",
    429: "it asks for fewer requests (HTTP 429)",
}


def status_words(status: int) -> str:
    """What an HTTP status that is not wanted says, as a phrase."""
    return _WORDS.get(status, f"it answered with HTTP {status}")


def refused(server: Server, status: int, retry_after_ms: int | None) -> Fault:
    """The fault for a request that was answered with an HTTP status of failure, and when it says to try again."""
    extras: dict[str, object] = {"http_status": status}
    if status not in {429, 503}:
        return failed(server, status_words(status), extras)
    if retry_after_ms is not None:
        extras["retry_after_ms"] = retry_after_ms
    return unavailable(server, status_words(status), extras)


def failed(server: Server, why: str, extras: dict[str, object] | None = None) -> Fault:
    """The fault for a request that reached the server and went wrong there."""
    return Fault(
        Code.TOOL_FAILED,
        f"the call failed at server {server.name}: {why}",
        {"server": server.name, "reason": why} | (extras or {}),
    )


def unavailable(server: Server, why: str, extras: dict[str, object] | None = None) -> Fault:
    """The fault for a request that the server has not begun."""
    return Fault(
        Code.SERVER_UNAVAILABLE,
        f"server {server.name} is not available: {why}",
        {"server": server.name, "reason": why} | (extras or {}),
    )
