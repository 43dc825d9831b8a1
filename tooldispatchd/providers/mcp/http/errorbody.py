"""What stands in the body of a refusal: a JSON-RPC error, or a line of text; and whether it is about the session.

Not every server says 404 to a session that it does not know (MCP, "Session Management"): official SDKs and their
examples have said 400 for long, as JSON-RPC without a number or as plain text.
"""

import re
from typing import Final

import trio

from tooldispatchd.providers.mcp.content import error_in, error_words
from tooldispatchd.providers.mcp.http.errors import WireError
from tooldispatchd.providers.mcp.http.wire import HttpReply
from tooldispatchd.providers.mcp.messages import Incoming, read_message

# An error is a sentence or two; a page of HTML is nobody's answer.
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
    """The JSON-RPC error that a body is; None where it is none."""
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
