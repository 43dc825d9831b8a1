"""What a child inherits from the daemon: its pipes, a small environment, default signals, no new privileges.

`seal` prepares the daemon once, before its first child; `environment` is computed once too. A child's own settings
come on top of them in `family`.
"""

import contextlib
import fcntl
import os
import signal
from pathlib import Path
from typing import Final

from tooldispatchd.forked.libc import forbid_privileges

RUN_ID: Final = "TOOLDISPATCHD_RUN_ID"
# A number of the child's own, never used again, by which its orphans are known.
CHILD: Final = "TOOLDISPATCHD_CHILD"
# The number of the descriptor that a child may write updates to; only where there is one.
UPDATES_FD: Final = "TOOLDISPATCHD_UPDATES_FD"

# A program needs these to find its files, its tools and its language; any other variable may be a secret.
PASSED_ON: Final = (
    *("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"),
    *("LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
)


def environment() -> dict[str, str]:
    """The variables that every child shares with the daemon, where the daemon has them."""
    return {name: os.environ[name] for name in PASSED_ON if name in os.environ}


def seal() -> None:
    """Make this process fit to have children; doing it again changes nothing.

    Must run in the thread that will spawn, because the kernel keeps no_new_privs per thread. Raises OSError.
    """
    try:
        forbid_privileges()
    except OSError as error:
        raise OSError(error.errno, f"cannot set no_new_privs: {error.strerror}") from error
    # Python's own descriptors are closed on exec already; those that our parent gave us are not.
    for entry in list(Path("/proc/self/fd").iterdir()):
        fd = int(entry.name)
        if fd > 2:
            # The listing's own descriptor is among them, and closed by now.
            with contextlib.suppress(OSError):
                fcntl.fcntl(fd, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
    # A parent may have left SIGCHLD ignored. The kernel would then reap our children itself, and the number of one
    # that has ended could be another process's before its group is killed.
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
