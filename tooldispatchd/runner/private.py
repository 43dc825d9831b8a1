"""A daemon for one agent: our child, on a socket pair, gone with its channel."""

import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tooldispatchd.runner.ends import lift
from tooldispatchd.runner.signals import Signals

# A daemon whose channel has gone cancels its calls and stops its servers, each of which has a ladder of 4 s.
STOP_S: Final = 20.0
# What a service manager tells the process that it started, which is us: a daemon below would speak in our name.
NOT_PASSED_ON: Final = frozenset({"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "TOOLDISPATCHD_TOKEN"})


class PrivateDaemon:
    """The process of a private daemon."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def end(self, signals: Signals) -> int:
        """Wait for the end of a daemon whose channel is closed; its exit code.

        It is killed after `STOP_S`, or at once by a signal that would end us; its guardian then ends what it started.
        """
        until = time.monotonic() + STOP_S
        pidfd = lift(os.pidfd_open(self._process.pid))
        try:
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            poll.register(signals.fd, select.POLLIN)
            while pidfd not in dict(poll.poll(max(0.0, until - time.monotonic()) * 1000)):
                if time.monotonic() >= until or signals.take_ending() is not None:
                    self._process.kill()
                    break
        finally:
            os.close(pidfd)
        return self._process.wait()


def start_private(config: Path | None, environ: Mapping[str, str]) -> tuple[socket.socket, PrivateDaemon]:
    """Start a daemon with `config`, or with what `serve` finds; our end of its channel, and the daemon.

    It has a session of its own: no key of our terminal reaches it, and what it logs is never stopped for being in the
    background. Raises OSError.
    """
    # -P: the agent's directory may hold modules that are not ours.
    words = [sys.executable, "-P", "-m", "tooldispatchd", "serve", "--listen", "stdio", "--log-level", "warning"]
    words += [] if config is None else ["--config", str(config)]
    env = {name: value for name, value in environ.items() if name not in NOT_PASSED_ON}
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            process = subprocess.Popen(  # noqa: S603  # this interpreter and this package; the path is one argument
                words, stdin=theirs.fileno(), stdout=theirs.fileno(), env=env, start_new_session=True
            )
    except BaseException:
        ours.close()
        raise
    return socket.socket(fileno=lift(ours.detach())), PrivateDaemon(process)
