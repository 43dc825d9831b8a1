"""One channel's bytes to messages and back: the pure half of the front.

`ChannelMachine` cuts and decodes what comes, and encodes what goes. It knows no session: who a message is for is the
caller's to find out, as is how many of them are looked at in one turn.
"""

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Raw

from tooldispatchd.wire.decode import WHITE, Refused, decode_line
from tooldispatchd.wire.faults import Fault
from tooldispatchd.wire.heavy import HEAVY_BYTES, HeavyLine
from tooldispatchd.wire.lines import LineCutter, LongLine
from tooldispatchd.wire.messages import Message, NestedResp, Outgoing, QuotedText

# Stands for what is quoted while its line is written; nothing else in JSON is such a byte.
_MARK: Final = Raw(b"\0")


class _QuotedError(Exception):
    """There is a quoted text among the lines."""


def _refuse_quoted(_value: object) -> None:
    raise _QuotedError


_encoder: Final = msgspec.json.Encoder(enc_hook=_refuse_quoted)


class ChannelMachine:
    """Lines in, lines out. `line` is the number of the line that the last message came from, counted from 1.

    `lines` are those that `messages` has not looked at yet.
    """

    __slots__ = ("_cutter", "_max_line_bytes", "line", "lines", "outgoing")

    def __init__(self, max_line_bytes: int) -> None:
        self._cutter = LineCutter(max_line_bytes)
        self._max_line_bytes = max_line_bytes
        # The next line stands last, where taking it is cheap; a list, because an empty deque is twelve times as large.
        self.lines: list[bytes | bytearray | LongLine] = []
        self.line = 0
        self.outgoing: list[Outgoing] = []

    def feed(self, chunk: bytes) -> int:
        """Take bytes, of which `messages` gives what they complete; how many lie here of a line that lacks its end."""
        lines = self._cutter.cut(chunk)
        lines.reverse()
        self.lines = lines + self.lines if self.lines else lines
        return self._cutter.held

    def forget_unfinished(self) -> bytearray | None:
        """Drop the unfinished line; returns its bytes."""
        return self._cutter.forget()

    def give_up(self, why: Fault) -> None:
        """Keep nothing of the line that lacks its end: it is refused with `why` when its turn comes."""
        line = self._cutter.give_up(why)
        if line is not None:
            self.lines.insert(0, line)

    def messages(self) -> Iterator[Message | Refused | HeavyLine | None]:
        """The messages of the complete lines, in order, None for nothing said; `line` is right while each is looked at.

        What takes too long to be decoded here is given as it came; `heavy.read_line` makes a message of it.

        A caller may stop at any message and go on later: lines that mean nothing take their time too.
        """
        lines = self.lines
        while lines:
            line = lines.pop()
            self.line += 1
            # A `LongLine` has the length of its head; a line that was gathered in a buffer is heavy.
            if len(line) > HEAVY_BYTES or type(line) is bytearray:
                yield HeavyLine(line)  # type: ignore[arg-type]  # as above
                continue
            # Python's white space is more than JSON's; only a line of nothing else is looked at twice.
            is_blank = type(line) is bytes and (not line or (line.isspace() and not line.strip(WHITE)))
            yield None if is_blank else decode_line(line, self._max_line_bytes)  # type: ignore[arg-type]  # as above

    def end(self) -> None:
        """The input is at its end, which completes a last line that lacks its newline."""
        if self._cutter.has_partial:
            self.feed(b"\n")

    def take(self) -> bytes | list[bytes | bytearray]:
        """The lines to send, encoded, in pieces where quoted texts are among them; the list is empty after it."""
        if not self.outgoing:
            return b""
        try:
            lines: bytes | list[bytes | bytearray] = _encoder.encode_lines(self.outgoing)
        except _QuotedError:
            lines = [piece for message in self.outgoing for piece in _pieces(message)]
        self.outgoing.clear()
        return lines


def _pieces(message: Outgoing) -> Iterator[bytes | bytearray]:
    """One line in pieces; what is quoted is a piece of its own, so that it is not copied."""
    body = message.msg if isinstance(message, NestedResp) else message
    literals: list[bytes | bytearray] = []
    # In the order in which they are written.
    for field in ("content", "blocks"):
        value = getattr(body, field, None)
        if isinstance(value, QuotedText):
            setattr(body, field, _MARK)
            literals.append(value.literal)
    head, *texts = (_encoder.encode(message) + b"\n").split(_MARK)
    yield head
    for literal, text in zip(literals, texts, strict=True):
        yield literal
        yield text
