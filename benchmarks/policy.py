"""What each step of a call costs, in instructions of the interpreter and microseconds; and many calls in one queue.

A session in memory calls a tool that ends at once, so what is measured is the way there and back. Instructions are
those of CPython, which nothing else on the machine changes; those of the host's turns are among them.
"""

import math
import sys
import time
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Final

import trio

from benchmarks.harness import Bar, Table, run_alone
from tooldispatchd.agent.calls.call import Call, Plan
from tooldispatchd.agent.calls.checking import Checking, Reader
from tooldispatchd.agent.runtime import DaemonState, Runtime, Services
from tooldispatchd.agent.session.entrance import Entrance, Visitor
from tooldispatchd.agent.session.host import ChannelHost
from tooldispatchd.agent.setup import Setup
from tooldispatchd.agent.steps.caching import ToolIdentity
from tooldispatchd.agent.steps.governing import governed
from tooldispatchd.agent.tools.declaredplans import compile_plans
from tooldispatchd.calls.gate import Gate
from tooldispatchd.calls.memory import Share
from tooldispatchd.calls.outcome import Answer
from tooldispatchd.catalog.caching import Caching
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.offered import Offered
from tooldispatchd.catalog.policy import Breaking, CallPolicy
from tooldispatchd.catalog.policyspec import QueueSpec
from tooldispatchd.catalog.schemas import ACCEPT
from tooldispatchd.catalog.specs import Config, ProfileSpec, ToolSpec
from tooldispatchd.checkers.pool import IN_PLACE
from tooldispatchd.children.family import open_family
from tooldispatchd.front.timer import Timer

DONE: Final = Answer("done")
# How many wait, the fewest first.
CROWDS: Final = (1_000, 10_000, 100_000)
CHUNK: Final = 50
QUEUES: Final = {"open": QueueSpec(concurrent=1_000_000), "often": QueueSpec(rate="999999/s burst 999999")}
BREAKING: Final = Breaking(("tools", "t"), 5, 30.0, 10.0)
# Each step by itself; a new one is one more row here.
POLICIES: Final = {
    "nothing": CallPolicy(),
    "a queue with places": CallPolicy(queues=("open",)),
    "a queue with a rate": CallPolicy(queues=("often",)),
    "exclusive": CallPolicy(exclusive=("db",)),
    "exclusive, read only": CallPolicy(exclusive=("db",), is_reader=True),
    "idempotent": CallPolicy(retried_by=("tools", "t")),
    "a breaker": CallPolicy(breakers=(BREAKING,)),
    "single flight, alone": CallPolicy(caching=Caching(is_joined=True)),
    "given again out of the cache": CallPolicy(caching=Caching(keeps_s=1e6)),
    "all of these but the cache": CallPolicy(("open", "often"), "high", ("db",), False, ("tools", "t"), (BREAKING,)),
}
# A call that waits among 100,000 costs at most so many times what it costs among 1,000: a logarithm, and a cold cache.
MOST_GROWTH: Final = 4.0
NOTES: Final = (
    "100,000 calls waiting in one queue cost O(log n) each: to come to wait, to have their turn, to be cancelled.",
    "Instructions are CPython's, which no other load of the machine changes; microseconds are the least of the rounds.",
)


class SilentLog:
    """Nobody reads it."""

    logs_calls = False

    def bind(self, **_fields: object) -> "SilentLog":
        return self

    def debug(self, event: str, **fields: object) -> None: ...
    def info(self, event: str, **fields: object) -> None: ...
    def warning(self, event: str, **fields: object) -> None: ...
    def error(self, event: str, **fields: object) -> None: ...

    def incident(self, event: str, error: BaseException) -> str:
        raise RuntimeError(event) from error


class Outlet:
    """Takes what is written, and forgets it."""

    is_crowded = is_behind = False

    def __init__(self, share: Share) -> None:
        self.share = share
        self.wants_turn = False

    def write(self, lines: bytes | bytearray) -> None: ...
    def pause(self) -> None: ...
    def close(self) -> None: ...

    def again(self) -> None:
        self.wants_turn = True


class QuickPlan(Plan):
    """A tool that ends at once, and yet is a call in flight."""

    __slots__ = ()

    def __init__(self, name: str) -> None:
        read = Reader(ACCEPT, missing=None, wrapped=False)
        super().__init__(Offered(name=name, input_schema={}), kind="fake", limit_s=60.0, read=read)

    def start(self, call: Call) -> None:
        call.finish(DONE)


def _line(name: str) -> bytes:
    return b'{"__port":"tool_req","id":"1","name":"%s","input":"hullo"}\n' % name.encode()


def _serve(host: ChannelHost, outlet: Outlet, lines: bytes) -> None:
    host.received(lines)
    while outlet.wants_turn:
        outlet.wants_turn = False
        host.resume()


def _instructions(serve: "partial[None]") -> int:
    """How many the interpreter executes."""
    count = 0

    def trace(frame: FrameType, event: str, _argument: object) -> object:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    sys.settrace(trace)  # type: ignore[arg-type]  # its own type is recursive
    try:
        serve()
    finally:
        sys.settrace(None)
    return count


def cost(host: ChannelHost, outlet: Outlet, name: str, rounds: int) -> tuple[float, float]:
    """Instructions and microseconds of one call: the least of the rounds, since others use the machine too."""
    line = _line(name)
    _serve(host, outlet, line * 2)
    few, many = (_instructions(partial(_serve, host, outlet, line * count)) for count in (1, 11))
    least = math.inf
    for _ in range(rounds):
        begun = time.process_time()
        _serve(host, outlet, line * CHUNK)
        least = min(least, (time.process_time() - begun) / CHUNK)
    return (many - few) / 10, least * 1e6


async def _steps(rounds: int) -> list[tuple[str, ...]]:
    """A row for an inline call, and for a call with each policy."""
    built = build_catalog(
        Config(
            queues=QUEUES,
            tools={"inline": ToolSpec(type="json -> json", inline="id")},
            agents={"default": ProfileSpec(tools=("inline",))},
        )
    )
    assert isinstance(built, Catalog)
    rows: list[tuple[str, ...]] = []
    async with open_family() as family, trio.open_nursery() as home:
        log = SilentLog()
        setup = Setup(built, log, uid=0)
        services = Services(setup, timer=Timer(log), home=home, family=family, checking=Checking(IN_PLACE))
        runtime = Runtime(setup, services, DaemonState(setup, cores=2, uid=0))
        plans = runtime.plans("default", compile_plans)
        for name, policy in POLICIES.items():
            plans[name] = governed(runtime, QuickPlan(name), policy, ToolIdentity(lambda: ()))
        outlet = Outlet(runtime.state.memory.share(0))
        host = ChannelHost(lambda: runtime, outlet, lambda _host: None, entrance=Entrance(), visitor=Visitor(0, 0))
        base: tuple[float, float] | None = None
        for name in ("inline", *POLICIES):
            instructions, micros = cost(host, outlet, name, rounds)
            base = (instructions, micros) if name == "nothing" else base
            added = ("", "") if base is None else (f"{instructions - base[0]:+.0f}", f"{micros - base[1]:+.1f}")
            shown = "an inline call without policy" if name == "inline" else f"a call in flight, {name}"
            rows.append((shown, f"{instructions:.0f}", added[0], f"{micros:.1f}", added[1]))
        _serve(host, outlet, b'{"__port":"select","tools":{"nothing":false}}\n')
        instructions, micros = cost(host, outlet, "inline", rounds)
        rows.insert(1, ("the same, another tool is switched off", f"{instructions:.0f}", "", f"{micros:.1f}", ""))
        host.ended()
    return rows


def _waiting(agents: int, calls: int) -> tuple[float, float, float]:
    """Microseconds to come to wait, to be let in and leave, and to be cancelled, for one of so many that wait."""
    items = [object() for _ in range(calls)]
    turns = [(object(), object()) for _ in range(agents)]

    def filled() -> tuple[Gate[object], float]:
        gate: Gate[object] = Gate(8)
        begun = time.process_time()
        for number, item in enumerate(items):
            gate.enter(item, turns[number % agents])
        return gate, time.process_time() - begun

    gate, entered_s = filled()
    inside = items[:8]
    begun = time.process_time()
    while inside:
        inside = [following for item in inside for following in gate.leave(item)]
    left_s = time.process_time() - begun
    assert gate.is_empty
    gate, _ = filled()
    begun = time.process_time()
    for item in reversed(items):
        gate.leave(item)
    cancelled_s = time.process_time() - begun
    return entered_s / calls * 1e6, left_s / calls * 1e6, cancelled_s / calls * 1e6


def measure(quick: bool) -> Table:
    """Instructions and microseconds of each step; and of calls that wait in one queue, by how many do."""
    rows = trio.run(_steps, 20 if quick else 400)
    growth = 0.0
    for agents in (1, 100, 10_000):
        costs = zip(*(_waiting(min(agents, calls), calls) for calls in CROWDS), strict=True)
        for what, by_crowd in zip(("waits", "has its turn, and ends", "is cancelled"), costs, strict=True):
            growth = max(growth, by_crowd[-1] / by_crowd[0])
            shown = f"one of {', '.join(f'{calls:,}' for calls in CROWDS)} calls of {agents:,} agents {what}"
            rows.append((shown, "", "", ", ".join(f"{cost:.1f}" for cost in by_crowd), ""))
    bar = f"at most {MOST_GROWTH:g} times what it costs among 1,000"
    promise = Bar("a call that waits among 100,000 in one queue", bar, f"{growth:.1f} times", growth <= MOST_GROWTH)
    columns = ("what", "instructions", "added", "us of CPU", "added")
    return Table("Steps of a call, and many calls in one queue", "policy", columns, rows, [promise], NOTES)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        run_alone(measure)
