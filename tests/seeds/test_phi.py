"""The phi-core seed: what its document says of a tool, played on a daemon.

The document has no sample files but tables; their rows that are about tools are tests here. What differs, and why:

- `AgentTool` is a declaration; `execute(params, ctx)` a Python function with `ctx`, or a program in any language.
- `cancel` reaches a function as `ctx.cancelled()` where its table says `stop_s`, and else as the end of its process.
- `tool_call_id` and `tool_name` are `ctx.id` and `ctx.tool`; `on_update` and `on_progress` are methods of `ctx`.
- `ToolError` has more codes here: `Failed` is `tool_failed`, `NotFound` `unknown_tool`, `InvalidArgs` `invalid_input`,
  `Cancelled` `cancelled`; each is an answer with `is_error`, so that the model sees it.
- The strategies are the `order` of a profile or a session; `Parallel` is what happens without one.
- Callbacks before and after a tool, and OpenAPI, are not here yet.
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
"""
# What runs it takes longer to start than all else.
LONG: Final = """
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
    with phi(tmp_path, LONG) as (_, agent):
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
    assert ran["content"] == "5"
    assert refused["content"].startswith("not_allowed: ")


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


def test_an_optional_prefix_is_a_namespace_in_names(tmp_path: Path) -> None:
    install_server(tmp_path, "files", "filesystem", "read_file")
    config = '[mcp.filesystem]\ncommand = "files"\n[agents.default]\nmcp = ["filesystem"]\nseparator = "__"\n'
    with phi(tmp_path, config) as (_, agent):
        shown = [tool["name"] for tool in agent.hello("default")["tools"]]
        assert "filesystem__read_file" in shown
        assert agent.ask("filesystem__read_file", {})["content"] == "read_file"


MORE: Final = """
[tools.paint]
python = "more:paint"
[tools.patient]
python = "more:patient"
stop_s = 30
"""
MORE_TOOLS: Final = '''
import time
from typing import Annotated


def paint(colour: str, ctx) -> Annotated[list, "parts"]:
    """Paint something."""
    ctx.update(content="mixing")
    ctx.details["call"] = [ctx.id, ctx.tool]
    return [{"type": "text", "text": colour}, {"type": "image", "data": "AAAA", "mimeType": "image/png"}]


def patient(ctx) -> str:
    """Work until told to stop."""
    ctx.progress(1)
    while not ctx.cancelled():
        time.sleep(0.01)
    return "stopped where it was safe"
'''


@contextmanager
def more(directory: Path) -> Iterator[Agent]:
    with seeded(directory, MORE, {"more.py": MORE_TOOLS}) as daemon, daemon.agent() as agent:
        yield agent


def test_a_tool_result_has_content_for_the_model_and_details_for_the_runtime(tmp_path: Path) -> None:
    with more(tmp_path) as agent:
        agent.say({"__port": "hello", "content": "blocks", "details": True, "updates": True})
        agent.hear()
        agent.call("toolu_1", "paint", {"colour": "red"})
        update, answer = agent.hear(), agent.hear()
    assert (update["__port"], update["content"]) == ("tool_update", "mixing")
    assert answer["content"] == "red\n[image/png, 3 B]"
    assert [part["type"] for part in answer["blocks"]] == ["text", "image"]
    assert answer["details"] == {"call": ["toolu_1", "paint"]}


def test_a_tool_is_told_that_its_call_is_cancelled(tmp_path: Path) -> None:
    with more(tmp_path) as agent:
        agent.say({"__port": "hello", "updates": True})
        agent.hear()
        agent.call("1", "patient", {})
        assert agent.hear()["progress"] == 1
        agent.say({"__port": "tool_cancel", "id": "1"})
        answer = agent.hear()
    assert code_of(answer) == "cancelled"
    assert "stopped where it was safe" in answer["content"]


def test_a_batch_runs_together_and_the_next_one_after_it(tmp_path: Path) -> None:
    """In each batch both wait for the other; the third call could not be done before they are."""
    with phi(tmp_path) as (_, agent):
        agent.say({"__port": "hello", "order": "batched:2", "events": ["tool_started", "tool_finished"]})
        agent.hear()
        for here, there in (("a", "b"), ("b", "a")):
            command = f"touch {tmp_path}/{here}; until test -e {tmp_path}/{there}; do sleep 0.01; done; echo met"
            agent.call(here, "bash", {"command": command})
        agent.call("c", "bash", {"command": "echo alone"})
        heard = [agent.hear() for _ in range(9)]
    events = [(line["kind"], line["id"]) for line in heard if line["__port"] == "event"]
    assert {line["id"] for line in heard if line["__port"] == "tool_resp"} == {"a", "b", "c"}
    assert set(events[:2]) == {("tool_started", "a"), ("tool_started", "b")}
    assert events[-2:] == [("tool_started", "c"), ("tool_finished", "c")]
