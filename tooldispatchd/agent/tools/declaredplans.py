"""The plans of a profile's declared tools, less those of servers: all sessions of the profile share them."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import trio

from tooldispatchd.agent.calls.call import Plan
from tooldispatchd.agent.calls.plans import InlinePlan, in_mode, process_plan, program_plan
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.steps.caching import ToolIdentity
from tooldispatchd.agent.steps.governing import governed
from tooldispatchd.agent.steps.sizes import SizeStep
from tooldispatchd.agent.tools.builtins import INFO, InfoPlan, JobPlan, job_plans
from tooldispatchd.agent.tools.outputs import output_plans
from tooldispatchd.agent.tools.searching import search_plans
from tooldispatchd.catalog.hookspec import tools_of
from tooldispatchd.catalog.names import MAX_PREFIX, MAX_SERVER_TOOL
from tooldispatchd.catalog.policy import policy_of
from tooldispatchd.catalog.profiles import SEARCH_TOOLS, UNBOUND, Profile
from tooldispatchd.catalog.readings import Readings
from tooldispatchd.catalog.restspecs import AnnotationsSpec
from tooldispatchd.catalog.tools import DeclaredTool

# No tool's is longer, with its prefix.
MAX_NAME: Final = MAX_PREFIX + 1 + MAX_SERVER_TOOL
# Under this name, which no profile has, lie the plans of all tools that chains lift.
LIFTED: Final = "lifted:"
# And under this one those that read its agents' long answers.
OUTPUTS: Final = "outputs:"
# As many are planned in a fifth of a millisecond.
TOOLS_A_TURN: Final = 4


def compile_plans(runtime: Runtime, key: str) -> dict[str, Plan]:
    """The plans of a profile's declared tools, less those of servers; every session of the profile shares them."""
    return next(plans for plans in _compile_in_turns(runtime, key) if plans is not None)


def plan_some(runtime: Runtime, key: str) -> bool:
    """Compile some of them before there is a session of the profile; whether all are there now.

    Whoever asks next goes on, in another turn of the loop: a thousand would take 40 ms in one.
    """
    if runtime.has_plans(key):
        return True
    turns = runtime.planning.pop(key, None) or _compile_in_turns(runtime, key)
    plans = next(turns)
    if plans is None:
        runtime.planning[key] = turns
        return False
    runtime.plans(key, lambda _runtime, _key: plans)
    return True


async def plan_ahead(runtime: Runtime, key: str) -> None:
    """Compile all of them, in turns."""
    while True:
        if plan_some(runtime, key):
            return
        await trio.lowlevel.checkpoint()


def _compile_in_turns(runtime: Runtime, key: str) -> Iterator[dict[str, Plan] | None]:
    """None after each turn but the last, which gives the plans."""
    whole = runtime.setup.profile_keys.profile(key)
    tools = (runtime.setup.catalog.tools[name] for name in whole.tools)
    own = [tool for tool in tools if tool.server is None and tool.spec.native is None]
    plans: dict[str, Plan] = {}
    for number, tool in enumerate(own):
        if number and number % TOOLS_A_TURN == 0:
            yield None
        plans[tool.name] = _compile_plan(runtime, tool, whole)
    # A declared tool of such a name wins, also one that a server has yet to show.
    plans |= {plan.name: plan for plan in (job_plans() if whole.jobs else ()) if plan.name not in whole.tools}
    plans |= {plan.name: plan for plan in (search_plans(runtime) if whole.is_searched else ())}
    yield plans | info_plans(runtime, whole, Described(runtime, plans))


def info_plans(runtime: Runtime, profile: Profile, find: Callable[[str], Plan | None]) -> dict[str, Plan]:
    """The tool that gives the texts of tools, where any of the profile's declared ones has one."""
    documented = [name for name in profile.tools if runtime.setup.catalog.tools[name].spec.doc is not None]
    if not documented or INFO in profile.tools:
        return {}
    return {INFO: InfoPlan(documented, find, limit_s=runtime.setup.limits.call_s, tallies=runtime.state.tallies)}


class Described:
    """Finds tools of a table by any name that they may be called by."""

    __slots__ = ("_aliases", "_plans", "_readings")

    def __init__(self, runtime: Runtime, plans: dict[str, Plan]) -> None:
        self._aliases = runtime.setup.catalog.aliases
        self._plans = plans
        self._readings: Readings | None = None

    def __call__(self, name: str) -> Plan | None:
        plan = self._plans.get(self._aliases.get(name, name))
        if plan is None:
            self._readings = self._readings or Readings(self._plans)
            meant = self._readings.spelled(name[:MAX_NAME])
            plan = None if meant is None else self._plans[meant]
        return plan


def compile_lifted(runtime: Runtime, key: str) -> dict[str, Plan]:
    """The plans of all tools that chains lift, offered or not, less those of servers, for all sessions of a profile."""
    tools = runtime.setup.catalog.tools
    profile = runtime.setup.profile_keys.profile(key.removeprefix(LIFTED))
    lifted = dict.fromkeys(name for tool in tools.values() for name in tool.needs)
    plans = {name: _compile_plan(runtime, tools[name], profile) for name in lifted if tools[name].server is None}
    # What hooks run keeps to their own tables alone.
    asked = tools_of(runtime.setup.catalog.config.hooks)
    return plans | {name: _compile_plan(runtime, tools[name], UNBOUND) for name in asked}


def compile_output_plans(runtime: Runtime, key: str) -> dict[str, Plan]:
    """The plans of the tools that read the long answers of a profile's agents, which all its sessions share."""
    profile = runtime.setup.profile_keys.profile(key.removeprefix(OUTPUTS))
    spec = runtime.setup.catalog.config.profile_spec(profile.name)
    size = SizeStep() if spec is None else SizeStep(spec.max_output, spec.overflow)
    plans = output_plans(limit_s=runtime.setup.limits.call_s, size=size)
    for plan in plans:
        # A hook that saw the beginning of an answer sees what is read of it later.
        runtime.hooks.add_to(plan)
    return {plan.name: plan for plan in plans}


def _compile_plan(runtime: Runtime, tool: DeclaredTool, profile: Profile) -> Plan:
    plan: Plan
    if tool.spec.process is not None:
        plan = process_plan(runtime, tool, profile)
    elif tool.spec.python is not None:
        assert runtime.services.python is not None
        plan = runtime.services.python.plan(runtime, tool, profile)
    elif tool.rest is not None:
        assert runtime.services.rest is not None
        plan = runtime.services.rest.plan(runtime, tool)
    else:
        plan = InlinePlan(runtime, tool) if tool.spec.command is None else program_plan(runtime, tool, profile)
    config = runtime.setup.catalog.config
    hints = AnnotationsSpec() if tool.rest is None else tool.rest.hints
    is_safe = bool(hints.read_only_hint)
    policy = policy_of(
        config,
        config.profile_spec(profile.name),
        tool=tool.name,
        says_read_only=is_safe,
        says_idempotent=is_safe or bool(hints.idempotent_hint),
        says_harmless=plan.offered.says_harmless,
    )
    catalog = runtime.setup.catalog
    # Of a chain those tools that it leads to.
    at = (catalog.tools[name].server for name in tool.needs)
    is_per_session = any(each is not None and not catalog.servers[each.binding].spec.shared for each in at)
    identity = ToolIdentity(partial(_parts, runtime, tool, profile), is_per_session=is_per_session)
    return governed(runtime, in_mode(plan, tool), policy, identity)


def _parts(runtime: Runtime, tool: DeclaredTool, profile: Profile) -> tuple[object, ...]:
    """All that a declared tool is which is no server's, as agents of the profile call it."""
    catalog = runtime.setup.catalog
    api = None if tool.rest is None else catalog.apis[tool.rest.api]
    reached = () if api is None else (api.origin, api.base, api.spec, api.credentials)
    # A chain may lead to any of them.
    made_of = () if tool.program is None else (catalog.config.processes, catalog.config.tools, catalog.config.mcp)
    signatures = (catalog.tools[name].signature for name in (tool.name, *tool.needs))
    code = [signature.code for signature in signatures if signature is not None]
    return (tool.spec, profile.confinement, reached, made_of, code)


def narrow_plans(runtime: Runtime, plans: dict[str, Plan], profile: Profile) -> dict[str, Plan]:
    """The plans that a narrowed `profile` keeps of the whole profile's."""
    own = {name: plans[name] for name in profile.tools if name in plans}
    jobs = {name: plan for name, plan in plans.items() if isinstance(plan, JobPlan) and profile.jobs}
    kept = own | jobs | {name: plans[name] for name in (SEARCH_TOOLS if profile.is_searched else ())}
    return kept | info_plans(runtime, profile, Described(runtime, kept))
