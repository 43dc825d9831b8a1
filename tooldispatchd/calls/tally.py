"""How often each tool was called, how those calls ended, and what they took. Pure, and without a clock.

A tool that is answered in the moment it comes is counted and not timed: reading a clock would cost as much as some of
these calls. Counts last as long as the daemon; they are read while it runs, and never reset.
"""

from bisect import bisect_left
from typing import Final, Protocol

import msgspec

from tooldispatchd.calls.outcome import Outcome
from tooldispatchd.wire.faults import Fault

# The bounds of the buckets in seconds: powers of two from 61 µs, less than any call takes that waits, to about an hour.
_FIRST: Final = -14
BOUNDS_S: Final = tuple(2.0**exponent for exponent in range(_FIRST, 13))
# Each costs some hundred bytes, and a monitor some twenty series; servers may name as many tools as they like.
MAX_TOOLS: Final = 1_000
OTHER: Final = "other"
OK: Final = "ok"
ERROR: Final = "error"


class Durations:
    """A histogram of durations in seconds. `counts[i]` are those up to `BOUNDS_S[i]`, the last those above all."""

    __slots__ = ("counts", "longest_s", "total_s")

    def __init__(self) -> None:
        self.counts: Final = [0] * (len(BOUNDS_S) + 1)
        self.total_s = 0.0
        self.longest_s = 0.0

    @property
    def count(self) -> int:
        """How many there were."""
        return sum(self.counts)

    def add(self, seconds: float) -> None:
        """Count one."""
        # Those that are the same as a bound are the last of its own bucket.
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.total_s += seconds
        self.longest_s = max(self.longest_s, seconds)

    def quantile(self, part: float) -> float | None:
        """What so large a part of them took at most, in seconds, to the nearest bound above; None where there are none.

        The longest bounds it, so that one duration alone is itself.
        """
        wanted = part * self.count
        seen = 0
        for place, count in enumerate(self.counts):
            seen += count
            if count and seen >= wanted:
                return min(self.longest_s, BOUNDS_S[place]) if place < len(BOUNDS_S) else self.longest_s
        return None


def outcome_word(outcome: Outcome) -> str:
    """`ok`, `error` where the tool said so, or the code of a fault."""
    return outcome.code.value if isinstance(outcome, Fault) else ERROR if outcome.is_error else OK


class LastFault(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A call that ended with a fault, and the sentence of that; `at` in Unix seconds."""

    at: float
    tool: str
    code: str
    detail: str
    session: int
    agent: str | None = None


class ToolTally:
    """The calls of one tool. So many had an answer `at_once`, in the moment they came; all others are in `ended`.

    That has their durations by outcome: `ok`, `error` where the tool said so, or the code of a fault.
    """

    __slots__ = ("at_once", "ended", "kind", "name", "provider")

    def __init__(self, name: str, kind: str, provider: str) -> None:
        self.name: Final = name
        self.kind: Final = kind
        self.provider: Final = provider
        self.at_once = 0
        self.ended: Final[dict[str, Durations]] = {}

    def note(self, outcome: Outcome, took_s: float) -> str:
        """A call has ended so; the word for it."""
        word = outcome_word(outcome)
        durations = self.ended.get(word)
        if durations is None:
            durations = self.ended[word] = Durations()
        durations.add(took_s)
        return word

    def counts(self) -> dict[str, int]:
        """How many calls ended so, by outcome."""
        counts = {word: durations.count for word, durations in self.ended.items()}
        if self.at_once:
            counts[OK] = counts.get(OK, 0) + self.at_once
        return counts


class CountedTool(Protocol):
    """A plan, as its calls are counted."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def provider(self) -> str: ...


class Tallies:
    """Those of all tools of a daemon. `none` has the requests for which no tool was found."""

    __slots__ = ("_of", "_waits", "last_fault", "none")

    def __init__(self) -> None:
        self._of: Final[dict[tuple[str, str, str], ToolTally]] = {}
        self._waits: Final[dict[tuple[str, str], Durations]] = {}
        self.none: Final = ToolTally("", "", "")
        self.last_fault: LastFault | None = None

    def of(self, tool: CountedTool | None) -> ToolTally:
        """The tally of a tool, or of none; beyond `MAX_TOOLS` of them one that all others share."""
        if tool is None:
            return self.none
        key = tool.name, tool.kind, tool.provider
        tally = self._of.get(key)
        if tally is None and len(self._of) >= MAX_TOOLS:
            key = OTHER, OTHER, OTHER
            tally = self._of.get(key)
        if tally is None:
            tally = self._of[key] = ToolTally(*key)
        return tally

    def waits(self, stage: str, name: str) -> Durations:
        """What calls have waited at a stage, for the queue of that name where it has several; bounded likewise."""
        key = stage, name
        if key not in self._waits and len(self._waits) >= MAX_TOOLS:
            key = OTHER, OTHER
        return self._waits.setdefault(key, Durations())

    def all_waits(self) -> list[tuple[str, str, Durations]]:
        """Those that there are, by stage and name."""
        return [(*key, durations) for key, durations in self._waits.items()]

    def tools(self) -> list[ToolTally]:
        """Those that there are, in the order in which they came; at most one more than `MAX_TOOLS`."""
        return list(self._of.values())
