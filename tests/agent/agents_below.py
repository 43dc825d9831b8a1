"""Agents that call agents, in real children: a runtime with a front, and a plan that runs one child a call."""

import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec
import trio

from tests.agent.fakes import HeldPlan
from tooldispatchd.agent.calls.call import Call
from tooldispatchd.agent.calls.checking import Reader
from tooldispatchd.agent.calls.plans import TaskPlan
from tooldispatchd.agent.programs.programs import Lent
from tooldispatchd.agent.runtime import DaemonState, Lender, Runtime, Services
from tooldispatchd.agent.setup import Setup
from tooldispatchd.agent.subagents import SubAgents
from tooldispatchd.agent.tools.declaredplans import compile_plans
from tooldispatchd.calls.outcome import Answer, Outcome
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.offered import Offered
from tooldispatchd.catalog.schemas import ACCEPT
from tooldispatchd.catalog.specs import Config, LimitsSpec, McpSpec, ProcessSpec, ProfileSpec, ToolSpec
from tooldispatchd.children.family import open_family
from tooldispatchd.front.front import Front
from tooldispatchd.front.timer import Timer
from tooldispatchd.wire.faults import Code, Fault

PATIENCE_S: Final = 30.0
# What an agent in sh says: `ask LINE` sends a request and sets `answer`, and `tell TEXT` gives the agent's own result.
PRELUDE: Final = """
ask() { printf '%s\\n' "$1" >&4; IFS= read -r answer <&5; }
"""

NOTHING: Final[Mapping[str, str]] = {}

Fields = dict[str, object]


class Diary:
    """A log that keeps its lines whole."""

    logs_calls = False

    def __init__(self, lines: list[Fields] | None = None, fields: Mapping[str, object] = {}) -> None:
        self.lines: list[Fields] = [] if lines is None else lines
        self._fields = fields

    def bind(self, **fields: object) -> "Diary":
        return Diary(self.lines, {**self._fields, **fields})

    def debug(self, event: str, **fields: object) -> None:
        self.lines.append({"event": event, **self._fields, **fields})

    info = warning = error = debug

    def incident(self, event: str, error: BaseException) -> str:
        self.debug(event, defect=error)
        return "incident"

    def about(self, event: str) -> list[Fields]:
        """The lines of an event."""
        return [line for line in self.lines if line["event"] == event]


class World(msgspec.Struct):
    """A daemon without its doors."""

    runtime: Runtime
    front: Front
    lender: Lender
    diary: Diary

    def offer(self, profile: str, *plans: TaskPlan | HeldPlan) -> None:
        """Put `plans` among those of a profile."""
        self.runtime.plans(profile, compile_plans).update((plan.name, plan) for plan in plans)

    def agent(self, name: str, script: str, *, profile: str | None = None) -> "AgentPlan":
        """A tool that runs `script` as an agent under the profile of its name, or another one."""
        return AgentPlan(self, name, ("sh", "-c", PRELUDE + script), profile or name)

    def python(self, name: str, program: str) -> "AgentPlan":
        """The same, with a program in Python that may use the project's own clients."""
        return AgentPlan(self, name, (sys.executable, "-c", program), name)

    def held(self) -> tuple[int, int, int, int]:
        """Sessions, bytes in flight, children and descriptors: equal before and after a call that leaves nothing."""
        runtime = self.runtime
        descriptors = len(list(Path("/proc/self/fd").iterdir()))
        return runtime.state.open_sessions.total, runtime.state.memory.held, len(runtime.services.family), descriptors


class AgentPlan(TaskPlan):
    """One child a call, with a channel of its own; what it writes to stdout is the answer."""

    __slots__ = ("_argv", "_world", "pids", "profile")

    def __init__(self, world: World, name: str, argv: tuple[str, ...], profile: str) -> None:
        offered = Offered(name=name, input_schema={})
        super().__init__(offered, kind="process", limit_s=20.0, read=Reader(ACCEPT, missing=None, wrapped=False))
        self.add(world.runtime.state.agent_place)
        self.starts_agents = True
        self.profile = profile
        self.pids: list[int] = []
        self._world = world
        self._argv = argv

    async def run(self, call: Call) -> Outcome:
        """As `TaskPlan.run`."""
        lent = await self._world.lender.open(self._world.runtime, call, self.profile)
        try:
            return lent if isinstance(lent, Fault) else await self._serve(lent)
        finally:
            if not isinstance(lent, Fault | None):
                await lent.close()  # noqa: ASYNC102  # it shields and bounds itself

    async def _serve(self, lent: Lent | None) -> Outcome:
        family = self._world.runtime.services.family
        env, extra = (NOTHING, {}) if lent is None else (lent.env, lent.extra)
        child = family.spawn(self._argv, env=env, extra=extra)
        self.pids.append(child.pid)
        if lent is not None:
            lent.started()
        try:
            child.close_stdin()
            await child.exited()
            said = os.read(child.stdout, 65_536).decode()
            complaints = os.read(child.stderr, 65_536).decode()
        except BlockingIOError:
            said = complaints = ""
        finally:
            ended = await child.kill()  # noqa: ASYNC102  # it shields and bounds itself
        return Answer(said) if ended.code == 0 else Fault(Code.TOOL_FAILED, f"{ended}: {said} {complaints}")


async def until(condition: Callable[[], bool]) -> None:
    """Wait until it is so, which nobody tells."""
    while not condition():  # noqa: ASYNC110  # as above
        await trio.sleep(0.002)


def agents_catalog(*names: str, limits: LimitsSpec | None = None, mcp: tuple[McpSpec, ...] = ()) -> Catalog:
    """Agent processes of these names, each a profile with `echo`, `cat` and servers; and a default profile."""
    built = build_catalog(
        Config(
            limits=limits or LimitsSpec(),
            tools={
                "echo": ToolSpec(type="json -> json", inline="id"),
                "cat": ToolSpec(type="json -> json", command=("cat",)),
            },
            processes={
                name: ProcessSpec(
                    kind="agent", type="!json -> !json", command=("true",), tools=("echo", "cat"), mcp=mcp
                )
                for name in names
            },
            agents={"default": ProfileSpec(tools=("echo",))},
        )
    )
    assert isinstance(built, Catalog), built
    return built


@asynccontextmanager
async def open_world(catalog: Catalog, *, directory: Path | None = None) -> AsyncIterator[World]:
    """Leaving waits for every task of every session; one that stays fails the test, as does a defect in the log."""
    diary = Diary()
    limits = catalog.config.limits
    with trio.fail_after(PATIENCE_S):
        async with open_family() as family, trio.open_nursery() as background:
            timer = Timer(diary)
            front = Front(timer, diary, out_buffer_bytes=limits.out_buffer_bytes, stalled_s=10)
            background.start_soon(timer.run)
            background.start_soon(front.run)
            async with trio.open_nursery() as home:
                setup = Setup(catalog, diary, uid=0)
                lender = SubAgents(front, directory)
                services = Services(setup, timer=timer, home=home, family=family)
                services.lender = lender
                runtime = Runtime(setup, services, DaemonState(setup, cores=2, uid=0))
                yield World(runtime, front, lender, diary)
            background.cancel_scope.cancel()
    assert [line for line in diary.lines if "defect" in line] == []
    assert len(diary.about("session opened")) == len(diary.about("session closed"))
