"""The plan of a tool with `python`: each call is a fork of a warm process, or a turn of a worker.

Imported only where there are such tools.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import partial

import msgspec
import trio
from msgspec import Raw

from tooldispatchd.agent.calls.call import Call, CallContext
from tooldispatchd.agent.calls.plans import TaskPlan, limit_of, log_stderr, offered_of, read_of, send_update, shaped
from tooldispatchd.agent.faults import no_workspace
from tooldispatchd.agent.programs.confining import asked_for, enforced_for, max_output_bytes, policy_of
from tooldispatchd.agent.programs.programs import SurroundingsError
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.setup import Setup
from tooldispatchd.agent.steps.gates import StateStep
from tooldispatchd.calls.outcome import Answer, LeftBeside, Outcome
from tooldispatchd.catalog.confinement import is_counted, size_of
from tooldispatchd.catalog.enforcement import Enforced
from tooldispatchd.catalog.hookspec import tools_of
from tooldispatchd.catalog.profiles import UNBOUND, Profile
from tooldispatchd.catalog.speckinds import WORKSPACE
from tooldispatchd.catalog.tools import DeclaredTool
from tooldispatchd.children.endings import Limits
from tooldispatchd.children.family import Family
from tooldispatchd.children.owners import home_of
from tooldispatchd.children.scratch import Scratches
from tooldispatchd.forked.policy import Policy
from tooldispatchd.providers.python.tool import CallHeader, CallSide, PythonTool, ReturnedValue
from tooldispatchd.providers.python.warm import Warm, open_warm
from tooldispatchd.wire.faults import Code, Fault


class PythonPlan(TaskPlan):
    """A typed function of Python."""

    __slots__ = ("_log", "_options", "_output", "_runtime", "_scratch", "_state", "_tool", "_warm")

    def __init__(self, runtime: Runtime, warm: Warm, tool: DeclaredTool, profile: Profile) -> None:
        function, enforced = _python_tool(runtime.setup, tool, profile)
        offered = offered_of(tool, tuple(enforced.lacking))
        super().__init__(offered, kind="python", limit_s=limit_of(runtime.setup, tool), read=read_of(tool))
        state = tool.spec.state
        self._state = (tool.name if state is True else state) or None
        self.add(runtime.state.program_place)
        if self._state is not None:
            self.add(StateStep(runtime.state.policy.exclusives, self._state))
        self._runtime = runtime
        self._log = runtime.setup.log.bind(tool=tool.name)
        self._warm = warm
        self._options = tool.spec.options
        self._output = tool.output
        self._tool = function
        self.gives_json = not self._tool.gives_parts
        policy = self._tool.policy
        # A function makes its directory itself when it asks for it, unless it may not.
        is_free = not policy.is_sandboxed and policy.uid is None
        self._scratch: Callable[[Policy], str | None] = runtime.services.programs.make_scratch
        if is_free:
            # Without `ctx` it cannot ask.
            takes_ctx = tool.signature is not None and tool.signature.takes_ctx
            self._scratch = runtime.services.programs.name_scratch if takes_ctx else _no_scratch

    async def run(self, call: Call) -> Outcome:
        """Call the function; nothing of the call is left when this returns, unless it ran in a worker."""
        context = call.context
        if self._tool.needs_workspace and context.workspace is None:
            return no_workspace(self.name).ran(may_have=False)
        if self._tool.resident and self._tool.is_sessions_own:
            self._keep_workers(context)
        update = partial(send_update, call) if call.wants_updates else None
        side = CallSide(update, partial(self._say, call), call.grace)
        programs, policy = self._runtime.services.programs, self._tool.policy
        passed = None
        try:
            if self._tool.has_own_scratch:
                # Its worker has all that is made for a call.
                result = await self._warm.run(self._tool, call.sent_line, self._header(call, None), side)
            else:
                async with programs.surroundings(policy, self._scratch) as around:
                    result = await self._warm.run(
                        self._tool,
                        call.sent_line,
                        self._header(call, around.scratch),
                        side,
                        leaf=None if around.leaf is None else around.leaf.path,
                    )
                    passed = None if around.leaf is None else around.leaf.passed()
        except SurroundingsError as error:
            return Fault(Code.TOOL_FAILED, str(error)).ran(may_have=False)
        except OSError as error:
            # No descriptors are left for another child, or its cgroup is gone.
            return Fault(Code.TOOL_FAILED, f"cannot run '{self._tool.function}': {error.strerror or error}")
        if not isinstance(result, Fault):
            log_stderr(self._runtime, call, result.stderr)
            value = result.value if isinstance(result, ReturnedValue) else result
            outcome = await shaped(self._runtime, call, value, self._output)
            return outcome if isinstance(outcome, Fault) else self._left(call, outcome, result.left)
        if passed is not None and result.code is Code.TOOL_FAILED:
            return Fault(result.code, result.detail, {**result.extras, "limit": passed})
        return result

    def _keep_workers(self, context: CallContext) -> None:
        """Have workers kept for the session until it ends."""
        session = context.lineage.number
        if self._warm.workers.has(session):
            return
        ended = trio.Event()

        async def live() -> None:
            try:
                await ended.wait()
            finally:
                await self._warm.end_session(session)  # noqa: ASYNC102  # it shields and bounds itself

        context.session.keep(live, ended.set)
        self._warm.workers.open(session)

    def _header(self, call: Call, scratch: str | None) -> CallHeader:
        context, there = call.context, call.context.workspace
        return CallHeader(
            id=call.id,
            tool=self.name,
            agent=context.agent,
            session=context.lineage.number,
            profile=context.profile,
            left_s=call.until - trio.current_time(),
            scratch=scratch,
            workspace=None if there is None else there.path,
            held=None if there is None or not self._tool.in_workspace else there.identity,
            updates=call.wants_updates,
            state=None if self._state is None else Raw(context.states.value(self._state)),
            options=self._options,
        )

    def _left(self, call: Call, answer: Answer, left: LeftBeside) -> Outcome:
        """The answer with its details, once the state that the call leaves is kept, if it was its alone."""
        context = call.context
        state = None if call.is_beside else self._state
        if state is not None and left.state is not None and not context.states.keep(state, left.state):
            return context.channel.share.fault
        if left.details is None or not call.wanted.details:
            return answer
        return msgspec.structs.replace(answer, details=left.details)

    def _say(self, call: Call, level: str, message: str) -> None:
        """A line that the function writes to the log."""
        say = getattr(self._log, level)
        say("function said", session=call.context.lineage.number, id=call.id, message=message)


class PythonPlans:
    """Makes the plans of Python tools."""

    def __init__(self, warm: Warm) -> None:
        self._warm = warm

    def keep(self, setups: Iterable[Setup]) -> None:
        """From now on functions of these alone are called, all of which their warm parents know."""
        functions = (tool for setup in setups for tool in _functions_of(setup, setup.catalog.profiles.values()))
        self._warm.keep(list(dict.fromkeys(functions)))

    def start(self, setup: Setup) -> None:
        """Start the parents that profiles with `warm` need; all where code is watched: they outlive a mistake in it."""
        specs = ((profile, setup.profile_spec(profile.name)) for profile in setup.catalog.profiles.values())
        is_watched = setup.catalog.config.daemon.watch
        warm = [profile for profile, spec in specs if is_watched or (spec is not None and spec.warm)]
        if warm:
            self._warm.start(_functions_of(setup, warm))

    def plan(self, runtime: Runtime, tool: DeclaredTool, profile: Profile) -> PythonPlan:
        """The plan of a tool with `python`, as agents of `profile` call it."""
        return PythonPlan(runtime, self._warm, tool, profile)


def _no_scratch(_policy: Policy) -> None:
    """No directory."""


@asynccontextmanager
async def open_python_plans(family: Family, scratches: Scratches) -> AsyncIterator[PythonPlans]:
    """The planner of Python tools; their warm parents are gone when the block is left."""
    async with open_warm(family, scratches) as warm:
        yield PythonPlans(warm)


def _functions_of(setup: Setup, profiles: Iterable[Profile]) -> Iterator[PythonTool]:
    """Each function of a configuration, as agents of these profiles call it, in chains too, and as hooks do."""
    catalog = setup.catalog
    for profile in profiles:
        inner = (inner for tool in profile.tools for inner in catalog.tools[tool].needs)
        for name in dict.fromkeys((*profile.tools, *inner)):
            if (tool := catalog.tools[name]).spec.python is not None:
                yield _python_tool(setup, tool, profile)[0]
    for name in tools_of(catalog.config.hooks):
        if (tool := catalog.tools[name]).spec.python is not None:
            yield _python_tool(setup, tool, UNBOUND)[0]


def _python_tool(setup: Setup, tool: DeclaredTool, profile: Profile) -> tuple[PythonTool, Enforced]:
    """The function as agents of `profile` call it, and what of its bounds the machine enforces."""
    spec, signature = tool.spec, tool.signature
    assert spec.python is not None
    assert signature is not None
    enforced, asked = enforced_for(setup, tool.spec, profile), asked_for(tool.spec, profile)
    kept = enforced.confinement
    policy = (policy_of(enforced) or Policy())._replace(
        asked_read=asked.read if kept.read is None else None, asked_write=asked.write if kept.write is None else None
    )
    function = PythonTool(
        function=spec.python,
        interpreter=signature.interpreter,
        env=tuple(sorted((home_of(kept.user) | spec.env).items())),
        cwd=None if spec.cwd == WORKSPACE else spec.cwd,
        in_workspace=spec.cwd == WORKSPACE,
        stop_s=spec.stop_s,
        gives_parts=signature.gives_parts,
        path=(signature.place,) if signature.place else (),
        code=signature.parent,
        policy=policy,
        limits=Limits(kept.cpu_s, kept.memory, kept.processes, kept.files, kept.file_size),
        max_output_bytes=max_output_bytes(setup, enforced),
        resident=spec.resident and not is_counted(kept),
        keeps_state=spec.state is not False,
        max_forks=spec.max_forks,
        max_rss=size_of(spec.max_rss),
    )
    return function, enforced
