"""Decide when each call of one agent starts; pure bookkeeping, no clock and no tasks."""

from collections import deque
from enum import Enum
from typing import Generic, TypeVar

CallT = TypeVar("CallT")


class AdmissionVerdict(Enum):
    START = "start"
    WAIT = "wait"
    FULL = "full"


class Admission(Generic[CallT]):
    """At most `in_flight` calls run and `waiting` wait, in the order they came."""

    __slots__ = ("_in_flight", "_max_waiting", "running", "waiting")

    def __init__(self, in_flight: int, waiting: int) -> None:
        self._in_flight = in_flight
        self._max_waiting = waiting
        self.running = 0
        self.waiting: deque[CallT] = deque()

    def ask(self, call: CallT) -> AdmissionVerdict:
        """Take a place, or a place in the queue, or neither."""
        if self.running < self._in_flight:
            self.running += 1
            return AdmissionVerdict.START
        if len(self.waiting) < self._max_waiting:
            self.waiting.append(call)
            return AdmissionVerdict.WAIT
        return AdmissionVerdict.FULL

    def finish(self) -> CallT | None:
        """Give a running call's place back; the call that has it now, which is to be started."""
        if self.waiting:
            return self.waiting.popleft()
        self.running -= 1
        return None

    def withdraw(self, call: CallT) -> None:
        """A waiting call leaves the queue; raises `ValueError` if it does not wait."""
        self.waiting.remove(call)
