"""The plans of tools that are made of processes: at once where nothing must be run, else a task that runs each stage.

    message ─▶ the program of the catalog ─▶ result
                   │ asks                ▲ answers
                   └─▶ an agent process, one child      a tool that is lifted, a call within the call

What a stage asks for is a call of its own (`Call`), so that it has the limit, the end and the place among the children
that it would have if an agent had made it. It takes no place among its agent's calls: a chain has one at a time.
"""

from typing import Final

import msgspec
import trio
from msgspec import Raw

from tooldispatchd.agent.calls.call import Call, Plan
from tooldispatchd.agent.calls.checking import Reader
from tooldispatchd.agent.calls.plans import (
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
from tooldispatchd.agent.faults import CANCELLED
from tooldispatchd.agent.programs.confining import program_of_agent
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.session.tasktree import Task
from tooldispatchd.calls.outcome import Outcome, Update
from tooldispatchd.calls.stages import CallEvent, CallState, Reason, ToDo
from tooldispatchd.catalog.callgraph import agents_started
from tooldispatchd.catalog.morphisms import Invoke, StageError
from tooldispatchd.catalog.offered import Offered
from tooldispatchd.catalog.profiles import Profile
from tooldispatchd.catalog.schemas import ACCEPT, MAX_LIGHT_BYTES, is_light
from tooldispatchd.catalog.tools import DeclaredTool
from tooldispatchd.providers.inline import MAX_DETAIL, fault_of_stage
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import QuotedText

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
    if runtime.setup.catalog.processes[tool.spec.process].kind == "agent":
        # One child and nothing else: it needs no task around its own.
        program = program_of_agent(runtime.setup, tool.spec.process, profile)
        return declared_command_plan(runtime, tool, program, gate=runtime.state.agents)
    return ChainPlan(runtime, tool, profile)


class ChainPlan(TaskPlan):
    """A tool whose program asks for children or for other tools."""

    __slots__ = ("_agents", "_output", "_profile", "_program", "_runtime")

    def __init__(self, runtime: Runtime, tool: DeclaredTool, profile: Profile) -> None:
        super().__init__(offered_of(tool), kind="chain", limit_s=limit_of(runtime.setup, tool), read=read_of(tool))
        assert tool.program is not None
        self.starts_agents = bool(agents_started(tool.name, runtime.setup.catalog.config))
        self._runtime = runtime
        self._profile = profile
        self._program = tool.program
        self._output = tool.output
        self._agents: dict[str, Plan] = {}

    async def run(self, call: Call) -> Outcome:
        if not is_light(call.line, ACCEPT):
            return fault_of_stage(StageError(self.name, _TOO_LARGE)).ran(may_have=False)
        try:
            result = await self._result(call)
        except StageError as error:
            return fault_of_stage(error)
        return await shaped(self._runtime, call, result, self._output)

    async def _result(self, call: Call) -> object:
        """Run the program; its result. Raises `StageError`."""
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
        plan = call.context.lifted(ask.name) if ask.is_tool else self._agent(ask.name)
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
        outcome = await InnerCall(call, plan, line).outcome()
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
            program = program_of_agent(self._runtime.setup, name, self._profile)
            offered = Offered(name=name, input_schema={})
            # Its stage looks at what goes in and what comes out.
            plan = CommandPlan(
                self._runtime,
                offered,
                program,
                read=Reader(ACCEPT, missing=None, wrapped=False, as_text=program.reads_text),
                output=ACCEPT,
                limit_s=self.limit_s,
                gate=self._runtime.state.agents,
            )
            self._agents[name] = plan
        return plan


class InnerCall(Call):
    """A call within a call: what a stage of a chain asks for. Its task is a part of the outer call's."""

    __slots__ = ("_has_turn", "_outer", "_over", "_task")

    def __init__(self, outer: Call, plan: Plan, line: bytes) -> None:
        super().__init__(outer.context, outer.id, plan.name, traceparent=outer.traceparent)
        self.plan = plan
        self.line = line
        self._outer = outer
        self._task: Task | None = None
        self._has_turn = trio.Event()
        self._over = trio.Event()

    async def outcome(self) -> Outcome:
        """How it ended; cancelled with the task that waits for it."""
        plan, context = self.plan, self.context
        assert plan is not None
        try:
            # The outer call has a place among its agent's calls, which is this one's too.
            self.machine.apply(CallEvent.ADMIT)
            if plan.gate is not None and not context.enter(plan.gate, self):
                self.enter(CallEvent.GATE, plan.limit_s)
                # Its turn comes, or its limit does.
                await self._has_turn.wait()
            if not self.has_ended:
                self.enter(CallEvent.START, plan.limit_s)
                plan.start(self)
                # Send the request now: the next flush may be far off.
                context.channel.flush()
                if self._task is not None:
                    await self._task()
                await self._over.wait()
        finally:
            # Where the chain is ended before it.
            self.stop(CANCELLED, Reason.CANCELLED)
            if not self.has_ended:
                self.finish(CANCELLED)
        assert self.machine.outcome is not None
        return self.machine.outcome

    @property
    def request(self) -> Call:
        return self._outer.request

    @property
    def until(self) -> float:
        return min(self.machine.ends_at, self._outer.until)

    @property
    def wants_updates(self) -> bool:
        return self._outer.wants_updates

    def update(self, update: Update) -> None:
        if self.machine.state is CallState.RUNNING:
            self._outer.update(update)

    def run(self) -> None:
        self._has_turn.set()

    def spawn(self, task: Task) -> None:
        self._task = task

    def ended(self, todo: ToDo) -> None:
        self._over.set()
        self._has_turn.set()
        if todo.free_gate and self.plan is not None and self.plan.gate is not None:
            self.context.leave(self.plan.gate)
