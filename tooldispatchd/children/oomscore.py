"""Whom the kernel kills first when the machine has no memory left: children before the daemon (proc(5), oom_score_adj).

What a child starts inherits its adjustment, and no process without privileges can lower its own.
"""

import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

# Half of the range, as of a machine's memory: a child that uses little goes before a daemon that uses a lot.
STEP: Final = 500
MAX_ADJUSTMENT: Final = 1000

_OWN: Final = "/proc/self/oom_score_adj"


def shield_self() -> None:
    """Have the kernel kill this process late, where its user may say so (root, CAP_SYS_RESOURCE); else nothing."""
    with suppress(OSError, ValueError):
        before = int(Path(_OWN).read_bytes())
        if before > -STEP:
            _write(_OWN, -STEP)


def expose(pid: int) -> None:
    """Have the kernel kill the child `pid`, and what that starts, before this process; nothing where it is gone."""
    with suppress(OSError):
        _write(f"/proc/{pid}/oom_score_adj", _exposed())


@cache
def _exposed() -> int:
    try:
        own = int(Path(_OWN).read_bytes())
    except (OSError, ValueError):
        own = 0
    return min(max(own, 0) + STEP, MAX_ADJUSTMENT)


def _write(path: str, adjustment: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, b"%d" % adjustment)
    finally:
        os.close(fd)
