"""Find the directory of a session that opens, its *workspace*: what its `hello` names, else what its profile says.

It is looked at once, and all links in it are resolved then, in a bounded number of steps: the links are an agent's own,
and the loop waits. Each segment is opened, or made, by the descriptor of the one before it: nobody can put a link
where a directory was just looked for.
"""

import errno
import os
from typing import Final

from tooldispatchd.agent.session.entrance import Visitor
from tooldispatchd.catalog.profiles import Profile
from tooldispatchd.catalog.workspaces import is_within, segments
from tooldispatchd.children.owners import owner_of
from tooldispatchd.wire.faults import Code, Fault

# Linux's PATH_MAX, with its NUL.
MAX_PATH: Final = 4095
# As many links as Linux follows, and segments of a path with all links in it: 2 ms.
MAX_LINKS: Final = 40
MAX_SEGMENTS: Final = 256
NOT_WITHIN: Final = Fault(Code.NOT_ALLOWED, "hello.workspace is no directory in the workspaces of this profile")
NOT_A_PATH: Final = Fault(Code.INVALID_REQUEST, "hello.workspace must be an absolute path", {"source": "workspace"})

_DIRECTORY: Final = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def find_workspace(profile: Profile, asked: str | None, *, agent: str | None, visitor: Visitor) -> str | Fault | None:
    """The directory of a session under `profile`, absolute and without links; None for one that has none.

    `asked` is what the agent's `hello` names. A profile's own that is not there, and is not to be made, is a fault:
    the agent would work elsewhere than it was told to.
    """
    if asked is not None:
        return _asked(profile, asked)
    if profile.workspace is None:
        return None
    values = {"agent": agent, "profile": profile.name, "uid": str(visitor.uid)}
    above, below = segments(profile.workspace, values)
    try:
        above = resolve(above)
        _enter(above, below, profile)
    except OSError as error:
        why = error.strerror or str(error)
        if error.errno == errno.ENOENT and not profile.makes_workspace:
            why += " (with make = true in its profile it is made)"
        return Fault(Code.NOT_ALLOWED, f"no session is opened: its workspace cannot be had: {why}")
    return "/".join((above.rstrip("/"), *below))


def _asked(profile: Profile, asked: str) -> str | Fault:
    if not asked.startswith("/") or "\0" in asked:
        return NOT_A_PATH
    try:
        if len(os.fsencode(asked)) > MAX_PATH:
            return NOT_A_PATH
        found = resolve(asked)
    except (OSError, ValueError):
        return NOT_WITHIN
    # A place outside is refused alike whether it exists or not.
    return found if any(_is_of(found, pattern) for pattern in profile.workspaces) else NOT_WITHIN


def _is_of(found: str, pattern: str) -> bool:
    """Tell whether a pattern admits a directory; links before the pattern's first `*` are resolved."""
    known, star, rest = pattern.partition("*")
    directory, _, begun = known.rpartition("/") if star else (known, "", "")
    try:
        above = resolve(directory or "/")
    except OSError:
        return False
    return is_within(found, f"{above.rstrip('/')}/{begun}*{rest}" if star else above)


def resolve(path: str) -> str:
    """Follow the links of a directory's absolute path; OSError, also for more of them than the bounds allow."""
    found: list[str] = []
    left, links = path.split("/")[::-1], 0
    fd = os.open("/", os.O_PATH | _DIRECTORY)
    try:
        for _ in range(MAX_SEGMENTS):
            if not left:
                return "/" + "/".join(found)
            name = left.pop()
            try:
                fd = _step(fd, name or ".", os.O_PATH)
            except NotADirectoryError:
                # A link, since it is not followed; of a file it is EINVAL.
                target = os.readlink(name, dir_fd=fd)
                links += 1
                if links > MAX_LINKS:
                    break
                left += target.split("/")[::-1]
                if target.startswith("/"):
                    fd, found = _step(fd, "/", os.O_PATH), []
                continue
            if name == "..":
                del found[-1:]
            elif name not in {"", "."}:
                found.append(name)
    finally:
        os.close(fd)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _step(fd: int, name: str, access: int) -> int:
    """Open a directory in that of `fd`, which is closed then; OSError."""
    following = os.open(name, access | _DIRECTORY, dir_fd=fd)
    os.close(fd)
    return following


def _enter(above: str, below: list[str], profile: Profile) -> None:
    """Look at each segment below a directory that is there, and make what is missing where that is asked; OSError."""
    fd = os.open(above, os.O_RDONLY | _DIRECTORY)
    try:
        for name in below:
            is_new = profile.makes_workspace and _is_made(name, fd)
            fd = _step(fd, name, os.O_RDONLY)
            if is_new:
                # Programs of this profile may be another user's, who could not enter what is ours.
                owner = owner_of(profile.confinement.user, profile.confinement.group)
                os.fchown(fd, -1 if owner.uid is None else owner.uid, -1 if owner.gid is None else owner.gid)
    finally:
        os.close(fd)


def _is_made(name: str, above: int) -> bool:
    """Make a directory unless something of its name is there; whether it was made."""
    try:
        os.mkdir(name, 0o700, dir_fd=above)
    except FileExistsError:
        return False
    return True
