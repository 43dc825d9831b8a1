"""One channel's bytes to messages and back: the pure half of the front.

`ChannelMachine` cuts and decodes what comes, and encodes what goes. It knows no session: who a message is for is the
caller's to find out, as is how many of them are looked at in one turn.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from tooldispatchd.wire.decode import Refused, decode_line
from tooldispatchd.wire.lines import LineCutter, LongLine
from tooldispatchd.wire.messages import Message, Outgoing

_encoder: Final = msgspec.json.Encoder()


class ChannelMachine:
    """Lines in, lines out. `line` is the number of the line that the last message came from, counted from 1."""

    __slots__ = ("_cutter", "_lines", "_max_line_bytes", "line", "outgoing")

    def __init__(self, max_line_bytes: int) -> None:
        self._cutter = LineCutter(max_line_bytes)
        self._max_line_bytes = max_line_bytes
        # The next line stands last, where taking it is cheap; a list, because an empty deque is twelve times as large.
        self._lines: list[bytes | LongLine] = []
        self.line = 0
        self.outgoing: list[Outgoing] = []

    @property
    def has_lines(self) -> bool:
        """Whether complete lines have not been looked at yet: what `messages` left over."""
        return bool(self._lines)

    def feed(self, chunk: bytes) -> None:
        """Take bytes; `messages` gives what they complete."""
        lines = self._cutter.cut(chunk)
        lines.reverse()
        self._lines = lines + self._lines if self._lines else lines

    def receive(self, chunk: bytes) -> Iterator[Message | Refused | None]:
        """`feed`, then all `messages`."""
        self.feed(chunk)
        return self.messages()

    def messages(self) -> Iterator[Message | Refused | None]:
        """The messages of the complete lines, in order, None for a blank one; `line` is right while each is looked at.

        A caller may stop at any message and go on later: lines that mean nothing take their time too.
        """
        lines = self._lines
        while lines:
            line = lines.pop()
            self.line += 1
            is_blank = type(line) is bytes and (not line or line.isspace())
            yield None if is_blank else decode_line(line, self._max_line_bytes)

    def end(self) -> Iterator[Message | Refused | None]:
        """What the end of input completes: a last line may lack its newline."""
        if self._cutter.has_partial:
            self.feed(b"\n")
        return self.messages()

    def take(self) -> bytes:
        """The lines to send, encoded; the list is empty after it."""
        if not self.outgoing:
            return b""
        lines = _encoder.encode_lines(self.outgoing)
        self.outgoing.clear()
        return lines
