"""The time that a tool has to end itself once its call is ended early, and what it says in it.

    (runs) ── open: its call is stopped ──▶ given: it is asked to end, and has `stop_s` ──▶ what is left is killed
                                              └── within: it has less

Whoever runs the tool enters `given` when it is cancelled, asks the tool to end, and kills it in any case when the block
is left. Without `open` there is no time at all: what is cancelled with its whole session, by a defect, is killed at
once.
"""

import math
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import trio

from tooldispatchd.children.procstat import fields_of
from tooldispatchd.children.spawn import Child

# Where the daemon itself ends, or the agent's own call that this one was made for. Half of it for each level further
# down, so that all of them together have less than the teardown.
LAST_S: Final = 2.0
# Of one program's processes; more are no work that TERM would end well.
MAX_TOLD: Final = 256
# The process group, among the fields of /proc/PID/stat from the third on.
GROUP: Final = 2


class Grace:
    """One agent's call's, and that of what its chain asks for. `said` goes to the agent with the fault."""

    __slots__ = ("_ends_at", "_is_open", "_scope", "said")

    def __init__(self) -> None:
        self.said: dict[str, object] = {}
        self._is_open = False
        self._ends_at = math.inf
        self._scope: trio.CancelScope | None = None

    def open(self) -> None:
        """The tool may have time from now on. Idempotent."""
        self._is_open = True

    def within(self, seconds: float) -> None:
        """From now on it has no more than that, also where it is being given its time."""
        self._ends_at = min(self._ends_at, trio.current_time() + seconds)
        if self._scope is not None:
            self._scope.deadline = min(self._scope.deadline, self._ends_at)

    @contextmanager
    def given(self, stop_s: float) -> Iterator[None]:
        """At most `stop_s` seconds for what is awaited in the block, which is left when they are over; shielded."""
        until = min(self._ends_at, trio.current_time() + stop_s) if self._is_open else -math.inf
        with trio.CancelScope(deadline=until, shield=True) as scope:
            self._scope = scope
            yield
        self._scope = None


def ask_to_end(child: Child, *, is_wrapped: bool) -> None:
    """Send TERM to the child's group; where it `is_wrapped` by a program that would take it along, to all but that."""
    if not is_wrapped:
        child.signal_group(signal.SIGTERM)
        return
    told: list[int] = []
    families = [child.pid]
    while families and len(told) < MAX_TOLD:
        for pid in _children_of(families.pop())[: MAX_TOLD - len(told)]:
            families.append(pid)
            told.append(pid)
    for pid in told:
        _ask(pid, child.pid)


def _children_of(pid: int) -> list[int]:
    """Those of all of its threads."""
    words: list[bytes] = []
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            words += (thread / "children").read_bytes().split()
    return [int(word) for word in words]


def _ask(pid: int, group: int) -> None:
    """Send TERM to the process, if it is of that group still: its number may be another's by now."""
    with suppress(OSError, ValueError):
        pidfd = os.pidfd_open(pid)
        try:
            if int(fields_of(pid)[GROUP]) == group:
                signal.pidfd_send_signal(pidfd, signal.SIGTERM)
        finally:
            os.close(pidfd)
