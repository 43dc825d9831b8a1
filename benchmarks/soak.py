"""2,500 agents that call, cancel, leave and are killed for two minutes: what is lost, and what grows."""

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from benchmarks.harness import (
    PEERS,
    START_S,
    STOP_S,
    Bar,
    BenchmarkError,
    Table,
    as_text,
    daemon_words,
    raise_descriptor_limit,
    scratch,
)
from benchmarks.peers.soak_tally import Count, Counters
from tooldispatchd.children.guardian import GUARDIANS

FULL_S: Final = 120.0
QUICK_S: Final = 10.0
KILL_EVERY_S: Final = 3.0
SAMPLE_S: Final = 0.5
SETTLE_S: Final = 10.0
"""How long the daemon may take, after the last agent has left, to close what they owned."""

CONFIG: Final = f"""
[limits]
processes = 64
[types]
Asked = "{{who: string, n: int, text: string}}"
[tools.echo]
type = "Asked -> Asked"
inline = "id"
[tools.mark]
type = "{{who: string, note: string}} -> string"
map = 'who + "#" + note'
[tools.cat]
type = "Asked -> Asked"
command = ["cat"]
[tools.slow]
type = "Asked -> Asked"
command = ["sh", "-c", "sleep 2; cat"]
[mcp.thin]
command = {msgspec.json.encode(sys.executable).decode()}
args = [{msgspec.json.encode(str(PEERS / "thin_mcp.py")).decode()}]
[agents.plain]
tools = ["echo", "mark", "cat", "slow"]
[agents.mcp]
tools = ["echo", "mark", "cat", "slow"]
mcp = ["thin"]
"""

# Processes, channels of each, agents on each of these, and how many have MCP servers: 2,000 on 20 channels, and 500
# whose channel is theirs alone.
SHARED: Final = (5, 4, 100, 5)
SINGLE: Final = (5, 100, 0, 5)

# Each kill takes up to 400 sessions at once: so medians of a third of the run are compared, that are about 6,000
# sessions and 180,000 calls apart: one leaked kilobyte a session would be 6 MiB, and the tolerance is less than four.
MEMORY_GROWTH: Final = 0.05
WARM_S: Final = 60.0
"""A shorter run is all warm-up, and says nothing of growth."""
SHOWN: Final = 3
"""Incidents that are shown with the table."""
WRONGS: Final = (Count.LOST, Count.DOUBLED, Count.CROSSED, Count.WRONG)


class Sample(msgspec.Struct, frozen=True):
    """The daemon at one moment; memory in KiB."""

    at_s: float
    rss: int
    descriptors: int
    children: int


class Findings(msgspec.Struct, frozen=True):
    """What a run found: the samples under load and after it, what was counted, how the daemon ended."""

    seconds: float
    samples: list[Sample]
    left: Sample
    counted: dict[Count, int]
    ends: list[Bar]
    killed: int
    incidents: list[str]
    said: list[str]


class Daemon:
    """The daemon under load, and its readings."""

    def __init__(self, process: subprocess.Popen[bytes], path: Path, log: Path) -> None:
        self.process = process
        self.path = path
        self.log = log
        self.started = time.monotonic()

    def sample(self) -> Sample:
        """Read /proc now."""
        root = Path(f"/proc/{self.process.pid}")
        pages = int((root / "statm").read_text().split()[1])
        rss = pages * os.sysconf("SC_PAGE_SIZE") // 1024
        return Sample(time.monotonic() - self.started, rss, len(os.listdir(root / "fd")), len(self.children()))  # noqa: PTH208 (the number only)

    def children(self) -> list[int]:
        """Its children, zombies too."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return [int(pid) for children in tasks for pid in children.read_text().split()]

    def run_id(self) -> bytes:
        """What every process that it started carries in its environment."""
        for pid in self.children():
            with contextlib.suppress(OSError):
                for each in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    if each.startswith(b"TOOLDISPATCHD_RUN_ID="):
                        return each
        raise BenchmarkError("the daemon has no child that tells its run id")


class Holders:
    """The processes that hold the channels; one that is killed is started again."""

    def __init__(self, daemon: Daemon, folder: Path, seed: int) -> None:
        self._daemon = daemon
        self._folder = folder
        self._rng = random.Random(seed)
        self._started = 0
        self._files: list[Counters] = []
        self._running: list[tuple[subprocess.Popen[bytes], tuple[int, int, int]]] = []
        self.killed = 0
        self.stderr = (folder / "holders").open("wb")

    def start(self, shape: tuple[int, int, int]) -> None:
        """One process with `shape` channels, agents on each, and MCP servers."""
        self._started += 1
        counters = self._folder / f"counters-{self._started}"
        self._files.append(Counters(counters))
        words = [str(self._daemon.path), str(counters), f"p{self._started}", *map(str, shape)]
        words = [sys.executable, "-m", "benchmarks.peers.soak_agents", *words, str(self._rng.random())[2:]]
        self._running.append((subprocess.Popen(words, stdin=subprocess.PIPE, stderr=self.stderr), shape))

    def kill_one(self) -> None:
        """SIGKILL, and another one in its place; raise BenchmarkError where one has ended by itself."""
        self.check()
        process, shape = self._running.pop(self._rng.randrange(len(self._running)))
        _kill(process)
        self.killed += 1
        # What it had asked and not been told is nobody's any more.
        self.start(shape)

    def check(self) -> None:
        """Raise BenchmarkError where one has ended by itself."""
        for process, _shape in self._running:
            if process.poll() is not None:
                raise BenchmarkError(f"a process of agents ended with {process.returncode}: {self.said()}")

    def finish(self) -> None:
        """Let all of them wait for what they are owed, and leave."""
        for process, _shape in self._running:
            assert process.stdin is not None
            process.stdin.close()
        for process, _shape in self._running:
            if process.wait(60) != 0:
                raise BenchmarkError(f"a process of agents ended with {process.returncode}: {self.said()}")
        self._running.clear()

    def kill_all(self) -> None:
        """At the end of a run that failed, or while the daemon drains."""
        for process, _shape in self._running:
            _kill(process)
        self._running.clear()

    def total(self, count: Count) -> int:
        """Over all processes there were, killed ones too."""
        return sum(each[count] for each in self._files)

    def said(self) -> str:
        """The first things that were wrong, in the agents' words."""
        return Path(self.stderr.name).read_text()[:4000]


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    assert process.stdin is not None
    process.stdin.close()


@contextlib.contextmanager
def _serving(folder: Path) -> Iterator[Daemon]:
    """A daemon of this program's own: how it exits is among the findings."""
    file, path, log = folder / "tooldispatchd.toml", folder / "dispatch.sock", folder / "log"
    file.write_text(CONFIG)
    words = [*daemon_words(file), "--listen", f"unix:{path}"]
    with log.open("wb") as stderr, subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=stderr) as process:
        try:
            until = time.monotonic() + START_S
            while not path.exists():
                if process.poll() is not None or time.monotonic() > until:
                    raise BenchmarkError(f"cannot start the daemon: {log.read_text()[-2000:]}")
                time.sleep(0.01)
            yield Daemon(process, path, log)
        finally:
            process.kill()


# --- the run ---------------------------------------------------------------------------------------------------------


def measure(quick: bool) -> Table:
    """As for every benchmark: two minutes, or a smoke run of ten seconds."""
    return soak(QUICK_S if quick else FULL_S)


def soak(seconds: float, *, seed: int = 1) -> Table:
    """Load the daemon for so long, let everybody leave, then stop it under a little load."""
    raise_descriptor_limit(8192)
    with scratch() as folder, _serving(folder) as daemon:
        holders = Holders(daemon, folder, seed)
        try:
            samples = _load(daemon, holders, seconds)
            holders.finish()
            left = _settled(daemon)
            counted = {count: holders.total(count) for count in Count}
            said = [holders.said()] if any(counted[each] for each in WRONGS) else []
            ends = _drain(daemon, holders)
        finally:
            holders.kill_all()
            holders.stderr.close()
        incidents = [line for line in daemon.log.read_text().splitlines() if '"incident"' in line]
        return _table(Findings(seconds, samples, left, counted, ends, holders.killed, incidents, said))


def _load(daemon: Daemon, holders: Holders, seconds: float) -> list[Sample]:
    for count, *shape in (SHARED, SINGLE):
        for _ in range(count):
            holders.start((shape[0], shape[1], shape[2]))
    samples = []
    began = killed = time.monotonic()
    while time.monotonic() < began + seconds:
        time.sleep(SAMPLE_S)
        samples.append(daemon.sample())
        if time.monotonic() > killed + KILL_EVERY_S:
            killed = time.monotonic()
            holders.kill_one()
    holders.check()
    return samples


def _settled(daemon: Daemon) -> Sample:
    """The daemon when everybody has left: as soon as only its guardians are there, or after the patience for it."""
    until = time.monotonic() + SETTLE_S
    while daemon.sample().children > GUARDIANS and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(0.5)
    return daemon.sample()


def _drain(daemon: Daemon, holders: Holders) -> list[Bar]:
    """SIGTERM while agents call: how it ends, and what is left of it."""
    holders.start((2, 50, 2))
    time.sleep(2)
    run_id = daemon.run_id()
    began = time.monotonic()
    daemon.process.send_signal(signal.SIGTERM)
    try:
        code = daemon.process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        code = -1
    took_s = time.monotonic() - began
    holders.kill_all()
    left = _carriers(run_id)
    return [
        Bar("drain under load, exit code", "0", f"{code} ({took_s:.1f} s)", code == 0),
        Bar("processes left after it", "0", str(len(left)), not left),
    ]


def _carriers(run_id: bytes) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and run_id in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


# --- what is said of it ----------------------------------------------------------------------------------------------


def _table(found: Findings) -> Table:
    samples = found.samples
    sixth, third = len(samples) // 6, len(samples) // 3
    rows = [_row(f"{part + 1}/6 of the run", samples[part * sixth : (part + 1) * sixth]) for part in range(6)]
    rows.append(_row("when all have left", [found.left]))
    return Table(
        title=f"Soak: 2,000 agents on 20 channels and 500 on their own, {found.seconds:.0f} s",
        program="soak",
        columns=("when", "Rss, MiB", "descriptors", "children"),
        rows=rows,
        bars=[
            *_answer_bars(found.counted),
            *_growth_bars(samples[third : 2 * third], samples[2 * third :], found.left),
            *found.ends,
            Bar("incidents in the daemon's log", "0", str(len(found.incidents)), not found.incidents),
        ],
        notes=(*_work(found.counted, found.killed), *found.said, *found.incidents[:SHOWN]),
    )


def _work(counted: dict[Count, int], killed: int) -> tuple[str, ...]:
    number = {count: f"{counted[count]:,}" for count in Count}
    kinds = f"{number[Count.PROCESSES]} of processes, {number[Count.MCP]} of MCP servers, {number[Count.JOBS]} jobs"
    ends = f"{number[Count.CANCELLED]} cancelled and {number[Count.TIMED_OUT]} past their deadline"
    channels = f"{number[Count.CLOSED]} channels closed, {number[Count.HALF_CLOSED]} half-closed"
    return (
        f"{number[Count.ANSWERED]} answers of {number[Count.ASKED]} calls, among them {kinds}, {ends}.",
        "The others were asked by processes that were killed, or on channels that were closed before the answer.",
        f"{number[Count.OPENED]} sessions; {killed} processes killed, {channels}, {number[Count.BYES]} byes.",
        "Memory is compared between the medians of the second and the last third: the number of sessions swings.",
    )


def _row(when: str, samples: Sequence[Sample]) -> tuple[str, ...]:
    rss, descriptors, children = (
        (
            median(values)
            for values in zip(*((each.rss, each.descriptors, each.children) for each in samples), strict=True)
        )
        if samples
        else (0, 0, 0)
    )
    return when, f"{rss / 1024:.1f}", f"{descriptors:.0f}", f"{children:.0f}"


def _answer_bars(counted: dict[Count, int]) -> list[Bar]:
    return [Bar(f"soak: answers {each.name.lower()}", "0", str(counted[each]), counted[each] == 0) for each in WRONGS]


def _growth_bars(plateau: list[Sample], end: list[Sample], left: Sample) -> list[Bar]:
    before, after = (median(each.rss for each in part) for part in (plateau, end))
    growth = after / before - 1
    memory = Bar("soak: growth of memory", f"≤ {MEMORY_GROWTH:.0%}", f"{growth:+.1%}", growth <= MEMORY_GROWTH)
    children = Bar(
        "soak: children when all have left",
        f"{GUARDIANS}, the guardians",
        str(left.children),
        left.children == GUARDIANS,
    )
    return [children] if end[-1].at_s < WARM_S else [memory, children]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=FULL_S)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_S:.0f} seconds; its figures say little")
    parser.add_argument("--seed", type=int, default=1, help="of what the agents do and who is killed")
    arguments = parser.parse_args()
    try:
        table = soak(QUICK_S if arguments.quick else arguments.seconds, seed=arguments.seed)
    except BenchmarkError as error:
        sys.exit(f"error: {error}")
    print(as_text(table))
    if not all(bar.is_met for bar in table.bars):
        sys.exit(1)


if __name__ == "__main__":
    main()
