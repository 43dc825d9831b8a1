"""The end of what a child wrote to its stderr: a ring that keeps the last bytes and counts all of them."""

import codecs
from typing import Final

# Enough for a long traceback of a chatty server, little enough for thousands of connections.
TAIL_BYTES: Final = 64 * 1024


class Tail:
    """The last `max_bytes` bytes of a stream; `total` counts every byte that was ever added."""

    __slots__ = ("_kept", "_max", "total")

    def __init__(self, max_bytes: int = TAIL_BYTES) -> None:
        self._max = max_bytes
        self._kept = bytearray()
        self.total = 0

    def add(self, chunk: bytes) -> None:
        """Append `chunk`; what no longer fits falls off the front."""
        self.total += len(chunk)
        self._kept += chunk[-self._max :]
        # A bytearray only moves its start here, so that a child that writes byte by byte costs linear time.
        del self._kept[: -self._max]

    def text(self) -> str:
        """What is kept, as text: a character cut at the front or the end is left out, other bad bytes are replaced."""
        start = 0
        if self.total > len(self._kept):
            # A UTF-8 character has at most three bytes after its first, and they alone look like 10xxxxxx.
            while start < min(3, len(self._kept)) and self._kept[start] & 0xC0 == 0x80:
                start += 1
        # Of a character whose last bytes have not come, or were never written, an unfinished decoding says nothing.
        text, _ = codecs.utf_8_decode(self._kept[start:], "replace", False)  # noqa: FBT003  # it takes no keywords
        return text
