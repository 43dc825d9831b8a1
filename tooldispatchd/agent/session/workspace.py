"""Find the directory of a session that opens, its *workspace*: what its `hello` names, else what its profile says.

A thread looks, once: paths are an agent's own, and their file systems may be slow. The kernel follows their links, of
which it takes 40, and tells where they led. Segments that a template adds are each opened, or made, by the descriptor
of the one before: nobody can put a link where a directory was just looked for.
"""

import errno
import os
from functools import partial
from typing import Final

import trio

from tooldispatchd.agent.session.entrance import Visitor
from tooldispatchd.catalog.profiles import Profile
from tooldispatchd.catalog.workspaces import Workspace, is_within, segments
from tooldispatchd.children.owners import owner_of
from tooldispatchd.wire.faults import Code, Fault

# Linux's PATH_MAX, with its NUL.
MAX_PATH: Final = 4095
# A local file system answers within a millisecond; one that does not answer may take a thread for good.
SEARCH_S: Final = 5.0
MAX_SEARCHES: Final = 8
NOT_WITHIN: Final = Fault(Code.NOT_ALLOWED, "hello.workspace is no directory in the workspaces of this profile")
NOT_A_PATH: Final = Fault(Code.INVALID_REQUEST, "hello.workspace must be an absolute path", {"source": "workspace"})
_CANNOT: Final = "no session is opened: its workspace cannot be had: "
_SLOW: Final = Fault(Code.NOT_ALLOWED, f"{_CANNOT}its file system has not answered within {SEARCH_S:g} s")

_DIRECTORY: Final = os.O_DIRECTORY | os.O_CLOEXEC

# By user: paths of one that hang delay no other's.
_threads: Final[dict[int, trio.CapacityLimiter]] = {}


class WorkspaceSearch:
    """The search for the directory of a session under `profile`; `asked` is what the `hello` of its `agent` names."""

    def __init__(self, profile: Profile, asked: str | None, *, agent: str | None, visitor: Visitor) -> None:
        self.key: Final = key_of(profile, asked, agent)
        self.is_over = False
        self.found: Workspace | Fault | None = _SLOW
        self._find = partial(find_workspace, profile, asked, agent=agent, visitor=visitor)
        self._uid = visitor.uid

    async def run(self) -> None:
        """Look in a thread, within SEARCH_S."""
        limiter = _threads.setdefault(self._uid, trio.CapacityLimiter(MAX_SEARCHES))
        with trio.move_on_after(SEARCH_S):
            self.found = await trio.to_thread.run_sync(self._find, abandon_on_cancel=True, limiter=limiter)
        if not limiter.borrowed_tokens:
            _threads.pop(self._uid, None)
        self.is_over = True


def key_of(profile: Profile, asked: str | None, agent: str | None) -> tuple[object, ...]:
    """List what the workspace of a session depends on."""
    owner = profile.confinement.user, profile.confinement.group, profile.makes_workspace
    return profile.name, profile.workspace, profile.workspaces, *owner, asked, agent


def find_workspace(
    profile: Profile, asked: str | None, *, agent: str | None, visitor: Visitor
) -> Workspace | Fault | None:
    """The directory of a session under `profile`; None for one that has none.

    A profile's own that is not there, and is not to be made, is a fault: the agent would work elsewhere than it was
    told to.
    """
    if asked is not None:
        return _asked(profile, asked)
    if profile.workspace is None:
        return None
    values = {"agent": agent, "profile": profile.name, "uid": str(visitor.uid)}
    above, below = segments(profile.workspace, values)
    try:
        return _enter(above, below, profile)
    except OSError as error:
        why = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
        if error.errno == errno.ENOENT and error.filename == above:
            why += " (make = true makes only what is below it)"
        elif error.errno == errno.ENOENT and not profile.makes_workspace:
            why += " (with make = true in its profile it is made)"
        return Fault(Code.NOT_ALLOWED, _CANNOT + why)


def refuse_path(profile: Profile, asked: str) -> Fault | None:
    """Say why a path that is asked for cannot be a workspace, where its text tells that."""
    if not asked.startswith("/") or "\0" in asked or len(asked.encode("utf-8", "surrogatepass")) > MAX_PATH:
        return NOT_A_PATH
    return None if profile.workspaces else NOT_WITHIN


def _asked(profile: Profile, asked: str) -> Workspace | Fault:
    try:
        found = resolve(asked)
    except (OSError, ValueError):
        return NOT_WITHIN
    # A place outside is refused alike whether it exists or not.
    return found if any(_is_of(found.path, pattern) for pattern in profile.workspaces) else NOT_WITHIN


def _is_of(found: str, pattern: str) -> bool:
    """Tell whether a pattern admits a directory; links before the pattern's first `*` are resolved."""
    known, star, rest = pattern.partition("*")
    directory, _, begun = known.rpartition("/") if star else (known, "", "")
    try:
        above = resolve(directory or "/").path
    except OSError:
        return False
    return is_within(found, f"{above.rstrip('/')}/{begun}*{rest}" if star else above)


def resolve(path: str) -> Workspace:
    """Follow the links of a directory's path as the kernel does; OSError, also where it follows no more of them."""
    fd = os.open(path, os.O_PATH | _DIRECTORY)
    try:
        return _placed(fd)
    finally:
        os.close(fd)


def _placed(fd: int) -> Workspace:
    """Ask the kernel where an open directory lies; OSError where no path of this process and no text leads there."""
    path, here = os.readlink(f"/proc/self/fd/{fd}"), os.fstat(fd)  # noqa: PTH115  # of a descriptor
    try:
        path.encode()
    except UnicodeEncodeError:
        raise OSError(errno.EILSEQ, "its path is not UTF-8") from None
    # The path of a removed directory, or of one in another mount namespace, leads elsewhere or nowhere.
    if not os.path.samestat(os.stat(path, follow_symlinks=False), here):  # noqa: PTH116  # as above
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    return Workspace(path, (here.st_dev, here.st_ino))


def _enter(above: str, below: list[str], profile: Profile) -> Workspace:
    """Look at each segment below a directory that is there, and make what is missing where that is asked; OSError."""
    fd, reached = os.open(above, os.O_RDONLY | _DIRECTORY), above
    try:
        for name in below:
            reached = f"{reached.rstrip('/')}/{name}"
            is_new = profile.makes_workspace and _is_made(name, fd)
            following = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | _DIRECTORY, dir_fd=fd)
            os.close(fd)
            fd = following
            if is_new:
                # Programs of this profile may be another user's, who could not enter what is ours.
                owner = owner_of(profile.confinement.user, profile.confinement.group)
                os.fchown(fd, -1 if owner.uid is None else owner.uid, -1 if owner.gid is None else owner.gid)
        return _placed(fd)
    except OSError as error:
        error.filename = reached  # of the whole path, where the kernel was told its last segment
        raise
    finally:
        os.close(fd)


def _is_made(name: str, above: int) -> bool:
    """Make a directory unless something of its name is there; whether it was made."""
    try:
        os.mkdir(name, 0o700, dir_fd=above)
    except FileExistsError:
        return False
    return True
