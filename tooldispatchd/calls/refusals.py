"""How often each program was refused lately, what of that is logged, and how long its next channels wait. Pure."""

from collections.abc import Hashable
from typing import Final

# A person who mistypes a token on one channel does not wait on the next.
FREE: Final = 3
# From there on twice as long with each, up to what a client that has the right token waits for without giving up.
FIRST_WAIT_S: Final = 0.1
MOST_WAIT_S: Final = 2.0
# After so long without another one all are forgotten.
FORGET_S: Final = 60.0
# This many of one are logged one by one, then the 16th, the 32nd, …: none can fill the disk.
LOGGED: Final = 10
# A program may start many others that guess; 10,000 of them take about a megabyte.
MAX_KEYS: Final = 10_000


def is_logged(count: int) -> bool:
    """Whether that refusal is one to log, by its number."""
    return count <= LOGGED or count.bit_count() == 1


class Refusals:
    """Recent refusals by the key of whoever was refused: a user, or one program of it."""

    __slots__ = ("_by_key", "total")

    def __init__(self) -> None:
        # How many, and when the last of them was; in the order of that.
        self._by_key: dict[Hashable, tuple[int, float]] = {}
        self.total = 0  # since the daemon has begun

    def note(self, key: Hashable, now: float) -> int:
        """Count one more; how many there were lately."""
        self._forget(now)
        self.total += 1
        count = self._by_key.pop(key, (0, now))[0] + 1
        if len(self._by_key) >= MAX_KEYS:
            del self._by_key[next(iter(self._by_key))]
        self._by_key[key] = count, now
        return count

    def lately(self, key: Hashable, now: float) -> int:
        """How many there were lately."""
        self._forget(now)
        return self._by_key.get(key, (0, now))[0]

    def wait_s(self, key: Hashable, now: float) -> float:
        """How long a new channel of it is to wait before it is served."""
        self._forget(now)
        over = self._by_key.get(key, (0, now))[0] - FREE
        return 0.0 if over <= 0 else min(MOST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(over - 1, 10))

    def _forget(self, now: float) -> None:
        while self._by_key:
            key, (_count, last) = next(iter(self._by_key.items()))
            if now - last < FORGET_S:
                return
            del self._by_key[key]
