"""The phi-core seed: what its document says of a tool, played on a daemon.

The document has no sample files but tables; their rows that are about tools are tests here. What differs, and why:

- `AgentTool` is a declaration; `execute(params, ctx)` a Python function with `ctx`, or a program in any language.
- `cancel` reaches a function or a program as the end of its process; that a function is asked first, and more of `ctx`
  (`tool_call_id`, `tool_name`, `details`), is not here yet.
- `ToolError` has more codes here: `Failed` is `tool_failed`, `NotFound` `unknown_tool`, `InvalidArgs` `invalid_input`,
  `Cancelled` `cancelled`; each is an answer with `is_error`, so that the model sees it.
- The strategies `Sequential` and `Batched`, callbacks before and after a tool, and OpenAPI are not here yet; `Parallel`
  is what happens.
- A sub-agent has no sub-agents (`limits.agent_depth` is 1), as there.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.daemon.spawned import Agent, Daemon
from tests.seeds.model_api import model_api, says, uses
from tests.seeds.seeded import agent_command, install_server, seeded, value_of

# The six tools of `default_tools()`, as far as a line of shell can be them.
CONFIG: Final = """
[tools.bash]
type = "{command: string} -> string"
command = ["bash", "-c"]
args = ["${command}"]
input_mode = "args"
output_mode = "text"
title = "Shell"
description = "Run a shell command."
[tools.read_file]
type = "{path: string} -> string"
command = ["cat", "--"]
args = ["${path}"]
input_mode = "args"
output_mode = "text"
[tools.write_file]
type = "{path: string, content: string} -> unit"
command = ["sh", "-c", 'printf "%s" "$content" > "$path"; echo null']
input_mode = "env"
[tools.list_files]
type = "{path: string} -> [string]"
command = ["ls", "--"]
args = ["${path}"]
input_mode = "args"
output_mode = "lines"
[tools.search]
type = "{pattern: string, path: string} -> [string]"
command = ["grep"]
args = ["--regexp=${pattern}", "--", "${path}"]
input_mode = "args"
output_mode = "lines"
[tools.long]
python = "tools:long"
"""
TOOLS: Final = '''
def long(steps: int, ctx) -> str:
    """Take some steps."""
    for step in range(steps):
        ctx.progress(step, total=steps, message=f"step {step}")
    return "arrived"
'''


@contextmanager
def phi(directory: Path, config: str = CONFIG) -> Iterator[tuple[Daemon, Agent]]:
    with seeded(directory, config, {"tools.py": TOOLS}) as daemon, daemon.agent() as agent:
        yield daemon, agent


def code_of(answer: dict[str, object]) -> object:
    assert answer["is_error"] is True, answer
    return json.loads(str(answer["content"]))["error"]


def test_a_tool_has_a_name_a_label_a_description_and_a_schema(tmp_path: Path) -> None:
    with phi(tmp_path) as (_, agent):
        tools = {tool["name"]: tool for tool in agent.hello("default")["tools"]}
    assert tools["bash"]["title"] == "Shell"
    assert tools["bash"]["description"] == "Run a shell command."
    assert tools["bash"]["input_schema"]["required"] == ["command"]


def test_the_built_in_tools_can_be_declared(tmp_path: Path) -> None:
    path = str(tmp_path / "note")
    with phi(tmp_path) as (_, agent):
        agent.hello("default")
        assert value_of(agent.ask("write_file", {"path": path, "content": "one\ntwo"})) is None
        assert value_of(agent.ask("read_file", {"path": path})) == "one\ntwo"
        assert value_of(agent.ask("search", {"pattern": "tw", "path": path})) == ["two"]
        listed = value_of(agent.ask("list_files", {"path": str(tmp_path)}))
        assert isinstance(listed, list)
        assert "note" in listed


def test_errors_are_answers_that_the_model_sees(tmp_path: Path) -> None:
    with phi(tmp_path) as (_, agent):
        agent.hello("default")
        assert code_of(agent.ask("bash", {"command": "exit 3"})) == "tool_failed"
        assert code_of(agent.ask("no_tool", {})) == "unknown_tool"
        assert code_of(agent.ask("bash", {"cmd": "true"})) == "invalid_input"


def test_a_cancelled_call_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    with phi(tmp_path) as (daemon, agent):
        agent.hello("default")
        agent.call("1", "bash", {"command": "sleep 86399"})
        until_s = time.monotonic() + 60
        while not daemon.running("86399"):
            assert time.monotonic() < until_s
            time.sleep(0.01)
        agent.say({"__port": "tool_cancel", "id": "1"})
        assert code_of(agent.hear()) == "cancelled"
        assert daemon.running("86399") == set()


def test_progress_goes_to_the_screen_and_not_to_the_model(tmp_path: Path) -> None:
    with phi(tmp_path) as (_, agent):
        agent.say({"__port": "hello", "updates": True})
        agent.hear()
        agent.call("1", "long", {"steps": 1})
        update, answer = agent.hear(), agent.hear()
    assert (update["__port"], update["message"]) == ("tool_update", "step 0")
    assert value_of(answer) == "arrived"


def test_independent_calls_run_in_parallel(tmp_path: Path) -> None:
    """Each waits for the other."""
    with phi(tmp_path) as (_, agent):
        agent.hello("default")
        for here, there in (("a", "b"), ("b", "a")):
            command = f"touch {tmp_path}/{here}; until test -e {tmp_path}/{there}; do sleep 0.01; done; echo met"
            agent.call(here, "bash", {"command": command})
        assert {value_of(agent.hear()) for _ in range(2)} == {"met"}


def test_a_sub_agent_has_tools_and_no_sub_agents(tmp_path: Path) -> None:
    config = """
[processes.helper]
kind = "agent"
type = "!string -> !string"
prompt = "Help."
tools = ["bash", "other"]
[processes.second]
kind = "agent"
type = "!string -> !string"
prompt = "Help too."
tools = ["bash"]
[tools.helper]
process = "helper"
[tools.other]
process = "second"
"""
    turns = (uses(("1", "bash", {"command": "echo 5"}), ("2", "other", {"input": "x"})), says("It is 5."))
    with model_api(*turns) as api:
        whole = agent_command(api.url) + CONFIG + config
        with phi(tmp_path, whole) as (_, agent):
            agent.hello("default")
            assert value_of(agent.ask("helper", "How many?")) == "It is 5."
        ran, refused = api.body(1)["messages"][-1]["content"]
    assert ran["content"] == '"5"'
    assert json.loads(refused["content"])["error"] == "not_allowed"


def test_tools_of_one_server_share_its_connection_under_its_prefix(tmp_path: Path) -> None:
    """`filesystem__read_file` there; here the same where the model's provider is named."""
    install_server(tmp_path, "files", "filesystem", "read_file", "list")
    server = '[mcp.filesystem]\ncommand = "files"\n'
    with phi(tmp_path, CONFIG + server) as (_, agent):
        agent.say({"__port": "hello", "schemas": "anthropic"})
        agent.hear()
        assert agent.ask("filesystem__read_file", {})["content"] == "read_file"
        assert agent.ask("filesystem__list", {})["content"] == "list"
    assert len((tmp_path / "files.started").read_text().splitlines()) == 1
