"""The plans of declared tools, before there is a session for them."""

from typing import Final

import trio

from tests.agent.fakes import open_runtime
from tooldispatchd.agent.tools.declaredplans import compile_plans, plan_ahead
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.specs import Config, ToolSpec

TOOLS: Final = 20


class Steps(trio.abc.Instrument):
    """Counts the steps of all tasks."""

    def __init__(self) -> None:
        self.taken = 0

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.taken += 1


async def test_tools_are_planned_ahead_one_a_turn() -> None:
    catalog = build_catalog(Config(tools={f"t{number}": ToolSpec(inline="id") for number in range(TOOLS)}))
    assert isinstance(catalog, Catalog)
    async with open_runtime(catalog) as runtime:
        steps = Steps()
        trio.lowlevel.add_instrument(steps)
        await plan_ahead(runtime, "default")
        trio.lowlevel.remove_instrument(steps)
        assert steps.taken >= TOOLS
        assert runtime.planned == ("default",)
        planned = runtime.plans("default", lambda _runtime, _key: {})
        assert list(planned) == list(compile_plans(runtime, "default"))
