"""How many more lines a channel may send: so many a second, and as many at once. Pure.

Lines over it are counted too, since each is read before it is turned down: whoever goes on owes for them.
"""


class LineAllowance:
    """`left` is below 1 where it is used up, as of the last `refill`; `now` is in seconds of the caller's clock."""

    __slots__ = ("_counted_at", "is_used_up", "left")

    def __init__(self, per_s: int, now: float) -> None:
        self.left = float(per_s)
        self.is_used_up = False
        self._counted_at = now

    def refill(self, per_s: int, now: float) -> None:
        """Add the lines of the time that has passed."""
        # A second later there is room again, however much was sent.
        self.left = min(per_s, max(-per_s, self.left) + (now - self._counted_at) * per_s)
        self._counted_at = now
        self.is_used_up = self.left < 1
