"""The fuzz target: bytes of one channel, cut anywhere, into a real host, with everything that may happen around it.

The bytes are the whole input: how they are cut, what the tools do meanwhile, and how the channel ends follow from them
through a seed, so that the same bytes always play the same.
"""

import random
import zlib
from collections.abc import Iterator
from functools import cache
from typing import Final

import msgspec
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.fuzz.plans import ConnectionPlan, TaskPlan, WaitingPlan
from tooldispatchd.agent.calls.call import Plan
from tooldispatchd.agent.calls.inflight import InFlight
from tooldispatchd.agent.runtime import DaemonState, Runtime, Services
from tooldispatchd.agent.session.entrance import Entrance, Visitor
from tooldispatchd.agent.session.host import ChannelHost
from tooldispatchd.agent.setup import Setup
from tooldispatchd.agent.tools.declaredplans import compile_plans
from tooldispatchd.calls.gate import Gate
from tooldispatchd.calls.memory import Share
from tooldispatchd.calls.outcome import Answer, Outcome, Update
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.specs import Config, LimitsSpec, ProfileSpec, ToolSpec
from tooldispatchd.children.family import open_family
from tooldispatchd.front.timer import Timer
from tooldispatchd.wire.faults import Code, Fault

MAX_LINE_BYTES: Final = 8192
# Right for the profile `locked`, and planted where nothing may be quoted from.
TOKEN: Final = "token-0f6b4c1d"
PLACES: Final = 3
MAX_CHUNKS: Final = 300
# More turns than any input of the corpus takes.
MAX_ROUNDS: Final = 2000
PATIENCE_S: Final = 1e9

WIDE: Final = LimitsSpec(max_line_bytes=MAX_LINE_BYTES)
NARROW: Final = LimitsSpec(
    max_line_bytes=MAX_LINE_BYTES,
    in_flight=2,
    waiting=2,
    jobs=2,
    job_bytes=4096,
    in_flight_bytes=4096,
    sessions=4,
    sessions_per_uid=3,
    max_content_bytes=4096,
)
FLOODED: Final = msgspec.structs.replace(WIDE, lines_per_s=3)

OUTCOMES: Final[tuple[Outcome, ...]] = (
    Answer('"done"'),
    Answer("null"),
    Answer(f'"{"x" * 3000}"'),
    Answer("é\u2028\x00", is_error=True),
    Fault(Code.TOOL_FAILED, "exit code 3", {"exit_code": 3, "stderr_tail": "broken"}),
)


class Record(msgspec.Struct):
    """What one input brought about: every line and log entry in their order, and what should not be there."""

    data: bytes
    looked_at: int = 0
    """Lines that the host looked at."""
    ending: str = "by itself"
    """What ended the channel: `input`, `gone`, `drain` or `abort`; else a `bye` or a refusal."""
    heard: list[bytes] = []
    before_gone: int = 0
    """How many of those lines had been written when the channel was ended."""
    log: list[tuple[str, dict[str, object]]] = []
    left: list[str] = []

    @property
    def is_gone(self) -> bool:
        """Whether there was nobody to be answered at the end."""
        return self.ending == "gone"


class Log:
    """A log that keeps all it is told."""

    def __init__(self, record: Record, fields: dict[str, object], *, logs_calls: bool) -> None:
        self._record = record
        self._fields = fields
        self.logs_calls = logs_calls

    def bind(self, **fields: object) -> "Log":
        return Log(self._record, {**self._fields, **fields}, logs_calls=self.logs_calls)

    def debug(self, event: str, **fields: object) -> None:
        self._record.log.append((event, {**self._fields, **fields}))

    info = warning = error = debug

    def incident(self, event: str, error: BaseException) -> str:
        raise AssertionError(f"a defect was logged: {event}: {error!r}") from error


class Memory:
    """An outlet in memory that takes every line at once."""

    def __init__(self, record: Record, share: Share) -> None:
        self.share = share
        self._record = record
        self.is_crowded = False
        self.is_behind = False
        self.is_closed = False
        self.wants_turn = False

    def pause(self) -> None:
        """Nothing is read here by itself."""

    def again(self) -> None:
        self.wants_turn = True

    def write(self, lines: bytes | bytearray) -> None:
        assert not self.is_closed, "a line was written after the channel was closed"
        assert lines.endswith(b"\n"), "a write is not whole lines"
        self._record.heard += bytes(lines[:-1]).split(b"\n")

    def close(self) -> None:
        assert not self.is_closed, "the channel was closed twice"
        self.is_closed = True


@cache
def catalog_of(limits: LimitsSpec) -> Catalog:
    """Inline tools under the names that the transcripts use; profiles that are open, small, and locked."""
    tools = {
        "echo": ToolSpec(type="string -> string", inline="id"),
        "same": ToolSpec(type="{text: string, limit?: int} -> {text: string, limit?: int}", inline="id"),
        "any": ToolSpec(type="json -> json", inline="id"),
        "nothing": ToolSpec(type="unit -> unit", inline="id"),
        "hidden": ToolSpec(type="string -> string", inline="id"),
    }
    agents = {
        "default": ProfileSpec(tools=("echo", "same", "any", "nothing")),
        "small": ProfileSpec(tools=("echo", "same"), jobs=False),
        "locked": ProfileSpec(tools=("echo",), token=TOKEN),
    }
    catalog = build_catalog(Config(limits=limits, tools=tools, agents=agents))
    assert isinstance(catalog, Catalog)
    return catalog


@cache
def declared_plans(limits: LimitsSpec) -> dict[str, dict[str, Plan]]:
    """The inline tools' plans: they hold nothing of the runtime that they are compiled for."""
    return {}


class Stage:
    """One host, the tools behind it, and what happens to both."""

    def __init__(self, runtime: Runtime, record: Record, chance: random.Random, clock: MockClock) -> None:
        self.runtime = runtime
        self.record = record
        self.chance = chance
        self.clock = clock
        self.gate: Gate[object] = Gate(PLACES)
        self.plans: list[WaitingPlan] = [
            WaitingPlan("slow"),
            WaitingPlan("stuck", lingers=True, gate=self.gate),  # type: ignore[arg-type]  # it holds calls alone
            WaitingPlan("upper", gate=self.gate),  # type: ignore[arg-type]  # as above
            WaitingPlan("brief", limit_s=0.5),
            ConnectionPlan("docs:search"),
            TaskPlan("fails", gate=self.gate, teardown_s=chance.choice((0, 1))),  # type: ignore[arg-type]  # as above
        ]
        self.outlet = Memory(record, runtime.state.memory.share(4711))
        self.closings = 0
        anyone = Visitor(uid=4711, gid=4711)
        self.host = ChannelHost(lambda: runtime, self.outlet, self._closed, entrance=Entrance(), visitor=anyone)
        for profile in runtime.setup.catalog.profiles:
            known = declared_plans(runtime.setup.limits)
            if profile not in known:
                known[profile] = compile_plans(runtime, profile)
            own = {**known[profile], **{plan.name: plan for plan in self.plans if profile == "default"}}
            runtime.plans(profile, lambda _runtime, _profile, own=own: own)  # type: ignore[misc]  # bound at once

    def _closed(self, host: ChannelHost) -> None:
        self.closings += 1

    async def say(self, data: bytes) -> None:
        """Feed the bytes in chunks, with things that happen between them, until the channel is closed."""
        for chunk in cut(data, self.chance):
            self.host.received(chunk)
            await self.take_turns()
            await self.happen()
            if not self.outlet.is_closed and self.chance.random() < 0.003:
                self.end_by(self.chance.choice(("drain", "abort")))
            if self.outlet.is_closed:
                return

    async def take_turns(self) -> None:
        """Serve what a chunk left over."""
        for _ in range(MAX_ROUNDS):
            if not self.outlet.wants_turn or self.outlet.is_closed:
                return
            self.outlet.wants_turn = False
            if self.chance.random() < 0.2:
                await self.happen()
            if not self.outlet.is_closed:
                self.host.resume()
        raise AssertionError("the host asks for turns without an end")

    async def happen(self) -> None:
        """Zero to three things that an agent has no hand in."""
        for _ in range(self.chance.choice((0, 0, 1, 1, 2, 3))):
            plan = self.chance.choice(self.plans)
            match self.chance.randrange(14):
                case 0 | 1 | 2 | 3:
                    self.finish_one(plan)
                case 4 if isinstance(plan, ConnectionPlan):
                    plan.die()
                case 5 if isinstance(plan, ConnectionPlan):
                    plan.revive()
                case 6 | 7:
                    if plan.running:
                        self.chance.choice(plan.running).update(Update(progress=1, total=2, message="half"))
                case 8 | 9:
                    self.clock.jump(self.chance.choice((0.1, 1, 30, 120)))
                    await wait_all_tasks_blocked()
                case 10:
                    self.outlet.is_crowded = not self.outlet.is_crowded
                case 11:
                    self.outlet.is_behind = not self.outlet.is_behind
                case _:
                    await trio.lowlevel.checkpoint()

    def finish_one(self, plan: WaitingPlan) -> None:
        if plan.running:
            plan.finish(self.chance.choice(plan.running), self.chance.choice(OUTCOMES))

    async def end(self) -> None:
        """The channel ends in one of the four ways, then all that runs comes to its end."""
        if not self.outlet.is_closed:
            self.end_by(self.chance.choice(("input", "input", "input", "input", "gone", "drain", "abort")))
        for _ in range(MAX_ROUNDS):
            await self.take_turns()
            await wait_all_tasks_blocked()
            if self.outlet.is_closed:
                break
            for plan in self.plans:
                self.finish_one(plan)
            self.clock.jump(1)
        self.record.looked_at = self.host._machine.line
        self.record.left += self.look_what_is_left()

    def end_by(self, ending: str) -> None:
        # An end from outside is still why lines are left over when the input ends after it.
        if ending == "gone" or self.record.ending == "by itself":
            self.record.ending = ending
        self.record.before_gone = len(self.record.heard)
        match ending:
            case "input":
                self.host.ended()
            case "gone":
                self.host.gone("the peer has left")
            case "drain":
                self.host.drain()
            case _:
                self.host.abort()

    def look_what_is_left(self) -> list[str]:
        """What should not be there when all has ended."""
        runtime = self.runtime
        owners = {owner for plan in self.plans for owner in plan.owners if isinstance(owner, InFlight)}
        counts = {
            "channels that were not closed once": abs(self.closings - 1),
            "open sessions": runtime.state.open_sessions.total,
            "bytes held": runtime.state.memory.held,
            "deadlines": len(runtime.services.timer),
            "servers that are owed": len(runtime.state.owed),
            "calls that were to start": len(runtime.services.starter._turn),
            "places of the gate": PLACES - self.gate._free,
            "channels at the gate": len(self.gate._channels),
            "running calls": sum(len(plan.running) for plan in self.plans),
            "tasks": len(runtime.services.home.child_tasks),
            "agents at gates of their own": sum(not owner._places.is_empty for owner in owners),
            "calls in flight": sum(len(owner) for owner in owners),
            "bytes of calls": sum(owner._account.bytes_in_flight for owner in owners),
        }
        events = [event for event, _ in self.record.log]
        counts["sessions that were not closed"] = events.count("session opened") - events.count("session closed")
        return [f"{what}: {count}" for what, count in counts.items() if count]


def cut(data: bytes, chance: random.Random) -> Iterator[bytes]:
    """The bytes in chunks: whole, by the line, or anywhere."""
    sizes = chance.choice(((len(data) or 1,), (1, 2, 3), (1, 40, 400), (30, 100, 300), (5000,)))
    # A long input byte by byte only takes its time.
    if len(data) > MAX_CHUNKS * sizes[-1]:
        sizes = (len(data) // MAX_CHUNKS,)
    at = 0
    while at < len(data):
        end = at + chance.choice(sizes)
        # Many agents write whole lines; what comes between two of them is then between two requests.
        if sizes[0] == 30:
            end = data.find(b"\n", at) + 1 or len(data)
        yield data[at:end]
        at = end


def play(data: bytes) -> Record:
    """Play one input to its end; an exception, or a defect that was logged, is a finding."""
    chance = random.Random(zlib.crc32(data))
    limits = chance.choice((WIDE, WIDE, WIDE, NARROW, NARROW, FLOODED))
    # Where it logs no calls, tools that answer at once take a shorter way.
    logs_calls = len(data) % 2 == 0
    record = Record(data)
    clock = MockClock()

    async def live() -> None:
        log = Log(record, {}, logs_calls=logs_calls)
        with trio.fail_after(PATIENCE_S):
            async with open_family() as family, trio.open_nursery() as background:
                timer = Timer(log)
                background.start_soon(timer.run)
                async with trio.open_nursery() as home:
                    setup = Setup(catalog_of(limits), log, uid=1000)
                    services = Services(setup, timer=timer, home=home, family=family)
                    runtime = Runtime(setup, services, DaemonState(setup, cores=2, uid=1000))
                    stage = Stage(runtime, record, chance, clock)
                    try:
                        await stage.say(data)
                        await stage.end()
                    finally:
                        # Where something was wrong, what is shielded must come to its end too.
                        clock.autojump_threshold = 0
                    home.cancel_scope.cancel()
                background.cancel_scope.cancel()

    trio.run(live, clock=clock)
    return record
