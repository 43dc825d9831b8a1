"""An agent's standard streams shared by its tool channel and by everything else, line by line; pure.

    agent's stdout ─▶ Splitter ─▶ to the daemon: objects whose `__port` is one that agents use
                                └▶ past it: every other byte, untouched and in order
    daemon's lines, run's stdin ─▶ Merger ─▶ agent's stdin: whole lines, in the order of each

Each holds at most one unfinished line of `HOLD_BYTES` per source; a longer one is passed on in pieces as it comes.
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
    """Where a line of the agent's goes."""

    DAEMON = "daemon"
    PAST = "past"


def way_of(line: bytes | bytearray) -> LineRoute:
    """Where a whole line goes, with or without its newline."""
    # The key may be spelled with escapes; a line that can have none is not worth decoding.
    if b"__port" not in line and b"\\u" not in line:
        return LineRoute.PAST
    try:
        return LineRoute.DAEMON if _decode_port(line).port in AGENT_PORTS else LineRoute.PAST
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return LineRoute.PAST


def _way_of_head(head: bytes) -> LineRoute:
    """Where a line goes that is too long to be held: the daemon says so itself of what is meant for it."""
    return LineRoute.DAEMON if peek(head).port in AGENT_PORTS else LineRoute.PAST


class Splitter:
    """What the agent writes, cut into pieces that each go one way."""

    def __init__(self) -> None:
        # The unfinished line: held while its way is open, else already passed on.
        self._held = bytearray()
        self._way: LineRoute | None = None

    def split(self, chunk: bytes) -> list[tuple[LineRoute, bytes]]:
        """The pieces that can be passed on, in order."""
        pieces: list[tuple[LineRoute, bytes]] = []
        at = 0
        while at < len(chunk):
            end = chunk.find(b"\n", at) + 1 or len(chunk)
            self._take(chunk[at:end], pieces)
            at = end
        return pieces

    def end(self) -> list[tuple[LineRoute, bytes]]:
        """What was held of a last line that has no newline."""
        held, self._held = bytes(self._held), bytearray()
        return [(way_of(held), held)] if held else []

    def _take(self, piece: bytes, pieces: list[tuple[LineRoute, bytes]]) -> None:
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

    def _early_way(self) -> LineRoute | None:
        """The way of a line that is not finished, where it is known: a prompt must not wait for its newline."""
        head = bytes(self._held[:HEAD_BYTES])
        begin = head.lstrip(b" \t\r")[:1]
        # A head of nothing but white space is no object that anyone writes.
        if begin not in {b"{", b""} or (not begin and len(head) == HEAD_BYTES):
            return LineRoute.PAST
        return _way_of_head(head) if len(self._held) > HOLD_BYTES else None


class Voice(Enum):
    """Who speaks to the agent."""

    DAEMON = "daemon"
    STDIN = "stdin"


class Merger:
    """Two streams of lines made one; a line is never cut by another's."""

    def __init__(self) -> None:
        self._held = {voice: bytearray() for voice in Voice}
        # How much of it is whole lines, which wait only while another's line is passed on in pieces.
        self._whole = dict.fromkeys(Voice, 0)
        self._speaker: Voice | None = None

    def accepts(self, voice: Voice) -> bool:
        """Whether more of `voice` may be read."""
        return self._speaker is voice or len(self._held[voice]) <= HOLD_BYTES

    def merge(self, voice: Voice, chunk: bytes) -> bytes:
        """What can be passed on now that `voice` has said more."""
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
        """As `merge`, where `voice` says no more.

        A last line without its newline gets one, or the next would be a part of it; the daemon's is dropped.
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
                self._speaker = voice
                self._whole[voice] = len(held)
            said.append(bytes(held[: self._whole[voice]]))
            del held[: self._whole[voice]]
            self._whole[voice] = 0
        return b"".join(said)
