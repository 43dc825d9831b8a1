"""A plan with the steps that its tool's tables ask for."""

from functools import cache

from tooldispatchd.agent.calls.call import Plan
from tooldispatchd.agent.calls.plans import CommandPlan
from tooldispatchd.agent.calls.step import Step
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.steps.caching import CacheStep, ToolIdentity, digest_of
from tooldispatchd.agent.steps.sizes import UNSTATED_SIZE
from tooldispatchd.agent.steps.spooling import let_spool
from tooldispatchd.calls.stages import StepOrder
from tooldispatchd.catalog.policy import CallPolicy


def governed(runtime: Runtime, plan: Plan, policy: CallPolicy, tool: ToolIdentity | None = None) -> Plan:
    """The plan with the steps that its policy asks for; one with any is no longer answered in the moment it comes.

    Its answers are given again only where it is said which `tool` it is.
    """
    steps = runtime.policies.of(policy)
    if tool is not None:
        plan.definition = cache(lambda: digest_of(plan.offered, *tool.parts()))
    if policy.caching is not None and tool is not None:
        steps = (*steps, CacheStep(runtime.state.answers, runtime.state.flights, policy.caching, tool))
    if steps:
        plan.now = None
    sized(runtime, plan, steps)
    runtime.hooks.add_to(plan)
    return plan


def sized(runtime: Runtime, plan: Plan, steps: tuple[Step, ...] = ()) -> Plan:
    """The plan with these steps, those that each plan has, and the one that bounds its answers: theirs, or what holds
    where no table says it.

    What is answered in the moment it comes is shorter than that.
    """
    has_own = any(step.order is StepOrder.SIZE for step in steps)
    plan.add(*runtime.services.steps, *steps, *(() if has_own else (UNSTATED_SIZE,)))
    if isinstance(plan, CommandPlan):
        let_spool(plan)
    return plan
