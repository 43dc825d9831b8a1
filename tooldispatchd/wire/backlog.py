"""What a peer has not taken yet: small lines joined, large pieces as they came, for copying one takes too long."""

from collections import deque
from collections.abc import Iterator
from typing import Final

# Copied in little time, and as much as one write to a socket mostly takes.
JOINED_BYTES: Final = 64 * 1024


class Backlog:
    """Bytes in their order; its length is theirs."""

    __slots__ = ("_pieces", "_size", "_taken")

    def __init__(self, lines: bytes | bytearray = b"", taken: int = 0) -> None:
        """Begin with `lines`, of which so many bytes have been taken already."""
        self._pieces: deque[bytes | bytearray] = deque()
        self._size = 0
        self._taken = 0  # of the first piece
        if len(lines) - taken <= JOINED_BYTES:
            self.add(lines[taken:])
        else:
            self.add(lines)
            self.drop(taken)

    def __len__(self) -> int:
        return self._size

    def add(self, lines: bytes | bytearray) -> None:
        """Append `lines`; a large bytearray must not change any more."""
        size, pieces = len(lines), self._pieces
        self._size += size
        if size > JOINED_BYTES:
            pieces.append(lines)
        elif pieces and type(last := pieces[-1]) is bytearray and len(last) < JOINED_BYTES:
            last += lines
        else:
            pieces.append(bytearray(lines))

    def first(self) -> memoryview:
        """The first bytes, as many as lie together; there must be some. To be let go of before anything is added."""
        return memoryview(self._pieces[0])[self._taken :]

    def drop(self, taken: int) -> bytes | bytearray | None:
        """Forget the first `taken` bytes, no more than `first` gave; the piece of which they were the last."""
        self._size -= taken
        self._taken += taken
        if self._taken < len(self._pieces[0]):
            return None
        self._taken = 0
        return self._pieces.popleft()

    def take_all(self) -> Iterator[bytes | bytearray]:
        """Forget everything: the pieces."""
        self._size = 0
        while self._pieces:
            yield self._pieces.popleft()
