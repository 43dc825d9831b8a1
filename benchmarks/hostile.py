"""What an agent that behaves sees of its calls beside hostile peers, what these cost in memory, and what they leave."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from benchmarks.harness import (
    Bar,
    BenchmarkError,
    Server,
    Table,
    memory_kib,
    micros,
    on_cores,
    raise_descriptor_limit,
    run_alone,
    start_daemon,
    start_peer,
)
from benchmarks.peers.hostile_peers import call

# An honest schema, each value of which is checked in some microseconds; and a program.
PAIRS: Final = [[number, -number] for number in range(2000)]
ROWS: Final = "import sys; print('[' + '[],' * (int(input()) // 3) + '1]')"
CONFIG: Final = f"""
[tools.echo]
type = "json -> json"
inline = "id"
[tools.pairs]
inline = "id"
input_schema = {{ type = "array", items = {{ enum = {PAIRS} }} }}
output_schema = {{}}
[tools.rows]
command = [{msgspec.json.encode(sys.executable).decode()}, "-c", {msgspec.json.encode(ROWS).decode()}]
"""
TIMES: Final = 2.0
"""How much longer than its quiet value the 99th percentile of another agent's calls may take, unless the machine does
more than that to the same calls of a bare echo, which nobody attacks: hostile peers take processor time too."""
HELD_US: Final = 10_000.0
"""The longest turn of the loop; a ratio says little where the machine is busy with other things."""
ROUNDS: Final = 6
"""Of fewer the median still differs by a half from run to run, ours as the bare echo's."""
MANY: Final = 50
"""Peers of one kind whose memory is read together."""
SETTLE_S: Final = 10.0
CLOSED_S: Final = 0.2
"""Until the daemon has seen that an agent has left."""
CHECKERS: Final = 2
"""As many the daemon keeps when they were needed at once."""
MIB: Final = 1024
"""In KiB, as the readings are."""

# What one peer may hold of an unfinished line: `max_line_bytes`, and the eighth by which a growing buffer is larger.
LINE: Final = 9 * MIB
# What it may leave unread: `out_buffer_bytes`, the answers of the turn that passed it, and the lines of one read.
UNREAD: Final = 2 * MIB
# Or, in the place of that, one larger answer; and its like in the making.
ANSWER: Final = 2 * LINE
LARGE: Final = (
    "lines of 8 MiB",
    "small lists",
    "small records",
    "small lists for no tool",
    "small lists that break off",
    "escapes",
    "hellos of 8 MiB",
    "answers to no question",
    "ids of 8 MiB",
    "an enum of 2,000 pairs",
    "60 MB of a program",
)
BOUNDS: Final = {
    "half a line of 8 MiB": LINE,
    "lines over 8 MiB": LINE + UNREAD,
    **dict.fromkeys(LARGE, LINE + ANSWER),
}

PATIENT: Final = ("never reads", "reads a byte a second", "sends a byte a second", "half a line of 8 MiB")
BUSY: Final = (
    "half-closes",
    "closes, answers unread",
    *LARGE,
    "lines over 8 MiB",
    "100,000 brackets",
    "NULs",
    "lone surrogates",
    "duplicate keys",
    "ids of 64 KiB",
    "pings",
    "hello after requests",
    "hellos",
    "floods",
)
TOGETHER: Final = ("never reads", "half-closes", "100,000 brackets", "pings", "floods")


class Seen(msgspec.Struct, frozen=True):
    """What the agent that behaves saw of its own calls."""

    calls: int
    p50_us: float
    p99_us: float
    worst_us: float
    held_us: float
    """The most processor time that the server took during one of them."""
    is_first: bool


class Scene(msgspec.Struct, frozen=True):
    """Hostile kinds at once, and how many channels each has."""

    kinds: tuple[str, ...]
    channels: int

    @property
    def title(self) -> str:
        """As a row is named."""
        return " + ".join(self.kinds) or "nobody"


QUIET: Final = Scene((), 0)
SCENES: Final = (
    *(Scene((kind,), MANY) for kind in PATIENT),
    *(Scene((kind,), 1) for kind in BUSY),
    Scene(("floods",), 16),
    Scene(TOGETHER, 4),
)


def measure(quick: bool) -> Table:
    """Latency beside each kind in turn, beside several, then the memory of many of each."""
    seconds, rounds = (0.3, 1) if quick else (0.5, ROUNDS)
    raise_descriptor_limit(4096)
    with start_daemon(CONFIG) as daemon, start_peer("bare_epoll") as bare:
        for server in (daemon, bare):
            _put_first(server)
        _warm(daemon)
        before = _held(daemon)
        with on_cores([daemon, bare], shared=False):
            # All scenes in each round, the quiet one too: a machine has better minutes and worse.
            played = [{scene: _play(daemon, bare, scene, seconds) for scene in (QUIET, *SCENES)} for _ in range(rounds)]
        seen = {scene: [each[scene] for each in played] for scene in (QUIET, *SCENES)}
        left = _left(daemon, before)
    memory = {kind: _memory(kind, seconds) for kind in (*PATIENT, *BUSY)}
    return _table(seen, memory, left)


def _put_first(server: Server) -> None:
    """Before what else the machine does: the daemon's delays are measured, not those of the scheduler."""
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, server.pid, -20)


def _warm(daemon: Server) -> None:
    """Start what the first large values and the first program start, which stays."""
    with contextlib.ExitStack() as stage:
        agents = [stage.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(CHECKERS)]
        for agent in agents:
            agent.connect(daemon.path)
            agent.sendall(call(b"60000000", b"rows"))
        for agent in agents:
            while not agent.recv(MIB * 1024).endswith(b"\n"):
                pass
    time.sleep(CLOSED_S)


# --- latency ---------------------------------------------------------------------------------------------------------


def _play(daemon: Server, bare: Server, scene: Scene, seconds: float) -> tuple[Seen, Seen]:
    """What a modest agent sees of the daemon beside hostile peers; and of the bare echo, which nobody attacks."""
    with contextlib.ExitStack() as stage:
        for kind in scene.kinds:
            stage.enter_context(_hostile(daemon, kind, scene.channels))
        return _probe(daemon, seconds), _probe(bare, seconds)


def _probe(server: Server, seconds: float) -> Seen:
    with _running("prober", server.path) as prober:
        time.sleep(seconds)
        output, _stderr = prober.communicate()
    return msgspec.json.decode(output, type=Seen)


@contextlib.contextmanager
def _hostile(daemon: Server, kind: str, channels: int) -> Iterator[None]:
    with _running("hostile_peers", daemon.path, kind, str(channels)) as peers:
        yield
        _output, _stderr = peers.communicate()
        if peers.returncode:
            raise BenchmarkError(f"peers of the kind {kind!r} ended with {peers.returncode}")


@contextlib.contextmanager
def _running(program: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A peer that has said that it is ready; it ends when its stdin does."""
    command = [sys.executable, "-m", f"benchmarks.peers.{program}", *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != b"ready\n":
                raise BenchmarkError(f"{program} {words[1:]} did not begin")
            yield process
        finally:
            process.kill()


# --- memory, and what is left ----------------------------------------------------------------------------------------


def _memory(kind: str, seconds: float) -> float:
    """The most that one of many peers of a kind holds in a daemon of their own, in KiB."""
    with start_daemon(CONFIG) as daemon:
        _probe(daemon, 0.1)
        before = memory_kib(daemon.pid)["Rss"]
        peak = before
        with _hostile(daemon, kind, MANY):
            until = time.monotonic() + 2 * seconds
            while time.monotonic() < until:
                peak = max(peak, memory_kib(daemon.pid)["Rss"])
                time.sleep(0.02)
    return (peak - before) / MANY


def _held(daemon: Server) -> tuple[int, int]:
    """Descriptors and children of the daemon."""
    root = Path(f"/proc/{daemon.pid}")
    children = [pid for task in root.glob("task/*/children") for pid in task.read_text().split()]
    return len(os.listdir(root / "fd")), len(children)  # noqa: PTH208 (the number only)


def _left(daemon: Server, before: tuple[int, int]) -> tuple[int, int]:
    """What it holds more than before, when its peers have had time to be torn down."""
    until = time.monotonic() + SETTLE_S
    while (left := _more(_held(daemon), before)) != (0, 0) and time.monotonic() < until:
        time.sleep(0.05)
    return left


def _more(now: tuple[int, int], before: tuple[int, int]) -> tuple[int, int]:
    return max(0, now[0] - before[0]), max(0, now[1] - before[1])


# --- what is said of it ----------------------------------------------------------------------------------------------


def _table(seen: dict[Scene, list[tuple[Seen, Seen]]], memory: dict[str, float], left: tuple[int, int]) -> Table:
    quiet, quiet_bare = (_p99(seen[QUIET], which) for which in (0, 1))
    rows: list[tuple[str, ...]] = []
    bars: list[Bar] = []
    for scene, rounds in seen.items():
        times, control = _p99(rounds, 0) / quiet, _p99(rounds, 1) / quiet_bare
        rows.append(
            (
                scene.title,
                str(scene.channels),
                micros(median(daemon.p50_us for daemon, _bare in rounds)),
                micros(_p99(rounds, 0)),
                micros(max(daemon.worst_us for daemon, _bare in rounds)),
                micros(_held_us(rounds)),
                f"{times:.1f}",
                f"{control:.1f}",
                _kib(memory[scene.kinds[0]]) if len(scene.kinds) == 1 else "",
            )
        )
        if scene.kinds:
            measured = f"{times:.1f} ({micros(_p99(rounds, 0))} us; the bare echo {control:.1f})"
            what = f"p99 of another agent beside: {scene.title} ({scene.channels} channels each)"
            allowed = f"≤ {TIMES:g} x its quiet value, or as the bare echo"
            bars.append(Bar(what, allowed, measured, times <= max(TIMES, control)))
    return Table(
        title="Beside hostile peers",
        program="hostile",
        columns=("beside", "channels", "p50 us", "p99 us", "worst us", "held us", "x quiet", "control", "KiB a peer"),
        rows=rows,
        bars=[*bars, _held_bar(seen), *_memory_bars(memory), _left_bar(left)],
        notes=_notes(seen),
    )


def _p99(rounds: Sequence[tuple[Seen, Seen]], which: int) -> float:
    # Seven calls of a round are slower, and the machine stops a bare echo for a millisecond in most rounds: the least
    # of the rounds is luck, the quiet one's above all, by which all others are divided.
    return median(each[which].p99_us for each in rounds)


def _held_us(rounds: Sequence[tuple[Seen, Seen]]) -> float:
    return max(daemon.held_us for daemon, _bare in rounds)


def _held_bar(seen: dict[Scene, list[tuple[Seen, Seen]]]) -> Bar:
    held_us, title = max((_held_us(rounds), scene.title) for scene, rounds in seen.items())
    what = f"processor time that the daemon takes during a call of another agent, at most: beside {title}"
    return Bar(what, f"≤ {HELD_US:,.0f} us", f"{micros(held_us)} us", held_us <= HELD_US)


def _kib(value: float) -> str:
    return f"{value:,.0f}"


def _memory_bars(memory: dict[str, float]) -> list[Bar]:
    bounds = {kind: BOUNDS.get(kind, UNREAD) for kind in memory}
    worst = {bound: max((memory[kind], kind) for kind in memory if bounds[kind] == bound) for bound in bounds.values()}
    return [
        Bar(f"memory of a hostile peer: {kind}", f"≤ {_kib(bound)} KiB", f"{_kib(used)} KiB", used <= bound)
        for bound, (used, kind) in sorted(worst.items())
    ]


def _left_bar(left: tuple[int, int]) -> Bar:
    return Bar(
        "descriptors and children that hostile peers leave", "0 and 0", f"{left[0]} and {left[1]}", left == (0, 0)
    )


def _notes(seen: dict[Scene, list[tuple[Seen, Seen]]]) -> tuple[str, ...]:
    is_first = all(each.is_first for rounds in seen.values() for pair in rounds for each in pair)
    runs = "runs before them (SCHED_FIFO)" if is_first else "shares it with them, which its figures show"
    return (
        f"The daemon has a core of its own; the agent measured has the other with the hostile peers, and {runs}.",
        "control: the same agent's p99 on a bare echo beside the daemon, which nobody attacks, by its quiet value.",
        "p99: the median of the rounds'; worst: of all rounds, the scheduler's slices of 4 ms among them.",
        "held: the most processor time that the daemon took during one of those calls, on whatever machine.",
        f"KiB a peer: the most by which the daemon's Rss grew with {MANY} of them, each.",
    )


if __name__ == "__main__":
    run_alone(measure)
