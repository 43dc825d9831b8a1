"""What every benchmark needs: servers as processes, the load generator, readings of CPU and memory, tables.

A benchmark is a function `measure(quick) -> Table`; `run_alone` makes a program of it, and `run.py` collects them all.
Times are read as ratios within one run: machines differ, and a shared one differs from itself.
"""

import argparse
import contextlib
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Final, TypeVar

import msgspec

PEERS: Final = Path(__file__).parent / "peers"
START_S: Final = 15.0
"""How long a server may take to accept; many times what any of them needs on a busy machine."""
STOP_S: Final = 20.0
"""Above the daemon's own `grace_s` + 6 s, so that a kill here is a finding and no impatience."""

# Where it is set, each process that is measured compiles all that it imports: a start took twice as long.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

Shape = TypeVar("Shape")


class BenchmarkError(Exception):
    """A benchmark cannot be run, or its answers were wrong; the message says which and why."""


class Bar(msgspec.Struct, frozen=True):
    """One promise of the design's table of numbers, and what was measured against it."""

    what: str
    bar: str
    measured: str
    is_met: bool


class Table(msgspec.Struct, frozen=True):
    """What one benchmark found: rows of cells under `columns`, and the bars that it speaks to."""

    title: str
    program: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    bars: list[Bar] = []
    notes: tuple[str, ...] = ()


class Server(msgspec.Struct, frozen=True):
    """A running server: its socket and the process whose CPU and memory count."""

    path: str
    pid: int


class ClientResult(msgspec.Struct, frozen=True):
    """What a peer that makes calls without the daemon says of itself; `cpu_us` is its own, its children excluded."""

    calls_per_s: float
    p50_us: float
    cpu_us: float


class LoadResult(msgspec.Struct, frozen=True):
    """What the generator saw in its timed window; `own_cpu_share` near 1 would make it the bottleneck."""

    calls: int
    seconds: float
    p50_us: float
    p99_us: float
    server_cpu_us: float
    own_cpu_share: float
    wrong: int
    errors: int
    unanswered: int

    @property
    def calls_per_s(self) -> float:
        """Calls answered within the window, by its length."""
        return self.calls / self.seconds

    def as_client(self) -> ClientResult:
        """The same as a peer says it, with the server's CPU."""
        return ClientResult(self.calls_per_s, self.p50_us, self.server_cpu_us)


class Call(msgspec.Struct, frozen=True):
    """One call to be made again and again: the tool, its input as JSON, the answer's content ("" for any)."""

    name: str
    input: str
    content: str

    @property
    def expected(self) -> str:
        """The bytes that stand in a right answer's line."""
        return f'"content":{msgspec.json.encode(self.content).decode()}' if self.content else ""


# --- servers ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A directory of this run's own; short, for a Unix socket's path has 108 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="td-") as name:
        yield Path(name)


@contextlib.contextmanager
def start_daemon(config: str, *places: str, tree: Path | None = None, options: Sequence[str] = ()) -> Iterator[Server]:
    """The daemon with `config` (TOML), listening, also on these places; it is drained and gone when the scope ends.

    With a `tree` it is the package that lies there; `options` are further ones of `serve`.
    """
    with scratch() as folder:
        file = folder / "tooldispatchd.toml"
        file.write_text(config)
        path = folder / "dispatch.sock"
        listening = [word for place in (f"unix:{path}", *places) for word in ("--listen", place)]
        words = [*daemon_words(file), *listening, *options]
        with _running(words, path, folder / "stderr", tree=tree) as server:
            yield server


def daemon_words(file: Path) -> list[str]:
    """The command that serves `file`; `--listen` is the caller's."""
    return [sys.executable, "-m", "tooldispatchd", "serve", "--config", str(file)]


@contextlib.contextmanager
def start_peer(name: str) -> Iterator[Server]:
    """One of `benchmarks/peers/`, listening."""
    with scratch() as folder:
        path = folder / "peer.sock"
        with _running([sys.executable, "-m", f"benchmarks.peers.{name}", str(path)], path, folder / "stderr") as server:
            yield server


@contextlib.contextmanager
def _running(words: Sequence[str], path: Path, log: Path, *, tree: Path | None = None) -> Iterator[Server]:
    env = None if tree is None else {**os.environ, "PYTHONPATH": str(tree)}
    with (
        log.open("wb") as stderr,
        subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=stderr, env=env, cwd=tree) as process,
    ):
        try:
            _wait_for(path, process, log)
            yield Server(str(path), process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                print(f"killed: {words[-1]} was not gone {STOP_S} s after SIGTERM", file=sys.stderr)


@contextlib.contextmanager
def start_port_peer(name: str) -> Iterator[Server]:
    """One of `benchmarks/peers/` that listens on a port of 127.0.0.1, prints it, and ends with its input.

    Its `path` is the port.
    """
    words = [sys.executable, "-m", f"benchmarks.peers.{name}"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        port = process.stdout.readline().decode().strip()
        if not port:
            raise BenchmarkError(f"{name} did not begin")
        try:
            yield Server(port, process.pid)
        finally:
            process.stdin.close()


def _wait_for(path: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        with socket.socket(socket.AF_UNIX) as probe:
            if probe.connect_ex(str(path)) == 0:
                return
        time.sleep(0.005)
    raise BenchmarkError(f"cannot reach the server at {path}: {log.read_text()[-2000:]}")


# --- the load generator ----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def load_generator() -> Iterator[list[str]]:
    """The generator's command: `load.c` compiled for this run, or the Python one where no compiler is there."""
    compiler = shutil.which("cc")
    with scratch() as folder:
        if compiler is None:
            yield [sys.executable, str(PEERS / "load_python.py")]
        else:
            program = folder / "load"
            subprocess.run([compiler, "-O2", "-o", str(program), str(PEERS / "load.c")], check=True)
            yield [str(program)]


def load(
    generator: list[str], server: Server, call: Call, *, connections: int, in_flight: int, seconds: float
) -> LoadResult:
    """Make `call` for `seconds`; raise BenchmarkError unless every call was answered exactly once, and rightly."""
    shape = [str(connections), str(in_flight), str(seconds)]
    words = [*generator, server.path, str(server.pid), *shape, call.name, call.input, call.expected]
    result = run_peer(words, LoadResult)
    if result.wrong or result.errors or result.unanswered or not result.calls:
        raise BenchmarkError(f"wrong answers from {call.name} at {connections} x {in_flight}: {result}")
    return result


def client_words(program: str, *words: str) -> list[str]:
    """The command of a peer that prints one JSON object."""
    return [sys.executable, str(PEERS / program), *words]


def run_peer(words: Sequence[str], shape: type[Shape]) -> Shape:
    """Run a peer that prints one JSON object, and give that as `shape`."""
    done = subprocess.run(words, capture_output=True, check=False)
    if done.returncode != 0:
        raise BenchmarkError(f"{words} failed: {done.stderr.decode(errors='replace')[-2000:]}")
    return msgspec.json.decode(done.stdout, type=shape)


@contextlib.contextmanager
def on_cores(servers: Sequence[Server], *, shared: bool) -> Iterator[None]:
    """Hold every thread of `servers` on one core; this process and what it starts on the same, or on another.

    With one call in flight two cores take turns to sleep, and waking an idle one costs several times what the server
    does: there they share one. Under load each side gets its own, for the scheduler would change its mind between
    rounds.
    """
    allowed = os.sched_getaffinity(0)
    first, *others = sorted(allowed)
    own = first if shared or not others else others[0]
    os.sched_setaffinity(0, {own})
    for server in servers:
        _hold(server.pid, {first})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
        for server in servers:
            _hold(server.pid, allowed)


def _hold(pid: int, cores: set[int]) -> None:
    for thread in Path(f"/proc/{pid}/task").iterdir():
        # An idle worker thread may end at any time.
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread.name), cores)


def rotated(each: Sequence[Shape], by: int) -> list[Shape]:
    """`each`, begun at another place: no contender always runs after the same one."""
    start = by % len(each)
    return [*each[start:], *each[:start]]


def median_ratio(measured: Sequence[float], against: Sequence[float]) -> float:
    """The median of the rounds' ratios: what slows a whole round down falls out of it."""
    return median(one / other for one, other in zip(measured, against, strict=True))


# --- an agent, memory, limits ----------------------------------------------------------------------------------------


class Agent:
    """A blocking agent on the daemon's socket: one line out, one line in."""

    def __init__(self, server: Server) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(server.path)

    def ask(self, message: dict[str, object]) -> dict[str, object]:
        """Send `message`, wait for the next line; raise BenchmarkError where it is a fault or an error."""
        self.send(message)
        line = self.receive()
        answer = msgspec.json.decode(line, type=dict[str, object])
        if answer.get("__port") == "fault" or answer.get("is_error"):
            raise BenchmarkError(f"{message.get('name', 'hello')} was answered {line[:400]!r}")
        return answer

    def send(self, message: dict[str, object]) -> None:
        """One line out."""
        self.socket.sendall(msgspec.json.encode(message) + b"\n")

    def call(self, name: str, input_value: object) -> dict[str, object]:
        """One `tool_req` and its answer."""
        return self.ask({"__port": "tool_req", "id": "1", "name": name, "input": input_value})

    def receive(self) -> bytes:
        """The next line, without its newline; linear in its bytes."""
        pieces = [self.socket.recv(1 << 20)]
        while pieces[-1] and not pieces[-1].endswith(b"\n"):
            pieces.append(self.socket.recv(1 << 20))
        if not pieces[-1]:
            raise BenchmarkError("the daemon closed the connection")
        return b"".join(pieces)[:-1]

    def close(self) -> None:
        """End this agent."""
        self.socket.close()


def memory_kib(pid: int | str) -> dict[str, int]:
    """The memory of a process (`self` for this one) as smaps_rollup sums it up, in KiB: `Rss`, `Pss`, and more."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {name: int(value.split()[0]) for name, _colon, value in (line.partition(":") for line in lines)}


def cpu_s(pid: int) -> float:
    """CPU of all threads of a process, its children excluded."""
    return sum(int(each.read_text().split()[0]) for each in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def raise_descriptor_limit(wanted: int) -> None:
    """Allow this process, and all that it starts, `wanted` open descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise BenchmarkError(f"cannot open {wanted} descriptors: the hard limit is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


# --- tables ----------------------------------------------------------------------------------------------------------


def thousands(per_s: float) -> str:
    """Calls per second, to be read beside others."""
    return f"{per_s / 1000:.1f} k" if per_s < 100_000 else f"{per_s / 1000:.0f} k"


def micros(value_us: float) -> str:
    """Microseconds with about three digits."""
    return f"{value_us:.1f}" if value_us < 100 else f"{value_us:,.0f}"


def verdict(bar: Bar) -> str:
    """In words."""
    return "met" if bar.is_met else "not met"


def as_text(table: Table) -> str:
    """The table for a terminal, its bars below."""
    widths = [max(map(len, column)) for column in zip(table.columns, *table.rows, strict=True)]
    lines = [table.title]
    for row in (table.columns, *table.rows):
        first, *others = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        lines.append("  ".join(["", first.strip().ljust(widths[0]), *others]))
    lines += [f"  {each.what}: {each.measured} (bar {each.bar}): {verdict(each)}" for each in table.bars]
    lines += [f"  {each}" for each in table.notes]
    return "\n".join(lines)


def run_alone(measure: Callable[[bool], Table]) -> None:
    """Make a program of `measure`: `--quick` takes seconds and says little; exit 1 where it cannot be run."""
    parser = argparse.ArgumentParser(description=(sys.modules["__main__"].__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a smoke run of a few seconds; its figures say little")
    try:
        print(as_text(measure(parser.parse_args().quick)))
    except BenchmarkError as error:
        sys.exit(f"error: {error}")
