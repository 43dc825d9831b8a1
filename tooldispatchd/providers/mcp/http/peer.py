"""The server at the other end, as every exchange of one link knows it."""

import re
from typing import Final

from tooldispatchd.providers.mcp.bell import Bell
from tooldispatchd.providers.mcp.http.errorbody import is_of_session, read_error_body
from tooldispatchd.providers.mcp.http.wire import HttpReply, HttpWire
from tooldispatchd.providers.mcp.link import Inbox
from tooldispatchd.providers.mcp.server import Server

INITIALIZE: Final = "initialize"
DISCOVER: Final = "server/discover"
SESSION_HEADER: Final = "Mcp-Session-Id"
# Visible ASCII is all that the specification allows; real ones are 32 to 64 characters, signed tokens some hundred.
_SESSION_ID: Final = re.compile(r"[\x21-\x7e]{1,2048}")
EVENT_STREAM: Final = "text/event-stream"
JSON: Final = "application/json"
# What every POST bears (MCP, "Streamable HTTP"); the older pair takes it too.
POST_HEADERS: Final = (("Accept", f"{JSON}, {EVENT_STREAM}"), ("Content-Type", JSON))

# After the answer a stream is at its end within the same segment, or never: what it waits longer for costs more than a
# new TCP connection.
DRAIN_S: Final = 0.25


class HttpPeer:
    """A server, the wire to it, and where what it says goes; `session_id` is what it asked to be shown, if anything."""

    __slots__ = ("bell", "inbox", "server", "session_id", "wire")

    def __init__(self, server: Server, wire: HttpWire, inbox: Inbox, bell: Bell) -> None:
        self.server = server
        self.wire = wire
        self.inbox = inbox
        self.bell = bell
        self.session_id: str | None = None

    def adopt(self, session_id: str) -> bool:
        """Show `session_id` from now on; false where it is no such thing (MCP, "Session Management")."""
        if _SESSION_ID.fullmatch(session_id) is None:
            return False
        self.session_id = session_id
        return True

    def session_headers(self) -> list[tuple[str, str]]:
        """The headers that show the session, if there is one."""
        return [] if self.session_id is None else [(SESSION_HEADER, self.session_id)]

    async def refuses_session(self, reply: HttpReply, sent: list[tuple[str, str]]) -> bool:
        """Whether an answer to what is no request, sent with these headers, ends the connection; as `is_session_over`.

        The body is read where it counts.
        """
        body = await read_error_body(reply) if reply.status == 400 else b""
        return self.is_session_over(reply.status, sent, body)

    def is_session_over(
        self, status: int, sent: list[tuple[str, str]], body: bytes = b"", number: int | None = None
    ) -> bool:
        """Whether a status and its body end the connection; if so, its owner is told.

        `sent` are the headers of what was answered so, and `number` its own, where it was a request.
        """
        if not any(name == SESSION_HEADER for name, _ in sent):
            return False
        if status == 404:
            why = "the server ended the session (HTTP 404)"
        elif status == 400 and is_of_session(body, number):
            why = "the server does not know the session any more (HTTP 400)"
        else:
            return False
        self.bell.lose(why, {"http_status": status})
        return True
