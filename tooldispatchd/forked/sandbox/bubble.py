"""The command line with which bubblewrap shuts a program in, where Landlock cannot.

The program sees a file system of its own: what it may not read is not there. bwrap(1) itself needs user namespaces, or
to be installed set-user-ID; a program that a signal ends is told as exit code 128 + the signal's number. The program
stays in bubblewrap's process group, but a signal to that group also ends bubblewrap, and with it at once the program.
"""

import os
import shutil
from collections.abc import Sequence
from typing import Final

from tooldispatchd.forked.nolinks import open_straight
from tooldispatchd.forked.policy import Policy
from tooldispatchd.forked.sandbox import confine, places

PROGRAM: Final = "bwrap"


def find() -> str | None:
    """The path of bubblewrap in this process's PATH; None where it is not installed."""
    return shutil.which(PROGRAM)


def wrap(
    policy: Policy,
    argv: Sequence[str],
    *,
    cwd: str | None,
    scratch: str | None,
    seccomp_fd: int | None,
    program: str | None = None,
    also: Sequence[str] = (),
) -> list[str]:
    """`argv` behind bubblewrap, which looks for a program without a slash in the PATH of its own environment.

    `seccomp_fd` is an inheritable descriptor at the start of what `seccomp.build` made; bubblewrap reads and closes it.
    All other inheritable descriptors are passed on. `program` is the path of what `argv` starts, where it is known; it
    and, for a script, its interpreter are made visible, `also` too. Raises ConfineError where bubblewrap is not
    installed or a path does not exist.
    """
    bwrap = find()
    if bwrap is None:
        raise confine.ConfineError("cannot shut a program in: bubblewrap is not installed")
    for path in (*(policy.read or ()), *(policy.write or ())):
        _look_at(path)
    words = [bwrap, "--die-with-parent", "--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    words += ["--unshare-cgroup-try", "--cap-drop", "ALL"]
    if not policy.network:
        words.append("--unshare-net")
    if policy.read is not None:
        words += _listed(policy.read, program, also)
    elif policy.write is not None:
        words += ["--ro-bind", "/", "/", "--dev", "/dev", "--remount-ro", "/dev"]
    else:
        # Cgroups and devices of the machine are root's to write to.
        words += ["--dev-bind", "/", "/", "--ro-bind-try", "/sys", "/sys"]
    # To root that it has mapped bubblewrap leaves settings of the kernel open, `core_pattern` among them.
    words += ["--proc", "/proc", "--remount-ro", "/proc"]
    for path in [*(policy.write or ()), *([scratch] if scratch else [])]:
        words += ["--bind", path, path]
    if policy.read is not None:
        # The file system in memory that all of this is mounted in.
        words += ["--remount-ro", "/"]
    if cwd is not None:
        words += ["--chdir", cwd]
    if seccomp_fd is not None:
        words += ["--seccomp", str(seccomp_fd)]
    return [*words, "--", *argv]


def _look_at(path: str) -> None:
    """Refuse what is not there, or has become a link since the policy was made: bubblewrap would follow it."""
    try:
        os.close(open_straight(path))
    except OSError as error:
        raise confine.ConfineError(f"cannot let a program use '{path}': {error.strerror}") from error


def _listed(read: Sequence[str], program: str | None, also: Sequence[str]) -> list[str]:
    """The words that show the system's own places, `read`, `also` and what `program` needs, and nothing else."""
    words = ["--dev", "/dev", "--remount-ro", "/dev"]
    for path in confine.system_places():
        if path in places.SYSTEM and os.path.islink(path):  # noqa: PTH114  # as below
            # Where `/bin` is a link into `/usr`, so it is inside, where `/usr` is shown.
            words += ["--symlink", os.readlink(path), path]  # noqa: PTH115  # text, as all words of a command line
        elif not path.startswith(("/proc/", "/sys/")):
            words += ["--ro-bind-try", path, path]
    shown = [*places.SYSTEM, *read, *also]
    for path in (*read, *also):
        words += ["--ro-bind", path, path]
    own = confine.run_by(program)
    for path in confine.environments_of(own):
        if not _is_beneath(path, shown):
            words += ["--ro-bind", path, path]
            shown.append(path)
    for path in own:
        # Nothing can be mounted on a link: what it leads to is shown where the link is, or where it is itself.
        for place in dict.fromkeys((path, os.path.realpath(path))):
            if not _is_beneath(place, shown):
                words += ["--ro-bind", place, place]
    return words


def _is_beneath(place: str, others: Sequence[str]) -> bool:
    return any(place == other or place.startswith(f"{other.rstrip('/')}/") for other in others)


def filter_descriptor(code: bytes) -> int:
    """A new inheritable descriptor for `wrap`, one for each call: bubblewrap reads it to its end."""
    fd = os.memfd_create("filter", 0)
    os.write(fd, code)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
