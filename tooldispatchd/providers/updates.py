"""Updates of a running call, coalesced so that a chatty tool costs no more than a quiet one; no clock, no I/O.

The rule: an agent is told at most one update of a call in `INTERVAL_S`, and one more at its end. It holds the latest
progress, total and message, and all parts of the content since the one before, joined. The part with which these
would pass `MAX_CONTENT_BYTES` is left out, with all that follow it in that interval: one gap, at the end. Nothing slows
the tool down for its updates.
"""

import math
from collections.abc import Callable
from typing import Final, Self

import msgspec
from msgspec import Raw

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


class _UpdateLine(msgspec.Struct, tag_field="__port", tag="tool_update"):
    """A `tool_update` as a program writes it; its `id` and `agent` are not looked at."""

    progress: float | None = None
    total: float | None = None
    message: str | None = None
    content: str | None = None


class _DetailsLine(msgspec.Struct, tag_field="__port", tag="tool_details"):
    """Any other fields of it are details."""


_decode_line: Final = msgspec.json.Decoder(_UpdateLine | _DetailsLine).decode
_decode_fields: Final = msgspec.json.Decoder(dict[str, Raw]).decode


# What a runtime is told of one call, beside its answer: as much as one line.
MAX_DETAILS_BYTES: Final = MAX_UPDATE_BYTES
# The fields of such a line that are none.
_ADDRESS: Final = frozenset({"__port", "id", "agent"})


class UpdateLines(Held):
    """One program's lines in, its merged updates out, and into `details` the fields of what it tells the runtime.

    Either may be unwanted. Lines that are neither, or too long, are passed over; so are details beyond
    `MAX_DETAILS_BYTES`.
    """

    __slots__ = ("_cutter", "_details", "_details_room", "_is_told")

    def __init__(self, tell: Tell | None, details: dict[str, Raw] | None = None) -> None:
        super().__init__(tell or (lambda _update: None))
        self._is_told = tell is not None
        self._details = details
        self._details_room = MAX_DETAILS_BYTES
        self._cutter = LineCutter(MAX_UPDATE_BYTES)

    @classmethod
    def of(cls, tell: Tell | None, details: dict[str, Raw] | None) -> Self | None:
        """None where both are unwanted."""
        return None if tell is None and details is None else cls(tell, details)

    def take(self, chunk: bytes) -> None:
        """Take a chunk that was read."""
        for line in self._cutter.cut(chunk):
            if isinstance(line, LongLine) or not line or line.isspace():
                continue
            try:
                said = _decode_line(line)
                fields = _decode_fields(line) if isinstance(said, _DetailsLine) else {}
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
            if isinstance(said, _DetailsLine):
                self._enter(fields)
            elif self._is_told:
                self.add(Update(said.progress, said.total, said.message, said.content))

    def _enter(self, fields: dict[str, Raw]) -> None:
        if self._details is None:
            return
        for name, value in fields.items():
            size = len(name.encode()) + len(value)
            if name not in _ADDRESS and size <= self._details_room:
                self._details_room -= size
                # A view would keep the whole line.
                self._details[name] = value.copy()

    def exited(self, code: int) -> None:
        """Enter the exit code of a program that may have several, as a detail."""
        if self._details is not None:
            self._details["exit_code"] = Raw(b"%d" % code)

    def end(self) -> None:
        """Tell what is left; a last line need not have its newline."""
        self.take(b"\n")
        self.tell()
