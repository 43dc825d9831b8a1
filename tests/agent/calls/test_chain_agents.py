"""Agents with channels of their own within chains: whose they are, and how deep they may stand."""

import json
from pathlib import Path
from typing import Final

import pytest

from tests.agent.fakes import PATIENCE_S, Agent, open_runtime
from tests.daemon.spawned import Message
from tooldispatchd.config.configuration import load_catalog

# `chained` runs an agent and then a tool that is one; `lead` is an agent that asks for a tool which lifts another one.
CONFIG: Final = r'''
[processes.asker]
kind = "agent"
type = "!json -> !json"
command = ["sh", "-c", """
read -r input; printf '{"id":"1","name":"echo","input":%s}\\n' "$input" >&4; read -r answer <&5; printf '%s' "$answer"
"""]
tools = ["echo"]
[processes.leader]
kind = "agent"
type = "!json -> !json"
command = ["sh", "-c", """
cat >/dev/null; printf '{"id":"1","name":"lifting","input":1}\\n' >&4; read -r answer <&5; printf '%s' "$answer"
"""]
tools = ["lifting"]
[processes.line]
kind = "plumb"
type = "!json -> !json"
chain = ["asker", "lift(ask)"]
[processes.lifted]
kind = "plumb"
type = "!json -> !json"
chain = ["lift(ask)"]
[tools]
echo = { type = "json -> json", inline = "id" }
ask = { process = "asker" }
chained = { process = "line" }
lifting = { process = "lifted" }
lead = { process = "leader" }
[agents.default]
tools = ["chained", "lead"]
'''

pytestmark = pytest.mark.usefixtures("nothing_left")


async def answer_of(tool: str, directory: Path) -> Message:
    """What a call of the tool is answered; nothing of its agents is left then."""
    config = directory / "agents.toml"
    config.write_text(CONFIG, encoding="utf-8")
    async with open_runtime(load_catalog(config, {}), patience_s=PATIENCE_S) as runtime:
        root = Agent(runtime)
        await root.say({"__port": "hello", "meta": True})
        await root.hear()
        await root.call("1", tool, input=5)
        line = await root.hear()
        assert runtime.state.open_sessions.total == 1
        await root.end_input()
    assert isinstance(line, dict)
    return line


async def test_agents_in_a_chain_call_tools_and_the_last_one_is_in_meta(tmp_path: Path) -> None:
    line = await answer_of("chained", tmp_path)
    last = json.loads(line["content"])
    assert json.loads(json.loads(last["content"])["content"]) == 5
    assert line["meta"]["child"] == 3


async def test_a_chain_that_lifts_an_agent_too_deep_is_refused(tmp_path: Path) -> None:
    line = await answer_of("lead", tmp_path)
    fault = json.loads(json.loads(line["content"])["content"])
    assert (fault["error"], fault["source"], fault["limit"]) == ("not_allowed", "lifting", "agent_depth")
