"""What it costs to count calls, which every call pays; and what a scrape costs, by how many tools there are."""

import timeit
from collections.abc import Callable
from contextlib import suppress
from time import thread_time
from typing import Final

import trio

from benchmarks.harness import Bar, Table, run_alone
from benchmarks.policy import DONE, SilentLog
from tooldispatchd.agent.runtime import DaemonState, Runtime, Services
from tooldispatchd.agent.session.administration import ReadConfiguration, Reload
from tooldispatchd.agent.setup import Setup
from tooldispatchd.calls.tally import MAX_TOOLS, ToolTally
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.specs import Config
from tooldispatchd.children.family import open_family
from tooldispatchd.daemon.logs import LEVELS, LogOutput, LogSink, render_json
from tooldispatchd.front.timer import Timer
from tooldispatchd.metrics.rendering import pieces

TOOLS: Final = (1, 100, MAX_TOOLS)
MOST_COUNTED_US: Final = 1.0
MOST_PIECE_MS: Final = 10.0
# Prometheus' own default is a minute.
SCRAPES_EVERY_S: Final = 15.0


class NothingRuns:
    """A daemon of which nothing runs."""

    channels = turned_away = lost_lines = turns_taken = 0
    longest_turn = (0.0, "")
    log_output = LogOutput(LogSink(-1), render_json, level=LEVELS["info"])
    reload: Reload | None = None
    configuration: Callable[[], ReadConfiguration] | None = None


class Counted:
    """A plan, as far as it is counted."""

    __slots__ = ("tally",)

    def __init__(self) -> None:
        self.tally = ToolTally("t", "inline", "inline")


def _counting(rounds: int) -> tuple[float, float]:
    """Microseconds to count a call that is answered at once, and to note one that waited."""
    plan, number = Counted(), 100_000
    at_once = min(timeit.repeat("plan.tally.at_once += 1", globals={"plan": plan}, number=number, repeat=rounds))
    nothing = min(timeit.repeat("pass", number=number, repeat=rounds))
    names = {"note": plan.tally.note, "done": DONE}
    noted = min(timeit.repeat("note(done, 0.0125)", globals=names, number=number, repeat=rounds))
    return (at_once - nothing) / number * 1e6, noted / number * 1e6


def _scrape(runtime: Runtime) -> tuple[float, float, int]:
    """Milliseconds of a whole text, and of its longest piece; its bytes."""
    text, took, size = pieces(NothingRuns(), runtime), [], 0
    while True:
        begun = thread_time()
        piece = next(text, None)
        took.append((thread_time() - begun) * 1e3)
        if piece is None:
            return sum(took), max(took), size
        size += len(piece)


async def _scrapes(rounds: int) -> list[tuple[int, float, float, int]]:
    """For so many tools, each with calls of three ends: what a scrape takes, the least of the rounds."""
    catalog = build_catalog(Config())
    assert isinstance(catalog, Catalog)
    found = []
    async with open_family() as family, trio.open_nursery() as home:
        log = SilentLog()
        setup = Setup(catalog, log, uid=0)
        services = Services(setup, timer=Timer(log), home=home, family=family)
        for tools in TOOLS:
            runtime = Runtime(setup, services, DaemonState(setup, cores=2, uid=0))
            for number in range(tools):
                tally = runtime.state.tallies.of(ToolTally(f"server:tool-{number}", "mcp", "server"))
                for took_s in (0.001, 0.1, 10.0):
                    tally.note(DONE, took_s)
            wholes, longests, sizes = zip(*(_scrape(runtime) for _ in range(rounds)), strict=True)
            found.append((tools, min(wholes), min(longests), sizes[0]))
    return found


def measure(quick: bool) -> Table:
    """Counting, and scrapes."""
    rounds = 3 if quick else 20
    at_once, noted = _counting(rounds)
    rows: list[tuple[str, ...]] = [
        ("counting a call that is answered at once, us", f"{at_once:.3f}", ""),
        ("noting how a call ended that waited, us", f"{noted:.2f}", ""),
    ]
    longest = 0.0
    for tools, whole_ms, longest_ms, size in trio.run(_scrapes, rounds):
        longest = max(longest, longest_ms)
        share = whole_ms / 1e3 / SCRAPES_EVERY_S
        rows.append((f"a scrape of {tools:,} tools, ms", f"{whole_ms:.1f}", f"in turns of at most {longest_ms:.1f} ms"))
        rows.append(("    its text, KiB", f"{size / 1024:.0f}", f"one in {SCRAPES_EVERY_S:g} s: {share:.3%} of a core"))
    promises = [
        Bar("counting an inline call", f"under {MOST_COUNTED_US:g} us", f"{at_once:.3f} us", at_once < MOST_COUNTED_US),
        Bar("a turn of a scrape", f"at most {MOST_PIECE_MS:g} ms", f"{longest:.1f} ms", longest <= MOST_PIECE_MS),
    ]
    return Table("Metrics", "benchmarks.metrics", ("what", "found", ""), rows, promises)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        run_alone(measure)
