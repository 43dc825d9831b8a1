"""What clients may have held here: bytes of requests that are on their way in, and of answers on their way out. Pure.

All count on one account. One owner, a credential or an address, has a third at most, so that it waits for itself.
"""

from collections import Counter
from typing import Final

# Some thirty of the longest requests, and a fraction of the machine that runs agents.
TOTAL_BYTES: Final = 256 * 1024 * 1024
SHARE: Final = 3


class ByteBudget:
    """The account."""

    def __init__(self, total: int = TOTAL_BYTES) -> None:
        self._total = total
        self._held: Counter[str] = Counter()
        self._sum = 0

    def is_full(self, owner: str) -> bool:
        """Whether this owner can have no more now."""
        return self._sum >= self._total or self._held[owner] >= self._total // SHARE

    def change(self, owner: str, by: int) -> None:
        """Book bytes that are held, or with a negative number bytes that no longer are."""
        self._sum += by
        self._held[owner] += by
        if not self._held[owner]:
            del self._held[owner]
