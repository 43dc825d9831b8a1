"""The KohakuTerrarium seed: what its document says of a tool, played on a daemon.

The document has no samples but sentences, each of which is a test here. What differs, and why:

- Tools are declared, and written in any language: `execute(args, context)` is a program or a Python function.
- The daemon runs tools and no model: provider-native tools (`image_gen`) are not its matter, nor triggers, channels
  between creatures and the prompt; the sentences about these have no test.
- *Background* is asked for in the request or is the tool's `mode`; an event tells of its end, and `job_read` reads it.
- One lock for tools that are unsafe together is not here yet.
- *Stateful* tools that yield intermediate results send `tool_update` lines.
"""

import json
import time
from pathlib import Path
from typing import Final

from tests.daemon.spawned import Daemon
from tests.seeds.model_api import model_api, says
from tests.seeds.seeded import agent_command, seeded, value_of

# Shell commands, files and a web of programs, as the seed's built-in tools have them.
CONFIG: Final = """
[tools.bash]
type = "{command: string} -> string"
command = ["bash", "-c"]
input_mode = "args"
args = ["${command}"]
output_mode = "text"
description = "Run a shell command."
hint = "Prefer read over cat."
doc = "All of what the shell can do."
[tools.grep]
type = "{pattern: string, path: string} -> [string]"
command = ["grep", "-n"]
input_mode = "args"
args = ["--regexp=${pattern}", "--", "${path}"]
output_mode = "lines"
description = "Search in a file."
[tools.slow]
type = "{} -> string"
command = ["sh", "-c", '''
echo '{"__port":"tool_update","content":"half"}' >&3; sleep 0.3; echo '"done"' ''']
"""


def test_a_tool_has_a_name_a_description_and_a_schema_of_its_arguments(tmp_path: Path) -> None:
    with seeded(tmp_path, CONFIG) as daemon, daemon.agent() as agent:
        grep = next(tool for tool in agent.hello("default")["tools"] if tool["name"] == "grep")
    assert grep["description"] == "Search in a file."
    assert set(grep["input_schema"]["properties"]) == {"pattern", "path"}


def test_full_documentation_is_loaded_on_demand_and_hints_stand_in_the_prompt(tmp_path: Path) -> None:
    with seeded(tmp_path, CONFIG) as daemon, daemon.agent() as agent:
        ready = agent.hello("default")
        assert "Prefer read over cat." in ready["instructions"]
        assert all("All of what the shell can do." not in json.dumps(tool) for tool in ready["tools"])
        assert "All of what the shell can do." in agent.ask("info", {"name": "bash"})["content"]


def test_a_direct_tool_is_awaited_within_the_turn(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("one\ntwo\n")
    with seeded(tmp_path, CONFIG) as daemon, daemon.agent() as agent:
        agent.hello("default")
        assert value_of(agent.ask("bash", {"command": "echo $((6 * 7))"})) == "42"
        assert value_of(agent.ask("grep", {"pattern": "w", "path": str(tmp_path / "notes")})) == ["2:two"]


def test_direct_tools_of_one_turn_run_in_parallel(tmp_path: Path) -> None:
    """Each of them waits for the other's file, which one after the other could never be there in time."""
    wait = "until test -e {0}/{2}; do sleep 0.01; touch {0}/{1}; done; echo met"
    commands = [wait.format(tmp_path, here, there) for here, there in (("a", "b"), ("b", "a"))]
    with seeded(tmp_path, CONFIG) as daemon, daemon.agent() as agent:
        agent.hello("default")
        for number, command in enumerate(commands):
            agent.call(str(number), "bash", {"command": f"touch {tmp_path}/{'ab'[number]}; {command}"})
        assert {value_of(agent.hear()), value_of(agent.hear())} == {"met"}


def test_a_background_tool_is_submitted_and_released_and_its_result_read_later(tmp_path: Path) -> None:
    with seeded(tmp_path, CONFIG) as daemon, daemon.agent() as agent:
        agent.hello("default")
        began = time.monotonic()
        job = value_of(agent.ask("bash", {"command": "sleep 1; echo late"}, background=True))
        assert time.monotonic() - began < 60
        assert isinstance(job, dict)
        ended = value_of(agent.ask("job_wait", {"job": job["job"]}))
        assert isinstance(ended, dict)
        assert (ended["state"], ended["content"]) == ("done", '"late"')


def test_a_running_tool_is_stopped_by_its_job(tmp_path: Path) -> None:
    with seeded(tmp_path, CONFIG) as daemon, daemon.agent() as agent:
        agent.hello("default")
        job = value_of(agent.ask("bash", {"command": "sleep 86399"}, background=True))
        assert isinstance(job, dict)
        stopped = agent.ask("job_stop", {"job": job["job"]})
        assert stopped["is_error"] is False
        _gone(daemon, "86399")


def _gone(daemon: Daemon, word: str) -> None:
    until_s = time.monotonic() + 60
    while daemon.running(word):
        assert time.monotonic() < until_s
        time.sleep(0.01)


def test_a_stateful_tool_tells_what_it_has_so_far(tmp_path: Path) -> None:
    with seeded(tmp_path, CONFIG) as daemon, daemon.agent() as agent:
        agent.say({"__port": "hello", "updates": True})
        agent.hear()
        agent.call("1", "slow", {})
        update, answer = agent.hear(), agent.hear()
    assert (update["__port"], update["content"]) == ("tool_update", "half")
    assert value_of(answer) == "done"


def test_a_sub_agent_and_a_guard_that_runs_one_are_tools(tmp_path: Path) -> None:
    """A guard: a judging agent looks at the arguments, and a chain goes on to the action only where it says yes."""
    guarded = """
[processes.judge]
kind = "agent"
type = "!string -> !{safe: bool, command: string}"
prompt = "Say whether this command is safe."
[processes.allowed]
kind = "filter"
filter = "safe"
[processes.command]
kind = "map"
map = "{'command': command}"
[processes.guarded]
kind = "plumb"
type = "!string -> !string"
chain = ["judge", "allowed", "command", "lift(bash)"]
[processes.asked]
kind = "agent"
type = "!string -> !{safe: bool, command: string}"
prompt = "Say whether this command is safe."
[tools.judged]
process = "asked"
"""
    with model_api(says('{"safe": true, "command": "echo hello"}')) as api:
        config = agent_command(api.url) + CONFIG + guarded
        with seeded(tmp_path, config) as daemon, daemon.agent() as agent:
            agent.hello("default")
            assert value_of(agent.ask("judged", "echo hello")) == {"safe": True, "command": "echo hello"}


KEEPING: Final = """
[tools.train]
type = "{} -> string"
command = ["sh", "-c", 'sleep 0.2; echo trained']
output_mode = "text"
mode = "background"
[tools.scratchpad]
python = "tools:scratchpad"
state = true
[tools.read]
python = "tools:read"
state = "files"
[tools.write]
python = "tools:write"
state = "files"
"""
KEEPERS: Final = '''
def scratchpad(key: str, value: str | None = None, *, ctx) -> str:
    """Keep a note, or give it back."""
    if value is not None:
        ctx.state[key] = value
    return ctx.state.get(key, "")


def read(path: str, ctx) -> str:
    """Read a file."""
    ctx.state.setdefault("read", []).append(path)
    return "what stands in it"


def write(path: str, ctx) -> str:
    """Write a file that was read before."""
    if path not in ctx.state.get("read", []):
        raise ValueError("read it first")
    return "written"
'''


def test_a_background_tool_says_so_itself_and_its_end_is_an_event(tmp_path: Path) -> None:
    with seeded(tmp_path, KEEPING, {"tools.py": KEEPERS}) as daemon, daemon.agent() as agent:
        agent.say({"__port": "hello", "events": ["job_done"]})
        agent.hear()
        job = value_of(agent.ask("train", {}))
        assert isinstance(job, dict)
        done = agent.hear()
        assert (done["kind"], done["job"], done["is_error"]) == ("job_done", job["job"], False)
        ended = value_of(agent.ask("job_read", job))
        assert isinstance(ended, dict)
        assert ended["content"] == '"trained"'


def test_the_scratchpad_is_a_tool_and_each_session_has_its_own(tmp_path: Path) -> None:
    with seeded(tmp_path, KEEPING, {"tools.py": KEEPERS}) as daemon, daemon.agent() as agent, daemon.agent() as other:
        assert value_of(agent.ask("scratchpad", {"key": "plan", "value": "first, think"})) == "first, think"
        assert value_of(agent.ask("scratchpad", {"key": "plan"})) == "first, think"
        assert value_of(other.ask("scratchpad", {"key": "plan"})) == ""


def test_a_file_guard_knows_what_the_session_has_read(tmp_path: Path) -> None:
    with seeded(tmp_path, KEEPING, {"tools.py": KEEPERS}) as daemon, daemon.agent() as agent:
        refused = agent.ask("write", {"path": "a"})
        assert "read it first" in refused["content"]
        agent.ask("read", {"path": "a"})
        assert value_of(agent.ask("write", {"path": "a"})) == "written"
