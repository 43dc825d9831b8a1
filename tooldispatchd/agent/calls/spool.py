"""The files of stored outputs: one each, in a directory of the daemon's own, which is made for the first of them."""

import itertools
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from tooldispatchd.calls.outputs import OutputQuota, StoredOutput

MakeDirectory = Callable[[], Path]
"""Raises OSError."""


def new_handle() -> str:
    """A handle; 128 bits of it are chance."""
    return f"out-{secrets.token_urlsafe(16)}"


class Spool:
    """`make` makes the directory; without it nothing can be stored."""

    def __init__(self, make: MakeDirectory | None, max_bytes: int) -> None:
        self.quota: Final = OutputQuota(max_bytes)
        self._make = make
        self._directory: Path | None = None
        self._numbers = itertools.count(1)

    def new_path(self) -> str:
        """Where the next one is to be. Raises OSError."""
        if self._directory is None:
            if self._make is None:
                raise OSError("there is no directory for it")
            self._directory = self._make()
        return str(self._directory / str(next(self._numbers)))

    def remove(self, stored: Iterable[StoredOutput]) -> None:
        """Remove their files. One that is being read is so until its end."""
        for each in stored:
            self.discard(each.path)

    @staticmethod
    def discard(path: str) -> None:
        """Remove one that may not be there."""
        with suppress(OSError):
            Path(path).unlink()
