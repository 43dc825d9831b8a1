"""What a failed exchange is to the agent: a fault for its one request.

What never reached the server, or what it turned away for now, is `server_unavailable` and worth another try; what
failed once it was there is `tool_failed`, since nobody knows what it did before.
"""

from typing import Final

from tooldispatchd.providers.mcp.server import Reach, Server
from tooldispatchd.wire.faults import Code, Fault

# Names that people look up; others are shown as the bare number.
_WORDS: Final = {
    401: "the server refused the credentials (HTTP 401)",
    403: "the server refused the credentials (HTTP 403)",
    404: "there is nothing at its URL (HTTP 404)",
    405: "its URL takes no such request (HTTP 405)",
    429: "it asks for fewer requests (HTTP 429)",
}
# The same where the configuration has none, so that none were refused.
_WORDS_WITHOUT: Final = {
    401: 'it wants credentials: a token, headers, or auth = "oauth" (HTTP 401)',
    403: "the server refused the request (HTTP 403)",
}
# By the transport that the configuration names: the other one, and what a server of that may say to the first request
# of this one. A GET without a session is wrong at Streamable HTTP in several ways.
_OTHERS: Final = {"http": ("sse", frozenset({404, 405})), "sse": ("http", frozenset({200, 400, 404, 405, 406}))}


def status_words(status: int, reach: Reach | None = None) -> str:
    """What an HTTP status that is not wanted says, as a phrase; by what `reach` holds, if it is known."""
    if reach is not None and status in _WORDS_WITHOUT and not _has_credentials(reach):
        return _WORDS_WITHOUT[status]
    return _WORDS.get(status, f"it answered with HTTP {status}")


def _has_credentials(reach: Reach) -> bool:
    # Under whatever name: keys of APIs have many. A client certificate is another layer's, which was content.
    return reach.oauth is not None or any(name.lower() != "user-agent" for name, _ in reach.headers)


def wrong_transport(server: Server, status: int) -> str:
    """What to try, to follow the words of a status, where the configuration names the transport; else ""."""
    transport = "" if server.reach is None else server.reach.transport
    other, statuses = _OTHERS.get(transport, ("", frozenset()))
    return f'; it may need transport = "{other}"' if status in statuses else ""


def refused(server: Server, status: int, retry_after_ms: int | None, hint: str = "") -> Fault:
    """The fault for a request that was answered with an HTTP status of failure, and when it says to try again.

    `hint` follows the reason.
    """
    extras: dict[str, object] = {"http_status": status}
    why = status_words(status, server.reach) + hint
    if status not in {429, 503}:
        return failed(server, why, extras)
    if retry_after_ms is not None:
        extras["retry_after_ms"] = retry_after_ms
    return unavailable(server, why, extras)


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
