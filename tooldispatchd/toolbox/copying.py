"""Copy a file, a link or a directory into a locked directory, where it appears when it is complete."""

import contextlib
import os
import stat
from pathlib import Path
from typing import Final

from tooldispatchd.forked.python.context import ToolFailedError
from tooldispatchd.toolbox import atomic
from tooldispatchd.toolbox.places import held, kind_of, opened

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


def copy_into(source: str, old: int, directory: int, name: str, *, overwrite: bool) -> Tally:
    """Copy what is open as `old` (O_PATH) to `name` in the locked `directory`; the agent names it `source`.

    Raises FileExistsError where `name` is there, unless it is a file and may be overwritten; and ToolFailedError.
    """
    tally = Tally(source)
    mode = os.fstat(old).st_mode
    if stat.S_ISREG(mode):
        with (
            held("copy", source, 0, name=f"/proc/self/fd/{old}") as reader,
            atomic.new_file(directory, name, mode=mode, overwrite=overwrite) as descriptor,
        ):
            _copy_content(source, reader, descriptor, tally)
    elif stat.S_ISDIR(mode):
        with atomic.temporary(directory):
            umask = os.umask(0)
            try:
                _copy_tree(source, old, directory, tally)
            finally:
                os.umask(umask)
            # Once for all files: each by itself would take a thousand times as long.
            os.sync()
            atomic.rename(directory, atomic.TEMPORARY, name, overwrite=False)
    elif stat.S_ISLNK(mode):
        with atomic.temporary(directory):
            os.symlink(os.readlink("", dir_fd=old), atomic.TEMPORARY, dir_fd=directory)
            tally.links += 1
            atomic.rename(directory, atomic.TEMPORARY, name, overwrite=overwrite)
    else:
        raise tally.refuse(source, mode)
    os.fsync(directory)
    return tally


def _copy_tree(source: str, old: int, directory: int, tally: Tally) -> None:
    """Copy the directory `old` to TEMPORARY; links as links, so that nothing outside of it is read."""
    os.mkdir(atomic.TEMPORARY, os.fstat(old).st_mode & 0o777 | 0o700, dir_fd=directory)
    waiting = [
        (str(Path(source).absolute()), f"/proc/self/fd/{old}/.", f"/proc/self/fd/{directory}/{atomic.TEMPORARY}")
    ]
    while waiting:
        shown, place, copied = waiting.pop()
        tally.directories += 1
        with contextlib.ExitStack() as stack:
            reader = stack.enter_context(held("copy", shown, os.O_NOFOLLOW | os.O_DIRECTORY, name=place))
            writer = opened("copy to", copied, os.O_NOFOLLOW | os.O_DIRECTORY | os.O_PATH)
            stack.callback(os.close, writer)
            for entry in stack.enter_context(os.scandir(reader)):
                tally.check()
                name = entry.name
                if entry.is_dir(follow_symlinks=False):
                    mode = os.stat(name, dir_fd=reader, follow_symlinks=False).st_mode
                    # Who may not write in it could not fill the copy.
                    os.mkdir(name, mode & 0o777 | 0o700, dir_fd=writer)
                    waiting.append((f"{shown}/{name}", f"{place}/{name}", f"{copied}/{name}"))
                elif entry.is_symlink():
                    os.symlink(os.readlink(name, dir_fd=reader), name, dir_fd=writer)
                    tally.links += 1
                else:
                    with held("copy", f"{shown}/{name}", name=name, at=reader) as file:
                        _copy_file(f"{shown}/{name}", file, name, writer, tally)


def _copy_file(shown: str, reader: int, name: str, directory: int, tally: Tally) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    writer = os.open(name, flags, os.fstat(reader).st_mode & 0o777, dir_fd=directory)
    try:
        _copy_content(shown, reader, writer, tally)
    finally:
        os.close(writer)


def _copy_content(shown: str, reader: int, descriptor: int, tally: Tally) -> None:
    status = os.fstat(reader)
    if not stat.S_ISREG(status.st_mode):
        raise tally.refuse(shown, status.st_mode)
    tally.files += 1
    tally.check(status.st_size)
    while chunk := os.read(reader, _CHUNK_BYTES):
        tally.bytes += len(chunk)
        tally.check()
        atomic.write_all(descriptor, chunk)
    with contextlib.suppress(PermissionError):
        os.utime(descriptor, ns=(status.st_atime_ns, status.st_mtime_ns))
