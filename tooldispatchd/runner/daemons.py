"""Which daemon a command uses for one agent or client: a running one, or a private one that ends with its channel."""

import errno
import os
import select
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from tooldispatchd.client.reach import find_socket, reach
from tooldispatchd.client.silence import STOP_S
from tooldispatchd.runner.ends import lift
from tooldispatchd.runner.signals import Signals

if TYPE_CHECKING:
    # Imported where it is used: with a running daemon nothing is started.
    import subprocess

TOKEN: Final = "TOOLDISPATCHD_TOKEN"  # noqa: S105  # the variable's name
UNREACHABLE: Final = 3
# Errors of `connect` where no daemon listens.
NOBODY: Final = frozenset({errno.ENOENT, errno.ECONNREFUSED, errno.ENOTDIR})
# What a service manager gives to the process that it started, which is us; a private daemon must not speak in our name.
NOT_PASSED_ON: Final = frozenset({"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", TOKEN})


class UnreachableError(Exception):
    """No daemon can be used; `code` is our exit code."""

    def __init__(self, why: str, code: int = UNREACHABLE) -> None:
        super().__init__(why)
        self.code = code


def tell(what: str) -> None:
    """Write a line to stderr, if it is open; what a terminal would obey is not in it."""
    what = "".join(each if each.isprintable() else "\ufffd" for each in what)
    with suppress(OSError):
        # A shell may have closed it; print would use our stdout in its place.
        if sys.stderr is not None:
            sys.stderr.write(f"tooldispatchd: {what}\n")
            sys.stderr.flush()


def reach_running(address: str | None, environ: Mapping[str, str], within_s: float) -> socket.socket | None:
    """A channel to the daemon at `address`, or where the environment says; None where none listens at a usual place.

    Raises `UnreachableError`: a socket that was named must be there.
    """
    named = address or environ.get("TOOLDISPATCHD_SOCKET")
    place = address or find_socket(environ)
    try:
        return socket.socket(fileno=lift(reach(place, within_s=within_s).detach()))
    except OSError as error:
        if named or error.errno not in NOBODY:
            raise UnreachableError(f"cannot reach the daemon at {place}: {error.strerror or error}") from error
        return None


def start_private(
    config: str | os.PathLike[str] | None, environ: Mapping[str, str]
) -> "tuple[socket.socket, subprocess.Popen[bytes]]":
    """Start a daemon with `config`, or with the file that `serve` finds; our end of its channel, and the daemon.

    It has a session of its own: no key of our terminal reaches it, and writing its log never stops it as a background
    job. Raises OSError.
    """
    import subprocess  # noqa: PLC0415  # with a running daemon nothing is started

    # -P: the agent's directory may hold modules with the names of ours.
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
    return socket.socket(fileno=lift(ours.detach())), process


def end_private(daemon: "subprocess.Popen[bytes]", signals: Signals) -> int:
    """Wait for the end of a private daemon whose channel is closed; its exit code.

    It is killed after `STOP_S`, or at once by a signal that would end us; its guardian then kills its children.
    """
    until = time.monotonic() + STOP_S
    pidfd = lift(os.pidfd_open(daemon.pid))
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        poll.register(signals.fd, select.POLLIN)
        while pidfd not in dict(poll.poll(max(0.0, until - time.monotonic()) * 1000)):
            if time.monotonic() >= until or signals.take_ending() is not None:
                daemon.kill()
                break
    finally:
        os.close(pidfd)
    return daemon.wait()
