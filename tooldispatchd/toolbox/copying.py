"""Copy a file, a link or a directory into a locked directory, where it appears when it is complete."""

import contextlib
import os
import stat
from pathlib import Path
from typing import Final

from tooldispatchd.forked.python.context import ToolFailedError
from tooldispatchd.toolbox import atomic
from tooldispatchd.toolbox.places import kind_of, opened

# What a disk copies in the time that a call usually has; for more there are programs.
MAX_BYTES: Final = 1024 * 1024 * 1024
MAX_ENTRIES: Final = 20_000
_CHUNK_BYTES: Final = 1024 * 1024


class Tally:
    """Count what is copied, and end a copy that becomes too large."""

    def __init__(self, source: str) -> None:
        self._cannot = f"cannot copy {source}"
        self.files = self.directories = self.links = self.bytes = 0

    def __str__(self) -> str:
        parts = [f"{self.files:,} file{'s' * (self.files != 1)} ({self.bytes:,} bytes)"]
        if self.directories:
            parts.append(f"{self.directories:,} director{'ies' if self.directories > 1 else 'y'}")
        if self.links:
            parts.append(f"{self.links:,} link{'s' * (self.links > 1)}")
        return ", ".join(parts)

    def check(self, coming: int = 0) -> None:
        """Raises ToolFailedError beyond the bounds, which `coming` bytes more would pass, too."""
        if self.files + self.directories + self.links > MAX_ENTRIES or self.bytes + coming > MAX_BYTES:
            raise ToolFailedError(f"{self._cannot}: it has more than {MAX_ENTRIES:,} entries or {MAX_BYTES:,} bytes")

    def refuse(self, name: str, mode: int) -> ToolFailedError:
        """The error for what cannot be copied."""
        return ToolFailedError(f"{self._cannot}: {name} is {kind_of(mode)}")


def copy_into(source: str, old: Path, directory: int, name: str, *, overwrite: bool) -> Tally:
    """Copy what is at `old` to `name` in the locked `directory`; `source` is how the agent names it.

    Raises FileExistsError where `name` is there, unless it is a file and may be overwritten; and ToolFailedError.
    """
    tally = Tally(source)
    mode = old.lstat().st_mode
    if stat.S_ISREG(mode):
        with atomic.new_file(directory, name, mode=mode, overwrite=overwrite) as descriptor:
            _copy_content(old, descriptor, tally)
    elif stat.S_ISDIR(mode):
        with atomic.temporary(directory):
            umask = os.umask(0)
            try:
                _copy_tree(old, directory, tally)
            finally:
                os.umask(umask)
            # Once for all files: each by itself would take a thousand times as long.
            os.sync()
            atomic.rename(directory, atomic.TEMPORARY, name, overwrite=False)
    elif stat.S_ISLNK(mode):
        with atomic.temporary(directory):
            os.symlink(old.readlink(), atomic.TEMPORARY, dir_fd=directory)
            tally.links += 1
            atomic.rename(directory, atomic.TEMPORARY, name, overwrite=overwrite)
    else:
        raise tally.refuse(source, mode)
    os.fsync(directory)
    return tally


def _copy_tree(root: Path, directory: int, tally: Tally) -> None:
    """Copy the directory at `root` to TEMPORARY; links as links, so that nothing outside of it is read."""
    waiting = [(str(root), f"/proc/self/fd/{directory}/{atomic.TEMPORARY}")]
    while waiting:
        place, copied = waiting.pop()
        tally.directories += 1
        # Who may not write in it could not fill the copy.
        os.mkdir(copied, os.lstat(place).st_mode & 0o777 | 0o700)  # noqa: PTH102  # as many as there are
        with os.scandir(place) as entries:
            for entry in entries:
                tally.check()
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, f"{copied}/{entry.name}"))
                elif entry.is_symlink():
                    os.symlink(os.readlink(entry.path), f"{copied}/{entry.name}")  # noqa: PTH115, PTH211  # as above
                    tally.links += 1
                else:
                    _copy_file(entry.path, f"{copied}/{entry.name}", tally)


def _copy_file(old: str, new: str, tally: Tally) -> None:
    mode = os.lstat(old).st_mode
    writer = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode & 0o777)
    try:
        _copy_content(old, writer, tally)
    finally:
        os.close(writer)


def _copy_content(old: Path | str, descriptor: int, tally: Tally) -> None:
    reader = opened("copy", old)
    try:
        status = os.fstat(reader)
        if not stat.S_ISREG(status.st_mode):
            raise tally.refuse(str(old), status.st_mode)
        tally.files += 1
        tally.check(status.st_size)
        while chunk := os.read(reader, _CHUNK_BYTES):
            tally.bytes += len(chunk)
            tally.check()
            atomic.write_all(descriptor, chunk)
    finally:
        os.close(reader)
    with contextlib.suppress(PermissionError):
        os.utime(descriptor, ns=(status.st_atime_ns, status.st_mtime_ns))
