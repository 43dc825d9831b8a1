"""The time that a tool has to end itself once its call is ended early, and what it says in it.

    (runs) ── open: its call is stopped ──▶ given: it is asked to end, and has `stop_s` ──▶ what is left is killed
                                              └── within: it has less

Whoever runs the tool enters `given` when it is cancelled, asks the tool to end, and kills it in any case when the block
is left. Without `open` there is no time at all: what is cancelled with its whole session, by a defect, is killed at
once.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import trio

# Where the daemon itself ends, or the agent's own call that this one was made for. Half of it for each level further
# down, so that all of them together have less than the teardown.
LAST_S: Final = 2.0


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
