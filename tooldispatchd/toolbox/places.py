"""What lies at a path, and the sentence that a model is told where the kernel does not give it.

The kernel refuses what a tool may not use, and `cannot` puts its refusal into words. But it lets every program read the
system's own files, and may have no sandbox: `check_inside` keeps the tools of files to the workspace, and to `read` and
`write` of their table, by the path; `opened` by what was opened, whatever was put in the path's place meanwhile.
"""

import contextlib
import difflib
import errno
import itertools
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta

from tooldispatchd.forked.python.context import Shutting, ToolFailedError

PathText = Annotated[
    str,
    # The kernel takes no null character, and no more than 4095 bytes.
    Meta(min_length=1, max_length=4095, pattern=r"^[^\x00]+$", description="absolute, or relative to the workspace"),
]

OUTSIDE: Final = "it lies outside of what this tool may use"
# Verbs that change nothing at their path; every other one is taken to write.
_READING: Final = frozenset({"read", "list", "search", "copy"})
_KINDS: Final = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_REASONS: Final = {
    errno.EAGAIN: "nothing can be read from it now",
    errno.EBUSY: "the system is using it",
    errno.EDQUOT: "the user may store no more there",
    errno.EEXIST: "it exists already",
    errno.EFBIG: "it would be larger than a file may be",
    errno.EISDIR: "it is a directory; list shows what is in it",
    errno.ELOOP: "its links lead in a circle",
    errno.ENAMETOOLONG: "its name is too long",
    errno.ENOSPC: "no space is left there",
    errno.ENOTEMPTY: "the directory is not empty",
    errno.EROFS: f"{OUTSIDE}, or on a file system that nobody can write to",
    errno.ETXTBSY: "it is a program that is running",
    errno.EXDEV: "the two places are on different file systems",
}
# Of a directory with more names the rest is not compared: that takes 20 ms.
_COMPARED_NAMES: Final = 2_000


def cannot(verb: str, path: str | Path, error: OSError) -> ToolFailedError:
    """The failure to raise where the kernel refused to `verb` what is at `path`: `cannot read x.txt: …`."""
    return ToolFailedError(f"cannot {verb} {path}: {_reason(verb, Path(path), error)}")


def check_inside(verb: str, path: str | Path, real: str | None = None) -> None:
    """Raise ToolFailedError where `path` lies outside of the places that the tool may `verb`.

    `real` is the path without links where it is known.
    """
    places = Shutting.read if verb in _READING else Shutting.write
    if places is None:
        return
    try:
        real = real or os.path.realpath(path)
    except OSError as error:
        raise cannot(verb, path, error) from error
    if not any(real == place or real.startswith(f"{place.rstrip('/')}/") for place in places):
        raise ToolFailedError(f"cannot {verb} {path}: {OUTSIDE}")


def opened(verb: str, path: str | Path, flags: int = os.O_NOFOLLOW, *, name: str | None = None, at: int = -1) -> int:
    """Open what is at `path` for reading, without waiting; raises OSError, and ToolFailedError where it lies outside.

    With `name` it is what has that name in the directory that is open as `at`.
    """
    flags |= os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    descriptor = os.open(path, flags) if name is None else os.open(name, flags, dir_fd=at)
    try:
        check_opened(verb, path, descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextlib.contextmanager
def held(
    verb: str, path: str | Path, flags: int = os.O_NOFOLLOW, *, name: str | None = None, at: int = -1
) -> Iterator[int]:
    """What `opened` opens, for as long as it is needed; raises ToolFailedError alone where it cannot be opened."""
    try:
        descriptor = opened(verb, path, flags, name=name, at=at)
    except OSError as error:
        raise cannot(verb, path, error) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def check_opened(verb: str, path: str | Path, descriptor: int) -> None:
    """Raise as `check_inside` for what was opened by `path`: the kernel tells where it lies."""
    if Shutting.read is not None or Shutting.write is not None:
        check_inside(verb, path, os.readlink(f"/proc/self/fd/{descriptor}"))  # noqa: PTH115  # of a descriptor


def kind_of(mode: int) -> str:
    """What a file with this `st_mode` is: `a file`, `a directory`, `a link`, `a FIFO`, `a socket` or `a device`."""
    return _KINDS.get(stat.S_IFMT(mode), "neither a file nor a directory")


def near_names(path: Path) -> list[str]:
    """At most three names in the directory of `path` that resemble its own, the nearest first."""
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry in itertools.islice(entries, _COMPARED_NAMES) if entry.name != path.name]
    except OSError:
        return []
    folded = {name.casefold(): name for name in names if name.isprintable()}
    return [folded[near] for near in difflib.get_close_matches(path.name.casefold(), folded)]


def _reason(verb: str, path: Path, error: OSError) -> str:
    match error.errno:
        case errno.ENOENT:
            return _missing(path)
        case errno.ENOTDIR:
            return f"{next(_files_on_the_way(path), path.parent)} is not a directory"
        case errno.EACCES | errno.EPERM:
            return _refused(verb, path)
        case errno.ENXIO:
            # The kernel's word for opening a socket, or a device that is not there.
            return f"it is {_kind_at(path)}"
        case number:
            return _REASONS.get(number or 0) or (error.strerror or str(error)).lower()


def _missing(path: Path) -> str:
    if path.is_symlink():
        return f"it is a link to {path.readlink()}, which does not exist"
    if os.path.lexists(path.parent):
        near = near_names(path)
        return "it does not exist" + (f"; near names in its directory: {', '.join(near)}" if near else "")
    gone = next((parent for parent in reversed(path.parents) if not os.path.lexists(parent)), path.parent)
    return f"there is no directory {gone}"


def _files_on_the_way(path: Path) -> Iterator[Path]:
    return (parent for parent in reversed(path.parents) if os.path.lexists(parent) and not parent.is_dir())


def _refused(verb: str, path: Path) -> str:
    """Of two causes which: the kernel's `access` knows modes and owners, and nothing of the sandbox."""
    wanted = os.R_OK if verb in _READING else os.W_OK
    place = path if os.path.lexists(path) else path.parent
    if os.access(place, wanted) or _is_mounted_read_only(place):
        return OUTSIDE
    return "its owner and mode do not let this user"


def _is_mounted_read_only(place: Path) -> bool:
    """Whether it is on a mount that allows no writing, as a sandbox makes them: `access` refuses that like a mode."""
    try:
        return bool(os.statvfs(place).f_flag & os.ST_RDONLY)
    except OSError:
        # Gone meanwhile.
        return False


def _kind_at(path: Path) -> str:
    try:
        return kind_of(path.stat().st_mode)
    except OSError:
        return "not there any more"
