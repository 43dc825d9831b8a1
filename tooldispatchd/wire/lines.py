r"""Cut a byte stream into lines: linear in its bytes, bounded in its memory.

`LineCutter` holds at most one unfinished line of `max_line_bytes`. A longer one is reported once, at the moment it
passes the bound, and is then dropped up to its newline: the stream lives on. A `\r` before the newline is left where
it is (JSON takes it as white space).
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    # The commands of a client cut lines too, and have no time to import msgspec.
    from tooldispatchd.wire.faults import Fault

# The brief looks for a too long line's `id` in its first 4 KiB.
HEAD_BYTES: Final = 4096
# Members of a fixed size after the last large one; some peers write the `id` there.
END_BYTES: Final = 256


# From here on a growing line has memory of its own, which grows without being copied, and it is given as that buffer:
# moving 256 KiB there took the better part of a millisecond in one turn of the loop.
MOVED_BYTES: Final = 64 * 1024

Text = bytes | bytearray | memoryview


def reserve(buffer: bytearray, size: int) -> None:
    """Have `buffer` lie where it can grow to `size` bytes without being copied.

    After a burst the heap has free pieces that are large enough to begin a buffer in and too small to end it: growing
    one to 8 MiB then copied for 3 ms in one turn of the loop. Memory that is asked for whole is a mapping of its own,
    and what was not touched of it costs nothing.
    """
    import ctypes  # noqa: PLC0415  # the commands of a client have no such lines, and no time for it

    held = len(buffer)
    for length in (max(size, held), held):
        ctypes.pythonapi.PyByteArray_Resize(ctypes.py_object(buffer), ctypes.c_ssize_t(length))


def framed(head: bytes, text: Text, tail: bytes) -> bytes | bytearray:
    """`head`, `text` and `tail` as one; of a bytearray, which is a large one, by changing it.

    New memory for 8 MiB takes a virtual machine 40 ms, and moving as much in the memory that it has takes one.
    """
    if not isinstance(text, bytearray):
        return b"".join((head, text, tail))
    text[:0] = head
    text += tail
    return text


class LongLine:
    """Stands in the place of a line that is not kept; `head` is its first 4 KiB at most.

    `why` is what is told of it, where it is not over the bound.
    """

    __slots__ = ("head", "why")

    def __init__(self, head: bytes, why: "Fault | None" = None) -> None:
        self.head = head
        self.why = why

    def __len__(self) -> int:
        return len(self.head)


class LineCutter:
    r"""Turn chunks of bytes into lines, without their `\n`.

    `ended` are the last bytes of a line over the bound that the last chunk completed; empty where there was none.
    `held` is how many bytes of an unfinished line lie here.
    """

    __slots__ = ("_dropping", "_max", "_spent", "_tail", "ended", "held")

    def __init__(self, max_line_bytes: int) -> None:
        self._max = max_line_bytes
        # None while nothing is held: an idle peer costs no buffer. A bytearray grows in amortised linear time, also
        # for a peer that sends byte by byte, where a list of pieces would cost forty bytes for each.
        self._tail: bytearray | None = None
        # The end, so far, of a line that is being dropped; None while none is.
        self._dropping: bytes | None = None
        # The buffer of a line that was dropped, until somebody takes it: freeing 8 MiB takes a millisecond.
        self._spent: bytearray | None = None
        self.ended = b""
        self.held = 0

    @property
    def has_partial(self) -> bool:
        """Whether bytes of a line that lacks its newline are held or being dropped."""
        return self._tail is not None or self._dropping is not None

    def cut(self, chunk: bytes) -> list[bytes | bytearray | LongLine]:
        """The lines that `chunk` completes or pushes over the bound, in their order."""
        pieces: list[bytes | bytearray] = chunk.split(b"\n")  # type: ignore[assignment]  # nobody else has this list
        rest = pieces.pop()
        self.ended = b""
        if pieces:
            if self._dropping is not None:
                self.ended = _end_of(self._dropping, pieces[0])
                self._dropping = None
                del pieces[0]
            elif self._tail is not None:
                self._tail += pieces[0]
                # Copying a large one would take longer than all else.
                pieces[0] = bytes(self._tail) if len(self._tail) <= MOVED_BYTES else self._tail
                self._tail = None
                self.held = 0
        lines: list[bytes | bytearray | LongLine] = pieces  # type: ignore[assignment]  # as above
        # A line over the bound is the joined one, or lies in a chunk over the bound.
        if pieces and (len(pieces[0]) > self._max or len(chunk) > self._max):
            self.ended = next((bytes(line[-END_BYTES:]) for line in pieces if len(line) > self._max), self.ended)
            lines = [line if len(line) <= self._max else LongLine(bytes(line[:HEAD_BYTES])) for line in pieces]
        if rest and self._dropping is not None:
            self._dropping = _end_of(self._dropping, rest)
        elif rest:
            if self._tail is None:
                self._tail, self._spent = bytearray(rest), None
            else:
                was = len(self._tail)
                self._tail += rest
                if was <= MOVED_BYTES < len(self._tail):
                    reserve(self._tail, self._max)
            self.held = len(self._tail)
            if self.held > self._max and (line := self.give_up()) is not None:
                lines.append(line)
        return lines

    def forget(self) -> bytearray | None:
        """Keep nothing of the unfinished line: what lay here of it, or of the one that was dropped last."""
        spent = self._tail if self._tail is not None else self._spent
        self._tail = self._spent = None
        self.held = 0
        return spent

    def give_up(self, why: "Fault | None" = None) -> LongLine | None:
        """Keep nothing of the unfinished line, and drop the rest of it; None where there is none."""
        if self._tail is None:
            return None
        line = LongLine(bytes(self._tail[:HEAD_BYTES]), why)
        self._dropping = bytes(self._tail[-END_BYTES:])
        self._spent, self._tail = self._tail, None
        self.held = 0
        return line


def _end_of(before: bytes, more: bytes | bytearray) -> bytes:
    return bytes(more[-END_BYTES:]) if len(more) >= END_BYTES else (before + more)[-END_BYTES:]
