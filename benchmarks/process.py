"""Process calls: a `command` tool through the daemon, beside a bare posix_spawn and trio.run_process of the same."""

from collections.abc import Callable
from statistics import median
from typing import Final

from benchmarks.harness import (
    Bar,
    Call,
    ClientResult,
    Server,
    Table,
    client_words,
    load,
    load_generator,
    median_ratio,
    micros,
    rotated,
    run_alone,
    run_peer,
    start_daemon,
)

CONFIG: Final = """
[tools.cat]
type = "{text: string} -> {text: string}"
command = ["/bin/cat"]
"""
INPUT: Final = '{"text":"what did the survey of bees find"}'
CAT: Final = Call("cat", INPUT, INPUT)

DAEMON: Final = "daemon, command"
BARE: Final = "bare posix_spawn + pipes + wait"
TRIO: Final = "trio.run_process"
IN_FLIGHT: Final = (1, 8)
BAR: Final = 1.3

Rounds = dict[str, list[ClientResult]]


def measure(quick: bool) -> Table:
    """Time of a call one at a time, and with eight at once."""
    rounds, seconds = (1, 0.3) if quick else (7, 0.7)
    with load_generator() as generator, start_daemon(CONFIG) as daemon:
        found = {in_flight: _measure_cat(generator, daemon, in_flight, rounds, seconds) for in_flight in IN_FLIGHT}
    return Table(
        title="Process calls: cat, its input on stdin",
        program="process",
        columns=("who runs it", "in flight", "calls/s", "p50 us", "of bare", "CPU us/call"),
        rows=[row for in_flight, each in found.items() for row in _rows(in_flight, each)],
        bars=_bars(found),
        notes=("of bare: median of the rounds' ratios of the time a call; CPU us/call: without the child's own.",),
    )


def _measure_cat(generator: list[str], daemon: Server, in_flight: int, rounds: int, seconds: float) -> Rounds:
    def through_daemon() -> ClientResult:
        return load(generator, daemon, CAT, connections=1, in_flight=in_flight, seconds=seconds).as_client()

    def direct(kind: str) -> Callable[[], ClientResult]:
        words = client_words("spawn_client.py", kind, str(in_flight), str(seconds))
        return lambda: run_peer(words, ClientResult)

    runners = {DAEMON: through_daemon, BARE: direct("bare"), TRIO: direct("trio")}
    found: Rounds = {label: [] for label in runners}
    for number in range(rounds):
        for label in rotated(list(runners), number):
            found[label].append(runners[label]())
    return found


def _times_us(in_flight: int, results: list[ClientResult]) -> list[float]:
    """Time of one call: its latency where one runs at a time, else the rounds' length by the calls."""
    if in_flight == 1:
        return [each.p50_us for each in results]
    return [1e6 / each.calls_per_s for each in results]


def _ratio(in_flight: int, found: Rounds, label: str) -> float:
    return median_ratio(_times_us(in_flight, found[label]), _times_us(in_flight, found[BARE]))


def _rows(in_flight: int, found: Rounds) -> list[tuple[str, ...]]:
    return [
        (
            label,
            str(in_flight),
            f"{median(each.calls_per_s for each in results):,.0f}",
            micros(median(each.p50_us for each in results)),
            f"{_ratio(in_flight, found, label):.2f}",
            micros(median(each.cpu_us for each in results)),
        )
        for label, results in found.items()
    ]


def _bars(found: dict[int, Rounds]) -> list[Bar]:
    bars = []
    for in_flight, rounds in found.items():
        ratio = _ratio(in_flight, rounds, DAEMON)
        what = f"process call, {in_flight} in flight, time a call"
        bars.append(Bar(what, f"≤ {BAR} x bare", f"{ratio:.2f}", ratio <= BAR))
    return bars


if __name__ == "__main__":
    run_alone(measure)
