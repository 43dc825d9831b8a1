"""Clients that take turns at the same calls: one through the daemon, others without it."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from statistics import median
from typing import Final

from benchmarks.harness import (
    Call,
    ClientResult,
    Server,
    client_words,
    load,
    micros,
    on_cores,
    rotated,
    run_peer,
    thousands,
)

DAEMON: Final = "through the daemon"
COLUMNS: Final = ("client", "in flight", "calls/s", "p50 us", "CPU us/call")

Client = Callable[[], ClientResult]
"""Makes calls for one round."""
Rounds = dict[str, list[ClientResult]]
"""What each client found in each round."""


def through(
    generator: list[str], server: Server, call: Call, *, in_flight: int, seconds: float, connections: int = 1
) -> Client:
    """The client whose calls go through the daemon, or another server of its lines."""
    shape = {"connections": connections, "in_flight": in_flight}
    return lambda: load(generator, server, call, **shape, seconds=seconds).as_client()


def direct(program: str, *words: str) -> Client:
    """One of `benchmarks/peers/` that makes the calls itself."""
    return lambda: run_peer(client_words(program, *words), ClientResult)


def take_turns(clients: Mapping[str, Client], rounds: int) -> Rounds:
    """Let each client make its calls once in every round."""
    found: Rounds = {label: [] for label in clients}
    for number in range(rounds):
        for label in rotated(list(clients), number):
            found[label].append(clients[label]())
    return found


def on_one_core(servers: Sequence[Server], in_flight: int) -> AbstractContextManager[None]:
    """Hold all processes on one core within the scope, where one call is in flight at a time.

    A chain of processes takes turns then, and waking idle cores would cost more than what is measured. What each client
    starts inherits its core.
    """
    return on_cores(servers, shared=True) if in_flight == 1 else nullcontext()


def rows_of(found: Rounds, in_flight: int, *, before: str = "") -> list[tuple[str, ...]]:
    """A row for each client under `COLUMNS`, with `before` in front of its label."""
    return [
        (
            f"{before}{label}",
            str(in_flight),
            thousands(median(each.calls_per_s for each in results)),
            micros(median(each.p50_us for each in results)),
            micros(median(each.cpu_us for each in results)),
        )
        for label, results in found.items()
    ]
