"""Process calls: programs and Python functions through the daemon, beside the same done bare, and by trio."""

import subprocess
import sys
from statistics import median
from typing import Final

import msgspec

from benchmarks.harness import (
    PEERS,
    Agent,
    Bar,
    Call,
    ClientResult,
    Server,
    Table,
    load_generator,
    median_ratio,
    micros,
    run_alone,
    run_peer,
    scratch,
    start_daemon,
)
from benchmarks.turns import Client, Rounds, direct, take_turns, through

INPUT: Final = '{"text":"what did the survey of bees find"}'

TYPE: Final = 'type = "{text: string} -> {text: string}"'
CAT: Final = f'{TYPE}\ncommand = ["/bin/cat"]'
ECHO: Final = f'python = "warm_functions:echo"\ncwd = {msgspec.json.encode(str(PEERS)).decode()}'
# Nothing beside what the system and the program need, and no network.
SHUT_IN: Final = "network = false\nread = []\nwrite = []"

BARE: Final = "bare posix_spawn + pipes + wait"
TRIO: Final = "trio.run_process"
FORK: Final = "bare fork + _exit + wait, warm Python"
PYTHON: Final = "starting Python, same imports"

COMMAND: Final = "daemon, command"
LIMITS: Final = "daemon, command, limits"
WARM: Final = "daemon, warm fork"

ABOUT: Final = (
    "Commands are cat with its input on stdin, set against bare posix_spawn. What is Python imports msgspec, json and"
    " dataclasses, and is set against bare fork."
)
IN_FLIGHT: Final = (1, 8)


class Contender(msgspec.Struct, frozen=True):
    """A tool of the daemon: its name, its table, and the peer that it is set against.

    One that is optional needs what a machine may lack.
    """

    label: str
    name: str
    table: str
    against: str
    is_optional: bool = False


CONTENDERS: Final = (
    Contender(COMMAND, "cat", CAT, BARE),
    Contender(LIMITS, "limited", f'{CAT}\ncpu_s = 10\nfiles = 256\nmemory = "1G"', BARE),
    Contender("daemon, command, landlock", "landlock", f'{CAT}\nsandbox = "landlock"\n{SHUT_IN}', BARE, True),
    Contender("daemon, command, bubblewrap", "bubblewrap", f'{CAT}\nsandbox = "bubblewrap"\n{SHUT_IN}', BARE, True),
    Contender(WARM, "warm", ECHO, FORK),
    Contender("daemon, resident", "resident", f"{ECHO}\nresident = true", FORK),
)
PEERS_OF: Final = {BARE: BARE, TRIO: BARE, FORK: FORK, PYTHON: FORK}


def measure(quick: bool) -> Table:
    """Time of a call one at a time, and with eight at once."""
    rounds, seconds = (1, 0.4) if quick else (5, 0.3)
    skipped = {each.label: why for each in CONTENDERS if each.is_optional and (why := _refusal(each)) is not None}
    tools = [each for each in CONTENDERS if each.label not in skipped]
    with load_generator() as generator, start_daemon("\n".join(map(_table, tools))) as daemon:
        _warm_up(daemon, tools)
        found = {
            in_flight: take_turns(_runners(generator, daemon, tools, in_flight, seconds), rounds)
            for in_flight in IN_FLIGHT
        }
    against = {each.label: each.against for each in CONTENDERS} | PEERS_OF
    return Table(
        title="Process calls",
        program="process",
        columns=("who runs it", "in flight", "calls/s", "p50 us", "of bare", "CPU us/call"),
        rows=[row for in_flight, each in found.items() for row in _rows(in_flight, each, against)],
        bars=_bars(found),
        notes=(
            ABOUT,
            "Of bare: median of the rounds' ratios of the time a call. CPU us/call: the daemon's or the peer's own.",
            *(f"Not measured: {label}: {why}" for label, why in skipped.items()),
        ),
    )


def _table(contender: Contender) -> str:
    return f"[tools.{contender.name}]\n{contender.table}\n"


def _refusal(contender: Contender) -> str | None:
    """Why this machine cannot run the tool; None where it can."""
    with scratch() as folder:
        file = folder / "tooldispatchd.toml"
        file.write_text(_table(contender))
        words = [sys.executable, "-m", "tooldispatchd", "check", "--config", str(file)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    said = (done.stderr or done.stdout).strip().splitlines()
    return said[-1].replace(str(file), "") if said else f"check exited with {done.returncode}"


def _warm_up(daemon: Server, tools: list[Contender]) -> None:
    """One call of each: launchers and warm parents start with the first."""
    agent = Agent(daemon)
    agent.ask({"__port": "hello"})
    for each in tools:
        agent.call(each.name, msgspec.json.decode(INPUT))
    agent.close()


def _runners(
    generator: list[str], daemon: Server, tools: list[Contender], in_flight: int, seconds: float
) -> dict[str, Client]:
    def through_daemon(name: str) -> Client:
        return through(generator, daemon, Call(name, INPUT, INPUT), in_flight=in_flight, seconds=seconds)

    shape = (str(in_flight), str(seconds))
    return {each.label: through_daemon(each.name) for each in tools} | {
        BARE: direct("spawn_client.py", "bare", *shape),
        TRIO: direct("spawn_client.py", "trio", *shape),
        FORK: lambda: run_peer([sys.executable, "-m", "benchmarks.peers.fork_client", *shape], ClientResult),
        PYTHON: direct("spawn_client.py", "python", *shape),
    }


def _times_us(in_flight: int, results: list[ClientResult]) -> list[float]:
    """Time of one call: its latency where one runs at a time, else the rounds' length by the calls."""
    if in_flight == 1:
        return [each.p50_us for each in results]
    return [1e6 / each.calls_per_s for each in results]


def _ratio(in_flight: int, found: Rounds, label: str, against: str) -> float:
    return median_ratio(_times_us(in_flight, found[label]), _times_us(in_flight, found[against]))


def _rows(in_flight: int, found: Rounds, against: dict[str, str]) -> list[tuple[str, ...]]:
    return [
        (
            label,
            str(in_flight),
            f"{median(each.calls_per_s for each in results):,.0f}",
            micros(median(each.p50_us for each in results)),
            f"{_ratio(in_flight, found, label, against[label]):.2f}",
            micros(median(each.cpu_us for each in results)),
        )
        for label, results in found.items()
    ]


def _bars(found: dict[int, Rounds]) -> list[Bar]:
    bars = []
    for in_flight, rounds in found.items():
        for what, label, against, most in (
            ("process call", COMMAND, BARE, 1.3),
            ("process call with limits", LIMITS, BARE, 2.0),
            ("warm Python fork", WARM, FORK, 1.5),
        ):
            if label in rounds:
                ratio = _ratio(in_flight, rounds, label, against)
                of = "bare" if against == BARE else "fork + _exit + wait"
                what_in_flight = f"{what}, {in_flight} in flight, time a call"
                bars.append(Bar(what_in_flight, f"≤ {most} x {of}", f"{ratio:.2f}", ratio <= most))
        if WARM in rounds:
            faster = _ratio(in_flight, rounds, PYTHON, WARM)
            what_in_flight = f"starting Python, {in_flight} in flight, by a warm fork's time"
            bars.append(Bar(what_in_flight, "≥ 10 x", f"{faster:.0f}", faster >= 10))
    return bars


if __name__ == "__main__":
    run_alone(measure)
