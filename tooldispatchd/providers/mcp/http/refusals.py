"""The faults of failed exchanges, each for one request.

A request that never reached the server, or was turned away for now, is `server_unavailable` and worth another try; one
that failed once it was there is `tool_failed`, since it may have had its effect.

The body of a refusal may hold a JSON-RPC error or a line of text, about the request or about the session: not every
server says 404 to a session that it does not know (MCP, "Session Management"). Official SDKs and their examples have
said 400 for long, as JSON-RPC without a number or as plain text.
"""

import re
from typing import Final

import trio

from tooldispatchd.providers.mcp.content import error_in, error_words
from tooldispatchd.providers.mcp.faults import call_failed, unavailable
from tooldispatchd.providers.mcp.http.errors import WireError
from tooldispatchd.providers.mcp.http.wire import HttpReply
from tooldispatchd.providers.mcp.messages import Incoming, read_message
from tooldispatchd.providers.mcp.reach import Reach
from tooldispatchd.providers.mcp.server import Server
from tooldispatchd.wire.faults import Fault

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
    """An unwanted HTTP status as a phrase; with `reach`, by whether there were credentials to refuse."""
    if reach is not None and status in _WORDS_WITHOUT and not _has_credentials(reach):
        return _WORDS_WITHOUT[status]
    return _WORDS.get(status, f"it answered with HTTP {status}")


def _has_credentials(reach: Reach) -> bool:
    # Under whatever name: keys of APIs have many. A client certificate is another layer's, which was content.
    return reach.oauth is not None or any(name.lower() != "user-agent" for name, _ in reach.headers)


def wrong_transport(server: Server, status: int) -> str:
    """Which transport to try, as the end of a sentence, where the configuration names the other one; else ""."""
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
        return call_failed(server, why, extras)
    if retry_after_ms is not None:
        extras["retry_after_ms"] = retry_after_ms
    return unavailable(server, why, extras)


# An error is a sentence or two; a page of HTML is not looked at.
MAX_ERROR_BYTES: Final = 64 * 1024
ERROR_BODY_S: Final = 2.0
# A sentence that is no JSON-RPC. Beyond it stand pages and objects, which may repeat what was asked.
MAX_SENTENCE_BYTES: Final = 200
# "Not initialized" is what a server with one session at a time says after a restart.
_OF_SESSIONS: Final = re.compile(r"session|not initiali[sz]ed", re.IGNORECASE)
# JSON-RPC 2.0, 5.1 (what cannot be parsed, no such method, wrong parameters) and MCP 2026-07-28 (headers that differ
# from the body): these are about one request, whatever their words repeat of it.
_OF_REQUESTS: Final = frozenset({-32700, -32601, -32602, -32020})


async def read_error_body(reply: HttpReply) -> bytes:
    """The body of a refusal; nothing where it is too long, or too slow in coming."""
    with trio.move_on_after(ERROR_BODY_S):
        try:
            return await reply.read(MAX_ERROR_BYTES)
        except WireError:
            return b""
    return b""


def error_of(body: bytes) -> Incoming | None:
    message = read_message(body)
    error = None if message is None else error_in(message)
    # A web framework's own refusal may also be an object with the member `error`: a JSON-RPC one has a code.
    return message if error is not None and isinstance(error_words(error)[1], int) else None


def is_of_session(body: bytes, number: int | None = None) -> bool:
    """Whether a body with status 400 is about the session that was shown, and not an answer to request `number`."""
    message = error_of(body)
    if message is None:
        text = body.strip()
        is_sentence = 0 < len(text) <= MAX_SENTENCE_BYTES and text[:1] not in b"{[<"
        return is_sentence and _OF_SESSIONS.search(text.decode(errors="replace")) is not None
    error = error_in(message)
    assert error is not None
    words, code = error_words(error)
    is_ours = number is not None and message.id == number
    return not is_ours and code not in _OF_REQUESTS and _OF_SESSIONS.search(words) is not None
