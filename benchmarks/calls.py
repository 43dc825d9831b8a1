"""What a call costs: this build, the build that closed the first round, and a bare relay, in turns.

The earlier build is checked out of this repository's own history under `build/`, and runs on the same libraries.
"""

import contextlib
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from benchmarks.harness import (
    PEERS,
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

BASE: Final = "b3555ba"
HERE: Final = Path(__file__).parents[1]
BASE_TREE: Final = HERE / "build" / "base"
CONFIG: Final = f"""
[mcp.thin]
command = {msgspec.json.encode(sys.executable).decode()}
args = [{msgspec.json.encode(str(PEERS / "thin_mcp.py")).decode()}]
[tools.id]
type = "{{text: string}} -> {{text: string}}"
inline = "id"
[tools.double]
type = "{{score: int}} -> int"
map = "score * 2"
[tools.cat]
type = "{{text: string}} -> {{text: string}}"
command = ["cat"]
[agents.default]
tools = ["id", "double", "cat"]
mcp = ["thin"]
"""
TEXT: Final = "what did the survey of bees find"
INPUT: Final = f'{{"text":"{TEXT}"}}'
ECHO: Final = Call("thin:echo", INPUT, TEXT)

THIS: Final = "this build"
EARLIER: Final = f"build {BASE}"
RELAY: Final = "bare relay, trio"


class Row(msgspec.Struct, frozen=True):
    """A kind of call at so many connections and calls in flight, and what its CPU may be of the earlier build's."""

    what: str
    call: Call
    connections: int
    in_flight: int
    bar: float
    is_relayed: bool = False


ROWS: Final = (
    Row("MCP over stdio, 1 in flight", ECHO, 1, 1, 60 / 73, is_relayed=True),
    Row("MCP over stdio, 32 in flight", ECHO, 1, 32, 17 / 21, is_relayed=True),
    Row("MCP, 32 agents, each its own server", ECHO, 32, 1, 55 / 73, is_relayed=True),
    Row("inline id, 16 x 64", Call("id", INPUT, INPUT), 16, 64, 1.0),
    Row("map, 16 x 64", Call("double", '{"score":21}', "42"), 16, 64, 1.0),
    Row("program", Call("cat", INPUT, INPUT), 1, 1, 360 / 392),
)


def measure(quick: bool) -> Table:
    """CPU, latency and calls a second of every contender, in interleaved rounds."""
    rounds, seconds = (1, 0.3) if quick else (7, 0.5)
    rows: list[tuple[str, ...]] = []
    bars = []
    with contextlib.ExitStack() as stack:
        generator = stack.enter_context(load_generator())
        servers = {
            THIS: stack.enter_context(start_daemon(CONFIG)),
            EARLIER: stack.enter_context(start_daemon(CONFIG, tree=base_tree())),
            RELAY: stack.enter_context(start_peer("lean_relay")),
        }
        for row in ROWS:
            there = {label: each for label, each in servers.items() if label != RELAY or row.is_relayed}
            found = _take_turns(generator, there, row, rounds, seconds)
            for label, results in found.items():
                figures = [median(column) for column in zip(*map(_figures, results), strict=True)]
                rows.append((f"{row.what}: {label}", thousands(figures[0]), *map(micros, figures[1:])))
            cpu = {label: [each.server_cpu_us for each in results] for label, results in found.items()}
            ratio = median_ratio(cpu[THIS], cpu[EARLIER])
            bars.append(Bar(f"{row.what}: CPU, of {EARLIER}", f"≤ {row.bar:.2f}", f"{ratio:.2f}", ratio <= row.bar))
    return Table(
        title="Calls, beside an earlier build and a bare relay",
        program="calls",
        columns=("call", "calls/s", "p50 us", "CPU us/call"),
        rows=rows,
        bars=bars,
        notes=("1 in flight: all processes share one core. CPU: of the daemon or the relay alone.",),
    )


def base_tree() -> Path:
    """The earlier build's files, with the one library that it needs and this one does not."""
    if not (BASE_TREE / "structlog").exists():
        BASE_TREE.mkdir(parents=True, exist_ok=True)
        words = ["git", "-C", str(HERE), "archive", BASE, "tooldispatchd"]
        archive = subprocess.run(words, check=True, capture_output=True)
        subprocess.run(["tar", "--extract", "--directory", str(BASE_TREE)], input=archive.stdout, check=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(BASE_TREE)]
        subprocess.run([*pip, "structlog==26.1.0"], check=True)
    return BASE_TREE


def _figures(result: LoadResult) -> tuple[float, float, float]:
    return result.calls_per_s, result.p50_us, result.server_cpu_us


def _take_turns(
    generator: list[str], servers: Mapping[str, Server], row: Row, rounds: int, seconds: float
) -> dict[str, list[LoadResult]]:
    shape = {"connections": row.connections, "in_flight": row.in_flight, "seconds": seconds}
    found: dict[str, list[LoadResult]] = {label: [] for label in servers}
    is_alone = row.connections == row.in_flight == 1
    with on_cores(tuple(servers.values()), shared=True) if is_alone else contextlib.nullcontext():
        for number in range(rounds):
            for label in rotated(list(servers), number):
                found[label].append(load(generator, servers[label], row.call, **shape))  # type: ignore[arg-type]
    return found


if __name__ == "__main__":
    run_alone(measure)
