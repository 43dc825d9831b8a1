"""What there is to attack, and the means of doing so. Stdlib only: it is used in processes that are shut in."""

import ctypes
import errno
import os
from typing import Any, NoReturn

FIELD: dict[str, Any] = {}
LIBC = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: object) -> int:
    """The system call of that name; raises OSError."""
    number = FIELD["calls"][name]
    if number is None:
        raise OSError(errno.ENOSYS, name)
    words = [ctypes.c_long(word) if isinstance(word, int) else ctypes.c_char_p(word) for word in arguments]  # type: ignore[arg-type]
    result: int = LIBC.syscall(ctypes.c_long(number), *words)
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def read(path: str) -> str:
    with open(path, "rb") as file:  # noqa: PTH123  # the system's own calls, not what Path makes of them
        return file.read(50).decode(errors="replace")


def secret() -> str:
    return str(FIELD["secret"])


def mine(name: str) -> str:
    return os.path.join(FIELD["write"], name)  # noqa: PTH118  # as above


def refuse() -> NoReturn:
    raise OSError(errno.ENOENT, "nothing there")
