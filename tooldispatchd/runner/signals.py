"""The signals that `run` passes on to its agent, as bytes on a descriptor that poll can wait for."""

import contextlib
import os
import signal
from types import FrameType, TracebackType
from typing import Final

from tooldispatchd.runner.ends import open_pipe

# Those that end a program without a handler.
ENDING: Final = frozenset(
    {signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGQUIT}
)
PASSED_ON: Final = (*sorted(ENDING), signal.SIGWINCH, signal.SIGCONT)
# A terminal sends these to every process of its foreground group, the agent among them.
FROM_TERMINAL: Final = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGWINCH})
MANY: Final = 4096


class Signals:
    """Catches the signals of `PASSED_ON` while it is entered, except those that our parent had set to be ignored.

    The agent inherits these as ignored (nohup is meant for it too); for all others it has the default.
    """

    def __init__(self) -> None:
        self.fd, self._wakeup = -1, -1
        self._before: dict[int, signal.Handlers] = {}
        self._wakeup_before = -1

    def __enter__(self) -> "Signals":
        self.fd, self._wakeup = open_pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._wakeup, False)
        self._wakeup_before = signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)
        for number in PASSED_ON:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, _note)  # type: ignore[assignment]  # handlers in C are None
        # If it were ignored, the kernel would discard the agent's exit code.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self.fd)
        os.close(self._wakeup)

    def take(self) -> list[int]:
        """The signals since the last call, each as often as it came."""
        with contextlib.suppress(BlockingIOError):
            # A program that embeds us may catch others, which come through the same pipe.
            return [number for number in os.read(self.fd, MANY) if number in self._before]
        return []

    def take_ending(self) -> int | None:
        """The first of those since the last call that end a program."""
        return next((number for number in self.take() if number in ENDING), None)


def comes_from_terminal(number: int) -> bool:
    """Whether the terminal has sent this signal to the agent too, as a part of its foreground process group."""
    if number not in FROM_TERMINAL:
        return False
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False  # there is no terminal
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _note(_number: int, _frame: FrameType | None) -> None:
    # Python has already written the number into the wakeup pipe.
    return
