"""How long one task keeps all others waiting."""

import time
from typing import Final

import trio

# Of the processor's time, not the clock's: other processes do not count. What is bounded takes 1 to 10 ms.
TURN_S: Final = 0.020
# What the host of a virtual machine takes counts as its own: a turn that is too long is so each time.
TRIES: Final = 5


class Turns(trio.abc.Instrument):
    """Measures how long the longest turn of any task took, in seconds of the processor."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        # It is added within a turn.
        self._began = time.thread_time()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._began = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.longest_s = max(self.longest_s, time.thread_time() - self._began)
