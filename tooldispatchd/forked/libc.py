"""The C library, for what Python has no name of its own for. Stdlib only."""

import ctypes
import functools
import os

SYSCALL_ARGUMENTS = 5
# linux/prctl.h; Python has no name for it.
PR_SET_NO_NEW_PRIVS = 38


@functools.cache
def load() -> ctypes.CDLL:
    """The C library, with its functions looked up: a fork need not look for what its parent has found."""
    libc = ctypes.CDLL(None, use_errno=True)
    for name in ("syscall", "unshare", "capget", "capset"):
        getattr(libc, name)
    # A pointer's type takes numbers as well, as wide as a register, and bytes.
    libc.syscall.argtypes = [ctypes.c_long, *[ctypes.c_void_p] * SYSCALL_ARGUMENTS]
    libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    return libc


def check(result: int) -> int:
    """`result` of a function of the C library; raises OSError where it says that the function failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def syscall(number: int, *arguments: int | bytes | None) -> int:
    """Make a system call of Linux 5 or newer, whose number is the same on every architecture; raises OSError."""
    return check(load().syscall(number, *arguments, *(0,) * (SYSCALL_ARGUMENTS - len(arguments))))


def prctl(option: int, second: int, third: int = 0) -> None:
    """prctl(2) of this thread; raises OSError."""
    check(load().prctl(option, second, third, 0, 0))


def forbid_privileges() -> None:
    """Set no_new_privs: no program gives this thread, or what it starts, more than it has, as set-user-ID ones do."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)
