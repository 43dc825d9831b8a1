"""Tool lines and everything else on a program's shared stdout, line by line. Pure.

    stdout ─▶ Splitter ─▶ to the daemon: objects whose `__port` is one that agents use
                       └▶ past it: every other byte, unchanged and in order

It holds at most one unfinished line of `HOLD_BYTES`; a longer one is passed on in pieces as it comes.
"""

from enum import Enum
from typing import Final

import msgspec

from tooldispatchd.wire.lines import HEAD_BYTES
from tooldispatchd.wire.messages import (
    ApproveResp,
    AskResp,
    ByeSaid,
    Hello,
    Ping,
    PongSaid,
    Select,
    ToolCancel,
    ToolReq,
    ToolsReq,
)
from tooldispatchd.wire.peek import peek

# The longest line that a daemon with its default limits takes.
HOLD_BYTES: Final = 8 * 1024 * 1024

AGENT_PORTS: Final = frozenset(
    str(message.__struct_config__.tag)
    for message in (Hello, ToolReq, ToolsReq, Select, ToolCancel, ApproveResp, AskResp, Ping, PongSaid, ByeSaid)
)


class _Port(msgspec.Struct):
    port: str = msgspec.field(name="__port")


_decode_port: Final = msgspec.json.Decoder(_Port).decode


class LineRoute(Enum):
    DAEMON = "daemon"
    PAST = "past"


def way_of(line: bytes | bytearray) -> LineRoute:
    """The route of a whole line, with or without its newline."""
    # The key may be written with escapes; a line without any need not be decoded.
    if b"__port" not in line and b"\\u" not in line:
        return LineRoute.PAST
    try:
        return LineRoute.DAEMON if _decode_port(line).port in AGENT_PORTS else LineRoute.PAST
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return LineRoute.PAST


class Splitter:
    """Cuts the agent's output into pieces, each with its route."""

    def __init__(self) -> None:
        # The unfinished line: held until its route is known, then passed on as it comes.
        self._held = bytearray()
        self._way: LineRoute | None = None

    def split(self, chunk: bytes) -> list[tuple[LineRoute, bytes]]:
        """The pieces that can be passed on, in order."""
        pieces: list[tuple[LineRoute, bytes]] = []
        at = 0
        while at < len(chunk):
            end = chunk.find(b"\n", at) + 1 or len(chunk)
            piece = chunk[at:end]
            at = end
            is_whole = piece.endswith(b"\n")
            if self._way is not None:
                pieces.append((self._way, piece))
            elif is_whole and not self._held:
                pieces.append((way_of(piece), piece))
            else:
                self._held += piece
                self._way = way_of(self._held) if is_whole else self._early_way()
                if self._way is not None:
                    pieces.append((self._way, bytes(self._held)))
                    self._held = bytearray()
            if is_whole:
                self._way = None
        return pieces

    def end(self) -> list[tuple[LineRoute, bytes]]:
        """The rest of a last line without a newline."""
        held, self._held = bytes(self._held), bytearray()
        return [(way_of(held), held)] if held else []

    def _early_way(self) -> LineRoute | None:
        """The route of an unfinished line, if it is known: a prompt must not wait for its newline."""
        head = bytes(self._held[:HEAD_BYTES])
        begin = head.lstrip(b" \t\r")[:1]
        # No program writes so much white space before an object.
        if begin not in {b"{", b""} or (not begin and len(head) == HEAD_BYTES):
            return LineRoute.PAST
        if len(self._held) <= HOLD_BYTES:
            return None
        # Too long for the daemon as well, which will say so of a line that is meant for it.
        return LineRoute.DAEMON if peek(head).port in AGENT_PORTS else LineRoute.PAST
