"""What tools of one session keep between their calls: a small JSON object under each name. Pure.

Calls of tools that keep one name come one at a time (they pass its gate alone), so that none of their changes is lost.
It is gone with the session.
"""

from typing import Final

from tooldispatchd.calls.memory import Holding

NOTHING: Final = b"{}"


class States:
    """The states of one session; `holding` bounds what is kept."""

    __slots__ = ("_holding", "_values")

    def __init__(self, holding: Holding) -> None:
        self._holding = holding
        self._values: dict[str, bytes] = {}

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
