"""Calls to a thin stdio MCP server: through the daemon, by a lean blocking loop, by the official SDK's client."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Final

import msgspec

from benchmarks.harness import (
    PEERS,
    Agent,
    Bar,
    BenchmarkError,
    Call,
    ClientResult,
    Server,
    Table,
    client_words,
    load,
    load_generator,
    micros,
    on_cores,
    rotated,
    run_alone,
    run_peer,
    start_daemon,
    thousands,
)

CONFIG: Final = f"""
[mcp.thin]
command = {msgspec.json.encode(sys.executable).decode()}
args = [{msgspec.json.encode(str(PEERS / "thin_mcp.py")).decode()}]
[agents.default]
mcp = ["thin"]
"""
TEXT: Final = "what did the survey of bees find"
ECHO: Final = Call("thin:echo", f'{{"text":"{TEXT}"}}', TEXT)

DAEMON: Final = "through the daemon"
LEAN: Final = "lean blocking loop, direct"
SDK: Final = "official SDK's client, direct"
CPU_BARS_US: Final = {1: 80.0, 32: 30.0}
BLOB_BARS: Final = {5_000_000: (None, 50.0), 50_000_000: (1.0, 250.0)}
"""Bytes of one result: seconds of its call at most, and milliseconds that another agent's ping may take meanwhile."""

Rounds = dict[str, list[ClientResult]]


class BlobResult(msgspec.Struct, frozen=True):
    """One large result without the daemon."""

    seconds: float


class PingResult(msgspec.Struct, frozen=True):
    """What another agent saw meanwhile."""

    worst_ms: float
    p50_ms: float
    pings: int


def measure(quick: bool) -> Table:
    """Speed, latency and CPU of each client; then large results, and what they cost the other agents."""
    rounds, seconds = (1, 0.3) if quick else (5, 0.6)
    with load_generator() as generator, start_daemon(CONFIG) as daemon:
        found = {}
        for in_flight in CPU_BARS_US:
            # As in `front`: with one call in flight a chain of processes takes turns, and waking idle cores would cost
            # more than what is measured. What each client starts inherits its core.
            with on_cores([daemon], shared=True) if in_flight == 1 else contextlib.nullcontext():
                found[in_flight] = _measure_echo(generator, daemon, in_flight, rounds, seconds)
        # A smoke run leaves the largest out: it would take longer than all the rest.
        sizes = [size for size in BLOB_BARS if not quick or size < 10_000_000]
        blobs = [_measure_blob(daemon, size, 1 if quick else 3) for size in sizes]
    return Table(
        title="Calls to an MCP server over stdio",
        program="mcp_stdio",
        columns=("client", "in flight", "calls/s", "p50 us", "CPU us/call"),
        rows=[row for in_flight, each in found.items() for row in _rows(in_flight, each)]
        + [row for rows, _bars in blobs for row in rows],
        bars=_cpu_bars(found) + [bar for _rows, bars in blobs for bar in bars],
        notes=(
            "1 in flight: all processes of a client's chain share one core, as for 1 x 1 in the front's table.",
            "CPU us/call: of the daemon alone, or of the client that stands in its place; the server's is left out.",
        ),
    )


def _measure_echo(generator: list[str], daemon: Server, in_flight: int, rounds: int, seconds: float) -> Rounds:
    words = (str(in_flight), str(seconds))

    def through_daemon() -> ClientResult:
        return load(generator, daemon, ECHO, connections=1, in_flight=in_flight, seconds=seconds).as_client()

    def direct(program: str) -> Callable[[], ClientResult]:
        return lambda: run_peer(client_words(program, *words), ClientResult)

    clients = {DAEMON: through_daemon, LEAN: direct("lean_client.py"), SDK: direct("sdk_client.py")}
    found: Rounds = {label: [] for label in clients}
    for number in range(rounds):
        for label in rotated(list(clients), number):
            found[label].append(clients[label]())
    return found


def _rows(in_flight: int, found: Rounds) -> list[tuple[str, ...]]:
    return [
        (
            label,
            str(in_flight),
            thousands(median(each.calls_per_s for each in results)),
            micros(median(each.p50_us for each in results)),
            micros(median(each.cpu_us for each in results)),
        )
        for label, results in found.items()
    ]


def _cpu_bars(found: dict[int, Rounds]) -> list[Bar]:
    bars = []
    for in_flight, bar_us in CPU_BARS_US.items():
        daemon_us, sdk_us = (median(each.cpu_us for each in found[in_flight][label]) for label in (DAEMON, SDK))
        what = f"MCP stdio call, {in_flight} in flight, CPU of the daemon"
        bars.append(Bar(what, f"≤ {bar_us:.0f} us", f"{micros(daemon_us)} us", daemon_us <= bar_us))
        share = daemon_us / sdk_us
        bars.append(Bar(f"{what}, of the SDK client's", "≤ 1/3", f"{share:.2f}", share <= 1 / 3))
    return bars


def _measure_blob(daemon: Server, size: int, rounds: int) -> tuple[list[tuple[str, ...]], list[Bar]]:
    with contextlib.closing(Agent(daemon)) as agent:
        agent.call(ECHO.name, {"text": TEXT})
        pings: list[PingResult] = []
        with _pinging(daemon, pings):
            took_s = median(_time_blob(agent, size) for _ in range(rounds))
    direct = run_peer(client_words("lean_client.py", "blob", str(size), str(rounds)), BlobResult)
    name = f"{size // 1_000_000} MB result"
    bar_s, bar_ms = BLOB_BARS[size]
    worst_ms = pings[0].worst_ms
    measured = f"{worst_ms:.1f} ms (p50 {pings[0].p50_ms:.2f} of {pings[0].pings})"
    bars = [Bar(f"{name}: another agent's worst round trip", f"≤ {bar_ms:.0f} ms", measured, worst_ms <= bar_ms)]
    if bar_s is not None:
        bars.insert(0, Bar(f"{name}: the call", f"≤ {bar_s:.0f} s", f"{took_s:.2f} s", took_s <= bar_s))
    rows: list[tuple[str, ...]] = [
        (f"{name}, {label}", "1", f"{1 / seconds:.1f}", micros(seconds * 1e6), "")
        for label, seconds in ((DAEMON, took_s), (LEAN, direct.seconds))
    ]
    return rows, bars


def _time_blob(agent: Agent, size: int) -> float:
    request: dict[str, object] = {"__port": "tool_req", "id": "1", "name": "thin:blob", "input": {"bytes": size}}
    start = time.perf_counter()
    agent.send(request)
    line = agent.receive()
    took = time.perf_counter() - start
    if len(line) < size or b'"is_error":false' not in (line[:200] + line[-200:]):
        raise BenchmarkError(f"a result of {size} bytes was answered {line[:400]!r}")
    return took


@contextlib.contextmanager
def _pinging(daemon: Server, found: list[PingResult]) -> Iterator[None]:
    """Another agent pings within the scope; what it saw is in `found` afterwards."""
    words = client_words("pinger.py", daemon.path)
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        if process.stdout.readline() != b"ready\n":
            raise BenchmarkError("the pinging agent got no pong")
        yield
        output, _stderr = process.communicate()
        found.append(msgspec.json.decode(output, type=PingResult))


if __name__ == "__main__":
    run_alone(measure)
