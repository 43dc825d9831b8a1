"""`tooldispatchd top`: agents, servers and tools of a running daemon, live, in a terminal."""

import argparse
import os
import re
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NoReturn, TextIO

from tooldispatchd.cli import administering, dialogue
from tooldispatchd.cli.administering import WATCH_S
from tooldispatchd.cli.dialogue import Dialogue, SilentDaemonError

# ECMA-48: what a terminal sends for one key.
_KEYS: Final = re.compile(rb"\x1b[\[O][0-9;]*[A-Za-z~]|[^\x80-\xff]")
_NAMES: Final = {
    b"\x1b[A": "up",
    b"\x1bOA": "up",
    b"\x1b[B": "down",
    b"\x1bOB": "down",
    b"\x1b[C": "right",
    b"\x1bOC": "right",
    b"\x1b[D": "left",
    b"\x1bOD": "left",
    b"\x1b": "escape",
    b"\r": "enter",
    b"\n": "enter",
    b"\x7f": "backspace",
    b"\x08": "backspace",
}
# Over a slow line a key may come in parts; one that begins as Escape does is waited for.
_PART_S: Final = 0.05
_READ_BYTES: Final = 256
# The special characters of termios(3) are bytes; this one stands for no key.
_NO_KEY: Final = b"\0"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument(
        "--every",
        type=dialogue.seconds,
        default=WATCH_S,
        metavar="SECONDS",
        help=f"ask the daemon so often ({WATCH_S:g})",
    )
    administering.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Show it until `q` or Ctrl-C; the exit code."""
    if not _is_terminal(sys.stdin) or not _is_terminal(sys.stdout) or os.environ.get("TERM") in {None, "", "dumb"}:
        administering.usage("top needs a terminal; programs have: tooldispatchd status --json")
        return 2
    return administering.administer(arguments, lambda daemon: _show(arguments, daemon))


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def _show(arguments: argparse.Namespace, daemon: Dialogue) -> int:
    from rich.console import Console

    from tooldispatchd.cli.topscreen import TopScreen

    console = Console(no_color=True if arguments.color == "never" else None)
    screen = TopScreen()

    def look() -> None:
        screen.see([daemon.administer(ask, fields) for ask, fields in screen.asks], time.time())

    # A refusal is told on the terminal as it was, and so is a daemon that hangs already.
    look()
    until = time.monotonic() + arguments.every
    with _keyboard() as fd, console.screen(hide_cursor=True) as shown:
        while not screen.is_over:
            shown.update(*screen.draw(console.width, console.height))
            asked = screen.asks
            for key in _pressed(fd, until):
                screen.press(key)
            if not screen.is_over and (screen.asks != asked or time.monotonic() >= until):
                try:
                    look()
                except SilentDaemonError as silent:
                    screen.miss(str(silent))
                until = time.monotonic() + arguments.every
    return 0


@contextmanager
def _keyboard() -> Iterator[int]:
    """The terminal's descriptor, which gives each key when it is pressed; however this ends, it is as before then."""
    fd = sys.stdin.fileno()
    before, handler = termios.tcgetattr(fd), signal.getsignal(signal.SIGTERM)
    try:
        signal.signal(signal.SIGTERM, _terminate)
        tty.setcbreak(fd)
        mode = termios.tcgetattr(fd)
        # Ctrl-Z would leave the shell with this screen and these keys.
        mode[6][termios.VSUSP] = _NO_KEY
        termios.tcsetattr(fd, termios.TCSANOW, mode)
        yield fd
    finally:
        # It may be gone.
        with suppress(termios.error):
            termios.tcsetattr(fd, termios.TCSAFLUSH, before)
        signal.signal(signal.SIGTERM, handler)


def _terminate(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number)


def _pressed(fd: int, until: float) -> list[str]:
    """The keys that come first; none at `until`, on the monotonic clock. The end of a terminal is `q`."""
    if not select.select([fd], [], [], max(until - time.monotonic(), 0))[0]:
        return []
    read = os.read(fd, _READ_BYTES)
    if read.endswith((b"\x1b", b"\x1b[", b"\x1bO")) and select.select([fd], [], [], _PART_S)[0]:
        read += os.read(fd, _READ_BYTES)
    return keys(read) if read else ["q"]


def keys(read: bytes) -> list[str]:
    """The names of the keys that a terminal has sent; letters and signs are their own."""
    found = [match.group() for match in _KEYS.finditer(read)]
    return [_NAMES.get(key) or key.decode() for key in found]
