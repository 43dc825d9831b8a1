"""Python functions as sessions call them: what the daemon itself lacks is told of one call, and is no defect."""

import os
import resource
from pathlib import Path

import pytest
import trio

from tests.agent.fakes import Agent, Ledger, answer, fault_of
from tooldispatchd.agent.programs.programs import ProgramBounds
from tooldispatchd.agent.programs.pythonplan import open_python_plans
from tooldispatchd.agent.runtime import DaemonState, Runtime, Services
from tooldispatchd.agent.setup import Setup
from tooldispatchd.children.family import open_family
from tooldispatchd.children.launchers import open_launchers
from tooldispatchd.children.scratch import open_scratches
from tooldispatchd.config.configuration import load_catalog
from tooldispatchd.front.timer import Timer

pytestmark = pytest.mark.usefixtures("nothing_left")


async def test_where_descriptors_are_lacking_the_call_is_told(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text("def add(a: int, b: int) -> int:\n    return a + b\n")
    config = tmp_path / "c.toml"
    config.write_text('[tools.add]\npython = "sums:add"\n[agents.default]\ntools = ["add"]\n')
    log = Ledger(logs_calls=False)
    setup = Setup(load_catalog(config, os.environ), log, uid=os.geteuid())
    async with (
        open_family() as family,
        open_scratches(tmp_path, family) as scratches,
        open_launchers(family) as launchers,
        open_python_plans(family, scratches) as python,
        trio.open_nursery() as background,
        trio.open_nursery() as home,
    ):
        timer = Timer(log)
        background.start_soon(timer.run)
        services = Services(setup, timer=timer, home=home, family=family)
        services.programs.equip(ProgramBounds(scratches, launchers, None))
        services.python = python
        runtime = Runtime(setup, services, DaemonState(setup, cores=1, uid=os.geteuid()))
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
        background.cancel_scope.cancel()
    assert log.incidents == []
