"""Updates of a running call, coalesced so that a chatty tool costs no more than a quiet one; no clock, no I/O.

The rule: an agent is told at most one update of a call in `INTERVAL_S`, and one more at its end. It holds the latest
progress, total and message, and all parts of the content since the one before, joined. The part with which these
would pass `MAX_CONTENT_BYTES` is left out, with all that follow it in that interval: one gap, at the end. Nothing slows
the tool down for its updates.
"""

import math
from collections.abc import Callable
from typing import Final, Literal

import msgspec

from tooldispatchd.calls.outcome import MAX_UPDATE_BYTES, Update
from tooldispatchd.wire.lines import LineCutter, LongLine

# Twenty a second: a reader notices no more.
INTERVAL_S: Final = 0.05
# Of one update: as much as a pipe, so that a program's usual output passes whole.
MAX_CONTENT_BYTES: Final = 64 * 1024

NOTHING: Final = Update()

Tell = Callable[[Update], None]


class Held:
    """The updates of one call that its agent has not been told yet, as one.

    `due` is when they should be told, in seconds of the caller's clock; infinite where there are none.
    """

    __slots__ = ("_content", "_message", "_next", "_progress", "_room", "_tell", "_total", "due")

    _progress: float | None
    _total: float | None
    _message: str | None
    _content: list[str]
    _room: int

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._next = -math.inf
        self.due = math.inf
        self._empty()

    def add(self, update: Update) -> None:
        """Merge `update` in."""
        if self.due == math.inf:
            self.due = self._next
        if update.progress is not None:
            self._progress = update.progress
        if update.total is not None:
            self._total = update.total
        if update.message is not None:
            self._message = update.message
        if update.content:
            self._room -= len(update.content.encode())
            if self._room >= 0:
                self._content.append(update.content)
            else:
                # Nor does a shorter part fit: it would seem to follow what it does not.
                self._room = 0

    def tell_due(self, now: float) -> float:
        """Tell what is due at `now`; when there will be more to tell, infinite where nothing is held."""
        if self.due <= now:
            self._next = now + INTERVAL_S
            self.due = math.inf
            self.tell()
        return self.due

    def tell(self) -> None:
        """Tell the agent what is held, where anything is."""
        content = "".join(self._content) or None
        update = Update(self._progress, self._total, self._message, content)
        self._empty()
        if update != NOTHING:
            self._tell(update)

    def _empty(self) -> None:
        self._progress = None
        self._total = None
        self._message = None
        self._content = []
        self._room = MAX_CONTENT_BYTES


class _Line(msgspec.Struct):
    """A `tool_update` as a program writes it; its `id` and `agent` are not looked at."""

    port: Literal["tool_update"] = msgspec.field(name="__port")
    progress: float | None = None
    total: float | None = None
    message: str | None = None
    content: str | None = None


_decode_line: Final = msgspec.json.Decoder(_Line).decode


class UpdateLines(Held):
    """One program's lines in, its merged updates out. Lines that are none, or too long, are passed over."""

    __slots__ = ("_cutter",)

    def __init__(self, tell: Tell) -> None:
        super().__init__(tell)
        self._cutter = LineCutter(MAX_UPDATE_BYTES)

    def take(self, chunk: bytes) -> None:
        """Take a chunk that was read."""
        for line in self._cutter.cut(chunk):
            if isinstance(line, LongLine) or not line or line.isspace():
                continue
            try:
                said = _decode_line(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
            self.add(Update(said.progress, said.total, said.message, said.content))

    def end(self) -> None:
        """Tell what is left; a last line need not have its newline."""
        self.take(b"\n")
        self.tell()
