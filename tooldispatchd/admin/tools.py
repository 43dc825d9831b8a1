"""The counts of calls, as they are shown: one entry for each tool that was called."""

from collections.abc import Iterable
from typing import Final

import msgspec

from tooldispatchd.calls.tally import ERROR, OK, Durations, ToolTally


class ToolCounts(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The calls of one tool since the daemon started, `at_once` those that were answered in the moment they came.

    The durations are of the others, of whichever outcome, each to the nearest power of two above.
    """

    name: str
    kind: str
    provider: str
    calls: int
    errors: int
    faults: dict[str, int]
    at_once: int
    in_flight: int
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None


def tool_counts(tally: ToolTally, in_flight: int = 0) -> ToolCounts:
    """One tool, of which so many calls have not ended."""
    counts = tally.counts()
    whole = merged(tally.ended.values())
    return ToolCounts(
        name=tally.name,
        kind=tally.kind,
        provider=tally.provider,
        calls=sum(counts.values()),
        errors=counts.get(ERROR, 0),
        faults={word: count for word, count in counts.items() if word not in {OK, ERROR}},
        at_once=tally.at_once,
        in_flight=in_flight,
        p50_ms=_ms(whole.quantile(0.5)),
        p95_ms=_ms(whole.quantile(0.95)),
        p99_ms=_ms(whole.quantile(0.99)),
        max_ms=_ms(whole.longest_s) if whole.count else None,
    )


def merged(parts: Iterable[Durations]) -> Durations:
    """All of them as one."""
    whole: Final = Durations()
    for part in parts:
        whole.counts[:] = map(sum, zip(whole.counts, part.counts, strict=True))
        whole.total_s += part.total_s
        whole.longest_s = max(whole.longest_s, part.longest_s)
    return whole


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
