"""Descriptors for children: pipes whose numbers do not clash with the standard ones, and pidfds."""

import fcntl
import os
import signal
from collections.abc import Iterable


def open_pipe(fds: list[int]) -> None:
    """Append the reading and the writing end of a new pipe, closed on exec and neither below 3; raises OSError."""
    fds += os.pipe2(os.O_CLOEXEC)
    if fds[-2] < 3 or fds[-1] < 3:
        fds[-2] = lift(fds[-2])
        fds[-1] = lift(fds[-1])


def lift(fd: int) -> int:
    """`fd`, or in its place a copy that is not below 3; raises OSError.

    A process that was started without a standard descriptor gets its number from the next open, and the dup2 that
    gives a child its own would overwrite it.
    """
    if fd >= 3:
        return fd
    high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
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
    """Close every one of them."""
    for fd in fds:
        os.close(fd)
