"""Which providers a session opened, and the plan of each tool that it offers. The one place that names providers."""

from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import Final, Literal, Protocol

import msgspec
import trio
from msgspec import Raw

from tooldispatchd.agent.call import Call, Plan, Reason, Stage
from tooldispatchd.agent.faults import CANCELLED
from tooldispatchd.agent.jobtools import JOBS_KIND, job_plans
from tooldispatchd.agent.runtime import Log, Owed, Runtime
from tooldispatchd.agent.steps import compile_now, compile_read, shape
from tooldispatchd.calls.connection import ConnectionState
from tooldispatchd.calls.outcome import Outcome, Update
from tooldispatchd.catalog.names import nearest, prefixed, split_name
from tooldispatchd.catalog.profiles import Profile, ServerUse
from tooldispatchd.catalog.tools import DeclaredTool
from tooldispatchd.providers.inline import compile_inline
from tooldispatchd.providers.mcp.connection import Connection
from tooldispatchd.providers.mcp.server import McpTool, Server
from tooldispatchd.providers.process import Command, Value, run_command
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import ToolView

# A line of a server holds an answer and its envelope.
ENVELOPE_BYTES: Final = 1024 * 1024
# Of a name that is not known only so much is said back.
SHOWN_NAME: Final = 128
# No tool's is longer: a prefix has at most 32 characters, the name of a server's tool 128, a declared one 128.
MAX_NAME: Final = 256

# The variable in which a program finds the trace that its call is a part of (OpenTelemetry, "Environment Variables as
# Context Propagation Carriers").
TRACEPARENT: Final = "TRACEPARENT"
NO_ENV: Final[Mapping[str, str]] = MappingProxyType({})

_encode: Final = msgspec.json.Encoder().encode


class Found(Enum):
    """What `find` says where there is neither a plan nor a fault yet."""

    HOLD = "the server that may offer it is still starting"


HOLD: Final = Found.HOLD


class Owner(Protocol):
    """The session, as its toolset needs it."""

    def opened(self) -> None:
        """A server has answered or failed."""

    def own(self, run: Callable[[], Awaitable[None]], close: Callable[[], None]) -> None:
        """Run a connection's owner task in the session's nursery, under its guard."""

    def flush(self) -> None:
        """Send what has been answered."""


class InlinePlan(Plan):
    """A tool that is answered in the dispatch thread, at once."""

    __slots__ = ()

    def __init__(self, runtime: Runtime, tool: DeclaredTool) -> None:
        read = compile_read(tool.input, missing=tool.missing_input, wrapped=tool.wrapped)
        super().__init__(view_of(tool), kind="inline", limit_s=runtime.limits.call_s, read=read)
        self.now = compile_now(read, compile_inline(tool), tool, runtime.limits.max_content_bytes)


class ProcessPlan(Plan):
    """A tool that is one child a call."""

    __slots__ = ("_command", "_output", "_runtime")

    def __init__(self, runtime: Runtime, tool: DeclaredTool) -> None:
        read = compile_read(tool.input, missing=tool.missing_input, wrapped=tool.wrapped)
        limit_s = tool.spec.call_s or runtime.limits.call_s
        super().__init__(view_of(tool), kind="process", limit_s=limit_s, read=read)
        spec = tool.spec
        assert spec.command is not None
        argv = (*spec.command, *spec.args)
        limit = runtime.limits.max_content_bytes
        self.gate = runtime.processes
        self._runtime = runtime
        self._output = tool.output
        self._command = Command(argv=argv, env=spec.env, cwd=spec.cwd, max_output_bytes=limit)

    def start(self, call: Call) -> None:
        """Start the call's task; from here on `halt` ends it, also before the task has begun."""
        scope = trio.CancelScope()
        call.halt = lambda _reason: scope.cancel()
        call.owner.work(call, partial(self._work, call, scope))

    async def _work(self, call: Call, scope: trio.CancelScope) -> None:
        """The call's task: it ends only when nothing of the child is left."""
        outcome: Outcome = CANCELLED
        with scope:
            env = NO_ENV if call.traceparent is None else {TRACEPARENT: call.traceparent}
            update = partial(self._tell, call) if call.wants_updates else None
            result = await run_command(self._runtime.family, self._command, call.line + b"\n", env=env, update=update)
            if isinstance(result, Value):
                outcome = shape(result.value, self._output, self._command.max_output_bytes)
            else:
                outcome = result
        call.finish(outcome)

    @staticmethod
    def _tell(call: Call, update: Update) -> None:
        call.update(update)
        call.owner.flush()


class McpPlan(Plan):
    """A tool of an MCP server, on this session's own connection."""

    __slots__ = ("_connection", "_owed", "_tool")

    def __init__(self, connection: Connection, tool: McpTool, *, name: str, owed: set[Owed]) -> None:
        read = compile_read(tool.input, missing={}, wrapped=False)
        view = ToolView(name, tool.description, Raw(_encode(tool.input_schema)))
        server = connection.server
        super().__init__(view, kind="mcp", limit_s=server.call_s, read=read, provider=server.name)
        self._connection = connection
        self._tool = tool.name
        self._owed = owed

    def start(self, call: Call) -> None:
        """Send the request; the connection's reader ends the call."""
        done = partial(self._finish, call)
        if call.traceparent is None and not call.wants_updates:
            request = self._connection.call(self._tool, call.line, done)
        else:
            update = call.update if call.wants_updates else None
            request = self._connection.call(self._tool, call.line, done, traceparent=call.traceparent, update=update)
        if isinstance(request, Fault):
            call.finish(request)
            return
        connection = self._connection
        self._owed.add(connection)

        def halt(reason: Reason) -> None:
            if reason is Reason.LIMIT:
                connection.expire(request)
            else:
                connection.cancel(request, reason.value)
            call.finish(CANCELLED)

        call.halt = halt

    @staticmethod
    def _finish(call: Call, outcome: Outcome) -> None:
        # A connection that dies tells all its calls, of which one end may have brought another.
        if call.stage is Stage.RUN:
            call.finish(outcome)


def compile_plans(runtime: Runtime, profile: str) -> dict[str, Plan]:
    """The plans of a profile's declared tools; every session of the profile shares them."""
    plans: dict[str, Plan] = {}
    for name in runtime.catalog.profiles[profile].tools:
        tool = runtime.catalog.tools[name]
        plans[name] = InlinePlan(runtime, tool) if tool.spec.command is None else ProcessPlan(runtime, tool)
    if runtime.catalog.profiles[profile].jobs:
        for plan in job_plans():
            plans.setdefault(plan.name, plan)
    return plans


def narrow_plans(plans: dict[str, Plan], profile: Profile) -> dict[str, Plan]:
    """Of a whole profile's plans those that the narrowed `profile` still has."""
    return {
        name: plan
        for name, plan in plans.items()
        if (profile.jobs if plan.kind == JOBS_KIND else name in profile.tools)
    }


def view_of(tool: DeclaredTool) -> ToolView:
    """A declared tool as models are shown it."""
    return ToolView(tool.name, tool.description, Raw(_encode(tool.shown_schema)))


class Toolset:
    """The tools of one session: its profile's declared ones, and those of the servers that it opened."""

    def __init__(self, owner: Owner, runtime: Runtime, profile: Profile, log: Log, *, channel: object) -> None:
        declared = runtime.plans(profile.name, compile_plans)
        if profile is not runtime.catalog.profiles[profile.name]:
            declared = narrow_plans(declared, profile)
        self.uses = profile.servers
        # Without servers nothing is ever added, and all sessions of the profile share one table.
        self.plans: dict[str, Plan] = dict(declared) if self.uses else declared
        self.warnings: list[str] = []
        self.refusal: Fault | None = None
        self._owner = owner
        self._runtime = runtime
        self._log = log
        # Agents of one channel wait for one another, and not for those of other channels.
        self._channel = channel
        self._by_prefix: dict[str, list[Connection]] = {}
        self._unsettled: set[Connection] = set()

    # --- opening and closing ---

    @property
    def is_settled(self) -> bool:
        """Whether every server has answered or failed."""
        return not self._unsettled

    @property
    def opening_limit_s(self) -> float:
        """How long a call may wait for the servers: the longest handshake, and its wait for a place to begin."""
        longest = max((connection.server.handshake_s for connection in self._unsettled), default=0.0)
        return 2 * longest + self._runtime.limits.call_s

    def open(self) -> None:
        """Start the profile's servers, all at once; each settles by itself."""
        for use in self.uses:
            connection = Connection(
                self._server(use),
                family=self._runtime.family,
                opening=self._runtime.opening.of(self._channel),
                log=self._log.bind(server=use.server),
                batch_done=self._owner.flush,
            )
            self._by_prefix.setdefault(connection.server.prefix, []).append(connection)
            self._unsettled.add(connection)
            self._owner.own(partial(connection.run, partial(self._settled, use, connection)), connection.close)

    def _server(self, use: ServerUse) -> Server:
        spec = self._runtime.catalog.config.mcp[use.server]
        limits = self._runtime.limits
        return Server(
            name=use.server,
            prefix=self._runtime.catalog.prefixes[use.server],
            argv=(spec.command, *spec.args),
            env=spec.env,
            cwd=spec.cwd,
            whitelist=spec.tools,
            deny=spec.deny,
            handshake_s=spec.handshake_s or limits.handshake_s,
            call_s=spec.call_s or limits.call_s,
            max_line_bytes=limits.max_content_bytes + ENVELOPE_BYTES,
            max_content_bytes=limits.max_content_bytes,
        )

    def _settled(self, use: ServerUse, connection: Connection) -> None:
        self._unsettled.discard(connection)
        self.warnings.extend(f"server {use.server}: {warning}" for warning in connection.warnings)
        if connection.state is ConnectionState.OPEN:
            self._offer(use, connection)
        elif connection.fault is not None:
            self._miss(use, connection.fault)
        self._owner.opened()

    def _offer(self, use: ServerUse, connection: Connection) -> None:
        server = connection.server
        for name in use.only or ():
            if name not in connection.tools:
                detail = f"server {server.name} does not offer the tool {name}"
                self.refusal = Fault(Code.MISSING_TOOL, detail, {"server": server.name, "tool": name})
        for tool in connection.tools.values():
            if use.only is not None and tool.name not in use.only:
                continue
            name = prefixed(server.prefix, tool.name)
            if name in self.plans:
                self.warnings.append(f"server {server.name}: {name} is hidden by another tool of that name")
                self._log.warning("tool hidden", server=server.name, tool=name)
            else:
                self.plans[name] = McpPlan(connection, tool, name=name, owed=self._runtime.owed)

    def _miss(self, use: ServerUse, fault: Fault) -> None:
        """A server that did not come up is a warning, and a refusal where its tools were named."""
        spec = self._runtime.catalog.config.mcp[use.server]
        if spec.tools is not None or use.only is not None:
            self.refusal = self.refusal or fault
        else:
            self.warnings.append(fault.detail)

    def close(self) -> None:
        """Ask every connection to end; their owner tasks return when nothing of them is left."""
        for connection in self._connections():
            connection.close()

    def _connections(self) -> list[Connection]:
        return [connection for connections in self._by_prefix.values() for connection in connections]

    # --- routing ---

    def views(self) -> list[ToolView]:
        """Every tool as models are shown it: the declared ones in the profile's order, then each server's."""
        return [plan.view for plan in self.plans.values()]

    def find(self, name: str) -> Plan | Fault | Literal[Found.HOLD]:
        """The plan of the tool, why there is none, or that it is too early to say."""
        plan = self.plans.get(name)
        if plan is not None:
            return plan
        if len(name) > MAX_NAME:
            return self._unknown(name)  # it would be kept for as long as a server starts
        if name in self._runtime.catalog.tools:
            return Fault(Code.NOT_ALLOWED, f"{name} is not among the tools of this agent", {"source": name})
        prefix, tool = split_name(name)
        for connection in (*self._by_prefix.get(prefix or "", ()), *self._by_prefix.get("", ())):
            if connection in self._unsettled:
                return HOLD
            if prefix == connection.server.prefix and connection.state is not ConnectionState.OPEN:
                return connection.fault or self._unknown(name)
            if tool in connection.server.deny:
                return Fault(Code.NOT_ALLOWED, f"{name} is not among the tools of this agent", {"source": name})
        return self._unknown(name)

    def _unknown(self, name: str) -> Fault:
        shown = name[:SHOWN_NAME]
        extras: dict[str, object] = {"source": shown}
        # What is that long is no slip of the hand, and comparing it would take its time.
        may_hint = len(name) <= SHOWN_NAME and self._runtime.hints.take(len(self.plans), trio.current_time())
        close = nearest(name, self.plans) if may_hint else None
        if close is not None:
            extras["did_you_mean"] = close
        return Fault(Code.UNKNOWN_TOOL, f"unknown tool: {shown} (not found in any MCP server)", extras)
