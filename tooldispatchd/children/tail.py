"""The stderr of a child: its beginning, a ring with its end, and the one line that says most; the end of its stdout."""

import codecs
import re
from typing import Final

# Enough for a long traceback of a chatty server, little enough for thousands of connections.
TAIL_BYTES: Final = 64 * 1024

# As much of a program's complaints as a model should read.
STDERR_TAIL_BYTES: Final = 4 * 1024
# Of these, for the beginning: some programs say first what is wrong, and then much else.
STDERR_HEAD_BYTES: Final = 1024

_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_COMPLAINT: Final = re.compile(
    r"error|exception|fatal|panic|can(?:no|')t|could not|unable|denied|not found|no (?:such|matching)|failed|refused"
    r"|invalid",
    re.IGNORECASE,
)
# Of npm's many lines the one after this says what is wrong, and the last one where it was logged.
_NPM: Final = re.compile(r"npm (?:error|ERR!)(?! code | A complete log)")


class Tail:
    """The last `max_bytes` bytes of a stream, and its first few; `total` counts every byte that was ever added."""

    __slots__ = ("_head", "_kept", "_max", "total")

    def __init__(self, max_bytes: int = TAIL_BYTES) -> None:
        self._max = max_bytes
        self._head = b""
        self._kept = bytearray()
        self.total = 0

    def add(self, chunk: bytes | bytearray) -> None:
        """Append `chunk`; what no longer fits falls off the front."""
        if len(self._head) < STDERR_HEAD_BYTES:
            self._head += chunk[: STDERR_HEAD_BYTES - len(self._head)]
        self.total += len(chunk)
        self._kept += chunk[-self._max :]
        # A bytearray only moves its start here, so that a child that writes byte by byte costs linear time.
        del self._kept[: -self._max]

    def text(self) -> str:
        """The kept bytes as text: a character cut at the front or the end is left out, other bad bytes are replaced."""
        if not self.total:
            return ""
        start = 0
        if self.total > len(self._kept):
            # A UTF-8 character has at most three bytes after its first, and they alone look like 10xxxxxx.
            while start < min(3, len(self._kept)) and self._kept[start] & 0xC0 == 0x80:
                start += 1
        # Of a character whose last bytes have not come, or were never written, an unfinished decoding says nothing.
        text, _ = codecs.utf_8_decode(self._kept[start:], "replace", False)  # noqa: FBT003  # it takes no keywords
        return text

    def excerpt(self) -> str:
        """As much as others are told: all of it, or its beginning and its end where it is over `STDERR_TAIL_BYTES`."""
        if self.total <= STDERR_TAIL_BYTES:
            return self.text()
        head, _ = codecs.utf_8_decode(self._head, "replace", False)  # noqa: FBT003  # as above
        end = self.text().encode()[-(STDERR_TAIL_BYTES - STDERR_HEAD_BYTES) :].decode(errors="ignore")
        return f"{head}\n[{self.total - STDERR_TAIL_BYTES} bytes are left out]\n{end}"


# As much of an output as `end_of` needs: a character more shows whether the first one is cut.
END_BYTES: Final = STDERR_TAIL_BYTES + 4


def end_of(output: bytes | bytearray) -> str:
    """As much of the end of an output as is told of a failure."""
    tail = Tail(STDERR_TAIL_BYTES)
    tail.add(output)
    return tail.text()


def telling_line(text: str) -> str:
    """The line of a program's stderr that says most of why it failed, "" where there is none.

    The last one that complains; by its indentation a traceback's own lines are none. npm complains from its first line
    on, and last of all names a file; its notices tell of itself.
    """
    lines = [line for line in _COLOURS.sub("", text).splitlines() if line.strip() and not line.startswith("npm notice")]
    npm = [line[found.end() :] for line in lines if (found := _NPM.match(line))]
    if npm:
        return next((line for line in npm if _COMPLAINT.search(line)), npm[0]).strip()
    margin = [line for line in lines if not line[0].isspace()] or lines
    complaints = [line for line in margin if _COMPLAINT.search(line)]
    return (complaints or margin or [""])[-1].strip()
