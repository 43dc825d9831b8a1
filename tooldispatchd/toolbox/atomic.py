"""Put files and directories in place whole: whoever looks, or kills this process, finds the old or the new.

A file is written without a name (O_TMPFILE), and named when it is on the disk. Where it replaces another it bears the
name TEMPORARY for an instant, since no call of the kernel names a file over another. A copy of a directory bears it
from the beginning, and so does a file where the file system has none without a name. Only the holder of the directory's
lock may use that name, and while it does another process stands by, to remove what bears it if this one is killed. If
both are, the next holder does.
"""

import contextlib
import errno
import fcntl
import os
import shutil
import signal
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NoReturn

from tooldispatchd.forked import libc

TEMPORARY: Final = ".tooldispatchd-temporary"
# linux/fs.h; Python has no name for it.
_RENAME_NOREPLACE: Final = 1
_NO_UNNAMED_FILES: Final = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL})


@contextlib.contextmanager
def locked(path: Path, check: Callable[[int], None] = lambda _directory: None) -> Iterator[int]:
    """A descriptor of the directory at `path`, in which nobody else writes with this module for as long as it lasts.

    Before anything is done in it, `check` may raise for what was opened.
    """
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        check(directory)
        fcntl.flock(directory, fcntl.LOCK_EX)
        _clear(directory)
        try:
            yield directory
        finally:
            _clear(directory)
    finally:
        os.close(directory)


@contextlib.contextmanager
def temporary(directory: int) -> Iterator[None]:
    """The block may use TEMPORARY in the locked `directory`; nothing bears it afterwards, also if it is killed."""
    watched, held = os.pipe()
    try:
        keeper = os.fork()
    except OSError:
        # No more processes may be started.
        keeper = None
    if keeper == 0:
        _keep(directory, watched, held)
    if keeper is not None:
        # A group of its own, which is not killed with this one.
        os.setpgid(keeper, keeper)
    os.close(watched)
    try:
        yield
    finally:
        if keeper is not None:
            # What is left is removed by `locked`; the copy of this process need not wake up for it.
            os.kill(keeper, signal.SIGKILL)
            os.waitpid(keeper, 0)
        os.close(held)


def _keep(directory: int, watched: int, held: int) -> NoReturn:
    """Wait for the end of the block, however it comes, and remove what is left of it. The lock is held until then."""
    try:
        os.close(held)
        os.read(watched, 1)
        _clear(directory)
    finally:
        os._exit(0)


@contextlib.contextmanager
def new_file(directory: int, name: str, *, mode: int | None = None, overwrite: bool = True) -> Iterator[int]:
    """A descriptor to write to; what was written is the file `name` at the end of the block, unless that raises.

    It keeps the mode (where none is given) and, where that is allowed, the owner of the file that it replaces, and
    never bits that run it as its owner: as when the kernel writes to one. Raises FileExistsError without `overwrite`.
    """
    old = _status(directory, name)
    if mode is None and old is not None:
        mode = old.st_mode
    with _created(directory, mode) as (descriptor, is_named):
        yield descriptor
        if old is not None:
            # Only root may give files away, and a sandbox may forbid it.
            with contextlib.suppress(PermissionError):
                os.fchown(descriptor, old.st_uid, old.st_gid)
        os.fsync(descriptor)
        if is_named:
            rename(directory, TEMPORARY, name, overwrite=overwrite)
        else:
            _give_name(descriptor, directory, name, overwrite=overwrite)
        os.fsync(directory)


def rename(directory: int, old: str, new: str, *, overwrite: bool, source: int | None = None) -> None:
    """Name `old`, a name in the directory `source` or else in `directory`, `new` in `directory`, in one step.

    Raises FileExistsError where `new` is there and is not to be replaced.
    """
    source = directory if source is None else source
    if overwrite:
        os.rename(old, new, src_dir_fd=source, dst_dir_fd=directory)
        return
    try:
        libc.check(libc.load().renameat2(source, os.fsencode(old), directory, os.fsencode(new), _RENAME_NOREPLACE))
    except OSError as error:
        # A file system that cannot look and rename at once.
        if error.errno != errno.EINVAL:
            raise
        if _status(directory, new) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
        os.rename(old, new, src_dir_fd=source, dst_dir_fd=directory)


def write_all(descriptor: int, content: bytes) -> None:
    """Write all of `content`; a write may take less than it is given."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _give_name(descriptor: int, directory: int, name: str, *, overwrite: bool) -> None:
    unnamed = f"/proc/self/fd/{descriptor}"
    try:
        os.link(unnamed, name, dst_dir_fd=directory)
    except FileExistsError:
        if not overwrite:
            raise
        with temporary(directory):
            os.link(unnamed, TEMPORARY, dst_dir_fd=directory)
            os.rename(TEMPORARY, name, src_dir_fd=directory, dst_dir_fd=directory)


@contextlib.contextmanager
def _created(directory: int, mode: int | None) -> Iterator[tuple[int, bool]]:
    """A new file and whether it bears the name TEMPORARY; without a mode it gets the usual one.

    The mode is set here, since a sandbox may forbid `chmod`, and any that forbids it allows this.
    """
    flags = os.O_RDWR | os.O_CLOEXEC
    with contextlib.ExitStack() as stack:
        try:
            descriptor = _open_as(".", flags | os.O_TMPFILE, mode, directory)
            is_named = False
        except OSError as error:
            if error.errno not in _NO_UNNAMED_FILES:
                raise
            stack.enter_context(temporary(directory))
            descriptor = _open_as(TEMPORARY, flags | os.O_CREAT | os.O_EXCL, mode, directory)
            is_named = True
        stack.callback(os.close, descriptor)
        yield descriptor, is_named


def _open_as(name: str, flags: int, mode: int | None, directory: int) -> int:
    umask = None if mode is None else os.umask(0)
    try:
        return os.open(name, flags, 0o666 if mode is None else mode & 0o777, dir_fd=directory)
    finally:
        if umask is not None:
            os.umask(umask)


def _status(directory: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _clear(directory: int) -> None:
    left = _status(directory, TEMPORARY)
    if left is None:
        return
    if stat.S_ISDIR(left.st_mode):
        shutil.rmtree(TEMPORARY, dir_fd=directory)
    else:
        os.unlink(TEMPORARY, dir_fd=directory)
