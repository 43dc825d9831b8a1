"""Inline calls through the front, beside bare echoes: connections x calls in flight, in interleaved rounds."""

import contextlib
from statistics import median
from typing import Final

import msgspec

from benchmarks.harness import (
    Bar,
    Call,
    LoadResult,
    Server,
    Table,
    load,
    load_generator,
    median_ratio,
    micros,
    on_cores,
    rotated,
    run_alone,
    start_daemon,
    start_peer,
    thousands,
)

CONFIG: Final = """
[types]
Query = "{text: string, limit?: int}"
[tools.echo]
type = "Query -> Query"
inline = "id"
[tools.double]
type = "{score: int} -> int"
map = "score * 2"
"""
QUERY: Final = '{"text":"what did the survey of bees find","limit":10}'
ECHO: Final = Call("echo", QUERY, QUERY)
DOUBLE: Final = Call("double", '{"score":21}', "42")

SHAPES: Final = ((1, 1), (256, 1), (16, 64))
BARE: Final = "bare epoll + msgspec echo"
BARE_TRIO: Final = "bare trio echo on a nested epoll"
NAIVE: Final = "naive trio, a task a line"
INLINE: Final = "daemon, inline id"
MAP: Final = "daemon, map"

SHARE_OF_BARE: Final = {INLINE: {(256, 1): 0.5, (16, 64): 0.25}, MAP: {(256, 1): 0.35, (16, 64): 0.12}}
ROUND_TRIP: Final = 1.5
"""Times the bare trio echo, one call at a time."""


class Contender(msgspec.Struct, frozen=True):
    """One server under one call."""

    label: str
    server: Server
    call: Call


Rounds = dict[str, list[LoadResult]]


def measure(quick: bool) -> Table:
    """Calls a second, latency and server CPU of every contender at every shape."""
    rounds, seconds = (1, 0.2) if quick else (5, 0.5)
    with contextlib.ExitStack() as stack:
        generator = stack.enter_context(load_generator())
        daemon = stack.enter_context(start_daemon(CONFIG))
        contenders = [
            Contender(BARE, stack.enter_context(start_peer("bare_epoll")), ECHO),
            Contender(BARE_TRIO, stack.enter_context(start_peer("bare_trio")), ECHO),
            Contender(NAIVE, stack.enter_context(start_peer("naive_trio")), ECHO),
            Contender(INLINE, daemon, ECHO),
            Contender(MAP, daemon, DOUBLE),
        ]
        found = {shape: _measure_shape(generator, contenders, shape, rounds, seconds) for shape in SHAPES}
    return Table(
        title="Inline calls over a Unix socket",
        program="front",
        columns=("server", "connections x in flight", "calls/s", "of bare", "p50 us", "p99 us", "CPU us/call", "load"),
        rows=[row for shape in SHAPES for row in _rows(shape, found[shape])],
        bars=_bars(found),
        notes=(
            "load: the generator's share of one core; it is the bottleneck only near 1.",
            "1 x 1: server and generator share one core, so that no idle core is woken; else each has its own.",
            "of bare: median of the rounds' ratios of calls/s to the bare echo; CPU us/call: the server's own.",
        ),
    )


def _measure_shape(
    generator: list[str], contenders: list[Contender], shape: tuple[int, int], rounds: int, seconds: float
) -> Rounds:
    connections, in_flight = shape
    found: Rounds = {each.label: [] for each in contenders}
    with on_cores([each.server for each in contenders], shared=shape == (1, 1)):
        for number in range(rounds):
            for each in rotated(contenders, number):
                result = load(
                    generator, each.server, each.call, connections=connections, in_flight=in_flight, seconds=seconds
                )
                found[each.label].append(result)
    return found


def _speeds(results: list[LoadResult]) -> list[float]:
    return [each.calls_per_s for each in results]


def _rows(shape: tuple[int, int], found: Rounds) -> list[tuple[str, ...]]:
    return [
        (
            label,
            f"{shape[0]} x {shape[1]}",
            thousands(median(_speeds(results))),
            f"{median_ratio(_speeds(results), _speeds(found[BARE])):.2f}",
            micros(median(each.p50_us for each in results)),
            micros(median(each.p99_us for each in results)),
            micros(median(each.server_cpu_us for each in results)),
            f"{median(each.own_cpu_share for each in results):.2f}",
        )
        for label, results in found.items()
    ]


def _bars(found: dict[tuple[int, int], Rounds]) -> list[Bar]:
    bars = []
    for label, shares in SHARE_OF_BARE.items():
        for shape, share in shares.items():
            results, bare = found[shape][label], found[shape][BARE]
            ratio = median_ratio(_speeds(results), _speeds(bare))
            measured = f"{ratio:.2f} ({thousands(median(_speeds(results)))} calls/s)"
            what = f"{label}, {shape[0]} x {shape[1]}, calls/s"
            bars.append(Bar(what, f"≥ {share} of the bare echo", measured, ratio >= share))
    for label in (INLINE, MAP):
        one, other = ([each.p50_us for each in found[1, 1][name]] for name in (label, BARE_TRIO))
        times = median_ratio(one, other)
        measured = f"{times:.2f} ({micros(median(one))} us)"
        bar = f"≤ {ROUND_TRIP} x the bare trio echo"
        bars.append(Bar(f"{label}, 1 x 1, round trip p50", bar, measured, times <= ROUND_TRIP))
    return bars


if __name__ == "__main__":
    run_alone(measure)
