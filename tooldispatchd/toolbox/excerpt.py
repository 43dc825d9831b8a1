"""The two ends of an output of any length, in constant memory. No character is cut; what is no UTF-8 becomes U+FFFD."""

import codecs
from collections.abc import Sequence
from typing import Final

# Each end: with both a model reads some 8,000 tokens at most, and most outputs are whole.
END_BYTES: Final = 16 * 1024
MAX_LISTED: Final = 20
MAX_NAME: Final = 100
# A character of UTF-8 has at most three bytes behind its first.
_CONTINUING: Final = 3


class Excerpt:
    """Takes the bytes of an output in any pieces, and keeps its first and its last `end_bytes`."""

    def __init__(self, end_bytes: int = END_BYTES) -> None:
        self._end_bytes = end_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self._left_bytes = 0
        self._left_lines = 0

    def add(self, chunk: bytes) -> None:
        """The next piece."""
        room = self._end_bytes - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        spare = len(self._tail) - self._end_bytes
        if spare > 0:
            self._left_bytes += spare
            self._left_lines += self._tail.count(b"\n", 0, spare)
            del self._tail[:spare]

    def text(self) -> str:
        """All of it, or both ends and between them a line that says how much is left out."""
        if not self._left_bytes:
            return readable(bytes(self._head + self._tail))
        head = codecs.getincrementaldecoder("utf-8")("replace").decode(bytes(self._head))
        tail = from_character(bytes(self._tail))
        count, unit = (self._left_lines, "line") if self._left_lines else (self._left_bytes, "byte")
        left = f"{count:,} {unit}{'' if count == 1 else 's'}"
        return f"{without_nulls(head)}\n… {left} left out …\n{readable(tail)}"


def listed(names: Sequence[str]) -> str:
    """Names in one line, without those that nobody would read."""
    shown = [name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}…" for name in names[:MAX_LISTED]]
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return f"{', '.join(shown)}{more}"


def readable(raw: bytes) -> str:
    """Bytes of an output as a model is shown them."""
    return without_nulls(raw.decode("utf-8", "replace"))


def without_nulls(text: str) -> str:
    """NUL is replaced as well: much that stores or shows an answer ends a text there. Other controls stay."""
    return text.replace("\0", "\ufffd")


def from_character(raw: bytes) -> bytes:
    """What was cut out of a longer output, without the rest of a character that was cut."""
    start = 0
    while start < min(_CONTINUING, len(raw)) and raw[start] & 0xC0 == 0x80:
        start += 1
    return raw[start:]
