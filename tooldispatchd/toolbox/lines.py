r"""Lines of a text of any length, of which never more than one chunk is held.

A line ends with "\n"; a "\r" in front of that belongs to the ending. What follows the last ending is a line too, unless
it is empty.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

# Wide enough for what people write, and for most tables; of minified code and data nobody reads more.
MAX_LINE_CHARS: Final = 2_000


class ReadLine(NamedTuple):
    """A line's beginning, without its ending; `left_out` characters follow, or more where `is_open`."""

    text: str
    ending: str
    left_out: int
    is_open: bool

    def __str__(self) -> str:
        if not self.left_out:
            return self.text
        return f"{self.text}… {'at least ' * self.is_open}{self.left_out:,} characters left out …"


class LineStream:
    """Cuts chunks of text into lines, and skips or counts lines at the speed at which chunks come.

    With `left_chars` it stops after the chunk in which that many characters are used up: `is_cut` then.
    """

    def __init__(self, chunks: Iterator[str]) -> None:
        self.left_chars: int | None = None
        self.is_cut = False
        self._chunks = chunks
        self._chunk = ""
        self._at = 0

    def skip(self, lines: int | None = None) -> int:
        """Skip so many lines, or all; returns how many there were."""
        skipped, in_line = 0, False
        while (lines is None or skipped < lines) and self._has_more():
            found = self._chunk.count("\n", self._at)
            if lines is not None and skipped + found >= lines:
                for _ in range(lines - skipped):
                    self._at = self._chunk.index("\n", self._at) + 1
                return lines
            skipped += found
            in_line = not self._chunk.endswith("\n")
            self._at = len(self._chunk)
        return skipped + in_line

    def take(self) -> ReadLine | None:
        """The next line; None at the end."""
        kept, length, last = "", 0, ""
        while self._has_more():
            end = self._chunk.find("\n", self._at)
            stop = len(self._chunk) if end < 0 else end
            kept += self._chunk[self._at : min(stop, self._at + MAX_LINE_CHARS + 1 - len(kept))]
            last = self._chunk[stop - 1] if stop > self._at else last
            length += stop - self._at
            self._at = stop
            if end >= 0:
                self._at += 1
                return _line(kept, length - (last == "\r"), "\r\n" if last == "\r" else "\n", is_open=False)
        return _line(kept, length, "", is_open=self.is_cut) if length else None

    def _has_more(self) -> bool:
        while self._at >= len(self._chunk):
            if self.left_chars is not None and self.left_chars <= 0:
                self.is_cut = self.is_cut or next(self._chunks, None) is not None
                return False
            chunk = next(self._chunks, None)
            if chunk is None:
                return False
            self._chunk, self._at = chunk, 0
            if self.left_chars is not None:
                self.left_chars -= len(chunk)
        return True


def _line(kept: str, length: int, ending: str, *, is_open: bool) -> ReadLine:
    text = kept[: min(length, MAX_LINE_CHARS)]
    return ReadLine(text, ending, length - len(text), is_open)
