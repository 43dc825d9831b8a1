"""The plans of tools that are made of processes: at once where nothing must be run, else a task that runs each stage.

    message ─▶ the program of the catalog ─▶ result
                   │ asks                ▲ answers
                   └─▶ an agent process, one child      a tool that is lifted, a call within the call

What a stage asks for is a call of its own (`Call`), so that it has the limit, the end and the place among the children
that it would have if an agent had made it. It takes no place among its agent's calls: a chain has one at a time.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
import trio
from msgspec import Raw

from tooldispatchd.agent.call import Call, CallStage, Plan, Reason
from tooldispatchd.agent.checking import Checking
from tooldispatchd.agent.confining import program_of_agent
from tooldispatchd.agent.faults import CANCELLED
from tooldispatchd.agent.lineage import RootUsage
from tooldispatchd.agent.plans import (
    CommandPlan,
    InlinePlan,
    McpPlan,
    TaskPlan,
    declared_command_plan,
    limit_of,
    offered_of,
    read_of,
    shaped,
)
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.steps import Reader
from tooldispatchd.calls.gate import Gate
from tooldispatchd.calls.jobs import Job, Jobs
from tooldispatchd.calls.outcome import Outcome, Update
from tooldispatchd.catalog.callgraph import agents_started
from tooldispatchd.catalog.morphisms import Invoke, StageError
from tooldispatchd.catalog.offered import Offered
from tooldispatchd.catalog.profiles import Profile
from tooldispatchd.catalog.schemas import ACCEPT, MAX_LIGHT_BYTES, is_light
from tooldispatchd.catalog.tools import DeclaredTool
from tooldispatchd.providers.inline import MAX_DETAIL, fault_of_stage
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import QuotedText, ShortReq

# Messages of a chain go through the dispatch thread.
_TOO_LARGE: Final = Fault(
    Code.TOOL_FAILED,
    f"a message of a chain is larger than {MAX_LIGHT_BYTES} bytes, or has too many parts",
    {"limit": "message"},
)

_decode: Final = msgspec.json.Decoder().decode


def process_plan(runtime: Runtime, tool: DeclaredTool, profile: Profile) -> Plan:
    """The plan of a tool with `process`, as agents of `profile` call it."""
    assert tool.program is not None
    assert tool.spec.process is not None
    if tool.program.is_now:
        return InlinePlan(runtime, tool)
    if runtime.catalog.processes[tool.spec.process].kind == "agent":
        # One child and nothing else: it needs no task around its own.
        program = program_of_agent(runtime, tool.spec.process, profile)
        return declared_command_plan(runtime, tool, program, gate=runtime.agents)
    return ChainPlan(runtime, tool, profile)


class ChainPlan(TaskPlan):
    """A tool whose program asks for children or for other tools."""

    __slots__ = ("_agents", "_output", "_profile", "_program", "_runtime")

    def __init__(self, runtime: Runtime, tool: DeclaredTool, profile: Profile) -> None:
        super().__init__(offered_of(tool), kind="chain", limit_s=limit_of(runtime, tool), read=read_of(tool))
        assert tool.program is not None
        self.starts_agents = bool(agents_started(tool.name, runtime.catalog.config))
        self._runtime = runtime
        self._profile = profile
        self._program = tool.program
        self._output = tool.output
        self._agents: dict[str, Plan] = {}

    async def run(self, call: Call) -> Outcome:
        """What came of the program, or of the stage that failed."""
        try:
            result = await self._result(call)
        except StageError as error:
            return fault_of_stage(error)
        return await shaped(self._runtime, call, result, self._output)

    async def _result(self, call: Call) -> object:
        """What the program gives. Raises `StageError`."""
        if not is_light(call.line, ACCEPT):
            raise StageError(self.name, _TOO_LARGE)
        work = self._program.apply(_decode(call.line))
        answer: object = None
        try:
            while True:
                ask = work.throw(answer) if isinstance(answer, StageError) else work.send(answer)
                answer = None
                if ask is None:
                    # A chain that is long, or has many messages, must not hold the dispatch thread.
                    await trio.lowlevel.checkpoint()
                else:
                    answer = await self._answer(call, ask)
        except StopIteration as end:
            return end.value
        finally:
            work.close()

    async def _answer(self, call: Call, ask: Invoke) -> object:
        """The result of what a stage asked for, or the `StageError` that it failed with."""
        call.doing = ask.name
        plan = call.owner.inner(ask.name) if ask.is_tool else self._agent(ask.name)
        if isinstance(plan, Fault):
            return StageError(ask.name, plan)
        line = plan.read.encode(ask.value)
        if isinstance(plan, McpPlan):
            # Its stage has looked at a declared tool's input; what a server lists is looked at by nobody else.
            dropped: list[str] = []
            value = plan.read(Raw(line), dropped)
            if isinstance(value, Fault):
                return StageError(ask.name, value)
            if dropped:
                line = plan.read.encode(value)
        outcome = await InnerCall(call, self._runtime, plan, line).outcome()
        call.doing = None
        if isinstance(outcome, Fault):
            return StageError(ask.name, outcome)
        if outcome.is_error:
            said = "an error too long to be told" if isinstance(outcome.content, QuotedText) else outcome.content
            return StageError(ask.name, said[:MAX_DETAIL])
        is_text = isinstance(plan, McpPlan) and not plan.gives_json
        if isinstance(outcome.content, QuotedText):
            return StageError(ask.name, _TOO_LARGE)
        return outcome.content if is_text else _decode(outcome.content)

    def _agent(self, name: str) -> Plan:
        plan = self._agents.get(name)
        if plan is None:
            program = program_of_agent(self._runtime, name, self._profile)
            offered = Offered(name=name, input_schema={})
            # Its stage looks at what goes in and what comes out.
            plan = CommandPlan(
                self._runtime,
                offered,
                program,
                read=Reader(ACCEPT, missing=None, wrapped=False, as_text=program.reads_text),
                output=ACCEPT,
                limit_s=self.limit_s,
                gate=self._runtime.agents,
            )
            self._agents[name] = plan
        return plan


class InnerCall:
    """A call within a call: it is the `agent.call.Owner` of the one that a stage asked for."""

    def __init__(self, outer: Call, runtime: Runtime, plan: Plan, line: bytes) -> None:
        self._outer = outer
        self._plan = plan
        self._outcome: Outcome | None = None
        self._has_turn = trio.Event()
        self._ended = trio.Event()
        self._task: Callable[[], Awaitable[None]] | None = None
        self._call = Call(self, runtime.timer, ShortReq(outer.id, plan.name, Raw(b"null")))
        self._call.traceparent = outer.traceparent
        self._call.outer = outer
        self._call.line = line
        self._call.plan = plan

    async def outcome(self) -> Outcome:
        """How it ended; cancelled with the task that waits for it."""
        call, plan = self._call, self._plan
        gate = plan.gate
        try:
            if gate is not None and not self._outer.owner.enter(gate, call):
                call.enter(CallStage.QUEUE, plan.limit_s)
                # Its turn comes, or its limit does; `run` says which.
                await self._has_turn.wait()
            elif gate is not None:
                call.has_gate = True
            if call.stage is not CallStage.ENDED:
                call.enter(CallStage.RUN, plan.limit_s)
                plan.start(call)
                # What was asked for must be sent, whoever else waits for the next turn.
                self._outer.owner.flush()
                if self._task is not None:
                    await self._task()
                await self._ended.wait()
        finally:
            self._give_up()
            if call.has_gate and gate is not None:
                self._outer.owner.leave(gate)
        assert self._outcome is not None
        return self._outcome

    def _give_up(self) -> None:
        """End the call where the chain is ended before it."""
        if self._outcome is None:
            self._call.stop(CANCELLED, Reason.CANCELLED)
        if self._outcome is None:
            self._call.finish(CANCELLED)

    # --- what the call needs of its owner ---

    def keep(self, run: Callable[[], Awaitable[None]], close: Callable[[], None]) -> None:
        """As the outer call's."""
        self._outer.owner.keep(run, close)

    @property
    def agent(self) -> str | None:
        """As the outer call's."""
        return self._outer.owner.agent

    @property
    def checking(self) -> Checking:
        """As the outer call's."""
        return self._outer.owner.checking

    @property
    def account(self) -> RootUsage:
        """As the outer call's."""
        return self._outer.owner.account

    @property
    def jobs(self) -> Jobs:
        """Those of the agent."""
        return self._outer.owner.jobs

    def crowding(self, size: int) -> Fault | None:
        """As the outer call's."""
        return self._outer.owner.crowding(size)

    @property
    def wants_updates(self) -> bool:
        """Whether anybody will see how far the outer call is."""
        return self._outer.wants_updates

    def update(self, _call: Call, update: Update) -> None:
        """How far a stage is, said of the outer call."""
        self._outer.update(update)

    def cancel(self, key: str | Job) -> None:
        """Nobody knows it by a name."""

    def inner(self, name: str) -> Plan | Fault:
        """As the outer call's."""
        return self._outer.owner.inner(name)

    def ended(self, _call: Call, outcome: Outcome) -> None:
        """Keep the outcome for who waits."""
        self._outcome = outcome
        self._ended.set()
        self._has_turn.set()

    def run(self, call: Call) -> None:
        """It has its place among the children, or has ended while it waited for it."""
        call.has_gate = True
        self._has_turn.set()

    def enter(self, gate: Gate[Call], call: Call) -> bool:
        """As the outer call's; nothing that a chain asks for asks for more."""
        return self._outer.owner.enter(gate, call)

    def leave(self, gate: Gate[Call]) -> None:
        """As the outer call's."""
        self._outer.owner.leave(gate)

    def work(self, _call: Call, task: Callable[[], Awaitable[None]]) -> None:
        """Run its task in the outer call's."""
        self._task = task

    def flush(self) -> None:
        """As the outer call's."""
        self._outer.owner.flush()
