"""Whether another user could change or replace a file that the daemon obeys."""

import errno
import os
import stat
from typing import Final

# As Linux itself follows (path_resolution(7)).
MAX_LINKS: Final = 40


def why_exposed(path: str) -> str | None:
    """Tell why another user could change a file that the daemon obeys; None where nobody else may.

    Each directory and link on the way is looked at, as sshd does: none may be such as anybody may write (one with the
    sticky bit may, if what is used of it is root's or the daemon's user's), and none may belong to another user than
    these; but root uses the files of others in directories of their own, as in a checkout. A group that may write was
    chosen by the owner.
    Raises OSError.
    """
    mode = os.stat(path).st_mode  # noqa: PTH116  # strings are wanted
    if not stat.S_ISREG(mode):
        return None
    if mode & stat.S_IWOTH:
        return f"anybody may write it (mode {stat.S_IMODE(mode):04o})"
    return why_replaceable(path)


def why_replaceable(path: str) -> str | None:
    """Tell why another user could put another file in the place of one, whatever its own mode is; as `why_exposed`."""
    at, left, links = "/", os.path.join(os.getcwd(), path).split("/"), 0  # noqa: PTH109, PTH118  # as above
    while left:
        name = left.pop(0)
        if name in {"", ".", ".."}:
            at = os.path.dirname(at) if name == ".." else at  # noqa: PTH120  # as above
            continue
        child = os.path.join(at, name)  # noqa: PTH118  # as above
        entry = os.lstat(child)
        if (why := _why_entry(at, child, entry, is_last=not left)) is not None:
            return why
        if not stat.S_ISLNK(entry.st_mode):
            at = child
            continue
        links += 1
        if links > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        target = os.readlink(child)  # noqa: PTH115  # as above
        at, left = "/" if target.startswith("/") else at, [*target.split("/"), *left]
    return None


def _why_entry(directory: str, child: str, entry: os.stat_result, *, is_last: bool) -> str | None:
    """Tell why another user could replace an entry of a directory; None where nobody may."""
    holder, owner = os.stat(directory), entry.st_uid  # noqa: PTH116  # as above
    mode = holder.st_mode
    # A read-only mount, as of a container's configuration, is nobody's to write, whatever its mode.
    is_anybodys = bool(mode & stat.S_IWOTH) and not os.statvfs(directory).f_flag & os.ST_RDONLY
    if is_anybodys and not mode & stat.S_ISVTX:
        which = "its directory" if is_last else directory
        return f"anybody may put another file in its place: {which} has mode {stat.S_IMODE(mode):04o}"
    is_in_its_own = stat.S_ISDIR(entry.st_mode) or owner == holder.st_uid
    if owner in {0, os.geteuid()} or (os.geteuid() == 0 and is_in_its_own and not is_anybodys):
        return None
    return f"{child} belongs to another user (uid {owner})"
