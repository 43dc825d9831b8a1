"""Tool lines and everything else on an agent's shared standard streams, line by line. Pure.

    agent's stdout ─▶ Splitter ─▶ to the daemon: objects whose `__port` is one that agents use
                                └▶ past it: every other byte, unchanged and in order
    daemon's lines, run's stdin ─▶ Merger ─▶ agent's stdin: whole lines, in the order of each source

Each holds at most one unfinished line of `HOLD_BYTES` for a source; a longer one is passed on in pieces as it comes.
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
    ToolCancel,
    ToolReq,
    ToolsReq,
)
from tooldispatchd.wire.peek import peek

# The longest line that a daemon with its default limits takes.
HOLD_BYTES: Final = 8 * 1024 * 1024

AGENT_PORTS: Final = frozenset(
    str(message.__struct_config__.tag)
    for message in (Hello, ToolReq, ToolsReq, ToolCancel, ApproveResp, AskResp, Ping, PongSaid, ByeSaid)
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


class Voice(Enum):
    """A source of lines for the agent."""

    DAEMON = "daemon"
    STDIN = "stdin"


class Merger:
    """Merges two streams of lines into one; lines are never interleaved."""

    def __init__(self) -> None:
        self._held = {voice: bytearray() for voice in Voice}
        # The bytes of it that are whole lines; they wait while a long line of the other is passed on in pieces.
        self._whole = dict.fromkeys(Voice, 0)
        self._speaker: Voice | None = None

    def accepts(self, voice: Voice) -> bool:
        """Whether more of this source may be read."""
        return self._speaker is voice or len(self._held[voice]) <= HOLD_BYTES

    def merge(self, voice: Voice, chunk: bytes) -> bytes:
        """The bytes to pass on, after `chunk` of this source."""
        said = b""
        if self._speaker is voice:
            end = chunk.find(b"\n") + 1
            if not end:
                return chunk
            said, chunk = chunk[:end], chunk[end:]
            self._speaker = None
        held = self._held[voice]
        end = chunk.rfind(b"\n") + 1
        if end:
            self._whole[voice] = len(held) + end
        held += chunk
        return said + self._collect()

    def end(self, voice: Voice) -> bytes:
        """The bytes to pass on, after the end of this source.

        A last line without a newline gets one, so that the next line stays separate; the daemon's is dropped.
        """
        said = b""
        if self._speaker is voice:
            said = b"\n"
            self._speaker = None
        elif voice is Voice.DAEMON:
            del self._held[voice][self._whole[voice] :]
        elif len(self._held[voice]) > self._whole[voice]:
            self._held[voice] += b"\n"
            self._whole[voice] = len(self._held[voice])
        return said + self._collect()

    def _collect(self) -> bytes:
        said = []
        for voice, held in self._held.items():
            if self._speaker is not None:
                break
            if len(held) - self._whole[voice] > HOLD_BYTES:
                # Too long to be held: its pieces go out as they come, and the other source waits for its end.
                self._speaker = voice
                self._whole[voice] = len(held)
            said.append(bytes(held[: self._whole[voice]]))
            del held[: self._whole[voice]]
            self._whole[voice] = 0
        return b"".join(said)
