"""The plans of tools, a class for each way to run: in the dispatch thread, as a child, at an MCP server, in stages.

With `toolset` this is where providers are named. A tool that is made of processes and must run something is a task:

    message ─▶ the program of the catalog ─▶ result
                   │ asks                ▲ answers
                   └─▶ an agent process, one child      a tool that is lifted, a call within the call

What a stage asks for is a call of its own (`InnerCall`).
"""

import math
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

import msgspec
import trio
from msgspec import Raw

from tooldispatchd.agent.calls.call import Call, Plan
from tooldispatchd.agent.calls.checking import Reader, compile_now, unread
from tooldispatchd.agent.calls.innercall import InnerCall
from tooldispatchd.agent.calls.step import Step
from tooldispatchd.agent.faults import CANCELLED, no_workspace
from tooldispatchd.agent.programs.confining import program_of_agent, program_of_tool
from tooldispatchd.agent.programs.programs import Lent, Program
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.setup import Setup
from tooldispatchd.calls.outcome import Outcome, Unread, Update
from tooldispatchd.calls.stages import CallState, Reason
from tooldispatchd.catalog.callgraph import agents_started, default_call_s
from tooldispatchd.catalog.morphisms import Invoke, StageError
from tooldispatchd.catalog.offered import Offered
from tooldispatchd.catalog.outputs import Output
from tooldispatchd.catalog.profiles import Profile
from tooldispatchd.catalog.schemas import ACCEPT, MAX_LIGHT_BYTES, Check, is_light
from tooldispatchd.catalog.tools import DeclaredTool
from tooldispatchd.children.endings import tails
from tooldispatchd.providers.inline import MAX_DETAIL, compile_inline, fault_of_stage
from tooldispatchd.providers.mcp.answers import PendingCall
from tooldispatchd.providers.mcp.keeper import ServerHandle
from tooldispatchd.providers.mcp.server import McpTool, Result
from tooldispatchd.providers.process.running import Command, ProgramValue, Spill
from tooldispatchd.providers.updates import Held, UpdateLines
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import ContentKind, QuotedText

# Messages of a chain go through the dispatch thread.
_TOO_LARGE: Final = Fault(
    Code.TOOL_FAILED,
    f"a message of a chain is larger than {MAX_LIGHT_BYTES} bytes, or has too many parts",
    {"limit": "message"},
)

# Keys of `_meta` that are nobody else's have a name in reverse DNS before them (MCP 2025-06-18, "_meta").
META_PREFIX: Final = "io.github.tooldispatchd/"

# Schemas of which each is true of any text.
ANY_TEXT: Final[tuple[object, ...]] = ({}, True, {"type": "string"})

_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


class TaskPlan(Plan):
    """A tool of which each call is a task; `run` is what the task does."""

    __slots__ = ()

    def start(self, call: Call) -> None:
        """Start the call's task."""
        call.work(partial(self.run, call))

    async def run(self, call: Call) -> Outcome:
        """How the call ends; when this returns or is cancelled, nothing of it is left."""
        raise NotImplementedError(f"{self.kind} tools have no tasks")


class InlinePlan(TaskPlan):
    """A tool that is answered in the dispatch thread, at once; a task where its input or its output is not light."""

    __slots__ = ("_inline", "_output", "_run", "_runtime")

    def __init__(self, runtime: Runtime, tool: DeclaredTool) -> None:
        read = read_of(tool)
        super().__init__(offered_of(tool), kind="inline", limit_s=runtime.setup.limits.call_s, read=read)
        self._run = compile_inline(tool)
        self._inline = tool.spec.inline
        self._output = tool.output
        self._runtime = runtime
        self.tally = runtime.state.tallies.of(self)
        self.now = compile_now(read, self._run, tool, runtime.setup.limits.max_content_bytes)

    async def run(self, call: Call) -> Outcome:
        """Run the function on an input that has been read."""
        line = call.line
        result: object
        if is_light(line, ACCEPT):
            result = self._run(_decode(line))
        elif self._inline is not None:
            parts = {"id": (line,), "copy": (b"[", line, b",", line, b"]"), "discard": (b"null",)}
            result = unread(*parts[self._inline])
        else:
            fault = Fault(Code.TOOL_FAILED, "the input is too large for an expression", {"limit": "expression"})
            result = fault.ran(may_have=False)
        return result if isinstance(result, Fault) else await shaped(self._runtime, call, result, self._output)


class SpooledOutput(Spill, Protocol):
    """A program's text that goes to a file while the program runs."""

    async def answer(self) -> Outcome:
        """What stands in its place, once it is whole."""

    def close(self) -> None:
        """Nothing of it is left, unless it is stored."""


class CommandPlan(TaskPlan):
    """A program: one child a call.

    It `gives_text` where its output is any text; then long ones are `spooled`, if anything is to do that.
    """

    __slots__ = ("_output", "_program", "_runtime", "gives_text", "spooled")

    def __init__(
        self,
        runtime: Runtime,
        offered: Offered,
        program: Program,
        *,
        read: Reader,
        output: Check,
        limit_s: float,
        place: Step,
    ) -> None:
        super().__init__(offered, kind="process", limit_s=limit_s, read=read)
        self.add(place)
        self.starts_agents = program.profile is not None
        self.gives_json = not program.command.output.is_parts
        is_text = program.command.output in {Output.TEXT, Output.TRANSCRIPT}
        self.gives_text = is_text and all(schema in ANY_TEXT for schema in output.schemas)
        self.spooled: Callable[[Call, Command], SpooledOutput | None] | None = None
        self._runtime = runtime
        self._output = output
        self._program = program

    async def run(self, call: Call) -> Outcome:
        """Run the child, which is gone when this returns."""
        program = self._program
        if program.needs_workspace and call.context.workspace is None:
            return no_workspace(self.name).ran(may_have=False)
        spooled = None if self.spooled is None else self.spooled(call, program.command)
        try:
            return await self._run(call, spooled)
        finally:
            if spooled is not None:
                spooled.close()

    async def _run(self, call: Call, spooled: SpooledOutput | None) -> Outcome:
        runtime, program = self._runtime, self._program
        details: dict[str, Raw] | None = {} if call.wanted.details else None
        updates = UpdateLines.of(partial(send_update, call) if call.wants_updates else None, details)
        lent = await self._lend(call)
        if isinstance(lent, Fault):
            return lent.ran(may_have=False)
        try:
            result = await runtime.services.programs.run(program, call, lent, updates, spooled)
        finally:
            if lent is not None:
                await lent.close()  # noqa: ASYNC102  # it shields and bounds itself
        if isinstance(result, Fault):
            return result
        log_stderr(runtime, call, result.stderr)
        value = result.value if isinstance(result, ProgramValue) else result
        if spooled is not None and spooled.has_begun:
            outcome = await spooled.answer()
        else:
            outcome = await shaped(runtime, call, value, self._output)
        if isinstance(outcome, Fault):
            return Fault(
                outcome.code,
                outcome.detail,
                outcome.extras | tails(printed(value, program.command.output), result.stderr),
            )
        return msgspec.structs.replace(outcome, details=Raw(_encode(details))) if details else outcome

    async def _lend(self, call: Call) -> Lent | Fault | None:
        """A channel for the call's child, if it is an agent that may call tools; or why there is none."""
        lender = self._runtime.services.lender
        if self._program.profile is None or lender is None:
            return None
        return await lender.open(self._runtime, call, self._program.profile)


def printed(value: object, output: Output) -> bytes | bytearray:
    """What a program wrote in that mode whose answer is `value`, but for white space."""
    if isinstance(value, Unread):
        return b"" if isinstance(value.text, tuple) else value.text
    if isinstance(value, bytes):
        return value
    if isinstance(value, str) and output is not Output.JSON:
        return value.encode()
    with suppress(RecursionError):
        return _encode(value)
    return b""


async def shaped(runtime: Runtime, call: Call, result: object, output: Check) -> Outcome:
    """The answer that a tool's result is, by whoever has the time to check it: the dispatch thread, or a checker."""
    limit = runtime.setup.limits.max_content_bytes
    account = call.context.account
    try:
        return await runtime.services.checking.shape(result, output, limit, call.wanted.kind, turns=account.turns)
    finally:
        # Where the call is cancelled meanwhile too: 60 MB freed at once take 13 ms of the loop.
        if isinstance(result, Unread):
            account.share.let_go(result.text)


def log_stderr(runtime: Runtime, call: Call, stderr: str) -> None:
    """Log at debug what a program wrote to stderr though it succeeded: of one that failed the agent is told."""
    if stderr and runtime.setup.log.logs_calls:
        where = {"session": call.context.lineage.number, "id": call.id, "tool": call.name}
        runtime.setup.log.debug("stderr of a program", **where, stderr_tail=stderr)


def send_update(call: Call, update: Update) -> None:
    """Say how far a call is, at once."""
    call.update(update)
    call.context.channel.flush()


def program_plan(runtime: Runtime, tool: DeclaredTool, profile: Profile) -> CommandPlan:
    """The plan of a tool with `command`, as agents of `profile` call it."""
    program = program_of_tool(runtime.setup, tool, profile)
    return declared_command_plan(runtime, tool, program, place=runtime.state.program_place)


def declared_command_plan(runtime: Runtime, tool: DeclaredTool, program: Program, *, place: Step) -> CommandPlan:
    """The plan of a declared tool that is one run of a program."""
    return CommandPlan(
        runtime,
        offered_of(tool, program.unenforced),
        program,
        read=read_of(tool, as_text=program.reads_text),
        output=tool.output,
        limit_s=limit_of(runtime.setup, tool),
        place=place,
    )


class McpPlan(Plan):
    """A tool of an MCP server, on the connection that is kept to it, under the server's name for it or a declared one.

    Where the tool has a limit of its own, one that is shorter than the server's only gives up the call: the server was
    not yet due. One that is as long or longer says as much of the server as its own limit would, and ends the
    connection.
    """

    __slots__ = ("_is_told", "_kept", "_most_s", "_runtime", "_tool")

    def __init__(
        self,
        runtime: Runtime,
        kept: ServerHandle,
        tool: McpTool,
        *,
        offered: Offered,
        read: Reader,
        limit_s: float | None = None,
    ) -> None:
        server = kept.server
        super().__init__(offered, kind="mcp", limit_s=limit_s or server.call_s, read=read, provider=server.name)
        # Else they are a server's own text.
        self.gives_json = tool.result is not Result.LISTED or tool.output is not None
        self._kept = kept
        self._tool = tool
        self._runtime = runtime
        self._most_s, self._is_told = server.max_call_s, server.told

    def start(self, call: Call) -> None:
        """Send the request; the connection's reader ends the call."""
        request = PendingCall(self._tool, partial(self._finish, call), call.sent_line, call.wanted, call.request)
        if call.traceparent is not None:
            request.meta = {"traceparent": call.traceparent}
        if call.wants_updates:
            request.held = Held(call.update)
        if self._most_s is not None:
            request.extend = partial(self._extend, call, self._most_s)
        if self._is_told:
            request.meta = (request.meta or {}) | call_meta(call)
        outcome = self._kept.start(request)
        if outcome is not None:
            call.finish(outcome.ran(may_have=False) if isinstance(outcome, Fault) else outcome)
            return
        self._runtime.state.owed.add(self._kept)
        call.halt = partial(self._halt, call, request)

    def _halt(self, call: Call, request: PendingCall, reason: Reason) -> None:
        kept = self._kept
        if reason is Reason.CANCELLED:
            kept.cancel(request, "cancelled")
        elif self.limit_s < kept.server.call_s:
            kept.cancel(request, "timeout")
        else:
            kept.expire(request)
        if request.noise:
            call.hear({"server": kept.server.name, "reason": request.noise})
        call.finish(CANCELLED)

    def _extend(self, call: Call, most_s: float) -> None:
        if call.state is CallState.RUNNING:
            call.extend(self.limit_s, trio.current_time(), most_s=most_s)

    @staticmethod
    def _finish(call: Call, outcome: Outcome) -> None:
        # A connection that dies tells all its calls, of which one end may have brought another.
        if call.is_running:
            call.finish(outcome)


def call_meta(call: Call) -> dict[str, object]:
    """What a server is told of a call, in `_meta`; what there is none of is left out."""
    context, left_s = call.context, call.until - trio.current_time()
    told = {
        "call_id": call.id,
        "tool": call.name,
        "agent": context.agent,
        "session": context.lineage.number,
        "profile": context.profile,
        # Unix seconds, since a server may run on another machine.
        "deadline": round(time.time() + left_s, 3) if left_s < math.inf else None,
        "workspace": None if context.workspace is None else context.workspace.path,
    }
    return {META_PREFIX + key: value for key, value in told.items() if value is not None}


class DownPlan(Plan):
    """A declared tool whose server did not come up: who calls it with a valid input is told what `why` says then."""

    __slots__ = ("_why",)

    def __init__(self, runtime: Runtime, tool: DeclaredTool, why: Callable[[], Fault], *, server: str) -> None:
        limit_s = runtime.setup.limits.call_s
        super().__init__(offered_of(tool), kind="mcp", limit_s=limit_s, read=read_of(tool), provider=server)
        self._why = why

    def start(self, call: Call) -> None:
        """End the call."""
        call.finish(self._why().ran(may_have=False))


def listed_plan(
    runtime: Runtime,
    kept: ServerHandle,
    tool: McpTool,
    *,
    name: str,
    tags: tuple[str, ...] = (),
    unenforced: tuple[str, ...] = (),
) -> McpPlan:
    """The plan of a server's tool as the server lists it, offered as `name`."""
    offered = Offered(
        name=name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=tool.annotations,
        icons=tool.icons,
        meta=tool.meta,
        tags=tags,
        unenforced=unenforced,
    )
    read = Reader(tool.input, missing={}, wrapped=False, repairs=kept.server.repairs)
    plan = McpPlan(runtime, kept, tool, offered=offered, read=read)
    if not (tags or unenforced):
        # Sessions with equal servers share the tool, and so what it looks like in a form.
        plan.rendered = tool.rendered
    return plan


def declared_mcp_plan(
    runtime: Runtime,
    kept: ServerHandle,
    declared: DeclaredTool,
    tool: McpTool,
    *,
    tags: tuple[str, ...] = (),
    unenforced: tuple[str, ...] = (),
) -> McpPlan:
    """The plan of a declared tool which is the server's `tool`.

    What is declared of it stands in the place of what the server lists; an input that admits everything says nothing.
    """
    spec = declared.spec
    is_listed = not declared.input_schema
    repairs = kept.server.repairs if spec.repair is None else spec.repair
    listed = Reader(tool.input, missing={}, wrapped=False, repairs=repairs)
    read = listed if is_listed else read_of(declared, repairs=repairs)
    offered = Offered(
        name=declared.name,
        title=declared.title or tool.title,
        description=declared.description or tool.description,
        input_schema=tool.input_schema if is_listed else declared.input_schema,
        output_schema=tool.output_schema,
        annotations=tool.annotations,
        icons=tool.icons,
        meta=tool.meta,
        hint=spec.hint,
        doc=spec.doc,
        tags=tags,
        unenforced=unenforced,
    )
    if spec.type is not None or spec.output_schema is not None:
        result = Result.TEXT if declared.output_schema.get("type") == "string" else Result.TYPED
        tool = msgspec.structs.replace(tool, output=declared.output, result=result)
        offered = msgspec.structs.replace(offered, output_schema=declared.output_schema or None)
    return McpPlan(runtime, kept, tool, offered=offered, read=read, limit_s=spec.call_s)


def offered_of(tool: DeclaredTool, unenforced: tuple[str, ...] = ()) -> Offered:
    """A declared tool as it is offered; `unenforced` are the bounds that this machine cannot keep it to."""
    return Offered(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.shown_schema,
        # A schema that admits everything says nothing.
        output_schema=tool.output_schema or None,
        hint=tool.spec.hint or None,
        doc=tool.spec.doc or None,
        tags=tool.spec.tags,
        unenforced=unenforced,
    )


def read_of(tool: DeclaredTool, *, as_text: bool = False, repairs: bool | None = None) -> Reader:
    """Make the reader of a declared tool's input; its own table says whether it `repairs`, unless that is given."""
    repairs = bool(tool.spec.repair) if repairs is None else repairs
    return Reader(tool.input, missing=tool.missing_input, wrapped=tool.wrapped, as_text=as_text, repairs=repairs)


def in_mode(plan: Plan, tool: DeclaredTool) -> Plan:
    """The plan of a declared tool, whose calls become jobs where its table, or an input, says so."""
    if tool.spec.mode is not None:
        plan.in_background = tool.spec.mode == "background"
        plan.is_plain = not plan.in_background
        plan.may_ask_for_job = not plan.in_background
        plan.now = None
    return plan


def limit_of(setup: Setup, tool: DeclaredTool) -> float:
    """How long a call of a declared tool may take, in seconds: its own limit, else that of all, or of agents."""
    return tool.spec.call_s or default_call_s(tool.name, setup.catalog.config)


# --- tools that are made of processes ---


def process_plan(runtime: Runtime, tool: DeclaredTool, profile: Profile) -> Plan:
    """The plan of a tool with `process`, as agents of `profile` call it."""
    assert tool.program is not None
    assert tool.spec.process is not None
    if tool.program.is_now:
        return InlinePlan(runtime, tool)
    if runtime.setup.catalog.processes[tool.spec.process].kind == "agent":
        # One child and nothing else: it needs no task around its own.
        program = program_of_agent(runtime.setup, tool.spec.process, profile)
        return declared_command_plan(runtime, tool, program, place=runtime.state.agent_place)
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
        """Run the program, and answer what it asks for."""
        if not is_light(call.line, ACCEPT):
            return fault_of_stage(StageError(self.name, _TOO_LARGE)).ran(may_have=False)
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
            result = end.value
        except StageError as error:
            return fault_of_stage(error)
        finally:
            work.close()
        return await shaped(self._runtime, call, result, self._output)

    async def _answer(self, call: Call, ask: Invoke) -> object:
        """The result of what a stage asked for, or the `StageError` that it failed with."""
        call.doing = ask.name
        plan = call.context.session.lifted(ask.name) if ask.is_tool else self._agent(ask.name)
        if isinstance(plan, Fault):
            return StageError(ask.name, plan)
        inner = InnerCall.of(call, plan, plan.read.encode(ask.value))
        if isinstance(plan, McpPlan):
            # Its stage has looked at a declared tool's input; what a server lists is looked at by nobody else.
            inner.input = Raw(inner.line)
        outcome = await inner.result()
        call.doing = None
        if isinstance(outcome, Fault):
            return StageError(ask.name, outcome)
        if outcome.is_error:
            said = "an error too long to be told" if isinstance(outcome.content, QuotedText) else outcome.content
            return StageError(ask.name, said[:MAX_DETAIL])
        # Of parts a lone text is itself.
        is_text = (isinstance(plan, McpPlan) and not plan.gives_json) or outcome.kind is ContentKind.TEXT
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
                place=self._runtime.state.agent_place,
            )
            self._agents[name] = plan
        return plan
