"""What a session needs around it, without a daemon: a runtime, an agent on memory streams, tools that a test ends."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec
import trio
from msgspec import Raw, UnsetType
from trio.abc import ReceiveStream, SendStream
from trio.testing import memory_stream_pair

from tooldispatchd.agent.calls.call import Call, Plan
from tooldispatchd.agent.calls.checking import Checking, Reader
from tooldispatchd.agent.runtime import DaemonState, Runtime, Services
from tooldispatchd.agent.session.entrance import Entrance, Visitor
from tooldispatchd.agent.session.host import ChannelHost
from tooldispatchd.agent.setup import Setup
from tooldispatchd.agent.steps.auditing import AuditSink
from tooldispatchd.agent.steps.gates import GateStep
from tooldispatchd.agent.subagents import SubAgents
from tooldispatchd.agent.tools.declaredplans import compile_plans
from tooldispatchd.calls.gate import Gate, Turns
from tooldispatchd.calls.memory import Share
from tooldispatchd.calls.outcome import Answer, Outcome
from tooldispatchd.calls.stages import Reason, StepOrder
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.offered import Offered
from tooldispatchd.catalog.schemas import ACCEPT
from tooldispatchd.catalog.specs import Config, LimitsSpec, ProfileSpec, ToolSpec
from tooldispatchd.checkers.pool import IN_PLACE, Buffer, CheckerError, Running
from tooldispatchd.checkers.worker import Work
from tooldispatchd.children.family import open_family
from tooldispatchd.front.front import Front
from tooldispatchd.front.stream import StreamChannel
from tooldispatchd.front.timer import Timer
from tooldispatchd.wire.faults import Code, Fault

# No test in memory takes a second; one that hangs must say so and not the whole run.
PATIENCE_S: Final = 20.0
# Under a clock that jumps the limit must be far beyond every deadline that a test waits for.
FAR_S: Final = 100_000.0
OUT_BUFFER_BYTES: Final = 1024 * 1024


ANYONE: Final = Entrance()
OWN_USER: Final = Visitor(uid=1000, gid=1000)
ANOTHER_USER: Final = Visitor(uid=4711, gid=4711)


class Ledger:
    """A log that keeps what it is told: the events in their order, and the defects."""

    def __init__(self, *, logs_calls: bool = True) -> None:
        self.logs_calls = logs_calls
        self.events: list[str] = []
        self.incidents: list[BaseException] = []

    def bind(self, **fields: object) -> "Ledger":
        return self

    def debug(self, event: str, **fields: object) -> None:
        self.events.append(event)

    def info(self, event: str, **fields: object) -> None:
        self.events.append(event)

    def warning(self, event: str, **fields: object) -> None:
        self.events.append(event)

    def error(self, event: str, **fields: object) -> None:
        self.events.append(event)

    def incident(self, event: str, error: BaseException) -> str:
        self.incidents.append(error)
        return "fake-incident"


class Bounds:
    """The front, as a channel on streams sees it."""

    def __init__(self) -> None:
        self.is_crowded = False
        self.out_buffer_bytes = OUT_BUFFER_BYTES
        self.stalled_s = 120.0


class CrowdedChannel(StreamChannel):
    """Crowded when its bounds say so, also while nothing of its own lies unread: memory takes every byte at once."""

    def __init__(self, bounds: Bounds, share: Share, receiving: ReceiveStream, sending: SendStream) -> None:
        super().__init__(bounds, share, receiving, sending)
        self._bounds = bounds

    @property
    def is_crowded(self) -> bool:
        return self._bounds.is_crowded


class Agent:
    """One end of a channel in memory, and the host behind the other."""

    def __init__(self, runtime: Runtime, *, entrance: Entrance = ANYONE, visitor: Visitor = OWN_USER) -> None:
        self.bounds = Bounds()
        self.closings = 0
        ours, theirs = memory_stream_pair()
        self._sending = ours.send_stream
        self._receiving = ours.receive_stream
        self._heard = bytearray()
        self.share = runtime.state.memory.share(visitor.uid)
        self.channel = CrowdedChannel(self.bounds, self.share, theirs.receive_stream, theirs.send_stream)
        self.host = ChannelHost(lambda: runtime, self.channel, self._closed, entrance=entrance, visitor=visitor)
        runtime.services.home.start_soon(self.channel.run, self.host)

    @staticmethod
    def stranger() -> Visitor:
        """A user that is neither the daemon's own nor root."""
        return Visitor(uid=4711, gid=4711)

    async def pause(self, seconds: float = 0.0) -> None:
        """Let the daemon's tasks have a turn, or let time pass."""
        await trio.sleep(seconds)

    def _closed(self, host: ChannelHost) -> None:
        assert host is self.host
        self.closings += 1

    async def send(self, line: bytes) -> None:
        await self._sending.send_all(line)

    async def say(self, *messages: Mapping[str, object]) -> None:
        """Send the messages as one chunk."""
        await self.send(msgspec.json.Encoder().encode_lines(messages))

    async def call(self, call_id: str, tool: str, **fields: object) -> None:
        """Send one request in the short form."""
        await self.say({"id": call_id, "name": tool, **fields})

    async def hear(self) -> object:
        """The next line from the daemon; the words `the end` where there is none."""
        while b"\n" not in self._heard:
            chunk = await self._receiving.receive_some()
            if not chunk:
                assert not self._heard, "the channel ended within a line"
                return "the end"
            self._heard += chunk
        line, _, self._heard = self._heard.partition(b"\n")
        return msgspec.json.decode(line)

    async def hear_all(self) -> list[object]:
        """Every line up to the end of the channel."""
        lines = []
        while (line := await self.hear()) != "the end":
            lines.append(line)
        return lines

    async def end_input(self) -> None:
        """Say no more, and still listen."""
        await self._sending.aclose()

    async def stop_listening(self) -> None:
        """Break the channel: the next line from the daemon cannot be written."""
        await self._receiving.aclose()


def place_at(gate: Gate[Call]) -> GateStep:
    """A place at that gate, as programs have one."""
    return GateStep(StepOrder.PROGRAM_PLACE, "fake", lambda _context: gate)


class BusyCheckers:
    """Checkers that are never done."""

    async def run(
        self, work: Work, arguments: bytes, payload: Buffer | Sequence[Buffer], *, turns: Turns
    ) -> tuple[bytes, bytearray, bytearray]:
        await trio.sleep_forever()
        raise AssertionError("it sleeps for ever")


class EndedCheckers:
    """Checkers that end while they work."""

    async def run(
        self, work: Work, arguments: bytes, payload: Buffer | Sequence[Buffer], *, turns: Turns
    ) -> tuple[bytes, bytearray, bytearray]:
        raise CheckerError("its checker ended")


class HeldPlan(Plan):
    """A tool whose calls run until the test ends them.

    `running` holds the calls that were started and have not ended; `halted` says, in their order, which were asked to
    end early and why. A call that is halted ends at once, unless the tool `lingers`.
    """

    __slots__ = ("gate", "halted", "lingers", "running", "started")

    def __init__(
        self, name: str = "held", *, limit_s: float = 60.0, gate: Gate[Call] | None = None, lingers: bool = False
    ) -> None:
        super().__init__(Offered(name=name, input_schema={}), kind="fake", limit_s=limit_s, read=_TAKE_ANYTHING)
        self.gate = gate
        if gate is not None:
            self.add(place_at(gate))
        self.lingers = lingers
        self.started: list[str] = []
        self.running: dict[str, Call] = {}
        self.halted: list[tuple[str, Reason]] = []

    def start(self, call: Call) -> None:
        self.started.append(call.id)
        self.running[call.id] = call

        def halt(reason: Reason) -> None:
            self.halted.append((call.id, reason))
            if not self.lingers:
                self.finish(call.id, "halted")

        call.halt = halt

    def finish(self, call_id: str, outcome: str | Outcome = "done") -> None:
        """End a running call, as a provider does, with this content or so."""
        call = self.running.pop(call_id)
        call.finish(Answer(outcome) if isinstance(outcome, str) else outcome)
        call.context.channel.flush()


class BrokenPlan(Plan):
    """A tool that cannot even start: a defect of the daemon."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(Offered(name="broken", input_schema={}), kind="fake", limit_s=60.0, read=_TAKE_ANYTHING)

    def start(self, call: Call) -> None:
        raise LookupError("a defect")


class _TakeAnything(Reader):
    def __call__(self, raw: Raw | UnsetType, _dropped: list[str] | None = None, /) -> object:
        if isinstance(raw, UnsetType):
            return None
        value = msgspec.json.decode(raw)
        return Fault(Code.INVALID_INPUT, "refused", {"violations": []}) if value == "refuse me" else value


_TAKE_ANYTHING = _TakeAnything(ACCEPT, missing=None, wrapped=False)


def small_catalog(limits: LimitsSpec | None = None) -> Catalog:
    """One inline tool, `echo`, and two profiles: `default` and, with nothing in it, `empty`."""
    catalog = build_catalog(
        Config(
            limits=limits or LimitsSpec(),
            tools={"echo": ToolSpec(type="json -> json", inline="id")},
            agents={"default": ProfileSpec(tools=("echo",)), "empty": ProfileSpec()},
        )
    )
    assert isinstance(catalog, Catalog)
    return catalog


@asynccontextmanager
async def open_runtime(
    catalog: Catalog,
    *plans: Plan,
    patience_s: float = FAR_S,
    logs_calls: bool = True,
    audit: AuditSink | None = None,
    spool: Path | None = None,
    checkers: Running = IN_PLACE,
) -> AsyncIterator[Runtime]:
    """A runtime whose default profile has `plans` for its tools besides those declared; `spool` is for long answers.

    Leaving waits for every task of every session and channel: one that stays fails the test, as does any defect that
    was logged.
    """
    log = Ledger(logs_calls=logs_calls)
    with trio.fail_after(patience_s):
        async with open_family() as family, trio.open_nursery() as background:
            timer = Timer(log)
            background.start_soon(timer.run)
            async with trio.open_nursery() as home:
                setup = Setup(catalog, log, uid=1000)
                # What runs on a clock of its own must not wait for processes.
                checking = Checking(checkers)
                front = Front(timer, log, out_buffer_bytes=OUT_BUFFER_BYTES, stalled_s=10)
                background.start_soon(front.run)
                services = Services(
                    setup,
                    timer=timer,
                    home=home,
                    family=family,
                    checking=checking,
                    audit=audit,
                    make_spool=None if spool is None else lambda: spool,
                    front=front,
                )
                if any(name in catalog.profiles for name in catalog.processes):
                    # Agents that may call tools have channels.
                    services.lender = SubAgents(front)
                runtime = Runtime(setup, services, DaemonState(setup, cores=2, uid=1000))
                if plans:
                    add_plans(runtime, *plans)
                yield runtime
                services.sharing.close()
            background.cancel_scope.cancel()
    assert log.incidents == []
    assert log.events.count("session opened") == log.events.count("session closed")


def add_plans(runtime: Runtime, *plans: Plan) -> None:
    """Put `plans` among those of the default profile."""
    from_catalog = runtime.plans("default", compile_plans)
    from_catalog.update((plan.name, plan) for plan in plans)


def fault_of(line: object) -> dict[str, object]:
    """The fault that an answer, or a `fault` line, tells."""
    assert isinstance(line, dict)
    if line.get("__port") == "fault":
        return line
    assert line["is_error"]
    assert line["fault"]
    fault = json.loads(line["content"])
    assert isinstance(fault, dict)
    return fault


def code_of(line: object) -> object:
    return fault_of(line)["error"]


def answer(call_id: str, content: str = "done") -> dict[str, object]:
    return {"id": call_id, "content": content, "is_error": False}
