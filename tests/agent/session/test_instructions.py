"""What an inline call costs in instructions of the interpreter: a figure that nothing else on the machine changes."""

import sys
from pathlib import Path
from types import FrameType

import pytest

from tests.agent.fakes import Agent, open_runtime
from tooldispatchd.config.configuration import load_catalog

LINE = b'{"__port":"tool_req","id":"1","name":"echo","input":"hullo"}\n'
# From its line to its answer, for an agent that has asked for nothing. More is a question: must every call pay for it?
MOST = 260


class Counter:
    """Counts instructions; `sys.settrace` takes its `trace`."""

    def __init__(self) -> None:
        self.count = 0

    def trace(self, frame: FrameType, event: str, _argument: object) -> object:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self.count += event == "opcode"
        return self.trace


def instructions(agent: Agent, calls: int) -> int:
    """Those of so many calls that come in one read."""
    counter, before = Counter(), sys.gettrace()
    sys.settrace(counter.trace)  # type: ignore[arg-type]  # its own type is recursive
    try:
        agent.host.received(LINE * calls)
    finally:
        sys.settrace(before)
    return counter.count


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="each version of Python has instructions of its own")
async def test_an_inline_call_costs_no_more_than_it_did(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text('[tools.echo]\ntype = "string -> string"\ninline = "id"\n')
    async with open_runtime(load_catalog(tmp_path / "t.toml", {}), logs_calls=False) as runtime:
        agent = Agent(runtime)
        for _ in range(2):
            await agent.send(LINE)
            await agent.hear()
        one, eleven = instructions(agent, 1), instructions(agent, 11)
        await agent.end_input()
    assert (eleven - one) / 10 <= MOST
