"""The longest turn of the loop: how long one task has kept all others waiting, and which.

The processor's time is counted, not the clock's: what other processes take on a busy machine is not the loop's doing.
"""

from time import thread_time
from typing import Final

import trio

# A name has the module and the function.
MAX_NAME_CHARS: Final = 120


class LongestTurn(trio.abc.Instrument):
    """Watches every task step from when it is added; some microsecond for each."""

    def __init__(self) -> None:
        self.took_s = 0.0
        self._name = ""
        self._began = thread_time()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:  # noqa: ARG002  # trio's own signature
        """A turn begins."""
        self._began = thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """It ends."""
        took_s = thread_time() - self._began
        if took_s > self.took_s:
            self.took_s = took_s
            self._name = task.name

    def fields(self) -> dict[str, object]:
        """For a line of the log."""
        return {"longest_turn_ms": round(self.took_s * 1000, 1), "longest_turn": self._name[:MAX_NAME_CHARS]}
