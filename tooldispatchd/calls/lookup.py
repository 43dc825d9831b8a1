"""What a call is known by where answers are given again. Pure."""

from collections.abc import Hashable


class CallLookup:
    """What a call is known by where answers are given again, `key`; and how old the answer is that it got there.

    `era` is what has to be the same still when its own answer comes, for that to be kept.
    """

    __slots__ = ("age_s", "era", "key")

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.era: Hashable = None
        self.age_s: float | None = None
