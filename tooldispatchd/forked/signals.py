"""Signals: which ones a program must find as they are by default, and how they are told. Stdlib only."""

import signal
from typing import Final

RESET_SIGNALS: Final = (
    *(signal.SIGPIPE, signal.SIGXFSZ),
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD),
)
"""Python ignores the first two and its children would inherit that; the others may have been ignored by whoever started
us (nohup, a shell's background job), and a program must be able to be told to end."""


def signal_name(signum: int) -> str:
    """As in `SIGKILL`; of one that has no name, as most real-time signals, `signal 40`."""
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"signal {signum}"
