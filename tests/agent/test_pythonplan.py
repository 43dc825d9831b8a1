"""Python functions as sessions call them: what the daemon itself lacks is told of one call, and is no defect."""

import os
import resource
from pathlib import Path

import pytest

from tests.agent.fakes import Agent, answer, fault_of, open_runtime
from tooldispatchd.agent.pythonplan import open_python_plans
from tooldispatchd.children.launchers import open_launchers
from tooldispatchd.children.scratch import open_scratches
from tooldispatchd.config.configuration import load_catalog

pytestmark = pytest.mark.usefixtures("nothing_left")


async def test_where_descriptors_are_lacking_the_call_is_told(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text("def add(a: int, b: int) -> int:\n    return a + b\n")
    config = tmp_path / "c.toml"
    config.write_text('[tools.add]\npython = "sums:add"\n[agents.default]\ntools = ["add"]\n')
    async with (
        open_runtime(load_catalog(config, os.environ)) as runtime,
        open_scratches(tmp_path, runtime.family) as scratches,
        open_launchers(runtime.family) as launchers,
        open_python_plans(runtime.family) as plans,
    ):
        runtime.programs.equip(launchers, scratches, None)
        runtime.python_plan = plans(runtime).plan
        agent = Agent(runtime)
        await agent.call("1", "add", input={"a": 1, "b": 2})
        assert await agent.hear() == answer("1", "3")
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest = os.dup(0)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
        os.close(lowest)
        try:
            await agent.call("2", "add", input={"a": 1, "b": 2})
            line = await agent.hear()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        fault = fault_of(line)
        assert (fault["error"], fault["detail"]) == ("tool_failed", "cannot run 'sums:add': Too many open files")
        await agent.call("3", "add", input={"a": 1, "b": 2})
        assert await agent.hear() == answer("3", "3")
        await agent.end_input()
        await agent.hear_all()
