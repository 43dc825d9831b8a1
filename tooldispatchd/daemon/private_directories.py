"""Directories that a daemon has to itself as long as it lives, and that do not outlive it."""

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from tooldispatchd.children.removal import LOCK, remove_tree

# What killed daemons have left may be large, and a start waits for it: what takes longer is left to the next one.
SWEEP_S: Final = 1.0
# At the end nothing large should be left there.
REMOVE_S: Final = 1.0


@contextmanager
def open_private_directory(prefix: str, environ: Mapping[str, str], *, mode: int = 0o700) -> Iterator[Path]:
    """A new directory in `$RUNTIME_DIRECTORY`, else where temporary files are; its path has no symbolic links.

    Its name begins with `prefix`. Others that do, and that daemons of this user have left which were killed, are
    removed first. Raises OSError where it cannot be made.
    """
    parent = environ.get("RUNTIME_DIRECTORY", "").partition(":")[0] or tempfile.gettempdir()
    directory = Path(tempfile.mkdtemp(prefix=prefix, dir=parent)).resolve()
    with ExitStack() as stack:
        stack.callback(lambda: remove_tree(str(directory), until=time.monotonic() + REMOVE_S))
        directory.chmod(mode)
        stack.callback(os.close, _lock(directory))
        stack.callback(os.close, _hold(directory))
        _sweep(directory.parent, prefix)
        yield directory


def _lock(directory: Path) -> int:
    """The lock of a directory, held by the descriptor: the kernel lets it go however the daemon ends."""
    # It appears as what it is: one that another daemon finds unlocked was left.
    unnamed = directory / f"{LOCK}-new"
    descriptor = os.open(unnamed, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    unnamed.rename(directory / LOCK)
    return descriptor


def _hold(directory: Path) -> int:
    """A lock on the directory itself, which keeps systemd from ageing its content: tmpfiles.d(5)."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return descriptor


def _sweep(parent: Path, prefix: str) -> None:
    """Remove what daemons of this user have left that were killed."""
    until = time.monotonic() + SWEEP_S
    for left in parent.glob(f"{prefix}*"):
        # Another user's, one in use, and one that is just being made or removed, are nobody else's business.
        with suppress(OSError):
            if left.lstat().st_uid == os.geteuid() and not left.is_symlink():
                with (left / LOCK).open("r", encoding="ascii") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    remove_tree(str(left), until=until)
