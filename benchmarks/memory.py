"""Memory of what idles: an agent's connection after one call, and an MCP stdio connection in the daemon alone."""

import contextlib
import sys
import time
from typing import Final

import msgspec

from benchmarks.harness import (
    PEERS,
    Agent,
    Bar,
    Server,
    Table,
    memory_kib,
    raise_descriptor_limit,
    run_alone,
    start_daemon,
)

INLINE: Final = """
[tools.echo]
type = "{text: string} -> {text: string}"
inline = "id"
"""
MCP: Final = f"""
[mcp.thin]
command = {msgspec.json.encode(sys.executable).decode()}
args = [{msgspec.json.encode(str(PEERS / "thin_mcp.py")).decode()}]
[agents.default]
mcp = ["thin"]
"""
FIELDS: Final = ("Rss", "Pss", "Anonymous")
AGENT_BAR_KIB: Final = 3.0
MCP_BAR_KIB: Final = 20.0
SETTLE_S: Final = 0.3
"""Until the daemon has done what follows an answer; memory is read once, when nothing moves."""


def measure(quick: bool) -> Table:
    """Growth of the daemon over many connections, divided by their number; a few before them pay for what is shared."""
    agents, servers = (200, 4) if quick else (2000, 50)
    raise_descriptor_limit(3 * agents + 200)
    with start_daemon(INLINE) as daemon:
        idle = _growth(daemon, agents, 50, "echo")
    with start_daemon(MCP) as daemon:
        connected = _growth(daemon, servers, 5, "thin:echo")
    return Table(
        title="Memory of idle connections, in the daemon",
        program="memory",
        columns=("what", "number", *(f"{field}, KiB each" for field in FIELDS)),
        rows=[
            ("agent, after hello and one inline call", str(agents), *(f"{idle[field]:.2f}" for field in FIELDS)),
            ("agent with its own MCP stdio server", str(servers), *(f"{connected[field]:.1f}" for field in FIELDS)),
        ],
        bars=[
            _bar("an idle agent", AGENT_BAR_KIB, idle["Rss"]),
            _bar("an agent's MCP stdio connection", MCP_BAR_KIB, connected["Rss"]),
        ],
        notes=(
            "The bars are held against Rss: Pss falls when more processes map the same Python, as MCP servers do.",
            "The kernel's socket and pipe buffers belong to no process and are not in it.",
        ),
    )


def _bar(what: str, bar_kib: float, measured_kib: float) -> Bar:
    return Bar(f"memory of {what}", f"≤ {bar_kib:.0f} KiB", f"{measured_kib:.2f} KiB", measured_kib <= bar_kib)


def _growth(daemon: Server, number: int, before: int, tool: str) -> dict[str, float]:
    with contextlib.ExitStack() as stack:
        for _ in range(before):
            _open_agent(stack, daemon, tool)
        time.sleep(SETTLE_S)
        start = memory_kib(daemon.pid)
        for _ in range(number):
            _open_agent(stack, daemon, tool)
        time.sleep(SETTLE_S)
        end = memory_kib(daemon.pid)
    return {field: (end[field] - start[field]) / number for field in FIELDS}


def _open_agent(stack: contextlib.ExitStack, daemon: Server, tool: str) -> None:
    agent = stack.enter_context(contextlib.closing(Agent(daemon)))
    agent.ask({"__port": "hello"})
    agent.call(tool, {"text": "what did the survey of bees find"})


if __name__ == "__main__":
    run_alone(measure)
