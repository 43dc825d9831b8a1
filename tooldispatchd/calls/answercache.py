"""Answers that may be given again: each for its time, all within a bound of bytes and on the daemon's account. Pure.

    put ──▶ by key, the one that was not asked for longest first to leave ──▶ get, until its time is over

What the key is made of is the caller's: two calls have one key only where one answer is right for both.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Final

import msgspec

from tooldispatchd.calls.deadlines import Deadlines, Entry
from tooldispatchd.calls.memory import Holding
from tooldispatchd.calls.outcome import Answer

# What an entry takes beside its answer: its key, its places in the table and the heap.
ENTRY_BYTES: Final = 1024
# No answer takes more than this part of all: the next large one must not drive all others out.
LARGEST_PART: Final = 8
# It is copied in the loop, which takes a millisecond for so much.
MAX_COPIED_BYTES: Final = 4 * 1024 * 1024


class CachedAnswer(msgspec.Struct, frozen=True):
    """An answer of `tool`, as it was offered, made and good `until` in seconds of the caller's clock.

    It leaves with the others of its `server`, "" for a tool that is no server's.
    """

    answer: Answer
    tool: str
    server: str
    made_at: float
    until: float

    @property
    def size(self) -> int:
        """In bytes, with what it takes beside the answer."""
        value = self.answer.value
        return ENTRY_BYTES + self.answer.size + (0 if value is None else len(value))


class CallLookup:
    """What a call is known by where answers are given again, `key`; and how old the answer is that it got there.

    `era` is what has to be the same still when its own answer comes, for that to be kept.
    """

    __slots__ = ("age_s", "era", "key")

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.era: Hashable = None
        self.age_s: float | None = None


class AnswerCache:
    """All answers, within a bound of bytes."""

    __slots__ = ("_deadlines", "_entries", "_eras", "_holding", "_max_bytes", "hits", "misses")

    def __init__(self, max_bytes: int, holding: Holding) -> None:
        self._max_bytes = max_bytes
        self._holding = holding
        self._entries: OrderedDict[bytes, tuple[CachedAnswer, Entry[bytes]]] = OrderedDict()
        self._deadlines: Deadlines[bytes] = Deadlines()
        # How often the answers of each server were cleared.
        self._eras: dict[str, int] = {}
        # How often there was an answer to get, and how often not.
        self.hits = self.misses = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[bytes]:
        """The keys, the one that was not asked for longest first."""
        return iter(self._entries)

    @property
    def held(self) -> int:
        """The bytes of all entries."""
        return self._holding.held

    @property
    def max_answer_bytes(self) -> int:
        """The largest answer that is taken, in bytes."""
        return min(self._max_bytes // LARGEST_PART, MAX_COPIED_BYTES)

    def era(self, server: str) -> int:
        """Changes whenever the answers of a server are cleared: what was asked for before belongs to those."""
        return self._eras.get(server, 0)

    def get(self, key: bytes, now: float) -> CachedAnswer | None:
        """The answer of that key, while its time is not over."""
        found = self._entries.get(key)
        if found is None or found[0].until <= now:
            self.misses += 1
            if found is not None:
                self._expire(now)
            return None
        self.hits += 1
        self._entries.move_to_end(key)
        return found[0]

    def put(self, key: bytes, cached: CachedAnswer, now: float) -> bool:
        """Take an answer, in the place of an older one of that key; False where there is no room for it."""
        self._expire(now)
        if cached.until <= now or cached.answer.size > self.max_answer_bytes:
            return False
        before, size = self._entries.get(key), cached.size
        freed = 0 if before is None else before[0].size
        while self._entries and self.held - freed + size > self._max_bytes:
            oldest = next(iter(self._entries))
            freed = 0 if oldest == key else freed
            self._leave(oldest)
        if not self._holding.resize(self.held - freed + size):
            return False
        if freed:
            self._deadlines.drop(self._entries.pop(key)[1])
        self._entries[key] = cached, self._deadlines.add(cached.until, key)
        return True

    def clear(self, server: str) -> None:
        """Let all answers of a server leave, those too that are still to come of what was asked before."""
        self._eras[server] = self.era(server) + 1
        for key in [key for key, (cached, _) in self._entries.items() if cached.server == server]:
            self._leave(key)

    def _expire(self, now: float) -> None:
        for key in self._deadlines.due(now):
            cached, _ = self._entries.pop(key)
            self._holding.resize(self.held - cached.size)

    def _leave(self, key: bytes) -> None:
        cached, entry = self._entries.pop(key)
        self._deadlines.drop(entry)
        self._holding.resize(self.held - cached.size)
