"""Files that their owner alone may read: how they are made, opened and replaced.

None of these follows a link, which could lead to a file of somebody else's.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

_PRIVATE: Final = 0o600


def create_private(path: str | Path, mode: int = _PRIVATE) -> int:
    """The descriptor, to read and write, of a file where nothing was. Raises `OSError`."""
    # With O_EXCL a link is something that was there: open(2).
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)


def open_private(path: str | Path, flags: int = 0) -> int:
    """The descriptor, to read and write, of a file that is made where there is none. Raises `OSError`.

    One that others could read, as somebody made it by hand, is its owner's alone from now on.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | flags, _PRIVATE)
    try:
        os.fchmod(descriptor, _PRIVATE)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def replace_private(path: Path, pieces: Iterable[bytes]) -> None:
    """Replace a file at once: a reader sees the old content or the new, also after a power cut. Raises `OSError`."""
    fresh = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    descriptor = create_private(fresh)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(descriptor)
        fresh.replace(path)
    except OSError:
        with suppress(OSError):
            fresh.unlink()
        raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
