"""What it costs to count calls, which every call pays; what a scrape costs; and what agents notice of operators.

For the last one agent calls an inline tool, one call at a time, of a daemon that nobody looks at, that is scraped all
the time, and whose log is read at debug by some administrators: a line for each call, for each of them.
"""

import http.client
import threading
import timeit
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from statistics import median
from time import perf_counter, thread_time
from typing import Final

import trio

from benchmarks.harness import Agent, Bar, Server, Table, micros, run_alone, start_daemon
from benchmarks.policy import DONE, SilentLog
from tooldispatchd.agent.runtime import DaemonState, Runtime, Services
from tooldispatchd.agent.session.administration import LEVELS, ReadConfiguration, Reload
from tooldispatchd.agent.setup import Setup
from tooldispatchd.calls.tally import MAX_TOOLS, ToolTally
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.specs import Config
from tooldispatchd.children.family import open_family
from tooldispatchd.daemon.logs import LogOutput, LogSink, render_json
from tooldispatchd.front.timer import Timer
from tooldispatchd.metrics.rendering import pieces

TOOLS: Final = (1, 100, MAX_TOOLS)
MOST_COUNTED_US: Final = 1.0
MOST_PIECE_MS: Final = 10.0
# Prometheus' own default is a minute.
SCRAPES_EVERY_S: Final = 15.0
READERS: Final = 5
CONFIG: Final = """
[tools.echo]
type = "string -> string"
inline = "id"
"""


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


@contextmanager
def _nobody(_server: Server, _port: int) -> Iterator[None]:
    yield


@contextmanager
def _scraped(_server: Server, port: int) -> Iterator[None]:
    """One scrape after the other."""
    ended = threading.Event()

    def scrape() -> None:
        while not ended.is_set():
            with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
                connection.request("GET", "/metrics")
                connection.getresponse().read()

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def _followed(server: Server, _port: int) -> Iterator[None]:
    """So many read the log at debug."""
    with ExitStack() as stack:
        for _ in range(READERS):
            reader = Agent(server)
            stack.callback(reader.close)
            reader.ask({"__port": "admin_req", "id": "log", "ask": "log", "level": "debug"})
            thread = threading.Thread(target=_read_all, args=(reader,), daemon=True)
            thread.start()
        yield


def _read_all(reader: Agent) -> None:
    with suppress(OSError, ValueError):
        while reader.receive():
            pass


def _round_trips_us(rounds: int, calls: int) -> dict[str, float]:
    """The median of a call's round trip beside each kind of operator; they take turns."""
    beside = {"nobody": _nobody, "scrapes without end": _scraped, f"{READERS} readers of the log": _followed}
    found: dict[str, list[float]] = {name: [] for name in beside}
    port = 18_464
    with start_daemon(CONFIG, f"http://127.0.0.1:{port}/metrics") as server, closing(Agent(server)) as agent:
        for _ in range(rounds):
            for name, watching in beside.items():
                with watching(server, port):
                    took = []
                    for _ in range(calls):
                        begun = perf_counter()
                        agent.call("echo", "x")
                        took.append((perf_counter() - begun) * 1e6)
                found[name].append(median(took))
    return {name: median(each) for name, each in found.items()}


def measure(quick: bool) -> Table:
    """Counting, scrapes, and what is noticed of them."""
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
    trips = _round_trips_us(2 if quick else 7, 500 if quick else 5_000)
    quiet = trips["nobody"]
    rows += [(f"an inline call beside: {name}, us", micros(us), f"{us / quiet:.2f}") for name, us in trips.items()]
    promises = [
        Bar("counting an inline call", f"under {MOST_COUNTED_US:g} us", f"{at_once:.3f} us", at_once < MOST_COUNTED_US),
        Bar("a turn of a scrape", f"at most {MOST_PIECE_MS:g} ms", f"{longest:.1f} ms", longest <= MOST_PIECE_MS),
    ]
    return Table("Metrics", "metrics", ("what", "found", ""), rows, promises)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        run_alone(measure)
