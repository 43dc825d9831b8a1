"""The signals that an agent's runner passes on, as bytes on a descriptor that a poll can wait for."""

import contextlib
import os
import signal
from types import FrameType, TracebackType
from typing import Final

from tooldispatchd.runner.ends import open_pipe

# Those that would end a program which does not expect them.
ENDING: Final = frozenset(
    {signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGQUIT}
)
PASSED_ON: Final = (*sorted(ENDING), signal.SIGWINCH, signal.SIGCONT)
# A terminal sends these to every process of its foreground group, the agent among them.
FROM_TERMINAL: Final = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGWINCH})
MANY: Final = 4096


class Signals:
    """Every signal of `PASSED_ON` is caught while this is entered, but for those that our parent had ignored.

    An agent inherits those as they are (nohup means the agent too); the others have their defaults there.
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
        # Ignored, it would take the agent's exit code away from us.
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
        """The signals that have come since the last time, each as often as the kernel told of it."""
        with contextlib.suppress(BlockingIOError):
            # Others may be caught by who embeds us; they come through the same pipe.
            return [number for number in os.read(self.fd, MANY) if number in self._before]
        return []

    def take_ending(self) -> int | None:
        """The first that has come of those that end a program."""
        return next((number for number in self.take() if number in ENDING), None)


def comes_from_terminal(number: int) -> bool:
    """Whether the agent has had a signal already, because it shares our place in the foreground of a terminal."""
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
    # The kernel's word is enough: Python has written the number into the wakeup pipe.
    return
