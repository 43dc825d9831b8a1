"""Signals: which ones the daemon ignores, which a program must find as by default, how they are told. Stdlib only."""

import signal
from typing import Final

IGNORED: Final = (signal.SIGUSR1, signal.SIGUSR2)
"""They mean nothing to the daemon, and by default they would end it at once."""

RESET_SIGNALS: Final = (
    *(signal.SIGPIPE, signal.SIGXFSZ),
    *IGNORED,
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD),
)
"""Python ignores the first two, the daemon the next, and its children would inherit that; the others may have been
ignored by the parent of the daemon (nohup, a shell's background job), and a program must be able to be told to end."""


def signal_name(signum: int) -> str:
    """As in `SIGKILL`; of one that has no name, as most real-time signals, `signal 40`."""
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"signal {signum}"
