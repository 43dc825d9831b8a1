"""A session's own directory: what its programs find there, and which directories an agent may ask for."""

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.spawned import Agent, Daemon, Message, daemon_on
from tests.daemon.test_peers import AS_ROOT
from tests.daemon.traces import open_directory
from tests.forked.sandbox.confined import abilities, lack_of

LANDLOCK = pytest.mark.skipif(
    lack_of(abilities().landlock, "network", "read", "write") is not None,
    reason="this machine has no Landlock",
)
# Where bubblewrap is not to be had, the other means is tried once more.
BOX = "bubblewrap" if shutil.which("bwrap") else "landlock"
WHERE = '["/bin/pwd"]'
# Writes a file in its own directory, and one beside that.
WRITES = """["/bin/sh", "-c", "echo kept > mine; echo lost > ../theirs; cat mine"]"""
PYTHON = json.dumps(sys.executable)

CONFIG = f"""
[tools.where]
command = {WHERE}
output_mode = "text"
cwd = "workspace"
[tools.bounded]
command = {WHERE}
output_mode = "text"
cwd = "workspace"
nice = 1
[tools.writes]
command = {WRITES}
input_mode = "text"
output_mode = "text"
cwd = "workspace"
write = ["workspace"]
[tools.boxed]
command = {WRITES}
input_mode = "text"
output_mode = "text"
cwd = "workspace"
read = ["workspace"]
write = ["workspace"]
sandbox = "{BOX}"
[tools.below]
process = "below"
[processes.below]
kind = "agent"
type = "!json -> !json"
command = [{PYTHON}, "-c", '''
import json, os
with os.fdopen(4, "w") as requests, os.fdopen(5) as answers:
    print(json.dumps({{"__port": "tool_req", "id": "1", "name": "where", "input": None}}), file=requests, flush=True)
    print(json.loads(answers.readline())["content"])
''']
tools = ["where"]
[mcp.files]
command = {PYTHON}
args = ["-I", "-S", "@SERVER@"]
cwd = "workspace"
[mcp.told]
command = {PYTHON}
args = ["-I", "-S", "@SERVER@"]
meta = true
[agents.told]
mcp = ["told"]
roots = ["workspace"]
workspaces = ["@HOME@/shared/*"]
[agents.own]
tools = ["where", "writes", "boxed", "below"]
workspace = "@HOME@/agents/${{profile}}/${{agent}}"
make = true
[tools.function]
python = "os:getcwd"
output_schema = {{ type = "string" }}
cwd = "workspace"
[tools.worker]
python = "os:getcwd"
output_schema = {{ type = "string" }}
cwd = "workspace"
resident = true
[agents.asking]
tools = ["where", "writes", "bounded", "function", "worker"]
workspaces = ["@HOME@/shared/*"]
[agents.both]
tools = ["where"]
workspace = "@HOME@/shared/one"
workspaces = ["@HOME@/shared/t*"]
[agents.strict]
tools = ["where"]
workspace = "@HOME@/absent/${{uid}}"
[agents.served]
mcp = ["files"]
roots = ["workspace", "/"]
workspaces = ["@HOME@/shared/*"]
"""

SERVER = """
import json, os, sys

def say(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

for line in sys.stdin:
    said = json.loads(line)
    method, number = said.get("method"), said.get("id")
    if method == "initialize":
        say({"id": number, "result": {"protocolVersion": said["params"]["protocolVersion"],
            "capabilities": {"tools": {}}, "serverInfo": {"name": "files", "version": "1"}}})
    elif method == "tools/list":
        say({"id": number, "result": {"tools": [{"name": "where", "inputSchema": {"type": "object"}}]}})
    elif method == "tools/call":
        call, meta = number, said["params"].get("_meta")
        say({"id": "roots", "method": "roots/list"})
    elif number == "roots" and "result" in said:
        roots = [root["uri"] for root in said["result"]["roots"]]
        text = json.dumps([os.getcwd(), roots, meta])
        say({"id": call, "result": {"content": [{"type": "text", "text": text}]}})
    elif number is not None:
        say({"id": number, "error": {"code": -32601, "message": "no such method"}})
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("workspaces").resolve()
    for name in ("agents", "shared/one", "shared/two/inner", "outside"):
        (home / name).mkdir(parents=True)
    (home / "shared/link").symlink_to(home / "outside")
    (home / "shared/good").symlink_to(home / "shared/two")
    (home / "server.py").write_text(SERVER)
    return home


@pytest.fixture(scope="module")
def daemon(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    config = CONFIG.replace("@HOME@", str(home)).replace("@SERVER@", str(home / "server.py"))
    with daemon_on(tmp_path_factory.mktemp("daemon"), config) as daemon:
        yield daemon


@pytest.fixture
def agent(daemon: Daemon) -> Iterator[Agent]:
    with daemon.agent() as agent:
        yield agent


def greet(channel: Agent, profile: str, **fields: object) -> Message:
    channel.say({"__port": "hello", "profile": profile, **fields})
    return channel.hear()


def where(channel: Agent, **fields: object) -> object:
    answer = channel.ask("where", None, **fields)
    assert not answer["is_error"], answer
    return json.loads(answer["content"])


def test_a_profile_gives_each_agent_a_directory_of_its_own(agent: Agent, home: Path) -> None:
    assert greet(agent, "own")["__port"] == "ready"
    assert where(agent) == f"{home}/agents/own/_"
    made = home / "agents/own/_"
    assert made.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("name", "segment"), [("ann", "ann"), ("../../outside", "%2E.%2F..%2Foutside"), ("_", "%5F"), ("..", "%2E.")]
)
def test_no_name_of_an_agent_leads_out_of_its_directory(agent: Agent, home: Path, name: str, segment: str) -> None:
    greet(agent, "own", agent=name)
    assert where(agent, agent=name) == f"{home}/agents/own/{segment}"


def test_a_link_in_the_place_of_a_directory_is_not_followed(agent: Agent, home: Path) -> None:
    greet(agent, "own", agent="first")
    (home / "agents/own/linked").symlink_to(home / "outside")
    assert greet(agent, "own", agent="linked")["error"] == "not_allowed"


def test_what_is_not_there_and_not_to_be_made_refuses_the_session(agent: Agent) -> None:
    refused = greet(agent, "strict")
    assert refused["error"] == "not_allowed"
    assert "workspace" in refused["detail"]


def test_an_agent_that_is_called_has_its_callers_workspace(agent: Agent, home: Path) -> None:
    greet(agent, "own", agent="caller")
    answer = agent.ask("below", None, agent="caller")
    assert json.loads(answer["content"]) == f"{home}/agents/own/caller", answer


@LANDLOCK
@pytest.mark.parametrize("tool", ["writes", "boxed"])
def test_a_program_that_may_write_to_the_workspace_may_write_nowhere_else(agent: Agent, home: Path, tool: str) -> None:
    for name in (f"{tool}1", f"{tool}2"):
        greet(agent, "own", agent=name)
        answer = agent.ask(tool, "", agent=name)
        assert json.loads(answer["content"]) == "kept", answer
    assert not (home / "agents/own/theirs").exists()


@pytest.mark.parametrize(("asked", "found"), [("two", "two"), ("two/inner", "two/inner"), ("good/../two", "two")])
def test_an_agent_may_ask_for_what_lies_in_the_workspaces(agent: Agent, home: Path, asked: str, found: str) -> None:
    assert greet(agent, "asking", workspace=f"{home}/shared/{asked}")["__port"] == "ready"
    assert where(agent) == f"{home}/shared/{found}"


@pytest.mark.parametrize("asked", ["shared", "shared/link", "outside", "shared/one/../../outside", "shared/none"])
def test_what_lies_elsewhere_is_refused_after_its_links_are_resolved(agent: Agent, home: Path, asked: str) -> None:
    refused = greet(agent, "asking", workspace=f"{home}/{asked}")
    assert (refused["__port"], refused["error"]) == ("fault", "not_allowed")


def test_an_agents_own_links_refuse_that_hello_alone(agent: Agent, home: Path) -> None:
    greet(agent, "asking", agent="other", workspace=f"{home}/shared/one")
    chain = home / "shared/one"
    for number in range(1, 1100):
        (chain / str(number)).symlink_to(f"{chain}/{'../one/' * 500}{number - 1}")
    for last in (1099, 800, 0):
        assert greet(agent, "asking", agent="last", workspace=f"{chain}/{last}")["error"] == "not_allowed"
    assert where(agent, agent="other") == str(chain)
    assert greet(agent, "asking", agent="last", workspace=str(chain))["__port"] == "ready"


@pytest.mark.parametrize("tool", ["where", "bounded"])
def test_a_link_in_the_place_of_a_workspace_leads_no_program_elsewhere(agent: Agent, home: Path, tool: str) -> None:
    swapped = home / "shared" / f"swapped-{tool}"
    swapped.mkdir()
    assert greet(agent, "asking", workspace=str(swapped))["__port"] == "ready"
    assert agent.ask(tool, None)["content"] == json.dumps(str(swapped))
    swapped.rename(home / "shared" / f"gone-{tool}")
    swapped.symlink_to(home / "outside")
    assert "symbolic links" in str(agent.ask(tool, None)["content"])


@pytest.mark.parametrize(("tool", "given"), [("where", None), ("bounded", None), ("function", {}), ("worker", {})])
def test_another_directory_in_the_place_of_a_workspace_is_not_entered(
    agent: Agent, home: Path, tool: str, given: object
) -> None:
    mine, theirs = home / "shared" / f"mine-{tool}", home / "shared" / f"theirs-{tool}"
    mine.mkdir()
    theirs.mkdir()
    greet(agent, "asking", workspace=str(mine))
    assert agent.ask(tool, given)["content"] == json.dumps(str(mine))
    mine.rename(home / "shared" / f"kept-{tool}")
    theirs.rename(mine)
    assert "another directory than when the session opened" in str(agent.ask(tool, given)["content"])
    # An agent that says so works there from now on.
    greet(agent, "asking", agent="new", workspace=str(mine))
    assert agent.ask(tool, given, agent="new")["content"] == json.dumps(str(mine))


@pytest.mark.parametrize("asked", ["", "relative", "/" + "x" * 5000])
def test_what_is_no_path_is_a_mistake(agent: Agent, asked: str) -> None:
    refused = greet(agent, "asking", workspace=asked)
    assert (refused["error"], refused["source"]) == ("invalid_request", "workspace")


def test_a_profile_without_workspaces_lets_none_be_asked_for(agent: Agent, home: Path) -> None:
    assert greet(agent, "own", workspace=f"{home}/shared/one")["error"] == "not_allowed"


def test_what_is_asked_for_goes_before_the_profiles_own(agent: Agent, home: Path) -> None:
    greet(agent, "both")
    greet(agent, "both", agent="other", workspace=f"{home}/shared/two")
    assert [where(agent), where(agent, agent="other")] == [f"{home}/shared/one", f"{home}/shared/two"]


def test_a_tool_that_works_in_a_workspace_says_where_there_is_none(agent: Agent) -> None:
    greet(agent, "asking")
    answer = agent.ask("where", None)
    fault = json.loads(answer["content"])
    assert (fault["error"], fault["ran"]) == ("not_allowed", "no")
    assert fault["detail"] == "where works in the session's workspace, and this session has none"


def test_a_server_runs_in_the_workspace_and_is_told_of_it(agent: Agent, home: Path) -> None:
    greet(agent, "served", workspace=f"{home}/shared/one")
    answer = agent.ask("files:where", {})
    cwd, roots, meta = json.loads(answer["content"])
    assert (cwd, roots, meta) == (f"{home}/shared/one", [f"file://{home}/shared/one", "file:///"], None)


def test_a_server_that_asks_for_it_is_told_whose_call_it_is(agent: Agent, home: Path) -> None:
    greet(agent, "told", agent="ann", workspace=f"{home}/shared/one")
    meta = json.loads(agent.ask("told:where", {}, agent="ann")["content"])[2]
    prefix = "io.github.tooldispatchd/"
    assert 0 < meta.pop(f"{prefix}deadline") - time.time() <= 60
    assert isinstance(meta.pop(f"{prefix}session"), int)
    told = {"call_id": "ask", "tool": "told:where", "agent": "ann", "profile": "told"}
    assert meta == {f"{prefix}{key}": value for key, value in {**told, "workspace": f"{home}/shared/one"}.items()}


def test_a_server_that_has_no_workspace_is_not_started(agent: Agent) -> None:
    ready = greet(agent, "served")
    assert ready["tools"] == [tool for tool in ready["tools"] if tool["name"].startswith("job_")]
    reason = "it works in the session's workspace, and this session has none"
    assert ready["warnings"] == [f"server files is not available: {reason}"]


def test_the_daemon_is_where_it_was(daemon: Daemon) -> None:
    assert Path(f"/proc/{daemon.process.pid}/cwd").resolve() == Path(os.getcwd()).resolve()  # noqa: PTH109


@pytest.mark.parametrize("means", sorted({"landlock", BOX}))
def test_a_workspace_that_another_session_made_a_link_shows_nothing_else(tmp_path: Path, means: str) -> None:
    home = tmp_path.resolve()
    (home / "shared/one/below").mkdir(parents=True)
    config = f"""
[tools.lists]
command = ["/bin/ls", "-a"]
output_mode = "text"
cwd = "workspace"
read = ["workspace"]
sandbox = "{means}"
[tools.swaps]
command = ["/bin/sh", "-c", "rmdir below; ln -s {home} below; readlink below"]
output_mode = "text"
cwd = "workspace"
write = ["workspace"]
sandbox = "{means}"
[agents.default]
tools = ["lists", "swaps"]
workspaces = ["{home}/shared/*"]
"""
    with daemon_on(home, config) as daemon, daemon.agent() as agent, daemon.agent() as other:
        greet(agent, "default", workspace=f"{home}/shared/one/below")
        greet(other, "default", workspace=f"{home}/shared/one")
        assert json.loads(agent.ask("lists", None)["content"]) == ".\n.."
        assert json.loads(other.ask("swaps", None)["content"]) == str(home)
        answer = agent.ask("lists", None)
        assert json.loads(answer["content"])["error"] == "tool_failed", answer


@AS_ROOT
def test_what_is_made_for_another_user_is_that_users(tmp_path: Path) -> None:
    with open_directory() as directory:
        config = f"""
[tools.where]
command = {WHERE}
output_mode = "text"
cwd = "workspace"
[agents.default]
tools = ["where"]
user = "nobody"
workspace = "{directory}/${{profile}}/${{agent}}"
make = true
"""
        with daemon_on(tmp_path, config) as daemon, daemon.agent() as agent:
            greet(agent, "default")
            assert where(agent) == f"{directory}/default/_"
            for made in (Path(directory, "default"), Path(directory, "default/_")):
                assert (made.owner(), made.stat().st_mode & 0o777) == ("nobody", 0o700)
