"""One value for one screen: the daemon as a whole."""

import os
import time
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from tooldispatchd.admin.keys import SourceShown, shown_source
from tooldispatchd.admin.pieces import in_turns
from tooldispatchd.admin.servers import ServersShown, servers_shown
from tooldispatchd.admin.sessions import still_open
from tooldispatchd.admin.tools import ToolCounts, tool_counts
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.session.administration import RunningDaemon
from tooldispatchd.agent.session.session import Session
from tooldispatchd.calls.endedcall import StoreFailure
from tooldispatchd.calls.tally import LastFault
from tooldispatchd.children.family import LAUNCHER, WARM_PARENT
from tooldispatchd.children.procstat import resident_bytes
from tooldispatchd.wire.version import VERSION

# A limit is near from this part of it on.
NEAR: Final = 0.8
# Of each kind of what is most.
SHOWN: Final = 5


class SessionsShown(msgspec.Struct, frozen=True):
    """The numbers of sessions that are open, that were opened in all, and that may be open."""

    open: int
    opened: int
    limit: int


class CallsShown(msgspec.Struct, frozen=True):
    """The numbers of calls in flight, and of requests that were answered, so many of them with a fault."""

    in_flight: int
    waiting: int
    answered: int
    faults: int


class ProcessesShown(msgspec.Struct, frozen=True):
    """Children of all kinds, and those among them that start others; and the places of programs."""

    children: int
    places: int
    in_use: int
    waiting: int
    launchers: int
    warm_parents: int


class UserShown(msgspec.Struct, frozen=True):
    """The bytes that a user's channels hold; `uid` is null for servers that many agents share."""

    uid: int | None
    held: int


class MemoryShown(msgspec.Struct, frozen=True):
    """The account of memory in bytes, and what the kernel says of the process."""

    held: int
    limit: int
    rss: int | None
    greediest: list[UserShown]


class NearLimit(msgspec.Struct, frozen=True):
    """A limit of which most is used."""

    limit: str
    used: int
    of: int


class TurnShown(msgspec.Struct, frozen=True):
    """The longest time for which one task has held the loop."""

    ms: float
    task: str


class LogShown(msgspec.Struct, frozen=True):
    """The level from which on the log is written, and how many of its lines could not be."""

    level: str
    lost: int


class AuditShown(msgspec.Struct, frozen=True):
    """The numbers of calls that there was no room to record, and that wait to be; and why none is recorded."""

    lost: int
    waiting: int
    failure: StoreFailure | None


class StatusView(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `status`."""

    version: str
    pid: int
    uid: int
    state: str
    drain_left_s: float | None
    """Null unless it drains: what runs is ended then."""
    started_at: float
    uptime_s: float
    listening: tuple[str, ...]
    sessions: SessionsShown
    channels: int
    calls: CallsShown
    jobs: int
    servers: ServersShown
    processes: ProcessesShown
    memory: MemoryShown
    near: list[NearLimit]
    config: SourceShown | None
    slowest: list[ToolCounts]
    """By the time that most of their calls take."""
    failing: list[ToolCounts]
    """By how many of their calls had a fault or an error."""
    last_fault: LastFault | None
    longest_turn: TurnShown
    log: LogShown
    audit: AuditShown | None
    """Null where calls are not recorded."""


async def status_view(daemon: RunningDaemon, runtime: Runtime, sessions: Iterable[Session]) -> StatusView:
    """The whole daemon, now; its `sessions` are counted in turns."""
    state, services, limits, audit = runtime.state, runtime.services, runtime.setup.limits, runtime.services.audit
    in_flight = waiting = jobs = 0
    tools = [tool_counts(tally) async for tally in in_turns((*state.tallies.tools(), state.tallies.none))]
    answered = sum(tool.calls for tool in tools)
    faults = sum(sum(tool.faults.values()) for tool in tools)
    async for session in in_turns(still_open(sessions, state)):
        for call in session.in_flight or ():
            in_flight += 1
            waiting += not call.is_running
            jobs += call.job is not None
    gate, memory, stored, forkers = state.processes, state.memory, services.spool.quota, services.family.serving
    uses = {
        "sessions": (state.open_sessions.total, limits.sessions),
        "sessions_per_uid": (state.open_sessions.most, limits.sessions_per_uid),
        "connections": (daemon.channels, limits.connections),
        "buffered_bytes": (memory.held, memory.max_bytes),
        "all_stored_bytes": (stored.held, stored.max_bytes),
        "processes": (gate.inside, gate.places),
    }
    took_s, task = daemon.longest_turn
    now = time.monotonic()
    return StatusView(
        version=VERSION,
        pid=os.getpid(),
        uid=os.geteuid(),
        state="draining" if daemon.is_stopping else "serving",
        drain_left_s=None if daemon.drains_until is None else max(0.0, round(daemon.drains_until - now, 3)),
        started_at=round(daemon.started_at, 3),
        uptime_s=round(now - daemon.began, 3),
        listening=daemon.listening,
        sessions=SessionsShown(state.open_sessions.total, state.sessions, limits.sessions),
        channels=daemon.channels,
        calls=CallsShown(in_flight, waiting, answered, faults),
        jobs=jobs,
        servers=servers_shown(services.sharing),
        processes=ProcessesShown(
            len(services.family), gate.places, gate.inside, gate.waiting, forkers[LAUNCHER], forkers[WARM_PARENT]
        ),
        memory=MemoryShown(
            memory.held,
            memory.max_bytes,
            resident_bytes(os.getpid()) or None,
            [UserShown(*each) for each in memory.greediest(SHOWN)],
        ),
        near=[NearLimit(name, used, of) for name, (used, of) in uses.items() if 0 < used >= NEAR * of],
        config=None if daemon.configuration is None else shown_source(daemon.configuration()),
        slowest=_most(tools, lambda tool: tool.p95_ms or 0.0),
        failing=_most(tools, lambda tool: tool.errors + sum(tool.faults.values())),
        last_fault=state.tallies.last_fault,
        longest_turn=TurnShown(round(took_s * 1000, 1), task),
        log=LogShown(daemon.log_output.level, daemon.lost_lines),
        audit=None if audit is None else AuditShown(audit.lost, audit.waiting, audit.failure),
    )


def _most(tools: list[ToolCounts], rank: Callable[[ToolCounts], float]) -> list[ToolCounts]:
    """Those with most of it, of which they have any."""
    return sorted((tool for tool in tools if rank(tool) > 0), key=rank, reverse=True)[:SHOWN]
