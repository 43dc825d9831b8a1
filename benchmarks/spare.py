"""The first call of a new agent: with a server that starts for it, one that is kept, and a spare that waits for it."""

import time
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from benchmarks.harness import Agent, Bar, BenchmarkError, Server, Table, run_alone, start_daemon

SERVERS: Final = Path(__file__).parent.parent / "build" / "servers"
# What `make servers` installs, of PyPI and of npm.
KITS: Final[dict[str, tuple[Path, str, dict[str, object]]]] = {
    "mcp-server-time": (SERVERS / "sdk2/bin/mcp-server-time", "get_current_time", {"timezone": "UTC"}),
    "server-everything": (SERVERS / "npm/node_modules/.bin/mcp-server-everything", "echo", {"message": "bees"}),
}
KEYS: Final = {"no key": "", "shared": "shared = true", "spare": "spare = 2"}
BAR: Final = 1.2
# A spare is replaced within that: the start of the server, on a busy machine.
REPLACED_S: Final = 3.0


def measure(quick: bool) -> Table:
    """Medians of some agents, one after the other, beside calls of a session that is open."""
    rounds = 2 if quick else 9
    rows: list[tuple[str, ...]] = []
    bars: list[Bar] = []
    for kit, (program, tool, arguments) in KITS.items():
        if not program.exists():
            raise BenchmarkError(f"{program} is not there: make servers")
        for key, line in KEYS.items():
            command = msgspec.json.encode(str(program)).decode()
            config = f'[mcp.kit]\ncommand = {command}\n{line}\n[agents.default]\nmcp = ["kit"]\n'
            with start_daemon(config) as daemon:
                # The first of all starts it, whatever its keys.
                _first(daemon, tool, arguments)
                time.sleep(REPLACED_S)
                found = [_first(daemon, tool, arguments) for _ in range(rounds)]
            ready, call, first_of_open = (median(each[index] for each in found) * 1e3 for index in range(3))
            rows.append((f"{kit}, {key}", f"{ready:.1f}", f"{call:.1f}", f"{first_of_open:.1f}"))
            if key == "spare":
                ratio = median(each[1] / each[2] for each in found)
                bars.append(Bar(f"first call of a new agent, spare of {kit}", f"≤ {BAR}", f"{ratio:.2f}", ratio <= BAR))
    return Table(
        title="The first call of a new agent, ms",
        program="spare",
        columns=("server", "hello to ready", "its first call", "the same call in an open session"),
        rows=rows,
        bars=bars,
        notes=(
            f"{rounds} agents, each of them {REPLACED_S:g} s after a session that is open and has called nothing yet",
        ),
    )


def _first(daemon: Server, tool: str, arguments: dict[str, object]) -> tuple[float, float, float]:
    """Seconds from `hello` to `ready`, of the first call, and of the first call of a session that is open for long."""
    open_one, new = Agent(daemon), Agent(daemon)
    try:
        open_one.ask({"__port": "hello"})
        time.sleep(REPLACED_S)
        start = time.perf_counter()
        open_one.call(f"kit:{tool}", arguments)
        called = time.perf_counter() - start
        start = time.perf_counter()
        new.ask({"__port": "hello"})
        ready = time.perf_counter()
        new.call(f"kit:{tool}", arguments)
        return ready - start, time.perf_counter() - ready, called
    finally:
        open_one.close()
        new.close()


if __name__ == "__main__":
    run_alone(measure)
