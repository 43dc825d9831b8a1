"""Descriptors: that there are enough, pipes whose numbers do not clash with the standard ones, and pidfds."""

import fcntl
import os
import resource
import signal
from collections.abc import Iterable
from typing import Final

# The daemon itself has twenty, and a call through a forker some ten.
LEAST_FREE: Final = 64


def open_pipe(fds: list[int], *, least: int = 3) -> None:
    """Append the reading and the writing end of a new pipe, closed on exec, neither below `least`; raises OSError."""
    fds += os.pipe2(os.O_CLOEXEC)
    if fds[-2] < least or fds[-1] < least:
        fds[-2] = lift(fds[-2], least=least)
        fds[-1] = lift(fds[-1], least=least)


def occupy_standard() -> None:
    """Open /dev/null as each standard descriptor that this process was started without, before anything else is opened.

    What we open would else get such a number, and programs that we start would inherit it. Input is opened for writing
    and output for reading, so that using one that was closed fails as before.
    """
    for fd, flags in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(fd)
        except OSError:
            # The lowest number that is free, which this is.
            os.open(os.devnull, flags)


def raise_limit() -> int:
    """Take all the descriptors that the service may have: each agent is one, each child four. How many there are."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def require_free() -> None:
    """Raise OSError, with a sentence, where there are too few descriptors left to serve with.

    Looked at beforehand: the lack would show in whatever comes first, be it an import, and each tells it differently.
    """
    opened: list[int] = []
    try:
        while len(opened) < LEAST_FREE:
            opened.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        why = f"{error.strerror}: {LEAST_FREE} must be free, the limit is {limit} (ulimit -n)"
        raise OSError(error.errno, why) from error
    finally:
        close_all(opened)


def lift(fd: int, *, least: int = 3) -> int:
    """`fd`, or in its place a copy that is not below `least`; raises OSError.

    A process that was started without a standard descriptor gets its number from the next open, and the dup2 that
    gives a child its own would overwrite it; so it is with any other number that a child is given.
    """
    if fd >= least:
        return fd
    high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, least)
    os.close(fd)
    return high


def open_pidfd(pid: int) -> int:
    """A pidfd of a child not yet reaped; if there is none to be had, the child is killed and OSError raised."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        # Out of descriptors. A child that cannot be watched must not live.
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise


def has_exited(pidfd: int) -> bool:
    """Whether the child has exited; it is left to be reaped."""
    return os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def close_all(fds: Iterable[int]) -> None:
    """Close them; -1 is none."""
    for fd in fds:
        if fd >= 0:
            os.close(fd)
