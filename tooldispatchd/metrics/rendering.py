"""Render what a daemon has counted as text, in pieces of about a millisecond, between which others have their turns.

Nothing is copied first and nothing locked: the loop's thread counts and renders, so a number is never half written.
Two numbers of one text may be some turns apart.
"""

import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from tooldispatchd.agent.runtime import DaemonState, Runtime, Services
from tooldispatchd.agent.session.administration import CountedDaemon
from tooldispatchd.agent.session.session import Session
from tooldispatchd.calls.keeping import KeeperState
from tooldispatchd.calls.tally import BOUNDS_S, Durations, ToolTally
from tooldispatchd.children.family import Family
from tooldispatchd.children.procstat import TICKS_PER_S, fields_of
from tooldispatchd.metrics import families
from tooldispatchd.metrics.exposition import Metric
from tooldispatchd.wire.version import VERSION

# The place of the lowest bound that is shown, a fourth of a millisecond: each is a series for each tool and outcome.
LEAST: Final = 2
# Samples, of which a histogram is one, or agents, between two turns of others.
A_PIECE: Final = 25


def render(daemon: CountedDaemon, runtime: Runtime) -> str:
    """All metrics at once."""
    return "".join(_samples(daemon, runtime.state, runtime.services))


def pieces(daemon: CountedDaemon, runtime: Runtime) -> Iterator[str]:
    """All metrics, a piece after the other."""
    samples = _samples(daemon, runtime.state, runtime.services)
    while piece := list(islice(samples, A_PIECE)):
        yield "".join(piece)


def _samples(daemon: CountedDaemon, state: DaemonState, services: Services) -> Iterator[str]:
    yield from _calls(state)
    yield from _agents(daemon, state)
    yield from _queues(state)
    yield from _servers(services)
    yield from _children(services.family, state)
    yield from _kept(state, services)
    yield from _process(daemon)


def _plain(*numbers: tuple[Metric, float]) -> Iterator[str]:
    return (metric.head + metric.sample(number) for metric, number in numbers)


def _labelled(metric: Metric, numbers: Iterable[tuple[str, float]]) -> Iterator[str]:
    yield metric.head
    yield from (metric.sample(number, value) for value, number in numbers)


def _calls(state: DaemonState) -> Iterator[str]:
    tallies = [state.tallies.none, *state.tallies.tools()]
    yield families.CALLS.head
    for tally in tallies:
        yield "".join(families.CALLS.sample(count, *_names(tally), word) for word, count in tally.counts().items())
    yield families.DURATION.head
    for tally in tallies:
        for word, durations in list(tally.ended.items()):
            yield _histogram(families.DURATION, durations, *_names(tally), word)

    yield families.WAIT.head
    yield from (_histogram(families.WAIT, waited, stage, name) for stage, name, waited in state.tallies.all_waits())


def _names(tally: ToolTally) -> tuple[str, str, str]:
    return tally.name, tally.kind, tally.provider


def _histogram(metric: Metric, durations: Durations, *values: str) -> str:
    counts = durations.counts
    shown = [sum(counts[: LEAST + 1]), *counts[LEAST + 1 :]]
    return metric.histogram(BOUNDS_S[LEAST:], shown, durations.total_s, *values)


def _agents(daemon: CountedDaemon, state: DaemonState) -> Iterator[str]:
    in_flight = jobs = 0
    for session in list(state.opened.values()):
        if isinstance(session, Session) and session.in_flight is not None:
            in_flight += len(session.in_flight)
            jobs += session.in_flight.open_jobs
        yield ""
    yield from _plain(
        (families.IN_FLIGHT, in_flight),
        (families.JOBS, jobs),
        (families.SESSIONS, state.open_sessions.total),
        (families.SESSIONS_OPENED, state.sessions),
        (families.CHANNELS, daemon.channels),
        (families.TURNED_AWAY, daemon.turned_away),
        (families.REFUSED_LINES, state.refused_lines),
        (families.WRONG_TOKENS, state.refusals.total),
        (families.RECEIVED, state.bytes_in),
        (families.SENT, state.bytes_out),
        (families.DRAINING, state.is_draining),
    )


def _queues(state: DaemonState) -> Iterator[str]:
    inside: Counter[str] = Counter()
    waiting: Counter[str] = Counter()
    for name, gate in state.policy.queues():
        inside[name] += gate.inside
        waiting[name] += gate.waiting
    yield from _labelled(families.QUEUE_INSIDE, inside.items())
    yield from _labelled(families.QUEUE_WAITING, waiting.items())


def _servers(services: Services) -> Iterator[str]:
    servers = services.sharing.counts.servers()
    yield families.SERVERS.head
    for name, counts in servers:
        states = ((state.value, number) for state, number in counts.now.items() if state is not KeeperState.ENDED)
        yield "".join(families.SERVERS.sample(number, name, state) for state, number in states)
    yield from _labelled(families.SERVER_OPENED, ((name, counts.opened) for name, counts in servers))
    yield from _labelled(families.SERVER_FAILED, ((name, counts.failed) for name, counts in servers))
    yield from _labelled(families.SERVER_DIED, ((name, counts.died) for name, counts in servers))
    yield from _labelled(families.SERVER_RETRIES, ((name, counts.retries) for name, counts in servers))


def _children(family: Family, state: DaemonState) -> Iterator[str]:
    places = state.processes
    by = {"spawn": family.spawned, "fork": family.started - family.spawned}
    yield from _plain((families.CHILDREN, len(family)))
    yield from _labelled(families.CHILDREN_STARTED, by.items())
    yield from _labelled(families.FORKERS, family.serving.items())
    yield from _plain((families.PLACES_TAKEN, places.inside), (families.PLACES_WAITING, places.waiting))


def _kept(state: DaemonState, services: Services) -> Iterator[str]:
    answers, quota = state.answers, services.spool.quota
    yield from _plain(
        (families.MEMORY, state.memory.held),
        (families.MEMORY_LIMIT, state.memory.max_bytes),
        (families.STORED, quota.held),
        (families.STORED_LIMIT, quota.max_bytes),
        (families.CACHE_ENTRIES, len(answers)),
        (families.CACHE_BYTES, answers.held),
    )
    yield from _labelled(families.CACHE_LOOKUPS, (("hit", answers.hits), ("miss", answers.misses)))
    audit = services.audit
    lost, waiting = (0, 0) if audit is None else (audit.lost, audit.waiting)
    yield from _plain((families.AUDIT_LOST, lost), (families.AUDIT_WAITING, waiting))


def _process(daemon: CountedDaemon) -> Iterator[str]:
    yield from _plain(
        (families.LOG_LOST, daemon.lost_lines),
        (families.TURNS, daemon.turns_taken),
        (families.LONGEST_TURN, daemon.longest_turn[0]),
    )
    yield families.BUILD.head + families.BUILD.sample(1, VERSION, sys.version.partition(" ")[0])
    # Fields 14, 15 and 22 to 24 of proc_pid_stat(5), of which the third is the first here, and no number.
    fields = [int(field) for field in fields_of(os.getpid())[11:22]]
    user, system, started, virtual, pages = *fields[:2], *fields[8:]
    booted_at = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    yield from _plain(
        (families.CPU, (user + system) / TICKS_PER_S),
        (families.RESIDENT, pages * resource.getpagesize()),
        (families.VIRTUAL, virtual),
        (families.STARTED_AT, booted_at + started / TICKS_PER_S),
        (families.DESCRIPTORS, sum(1 for _ in Path("/proc/self/fd").iterdir()) - 1),
        (families.DESCRIPTORS_LIMIT, resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
    )
