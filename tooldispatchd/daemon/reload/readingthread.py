"""A thread for one reading of the configuration at a time, which is given up where it does not come to an end."""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

import trio

# Who asks waits for 60 s, and is to hear why. A command and an import have 20 s each.
READING_S: Final = 50.0

ReadT = TypeVar("ReadT")


class EndlessReadingError(Exception):
    """A reading has not come to its end in time, this one or the one before."""


class ReadingThread(Generic[ReadT]):
    """See the module. `read` makes one, in a thread; `drop` is given one that came when nobody waited any more.

    A thread that waits for a disk cannot be ended. While one does there is no other: at most one is left behind.
    """

    def __init__(
        self, read: Callable[[], ReadT], drop: Callable[[ReadT], object], *, within_s: float = READING_S
    ) -> None:
        self._read = read
        self._drop = drop
        self._within_s = within_s
        self._is_reading = self._is_given_up = False

    async def make(self) -> ReadT:
        """Read. Raises what `read` does, and `EndlessReadingError`."""
        if self._is_reading:
            raise EndlessReadingError(
                "the reading before has not ended, and until it has there is no other: does the disk of each file "
                "answer? If it never does, start the daemon again"
            )
        self._is_reading, self._is_given_up = True, False
        with trio.move_on_after(self._within_s):
            return await trio.to_thread.run_sync(self._work, abandon_on_cancel=True)
        self._is_given_up = True
        raise EndlessReadingError(
            f"the configuration was not read within {self._within_s:g} s: a file that it names, or a program that is "
            "run for it, does not answer"
        )

    def _work(self) -> ReadT:
        try:
            made = self._read()
        finally:
            self._is_reading = False
        if self._is_given_up:
            self._drop(made)
        return made
