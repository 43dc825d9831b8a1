"""How often something may happen: so many at once, and then so many a second. Pure.

A bucket of `burst` tokens that fills at `per_s`, kept as the one time at which it will be full again (the generic cell
rate algorithm of ITU-T I.371): no steps, no sum that drifts, and what `due` says is exactly when `take` succeeds.
"""


class Rate:
    """In any time t at most `burst` + `per_s` * t are taken; `now` is in seconds of the caller's clock."""

    __slots__ = ("_full_at", "_interval_s", "_slack_s")

    def __init__(self, per_s: float, burst: int = 1) -> None:
        self._interval_s = 1 / per_s
        self._slack_s = (burst - 1) * self._interval_s
        self._full_at = 0.0

    def take(self, now: float) -> bool:
        """Take one, if there is one."""
        if now < self._full_at - self._slack_s:
            return False
        self._full_at = max(self._full_at, now) + self._interval_s
        return True

    def due(self, now: float, ahead: int = 0) -> float:
        """When one can be taken, once `ahead` others have taken theirs as soon as they could."""
        return max(now, max(self._full_at, now) + ahead * self._interval_s - self._slack_s)
