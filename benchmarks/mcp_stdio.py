"""Calls to a thin stdio MCP server: through the daemon, by a lean blocking loop, by the official SDK's client."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from statistics import median
from typing import Final

import msgspec

from benchmarks.harness import (
    PEERS,
    Agent,
    Bar,
    BenchmarkError,
    Call,
    Server,
    Table,
    client_words,
    load_generator,
    micros,
    run_alone,
    run_peer,
    start_daemon,
)
from benchmarks.turns import COLUMNS, DAEMON, Rounds, direct, on_one_core, rows_of, take_turns, through

CONFIG: Final = f"""
[mcp.thin]
command = {msgspec.json.encode(sys.executable).decode()}
args = [{msgspec.json.encode(str(PEERS / "thin_mcp.py")).decode()}]
# The largest of the results is to come whole.
max_output = 100_000_000
[agents.default]
mcp = ["thin"]
"""
TEXT: Final = "what did the survey of bees find"
ECHO: Final = Call("thin:echo", f'{{"text":"{TEXT}"}}', TEXT)

LEAN: Final = "lean blocking loop, direct"
SDK: Final = "official SDK's client, direct"
CPU_BARS_US: Final = {1: 80.0, 32: 30.0}
BLOB_BARS: Final = {5_000_000: (None, 50.0), 50_000_000: (1.0, 250.0)}
"""Bytes of one result: seconds of its call at most, and milliseconds that another agent's ping may take meanwhile."""


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
            words = (str(in_flight), str(seconds))
            clients = {
                DAEMON: through(generator, daemon, ECHO, in_flight=in_flight, seconds=seconds),
                LEAN: direct("lean_client.py", *words),
                SDK: direct("sdk_client.py", *words),
            }
            with on_one_core((daemon,), in_flight):
                found[in_flight] = take_turns(clients, rounds)
        # A smoke run leaves the largest out: it would take longer than all the rest.
        sizes = [size for size in BLOB_BARS if not quick or size < 10_000_000]
        blobs = [_measure_blob(daemon, size, 1 if quick else 3) for size in sizes]
    return Table(
        title="Calls to an MCP server over stdio",
        program="mcp_stdio",
        columns=COLUMNS,
        rows=[row for in_flight, each in found.items() for row in rows_of(each, in_flight)]
        + [row for rows, _bars in blobs for row in rows],
        bars=_cpu_bars(found) + [bar for _rows, bars in blobs for bar in bars],
        notes=(
            "1 in flight: all processes of a client's chain share one core, as for 1 x 1 in the front's table.",
            "CPU us/call: of the daemon alone, or of the client that stands in its place; the server's is left out.",
        ),
    )


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
    alone = run_peer(client_words("lean_client.py", "blob", str(size), str(rounds)), BlobResult)
    name = f"{size // 1_000_000} MB result"
    bar_s, bar_ms = BLOB_BARS[size]
    worst_ms = pings[0].worst_ms
    measured = f"{worst_ms:.1f} ms (p50 {pings[0].p50_ms:.2f} of {pings[0].pings})"
    bars = [Bar(f"{name}: another agent's worst round trip", f"≤ {bar_ms:.0f} ms", measured, worst_ms <= bar_ms)]
    if bar_s is not None:
        bars.insert(0, Bar(f"{name}: the call", f"≤ {bar_s:.0f} s", f"{took_s:.2f} s", took_s <= bar_s))
    rows: list[tuple[str, ...]] = [
        (f"{name}, {label}", "1", f"{1 / seconds:.1f}", micros(seconds * 1e6), "")
        for label, seconds in ((DAEMON, took_s), (LEAN, alone.seconds))
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
