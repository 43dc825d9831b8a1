"""What tools of one session keep between their calls: a small JSON object under each name. Pure.

    enter ──▶ value ──▶ (the call) ──▶ keep, where it succeeded ──▶ leave ──▶ the next call of that name

Calls under one name come one at a time, in the order in which they asked: so none of their changes is lost. It is gone
with the session.
"""

from collections import deque
from typing import Final, Generic, TypeVar

from tooldispatchd.calls.memory import Holding

CallT = TypeVar("CallT")

NOTHING: Final = b"{}"


class States(Generic[CallT]):
    """The states of one session, and the calls that wait for their turn at one; `holding` bounds what is kept."""

    __slots__ = ("_holding", "_lines", "_values")

    def __init__(self, holding: Holding) -> None:
        self._holding = holding
        self._values: dict[str, bytes] = {}
        # The first of each has its turn.
        self._lines: dict[str, deque[CallT]] = {}

    def enter(self, name: str, call: CallT) -> bool:
        """Whether it is the call's turn; else it waits in line."""
        line = self._lines.setdefault(name, deque())
        line.append(call)
        return len(line) == 1

    def withdraw(self, name: str, call: CallT) -> None:
        """Take a call that waits out of its line."""
        self._lines[name].remove(call)

    def leave(self, name: str) -> CallT | None:
        """The call whose turn it was has ended; whose turn it is now."""
        line = self._lines[name]
        line.popleft()
        if line:
            return line[0]
        del self._lines[name]
        return None

    def value(self, name: str) -> bytes:
        """What is kept, as JSON; an empty object where nothing is yet."""
        return self._values.get(name, NOTHING)

    def keep(self, name: str, value: bytes) -> bool:
        """Keep what a call leaves; False where there is no room for it, and what was there stays."""
        before = self._values.get(name, b"")
        if not self._holding.resize(self._holding.held + len(value) - len(before)):
            return False
        self._values[name] = value
        return True

    def close(self) -> None:
        """Forget everything."""
        self._values.clear()
        self._holding.resize(0)
