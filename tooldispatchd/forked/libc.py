"""The C library, for what Python has no name of its own for. Stdlib only."""

import ctypes
import functools
import os


@functools.cache
def load() -> ctypes.CDLL:
    """The C library, with its functions looked up: a fork need not look for what its parent has found."""
    libc = ctypes.CDLL(None, use_errno=True)
    for name in ("syscall", "unshare", "capget", "capset"):
        getattr(libc, name)
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
    values = [ctypes.c_char_p(value) if isinstance(value, bytes) else ctypes.c_long(value or 0) for value in arguments]
    return check(load().syscall(ctypes.c_long(number), *values))


def prctl(option: int, second: int, third: int = 0) -> None:
    """prctl(2) of this thread; raises OSError."""
    check(load().prctl(option, second, third, 0, 0))
