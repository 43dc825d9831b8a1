"""Many connections to MCP servers: what opening them costs, and what agents notice when servers of others fail."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from benchmarks.harness import (
    PEERS,
    Agent,
    Bar,
    BenchmarkError,
    Server,
    Table,
    client_words,
    cpu_s,
    memory_kib,
    micros,
    on_cores,
    raise_descriptor_limit,
    run_alone,
    run_peer,
    start_daemon,
)

THIN: Final = str(PEERS / "thin_mcp.py")
SERVERS: Final = 3
"""Of each agent."""
AT_ONCE: Final = 16
"""The daemon's own bound on servers that start at once, for the SDK too."""
SETTLE_S: Final = 0.3
SHARE: Final = 1 / 2
MEMORY_BAR_KIB: Final = 20.0
STRUCK: Final = 50
TIMES: Final = 2.0

STRIKES: Final[dict[str, tuple[signal.Signals, ...]]] = {
    "servers killed": (signal.SIGKILL,),
    "servers stopped": (signal.SIGSTOP,),
    "servers killed and stopped": (signal.SIGKILL, signal.SIGSTOP),
}
QUIET: Final = "servers left alone"


class Opened(msgspec.Struct, frozen=True):
    """What opening connections took: seconds in all, CPU and memory of each."""

    seconds: float
    cpu_ms: float
    kib: float


class Seen(msgspec.Struct, frozen=True):
    """What an agent on another server saw of its own calls."""

    calls: int
    p50_us: float
    p99_us: float
    worst_us: float


class Struck(msgspec.Struct, frozen=True):
    """What the agents of the servers that failed saw."""

    calls: int
    once: int
    answers: int
    faults: int


def binding(name: str, *lines: str) -> str:
    """The table of a thin server; its own name is its last word, to find it by."""
    words = msgspec.json.encode(["-I", THIN, name]).decode()
    command = msgspec.json.encode(sys.executable).decode()
    return "\n".join([f"[mcp.{name}]", f"command = {command}", f"args = {words}", *lines, ""])


POOL: Final = "".join(binding(f"thin{number}") for number in range(SERVERS)) + (
    "[agents.default]\nmcp = [" + ", ".join(f'"thin{number}"' for number in range(SERVERS)) + "]\n"
)
FAULTS: Final = (
    binding("spared")
    + binding("struck", "call_s = 0.5")
    + '[agents.default]\nmcp = ["spared"]\n[agents.struck]\nmcp = ["struck"]\n'
)


def measure(quick: bool) -> Table:
    """Opening, beside the SDK; then latency beside servers that fail."""
    agents, rounds = (10, 1) if quick else (100, 2)
    raise_descriptor_limit(8192)
    opened = [(_open_pool(agents), _open_with_sdk(agents)) for _ in range(rounds)]
    seen = _play(1 if quick else 3, 0.5 if quick else 2.0)
    return Table(
        title=f"Many MCP connections: {agents} agents with {SERVERS} servers each, and servers that fail",
        program="pool",
        columns=("what", "s", "CPU ms each", "KiB each", "p50 us", "p99 us", "worst us", "x quiet"),
        rows=[
            _opened_row("opened by the daemon", [daemon for daemon, _sdk in opened]),
            _opened_row("opened by the official SDK's client", [sdk for _daemon, sdk in opened]),
            *_seen_rows(seen),
        ],
        bars=[*_opened_bars(opened), *_seen_bars(seen)],
        notes=(
            f"At most {AT_ONCE} servers start at once, here and there; s: until the last one is open.",
            "s has no bar: on busy cores Linux (autogroup) favours the SDK, which gives each server its own session.",
            "CPU and KiB: of the daemon, or of the client, for each connection; the servers' own is left out.",
            f"us: of an agent on another server, while {STRUCK} agents call theirs, which are struck one by one.",
            "p99: of the round that was disturbed least; worst: of all rounds.",
        ),
    )


# --- opening ---------------------------------------------------------------------------------------------------------


def _open_pool(agents: int) -> Opened:
    """All agents come at once; each has its `ready` when its servers are open."""
    with start_daemon(POOL) as daemon, contextlib.ExitStack() as stack:
        _greet(stack, daemon, 1)
        time.sleep(SETTLE_S)
        memory, cpu, start = memory_kib(daemon.pid)["Rss"], cpu_s(daemon.pid), time.perf_counter()
        _greet(stack, daemon, agents)
        took, cpu = time.perf_counter() - start, cpu_s(daemon.pid) - cpu
        time.sleep(SETTLE_S)
        memory = memory_kib(daemon.pid)["Rss"] - memory
    connections = agents * SERVERS
    return Opened(took, cpu / connections * 1e3, memory / connections)


def _greet(stack: contextlib.ExitStack, daemon: Server, agents: int) -> None:
    opened = [stack.enter_context(contextlib.closing(Agent(daemon))) for _ in range(agents)]
    for agent in opened:
        agent.send({"__port": "hello"})
    for agent in opened:
        line = agent.receive()
        if b'"warnings":[]' not in line:
            raise BenchmarkError(f"an agent was greeted with {line[-400:]!r}")


def _open_with_sdk(agents: int) -> Opened:
    words = [sys.executable, "-m", "benchmarks.peers.sdk_pool", str(agents * SERVERS), str(AT_ONCE)]
    return run_peer(words, Opened)


def _opened_row(what: str, found: list[Opened]) -> tuple[str, ...]:
    seconds, cpu_ms, kib = (median(getattr(each, field) for each in found) for field in Opened.__struct_fields__)
    return (what, f"{seconds:.2f}", f"{cpu_ms:.2f}", f"{kib:.1f}", "", "", "", "")


def _opened_bars(opened: list[tuple[Opened, Opened]]) -> list[Bar]:
    share = median(daemon.cpu_ms / sdk.cpu_ms for daemon, sdk in opened)
    kib = median(daemon.kib for daemon, _sdk in opened)
    what = "opening an MCP stdio connection"
    return [
        Bar(f"{what}, CPU of the daemon, of the SDK client's", "≤ 1/2", f"{share:.2f}", share <= SHARE),
        Bar(
            "memory of one of many MCP connections",
            f"≤ {MEMORY_BAR_KIB:.0f} KiB",
            f"{kib:.2f} KiB",
            kib <= MEMORY_BAR_KIB,
        ),
    ]


# --- servers that fail -----------------------------------------------------------------------------------------------


def _play(rounds: int, seconds: float) -> dict[str, list[Seen]]:
    found: dict[str, list[Seen]] = {scene: [] for scene in (QUIET, *STRIKES)}
    for _ in range(rounds):
        for scene, seen in found.items():
            seen.append(_probe(STRIKES.get(scene, ()), seconds))
    return found


def _probe(strikes: tuple[signal.Signals, ...], seconds: float) -> Seen:
    """What an agent sees within `seconds`, over which the strikes are spread."""
    with (
        start_daemon(FAULTS) as daemon,
        on_cores([daemon], shared=False),
        _running("struck_agents", daemon.path, str(STRUCK)) as agents,
    ):
        with _running("prober", daemon.path, "spared:echo") as prober:
            _strike(_servers(daemon), strikes, seconds)
            output, _stderr = prober.communicate()
        told, _stderr = agents.communicate()
    struck = msgspec.json.decode(told, type=Struck)
    if not struck.calls == struck.once == struck.answers or bool(struck.faults) != bool(strikes):
        raise BenchmarkError(f"calls at servers that failed were not answered once each: {struck}")
    return msgspec.json.decode(output, type=Seen)


def _strike(servers: list[int], strikes: tuple[signal.Signals, ...], seconds: float) -> None:
    for number, pid in enumerate(servers):
        time.sleep(seconds / len(servers))
        if strikes:
            os.kill(pid, strikes[number % len(strikes)])


def _servers(daemon: Server) -> list[int]:
    """The servers that are to be struck."""
    children = [pid for each in Path(f"/proc/{daemon.pid}/task").glob("*/children") for pid in each.read_text().split()]
    found = [int(pid) for pid in children if b"\0struck\0" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    if len(found) != STRUCK:
        raise BenchmarkError(f"{len(found)} servers run for {STRUCK} agents")
    return found


@contextlib.contextmanager
def _running(program: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A peer that has said that it is ready; it ends when its stdin does."""
    with subprocess.Popen(client_words(f"{program}.py", *words), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as peer:
        try:
            assert peer.stdout is not None
            if peer.stdout.readline() != b"ready\n":
                raise BenchmarkError(f"{program} did not begin")
            yield peer
        finally:
            peer.kill()


def _p99(rounds: list[Seen]) -> float:
    # The machine's own business only ever adds to it: the round that met least of that says most of the daemon.
    return min(each.p99_us for each in rounds)


def _seen_rows(seen: dict[str, list[Seen]]) -> list[tuple[str, ...]]:
    return [
        (
            f"an agent on another server, {scene}",
            *("", "", ""),
            micros(median(each.p50_us for each in rounds)),
            micros(_p99(rounds)),
            micros(max(each.worst_us for each in rounds)),
            f"{_p99(rounds) / _p99(seen[QUIET]):.1f}",
        )
        for scene, rounds in seen.items()
    ]


def _seen_bars(seen: dict[str, list[Seen]]) -> list[Bar]:
    bars = []
    for scene in STRIKES:
        times = _p99(seen[scene]) / _p99(seen[QUIET])
        measured = f"{times:.1f} ({micros(_p99(seen[scene]))} us)"
        what = f"p99 of an agent on another server: {scene} under {STRUCK} agents"
        bars.append(Bar(what, f"≤ {TIMES:g} x its quiet value", measured, times <= TIMES))
    return bars


if __name__ == "__main__":
    run_alone(measure)
