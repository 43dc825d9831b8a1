"""Signals: those that the daemon ignores, those that a program starts with as by default, their names. Stdlib only."""

import signal
from typing import Final

STOPPING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGXCPU, signal.SIGPWR)
"""They ask for an end: of a service manager, a terminal, a limit of processor time, a power supply."""

IGNORED: Final = (
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO, signal.SIGSYS),
    signal.SIGTRAP,
    # SIGSTKFLT, for which Python 3.11 has no name.
    16,
    *range(signal.SIGRTMIN, signal.SIGRTMAX + 1),
)
"""They mean nothing to the daemon, and by default they would end it at once. So do 32 and 33, of which the C library,
whose own they are, lets nobody say anything."""

RESET_SIGNALS: Final = (
    *(signal.SIGPIPE, signal.SIGXFSZ),
    *IGNORED,
    *STOPPING,
    *(signal.SIGHUP, signal.SIGCHLD),
)
"""Python ignores the first two, the daemon the next, and its children would inherit that; the others may have been
ignored by the parent of the daemon (nohup, a shell's background job), and a program must be able to be told to end."""


def signal_name(signum: int) -> str:
    """Its name, such as `SIGKILL`; `signal 40` where it has none, as most real-time signals."""
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"signal {signum}"
