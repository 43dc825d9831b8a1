"""Long answers that one session has stored, until it ends or needs their room for newer ones. Pure.

    reserve ── oldest are forgotten ──▶ written by whoever asked ──▶ keep, or give back ──▶ forgotten

The bytes lie in files, which are the caller's: what is to be removed is returned.
"""

from typing import Final

import msgspec

# A session that stores many small ones, since its bound is small, has no more files than this.
MAX_STORED: Final = 1024
# A token of English is about four bytes, of code three, of other languages' text one to three.
TOKEN_BYTES: Final = 4


def tokens_in(size: int) -> int:
    """An estimate of the tokens in a text of so many bytes."""
    return -(-size // TOKEN_BYTES)


class StoredOutput(msgspec.Struct, frozen=True):
    """An answer in the file `path`, in UTF-8. A handle is a secret of its session: nobody can guess another's."""

    handle: str
    path: str
    size: int
    lines: int
    tokens: int

    def fields(self) -> dict[str, object]:
        """What an agent is told of it."""
        return {"handle": self.handle, "bytes": self.size, "lines": self.lines, "tokens": self.tokens}


class OutputQuota:
    """What all sessions have stored together, in bytes."""

    __slots__ = ("held", "max_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.held = 0


class StoredOutputs:
    """Those of one session: at most `max_bytes`, and of `whole` what is left there."""

    __slots__ = ("_kept", "_max_bytes", "_stored", "_whole", "held")

    def __init__(self, whole: OutputQuota, max_bytes: int) -> None:
        self.held = 0
        self._whole = whole
        self._max_bytes = max_bytes
        self._stored: dict[str, StoredOutput] = {}
        self._kept = 0  # of what is held; the rest is being written

    def get(self, handle: str) -> StoredOutput | None:
        """The one of this handle; None for one that never was, is another session's, or is forgotten."""
        return self._stored.get(handle)

    def reserve(self, size: int) -> list[StoredOutput] | None:
        """Hold room for so much; what was forgotten for it, oldest first, or None where that would not help."""
        whole = self._whole
        if self.held - self._kept + size > self._max_bytes or whole.held - self._kept + size > whole.max_bytes:
            return None
        forgotten: list[StoredOutput] = []
        while (
            self.held + size > self._max_bytes or whole.held + size > whole.max_bytes or len(self._stored) >= MAX_STORED
        ):
            oldest = self._stored.pop(next(iter(self._stored)))
            self._kept -= oldest.size
            self.give_back(oldest.size)
            forgotten.append(oldest)
        self.held += size
        whole.held += size
        return forgotten

    def keep(self, stored: StoredOutput) -> None:
        """One has been written, for which there is room."""
        self._stored[stored.handle] = stored
        self._kept += stored.size

    def give_back(self, size: int) -> None:
        """Room for so much is not needed."""
        self.held -= size
        self._whole.held -= size

    def close(self) -> list[StoredOutput]:
        """Forget all; returns them."""
        forgotten = list(self._stored.values())
        self._stored.clear()
        self._kept = 0
        self.give_back(self.held)
        return forgotten
