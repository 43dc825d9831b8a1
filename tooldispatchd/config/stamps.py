"""Which files a reading of a configuration looks at, and what they were like: for whoever watches them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import EllipsisType
from typing import Final

# When it last changed, by the clock that nobody can set back, which file it is, and its size; None for one that is not
# there.
Stamp = tuple[int, int, int] | None


class Noted:
    """The files that a reading looked at, as they were before, and whether it ran commands, which may write them."""

    def __init__(self) -> None:
        self.stamps: Final[dict[Path, Stamp]] = {}
        self.ran_commands = False


_noted: Final[ContextVar[Noted | None]] = ContextVar("noted", default=None)


@contextmanager
def noting() -> Iterator[Noted]:
    """Note each file that is looked at in this block, and in this thread, as it is before it is read."""
    noted = Noted()
    token = _noted.set(noted)
    try:
        yield noted
    finally:
        _noted.reset(token)


def note(path: Path, stamp: Stamp | EllipsisType = ...) -> None:
    """A file is about to be read, or was read by another process, which gives the `stamp` that it had before."""
    noted = _noted.get()
    if noted is not None:
        whole = path.absolute()
        # Where one is read twice the first look counts: what it was then is in the catalog too.
        noted.stamps.setdefault(whole, stamp_of(whole) if stamp is ... else stamp)


def note_command() -> None:
    """A command is about to be run."""
    noted = _noted.get()
    if noted is not None:
        noted.ran_commands = True


def stamp_of(path: Path) -> Stamp:
    """What tells a file from what it was before."""
    try:
        status = os.stat(path)  # noqa: PTH116  # half the cost of Path, for each of many files
    except (OSError, ValueError):
        return None
    return status.st_ctime_ns, status.st_ino, status.st_size
