"""A server's messages for its client's log, in the daemon's own (MCP, "Logging": `notifications/message`).

A server's words are foreign text: what is not printable is escaped, and each message is cut. A server that says more
than `MAX_A_SECOND` is cut short for the rest of that second; how many were left out is told once, at its end.
"""

import math
import re
from typing import Final, Protocol

import msgspec
from msgspec import Raw, UnsetType

from tooldispatchd.providers.mcp.messages import DECODE_ERRORS, Incoming, Outgoing, decoded

MAX_TEXT_CHARS: Final = 2_000
MAX_LOGGER_CHARS: Final = 128
# Longer than any method that the protocol knows.
MAX_METHOD_CHARS: Final = 64
# Faster than anyone reads; a log that a loop floods is lost for all others.
MAX_A_SECOND: Final = 20
WINDOW_S: Final = 1.0
# Far more than is shown of it; what is larger is not decoded.
MAX_PARAMS_BYTES: Final = 256 * 1024

# Of a line that is no message.
MAX_STRAY_CHARS: Final = 80
_LAST_WORD: Final = re.compile(rb"""[^\s"',:;=&?(){}\[\]]*\Z""")

# RFC 5424's levels, which MCP has: of those that the daemon's log lacks, the nearest.
FAILURES: Final = ("error", "critical", "alert", "emergency")


class BoundLog(Protocol):
    """A bound structured logger."""

    def debug(self, event: str, **fields: object) -> object:
        """Log `event` for debugging."""

    def info(self, event: str, **fields: object) -> object:
        """Log `event`."""

    def warning(self, event: str, **fields: object) -> object:
        """Log `event`, which the operator may want to fix."""

    def error(self, event: str, **fields: object) -> object:
        """Log `event`, a failure."""


class _Message(msgspec.Struct):
    data: Raw
    level: str = "info"
    logger: str | None = None


_decode_message: Final = msgspec.json.Decoder(_Message).decode
_decode_text: Final = msgspec.json.Decoder(str).decode


class ServerLog:
    """One connection's messages; `due` is when `tell` should be called, in the caller's clock, infinite for never."""

    __slots__ = ("_dropped", "_log", "_server", "_taken", "_window_ends", "due")

    def __init__(self, server: str, log: BoundLog) -> None:
        self.due = math.inf
        self._server = server
        self._log = log
        self._window_ends = -math.inf
        self._taken = 0
        self._dropped = 0

    def take(self, params: Raw | UnsetType, now: float) -> None:
        """Log one message, or count it where it is one too many or cannot be read."""
        if now >= self._window_ends:
            self.tell(now)
            self._window_ends = now + WINDOW_S
            self._taken = 0
        message = None if self._taken >= MAX_A_SECOND else decoded(_decode_message, params, MAX_PARAMS_BYTES)
        self._taken += 1
        if message is None:
            self._dropped += 1
            self.due = self._window_ends
            return
        try:
            text = _decode_text(message.data)
        except DECODE_ERRORS:
            # No string; or one that cannot be decoded, of which there is something to show all the same.
            text = bytes(msgspec.json.format(message.data, indent=-1)).decode(errors="replace")
        log = self._log
        # What no revision knows as a level is a notice.
        methods = {"debug": log.debug, "warning": log.warning, **dict.fromkeys(FAILURES, log.error)}
        methods.get(message.level, log.info)(
            "server said",
            server=self._server,
            # `level` in the log is the daemon's own.
            said_level=printable(message.level, MAX_LOGGER_CHARS),
            logger=None if message.logger is None else printable(message.logger, MAX_LOGGER_CHARS),
            text=printable(text, MAX_TEXT_CHARS),
        )

    def tell(self, now: float) -> None:
        """Tell how many messages were left out, where that is due."""
        if self.due <= now:
            self.close()

    def close(self) -> None:
        """Tell what is left to be told."""
        if self._dropped:
            self._log.warning("messages dropped", server=self._server, count=self._dropped)
        self._dropped = 0
        self.due = math.inf


def log_message(log: BoundLog, event: str, message: Incoming | Outgoing, size: int) -> None:
    """Log that a message came or went, and never what it says."""
    number = message.id if isinstance(message, Incoming) else message.number
    log.info(
        event,
        method=printable(message.method, MAX_METHOD_CHARS) if isinstance(message.method, str) else None,
        # Where it is no number, it is the server's own words.
        number=number if isinstance(number, int) else None,
        bytes=size,
    )


def beginning_of(line: bytes | bytearray) -> str:
    """Cut a line for a fault, after a whole word: half of a secret would not be masked."""
    head = bytes(line[:MAX_STRAY_CHARS])
    if len(line) > len(head):
        head = _LAST_WORD.sub(b"", head) + b"..."
    return printable(head.decode(errors="replace").strip(), MAX_STRAY_CHARS + len("..."))


def printable(text: str, max_chars: int) -> str:
    """The first `max_chars` characters of `text`, what cannot be printed (controls, changes of direction) escaped."""
    text = text[:max_chars]
    if text.isprintable():
        return text
    escaped = (each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
    return "".join(escaped)[:max_chars]
