"""What a call costs in instructions of the interpreter: a figure that nothing else on the machine changes.

Those of the package alone are counted, not trio's: how many turns of the loop a call takes is the machine's doing.
"""

import sys
from pathlib import Path
from types import FrameType
from typing import Final

import pytest

import tooldispatchd
from tests.agent.fakes import Agent, open_runtime
from tests.daemon.spawned import MISBEHAVING
from tooldispatchd.agent.session import host
from tooldispatchd.config.configuration import load_catalog

PACKAGE: Final = str(Path(tooldispatchd.__file__).parent)
CONFIG: Final = f"""
[mcp.server]
command = "{sys.executable}"
args = ["-I", "-S", "{MISBEHAVING}", "echo"]
[tools.id]
type = "string -> string"
inline = "id"
[tools.double]
type = "int -> int"
map = "x * 2"
[tools.cat]
type = "json -> json"
command = ["cat"]
[agents.default]
tools = ["id", "double", "cat"]
mcp = ["server"]
"""
# Tool, input, calls at once; and the instructions of one call, for an agent that has asked for nothing. More is a
# question: must every call pay for it? Who raises a figure says here for what; who lowers one writes it down.
MOST: Final = {
    ("id", '"hullo"', 16): 421,
    ("double", "21", 16): 469,
    # A server's answer is read in a turn of the front, which saves a turn of trio's.
    ("server:echo", "{}", 1): 3450,
    ("server:echo", "{}", 32): 2180,
    ("cat", "1", 1): 5553,
}
SLACK: Final = 1.02


class Counter:
    """Counts the package's instructions; `sys.settrace` takes its `trace`."""

    def __init__(self) -> None:
        self.count = 0

    def trace(self, frame: FrameType, event: str, _argument: object) -> object:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self.count += event == "opcode"
        return self.trace


async def instructions(agent: Agent, name: str, value: str, at_once: int, rounds: int) -> int:
    """Those of so many rounds of calls, each answered before the next begins."""
    lines = "".join(
        f'{{"__port":"tool_req","id":"{number}","name":"{name}","input":{value}}}\n' for number in range(at_once)
    )
    counter, before = Counter(), sys.gettrace()
    sys.settrace(counter.trace)  # type: ignore[arg-type]  # its own type is recursive
    try:
        for _ in range(rounds):
            await agent.send(lines.encode())
            for _ in range(at_once):
                answer = await agent.hear()
                assert isinstance(answer, dict)
                assert not answer["is_error"], answer
    finally:
        sys.settrace(before)
    return counter.count


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="each version of Python has instructions of its own")
@pytest.mark.parametrize(("name", "value", "at_once"), MOST)
async def test_a_call_costs_no_more_than_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, at_once: int
) -> None:
    # A turn that ends by the clock is one more.
    monkeypatch.setattr(host, "TURN_S", 60.0)
    (tmp_path / "t.toml").write_text(CONFIG)
    async with open_runtime(load_catalog(tmp_path / "t.toml", {}), logs_calls=False) as runtime:
        agent = Agent(runtime)
        await instructions(agent, name, value, at_once, 2)
        # What a child writes may come in more than one piece: the least is what a call needs.
        rounds = [await instructions(agent, name, value, at_once, 1) for _ in range(12)]
        await agent.end_input()
    cost = min(rounds) / at_once
    most = MOST[name, value, at_once]
    assert 0.9 * most <= cost <= SLACK * most, f"{name}, {at_once} at once: {cost:.0f}"
