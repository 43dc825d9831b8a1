"""The files of stored outputs: one each, in a directory of the daemon's own, which is made for the first of them.

A `SpoolFile` is one that a program's output goes to while it runs.
"""

import itertools
import os
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

from tooldispatchd.calls.outputs import OutputQuota, StoredOutput, StoredOutputs
from tooldispatchd.privatefiles import create_private

MakeDirectory = Callable[[], Path]
"""Raises OSError."""

# What is removed in one turn: it takes half a millisecond. The pages of 64 MiB take the kernel 20 ms, in a thread then.
AT_ONCE_BYTES: Final = 1024 * 1024
AT_ONCE: Final = 16
NO_ROOM: Final = "there is no room for more"


def new_handle() -> str:
    """A handle; 128 bits of it are chance."""
    return f"out-{secrets.token_urlsafe(16)}"


class Spool:
    """`make` makes the directory, whose end is the end of all in it; without it nothing can be stored.

    Large files, and many, are removed by tasks in `home`.
    """

    def __init__(self, make: MakeDirectory | None, max_bytes: int, home: trio.Nursery) -> None:
        self.quota: Final = OutputQuota(max_bytes)
        self._make = make
        self._home = home
        self._removing = trio.CapacityLimiter(1)
        self._directory: Path | None = None
        self._numbers = itertools.count(1)

    def new_path(self) -> str:
        """Where the next one is to be. Raises OSError."""
        if self._directory is None:
            if self._make is None:
                raise OSError("there is no directory for it")
            self._directory = self._make()
        return str(self._directory / str(next(self._numbers)))

    def remove(self, stored: Sequence[StoredOutput]) -> None:
        """Remove their files. One that is being read is so until its end."""
        self.discard([each.path for each in stored], sum(each.size for each in stored))

    def discard(self, paths: Sequence[str], size: int) -> None:
        """Remove files of `size` bytes together, which may not be there."""
        if size <= AT_ONCE_BYTES and len(paths) <= AT_ONCE:
            _unlink(paths)
        else:
            self._home.start_soon(self._remove, paths)

    async def _remove(self, paths: Sequence[str]) -> None:
        await trio.to_thread.run_sync(_unlink, paths, limiter=self._removing, abandon_on_cancel=True)


def _unlink(paths: Sequence[str]) -> None:
    for path in paths:
        with suppress(OSError):
            Path(path).unlink()


class SpoolFile:
    """One output while it is written: `size` bytes with `ends` of lines so far, in the file `path`.

    Where it cannot be written, `why_not` says why; then nothing of it is left, and what comes is counted alone. A write
    goes to the page cache and nobody waits for the disk: the file survives no restart.
    """

    __slots__ = ("_descriptor", "_held", "_outputs", "_spool", "ends", "path", "size", "why_not")

    def __init__(self, spool: Spool, outputs: StoredOutputs) -> None:
        self._spool = spool
        self._outputs = outputs
        self._descriptor: int | None = None
        self._held = 0
        self.path: str | None = None
        self.size = self.ends = 0
        self.why_not: str | None = None

    def write(self, chunk: bytes | bytearray) -> None:
        """What comes next."""
        self.size += len(chunk)
        self.ends += chunk.count(b"\n")
        if self.why_not is None and self.hold(self.size):
            try:
                self._write(chunk)
            except OSError as error:
                self.drop(error.strerror or str(error))

    def hold(self, size: int) -> bool:
        """Have room for so many bytes in all; where there is none, it is dropped."""
        if size > self._held:
            forgotten = self._outputs.reserve(size - self._held)
            if forgotten is None:
                self.drop(NO_ROOM)
                return False
            self._spool.remove(forgotten)
            self._held = size
        return True

    def close(self) -> None:
        """There is no more of it. Idempotent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def keep(self, stored: StoredOutput) -> None:
        """It is that output now, which may be shorter."""
        self._outputs.give_back(self._held - stored.size)
        self._outputs.keep(stored)
        self._held, self.path = 0, None

    def drop(self, why: str) -> None:
        """Remove what there is of it, unless it is kept. Idempotent."""
        self.why_not = self.why_not or why
        self.close()
        if self.path is not None:
            self._spool.discard((self.path,), self.size)
        self._outputs.give_back(self._held)
        self._held, self.path = 0, None

    def _write(self, chunk: bytes | bytearray) -> None:
        if self._descriptor is None:
            path = self._spool.new_path()
            self._descriptor = create_private(path)
            self.path = path
        rest = memoryview(chunk)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
