"""What a call costs: this build, the build that closed the first round, and a bare relay, in turns.

The earlier build is checked out of this repository's own history under `build/`, and runs on the same libraries.
"""

import contextlib
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.harness import (
    PEERS,
    Bar,
    Call,
    Table,
    load_generator,
    median_ratio,
    run_alone,
    start_daemon,
    start_peer,
)
from benchmarks.turns import COLUMNS, on_one_core, rows_of, take_turns, through

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
            shape = {"connections": row.connections, "in_flight": row.in_flight}
            clients = {
                label: through(generator, each, row.call, **shape, seconds=seconds) for label, each in there.items()
            }
            with on_one_core(tuple(there.values()), row.connections * row.in_flight):
                found = take_turns(clients, rounds)
            rows += rows_of(found, row.in_flight, before=f"{row.what}: ")
            cpu = {label: [each.cpu_us for each in results] for label, results in found.items()}
            ratio = median_ratio(cpu[THIS], cpu[EARLIER])
            bars.append(Bar(f"{row.what}: CPU, of {EARLIER}", f"≤ {row.bar:.2f}", f"{ratio:.2f}", ratio <= row.bar))
    return Table(
        title="Calls, beside an earlier build and a bare relay",
        program="calls",
        columns=COLUMNS,
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


if __name__ == "__main__":
    run_alone(measure)
