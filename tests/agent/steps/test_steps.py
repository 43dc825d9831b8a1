"""The one order of steps: stated in one place, shown in the documentation, kept by every plan."""

import re
from pathlib import Path

import pytest

from tests.agent.fakes import HeldPlan, open_runtime
from tooldispatchd.agent.steps.caching import ToolIdentity
from tooldispatchd.agent.steps.governing import governed
from tooldispatchd.calls.stages import StepOrder
from tooldispatchd.catalog.caching import Caching
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.policy import Breaking, CallPolicy
from tooldispatchd.catalog.policyspec import QueueSpec
from tooldispatchd.catalog.specs import Config, ProfileSpec

DOCUMENT = Path(__file__).parents[3] / "docs" / "policy.md"
ALL = CallPolicy(
    queues=("b", "a"),
    exclusive=("db",),
    retried_by=("tools", "t"),
    max_output=4096,
    has_budget=True,
    breakers=(Breaking(("tools", "t"), 1, 1.0, 1.0),),
    caching=Caching(keeps_s=1.0),
)


def catalog() -> Catalog:
    queues = {name: QueueSpec(concurrent=1) for name in ("b", "a")}
    built = build_catalog(Config(queues=queues, agents={"default": ProfileSpec()}))
    assert isinstance(built, Catalog)
    return built


def test_the_documentation_shows_the_steps_in_their_order() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [step.name for step in sorted(StepOrder)]


async def test_a_plan_has_only_the_steps_that_it_needs_and_each_in_its_place() -> None:
    plain, policed = HeldPlan("plain"), HeldPlan("policed")
    async with open_runtime(catalog(), plain, policed) as runtime:
        governed(runtime, plain, CallPolicy())
        policed.add(runtime.state.program_place, runtime.state.agent_place)
        governed(runtime, policed, ALL, ToolIdentity(lambda: ()))
        assert [step.order.name for step in plain.steps] == ["READ", "SIZE", "OWN_PLACE"]
        assert [step.order.name for step in policed.steps] == [
            "READ",
            "SIZE",
            "CACHE",
            "RETRY",
            "REST",
            "OWN_PLACE",
            "AGENT_PLACE",
            "QUEUE",
            "QUEUE",
            "EXCLUSIVE",
            "PROGRAM_PLACE",
            "BUDGET",
            "BREAKER",
        ]


async def test_queues_of_one_call_keep_the_order_of_the_file() -> None:
    async with open_runtime(catalog()) as runtime:
        steps = runtime.policies.of(ALL)
        assert runtime.policies.of(ALL) is steps
        assert [step.name for step in steps if step.order is StepOrder.QUEUE] == ["b", "a"]


@pytest.mark.parametrize("priority", ["high", "normal", "low"])
async def test_a_policy_that_asks_for_nothing_has_no_steps(priority: str) -> None:
    async with open_runtime(catalog()) as runtime:
        assert runtime.policies.of(CallPolicy(priority=priority)) == ()  # type: ignore[arg-type]  # one of the words
