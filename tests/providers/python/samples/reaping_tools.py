"""A module that has the kernel reap its children."""

import os
import signal

signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def leave(code: int) -> None:
    os._exit(code)
