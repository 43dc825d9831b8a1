"""What the audit costs: records a second into each store, and what a call costs more whose record is kept.

The first is the writer's own work, from calls that have ended to rows on disk: hash, rows, transactions. A server of
PostgreSQL, where there is one to start, has the same machine. The second is what the loop pays beside it, with
instructions of CPython, which nothing else on the machine changes.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import trio

from benchmarks.harness import Bar, Table, run_alone, scratch
from benchmarks.policy import Outlet, QuickPlan, SilentLog, cost
from tests.servers.postgres import postgres_server
from tooldispatchd.agent.calls.checking import Checking
from tooldispatchd.agent.runtime import DaemonState, Runtime, Services
from tooldispatchd.agent.session.entrance import Entrance, Visitor
from tooldispatchd.agent.session.host import ChannelHost
from tooldispatchd.agent.setup import Setup
from tooldispatchd.agent.steps.auditing import AuditSink
from tooldispatchd.agent.tools.declaredplans import compile_plans
from tooldispatchd.audit.door import open_reader
from tooldispatchd.audit.postgresstore import PostgresStore
from tooldispatchd.audit.record import AuditFilter
from tooldispatchd.audit.recorder import MAX_QUEUED, AuditStore, open_recorder
from tooldispatchd.audit.sqlitestore import SqliteStore
from tooldispatchd.calls.endedcall import EndedCall, SessionCaller
from tooldispatchd.catalog.auditspec import file_store
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.masker import NO_SECRETS
from tooldispatchd.catalog.specs import Config, ProfileSpec, ToolSpec
from tooldispatchd.checkers.pool import IN_PLACE
from tooldispatchd.children.family import open_family
from tooldispatchd.front.timer import Timer

LEAST_A_SECOND: Final = 50_000


class _Sink:
    """Counts what it is told, and forgets it."""

    payload_chars = lost = waiting = 0
    failure = None

    def __init__(self) -> None:
        self.count = 0

    def put(self, _ended: EndedCall) -> None:
        self.count += 1


def _open(store: str) -> AuditStore:
    kind, path = file_store(store) or ("postgresql", store)
    made: Callable[..., AuditStore] = SqliteStore if kind == "sqlite" else PostgresStore
    return made(path, keep_s=86_400.0, max_bytes=2**30)


def _records_a_second(stores: Sequence[str]) -> float:
    """As many as there is room for are put, and then the end is waited for; the best of the rounds."""
    caller, best = SessionCaller("coder", "ada", 1000, 17, 17), 0.0
    line = b'{"query":"the words that are looked for","limit":10,"sources":["a","b","c"]}'
    ended = [
        EndedCall(
            caller, time.time(), f"call-{n}", "search", "github", line, len(line), 900, 0.001, 0.02, False, None, None
        )
        for n in range(MAX_QUEUED)
    ]
    for store in stores:
        began = time.perf_counter()
        with open_recorder(_open(store), SilentLog(), run="run", masker=NO_SECRETS, payloads=False) as recorder:
            for each in ended:
                recorder.put(each)
            # Its end is bounded, and here all is to be written.
            while recorder.waiting:
                time.sleep(0.001)
        took_s = time.perf_counter() - began
        reader = open_reader(store)
        assert sum(1 for _ in reader.all(AuditFilter())) == MAX_QUEUED
        reader.close()
        best = max(best, MAX_QUEUED / took_s)
    return best


async def _calls(audit: AuditSink | None, rounds: int) -> dict[str, tuple[float, float]]:
    """Instructions and microseconds of an inline call, and of one in flight."""
    built = build_catalog(
        Config(
            tools={"inline": ToolSpec(type="json -> json", inline="id")},
            agents={"default": ProfileSpec(tools=("inline",))},
        )
    )
    assert isinstance(built, Catalog)
    async with open_family() as family, trio.open_nursery() as home:
        log = SilentLog()
        setup = Setup(built, log, uid=0)
        timer, checking = Timer(log), Checking(IN_PLACE)
        services = Services(setup, timer=timer, home=home, family=family, checking=checking, audit=audit)
        runtime = Runtime(setup, services, DaemonState(setup, cores=2, uid=0))
        runtime.plans("default", compile_plans)["in flight"] = QuickPlan("in flight")
        outlet = Outlet(runtime.state.memory.share(0))
        host = ChannelHost(lambda: runtime, outlet, lambda _host: None, entrance=Entrance(), visitor=Visitor(0, 0))
        found = {name: cost(host, outlet, name, rounds) for name in ("inline", "in flight")}
        host.ended()
    return found


def measure(quick: bool) -> Table:
    """What a recorded call costs more, and how many records each store takes a second."""
    rounds = 20 if quick else 400
    plain, audited = trio.run(_calls, None, rounds), trio.run(_calls, _Sink(), rounds)
    rows: list[tuple[str, ...]] = []
    for name, (instructions, micros) in plain.items():
        more = audited[name]
        figures = f"{more[0]:.0f} ({more[0] - instructions:+.0f})", f"{more[1]:.1f} ({more[1] - micros:+.1f})"
        rows.append((f"a call that is recorded, {name}; in brackets, more than without", *figures))
    numbers = range(1 if quick else 3)
    with scratch() as directory:
        found = {"sqlite": _records_a_second([f"sqlite:{directory / 'audit'}{number}" for number in numbers])}
        with postgres_server() as server:
            if server is not None:
                schemas = [server.schema(f"round{number}") for number in numbers]
                found["postgresql (fsync = off)"] = _records_a_second(schemas)
    rows += [(f"records a second, {kind}", "", f"{a_second:,.0f}") for kind, a_second in found.items()]
    bar = f"at least {LEAST_A_SECOND:,} records/s"
    promise = Bar("the audit into SQLite", bar, f"{found['sqlite']:,.0f}/s", found["sqlite"] >= LEAST_A_SECOND)
    return Table("The audit of calls", "benchmarks.audit", ("what", "instructions", "us of CPU"), rows, [promise])


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        run_alone(measure)
