"""What a Python function knows of its call, what it leaves beside its answer, and how it is stopped."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.spawned import Agent, Daemon, daemon_on, until
from tests.daemon.test_workspaces import LANDLOCK, greet

FUNCTIONS = """
import os, time
from typing import Annotated

def who(ctx) -> dict:
    return {
        "id": ctx.id, "tool": ctx.tool, "agent": ctx.agent, "profile": ctx.profile, "workspace": ctx.workspace,
        "is_number": isinstance(ctx.session, int), "left": 0 < ctx.deadline - time.monotonic() <= 60,
        "cancelled": ctx.cancelled(),
    }

def where() -> list[str]:
    with open("mine", "w") as file:
        file.write("kept")
    try:
        with open("../theirs", "w") as file:
            file.write("lost")
    except OSError:
        pass
    return [os.getcwd(), *os.listdir()]

def says(ctx) -> int:
    ctx.update(content="half of it ")
    ctx.update(content="and the rest")
    ctx.log("a line", "warning")
    for number in range(200):
        ctx.log(f"line {number}", "info")
    ctx.details["took"] = {"tokens": 5}
    return 1

def picture() -> Annotated[bytes, "image/png"]:
    return b"\\x89PNG"

def document() -> Annotated[bytes, "application/pdf"]:
    return b"%PDF"

def several(size: int = 3) -> Annotated[list, "parts"]:
    return ["look:", {"type": "image", "data": b"x" * size, "mimeType": "image/png"}, {"type": "chart", "x": 1}]

def lone() -> Annotated[list, "parts"]:
    return ["only this"]

def wrong() -> Annotated[list, "parts"]:
    return ["one", {"text": "two"}]

def count(ctx, by: float = 1, fail: str = "", wait: float = 0, background: bool = False) -> float:
    before = ctx.state.get("n", 0)
    time.sleep(wait)
    ctx.state["n"] = before + by
    if fail == "large":
        ctx.state["x"] = "x" * 70_000
    elif fail:
        raise ValueError(fail)
    return ctx.state["n"]

def add(ctx, by: float) -> float:
    return count(ctx, by)

def stops(ctx, how: str) -> str:
    print("begun", flush=True)
    ctx.progress(0)
    while how == "ignores" or not ctx.cancelled():
        time.sleep(0.005)
    print("cleaned up", flush=True)
    return "where I was"

async def wakes(ctx) -> str:
    ctx.progress(0)
    await ctx.wait_cancelled()
    return "woken"
"""

CONFIG = """
[tools.who]
python = "functions:who"
[tools.where]
python = "functions:where"
cwd = "workspace"
[tools.shut]
python = "functions:where"
cwd = "workspace"
read = ["workspace"]
write = ["workspace"]
[tools.worker]
python = "functions:where"
cwd = "workspace"
resident = true
[tools.picture]
python = "functions:picture"
[tools.document]
python = "functions:document"
[tools.several]
python = "functions:several"
[tools.lone]
python = "functions:lone"
[tools.wrong]
python = "functions:wrong"
[processes.told]
kind = "plumb"
type = "!{} -> !json"
chain = ["lift(lone)", "map2"]
[processes.map2]
kind = "map"
type = "!json -> !json"
map = "[input]"
[tools.told]
process = "told"
[tools.says]
python = "functions:says"
[tools.count]
python = "functions:count"
state = true
[tools.also]
python = "functions:count"
state = "count"
[tools.asked]
python = "functions:count"
state = "count"
mode = "asked"
[tools.add]
python = "functions:add"
state = "count"
[tools.own]
python = "functions:count"
state = true
resident = true
[tools.stops]
python = "functions:stops"
stop_s = 30
call_s = 60
[tools.short]
python = "functions:stops"
stop_s = 0.2
[tools.at_once]
python = "functions:stops"
[tools.wakes]
python = "functions:wakes"
stop_s = 30
[processes.twice]
kind = "plumb"
chain = ["lift(add)", "map", "lift(add)"]
[processes.map]
kind = "map"
type = "!number -> !{by: number}"
map = "{'by': 10.0}"
[tools.twice]
process = "twice"
[agents.default]
tools = ["who", "where", "shut", "worker", "says", "count", "also", "asked", "own", "twice",
    "stops", "short", "at_once", "wakes",
    "picture", "document", "several", "lone", "wrong", "told"]
workspace = "@HOME@/${agent}"
make = true
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("homes").resolve()


@pytest.fixture(scope="module")
def daemon(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    directory = tmp_path_factory.mktemp("daemon")
    (directory / "functions.py").write_text(FUNCTIONS)
    with daemon_on(directory, CONFIG.replace("@HOME@", str(home))) as daemon:
        yield daemon


@pytest.fixture
def agent(daemon: Daemon) -> Iterator[Agent]:
    with daemon.agent() as agent:
        greet(agent, "default", updates=True, details=True)
        yield agent


def value(channel: Agent, name: str, given: object, **fields: object) -> Any:
    answer = channel.ask(name, given, **fields)
    assert not answer["is_error"], answer
    return json.loads(answer["content"])


def fault(channel: Agent, name: str, given: object) -> Any:
    answer = channel.ask(name, given)
    assert answer["fault"], answer
    return json.loads(answer["content"])


def test_a_function_knows_its_call(agent: Agent, home: Path) -> None:
    greet(agent, "default", agent="ann")
    told = {"id": "ask", "tool": "who", "profile": "default", "is_number": True, "left": True, "cancelled": False}
    assert value(agent, "who", {}) == {**told, "agent": None, "workspace": f"{home}/_"}
    assert value(agent, "who", {}, agent="ann") == {**told, "agent": "ann", "workspace": f"{home}/ann"}


@pytest.mark.parametrize("tool", ["where", "worker", pytest.param("shut", marks=LANDLOCK)])
def test_a_function_runs_in_its_sessions_workspace(agent: Agent, home: Path, tool: str) -> None:
    for name in ("f1", "f2", "f1"):
        greet(agent, "default", agent=name)
        assert value(agent, tool, {}, agent=name) == [f"{home}/{name}", "mine"]
    is_shut_in = tool == "shut"
    assert (home / "theirs").exists() is not is_shut_in
    (home / "theirs").unlink(missing_ok=True)


def test_what_a_function_says_reaches_the_agent_and_the_log(agent: Agent, daemon: Daemon) -> None:
    agent.call("c", "says", {})
    content = ""
    while (answer := agent.hear())["__port"] == "tool_update":
        content += answer["content"]
    assert content == "half of it and the rest"
    assert (answer["content"], answer["details"]) == ("1", {"took": {"tokens": 5}})
    log = [json.loads(line) for line in daemon.log.read_text().splitlines() if '"function said"' in line]
    assert (log[0]["message"], log[0]["level"], log[0]["tool"], log[0]["id"]) == ("a line", "warning", "says", "c")
    assert len(log) == 100


PICTURE = {"type": "image", "data": "iVBORw==", "mimeType": "image/png"}
CHART = {"type": "chart", "x": 1}


def test_a_function_gives_bytes_of_a_media_type(agent: Agent) -> None:
    answer = agent.ask("picture", {}, content="blocks")
    assert (answer["kind"], answer["content"], answer["blocks"]) == ("blocks", "[image/png, 4 B]", [PICTURE])
    assert json.loads(agent.ask("picture", {})["content"]) == [PICTURE]


def test_bytes_that_a_model_cannot_see_are_a_resource(agent: Agent) -> None:
    resource = {"uri": "urn:tooldispatchd:result", "mimeType": "application/pdf", "blob": "JVBERg=="}
    answer = agent.ask("document", {}, content="blocks")
    assert answer["blocks"] == [{"type": "resource", "resource": resource}]


@pytest.mark.parametrize(("size", "shown"), [(3, "3 B"), (2_000_000, "1.9 MiB")])
def test_a_function_gives_a_list_of_parts(agent: Agent, size: int, shown: str) -> None:
    answer = agent.ask("several", {"size": size}, content="blocks")
    text, picture, chart = answer["blocks"]
    assert (text, chart, len(picture["data"])) == ({"type": "text", "text": "look:"}, CHART, -(-size // 3) * 4)
    assert answer["content"].splitlines()[:2] == ["look:", f"[image/png, {shown}]"]


def test_a_lone_text_is_itself_to_agents_and_chains(agent: Agent) -> None:
    assert agent.ask("lone", {})["content"] == "only this"
    assert agent.ask("lone", {}, content="text")["content"] == "only this"
    assert value(agent, "told", {}) == ["only this"]


def test_what_is_no_part_is_told_by_its_place(agent: Agent) -> None:
    told = fault(agent, "wrong", {})
    assert (told["error"], told["violations"][0]["path"]) == ("invalid_output", "/1")


def test_details_are_for_those_who_asked(daemon: Daemon) -> None:
    with daemon.agent() as agent:
        greet(agent, "default")
        assert "details" not in agent.ask("says", {})


def test_a_state_lives_as_long_as_its_session(daemon: Daemon) -> None:
    with daemon.agent() as agent:
        greet(agent, "default")
        greet(agent, "default", agent="other")
        assert [value(agent, "count", {}) for _ in range(3)] == [1, 2, 3]
        assert value(agent, "also", {}) == 4
        assert value(agent, "own", {}) == 1
        assert value(agent, "count", {}, agent="other") == 1
    with daemon.agent() as agent:
        assert value(agent, "count", {}) == 1


def test_the_traceback_of_a_function_that_raises_is_told_its_agent_and_the_log(agent: Agent, daemon: Daemon) -> None:
    assert "in count" in fault(agent, "count", {"fail": "no way"})["stderr_tail"]
    (line,) = [line for line in daemon.log.read_text().splitlines() if '"function raised"' in line and "no way" in line]
    logged = json.loads(line)
    assert (logged["tool"], "in count" in logged["traceback"]) == ("count", True)


def test_a_call_that_fails_leaves_the_state_as_it_was(agent: Agent) -> None:
    assert value(agent, "count", {"by": 5}) == 5
    assert fault(agent, "count", {"fail": "no"})["error"] == "tool_failed"
    large = fault(agent, "count", {"fail": "large"})
    assert (large["error"], large["limit"]) == ("tool_failed", "state")
    assert value(agent, "count", {"by": 1}) == 6


def test_calls_of_one_state_are_one_at_a_time_and_in_their_order(agent: Agent) -> None:
    for number in range(8):
        agent.call(str(number), "count" if number % 2 else "also", {"wait": 0.01})
    answers = [agent.hear() for _ in range(8)]
    assert [(answer["id"], answer["content"]) for answer in answers] == [(str(n), str(n + 1)) for n in range(8)]


def test_no_update_is_lost_and_none_is_anothers(agent: Agent) -> None:
    names = ["n1", "n2", "n3"]
    for name in names:
        greet(agent, "default", agent=name)
    for number in range(30):
        agent.call(str(number), "count", {}, agent=names[number % 3])
    answers = [agent.hear() for _ in range(30)]
    counted = {name: sorted(int(each["content"]) for each in answers if each["agent"] == name) for name in names}
    assert counted == {name: list(range(1, 11)) for name in names}


def test_a_job_that_is_asked_for_starts_with_the_state_and_holds_up_nothing(agent: Agent) -> None:
    assert value(agent, "count", {"by": 5}) == 5
    assert json.loads(agent.ask("asked", {"by": 10, "wait": 30, "background": True})["content"]) == {"job": "job-1"}
    assert value(agent, "asked", {"by": 1}) == 6
    agent.ask("job_stop", {"job": "job-1"})
    assert json.loads(agent.ask("asked", {"by": 10, "background": True})["content"]) == {"job": "job-2"}
    done = json.loads(agent.ask("job_wait", {"job": "job-2"})["content"])
    assert (done["content"], value(agent, "count", {"by": 1})) == ("16.0", 7)


def test_a_call_that_waits_for_its_turn_can_be_cancelled_and_has_its_deadline(agent: Agent) -> None:
    agent.call("1", "count", {"wait": 0.5})
    agent.call("2", "count", {})
    agent.call("3", "count", {}, deadline_ms=50)
    agent.call("4", "count", {})
    agent.say({"__port": "tool_cancel", "id": "2"})
    answers = [agent.hear() for _ in range(4)]
    assert [answer["id"] for answer in answers] == ["2", "3", "1", "4"]
    faults = [json.loads(answer["content"]) for answer in answers[:2]]
    assert [(each["error"], each["ran"]) for each in faults] == [("cancelled", "no"), ("timeout", "no")]
    assert faults[1]["stage"] == "queue"
    assert [answer["content"] for answer in answers[2:]] == ["1", "2"]


def test_a_chain_takes_its_turns_too(agent: Agent) -> None:
    agent.call("1", "twice", {"by": 1})
    agent.call("2", "count", {"by": 100})
    answers = {answer["id"]: json.loads(answer["content"]) for answer in (agent.hear(), agent.hear())}
    assert answers["1"] in {11, 111}
    assert value(agent, "count", {"by": 0}) == 111


def begun(channel: Agent, tool: str, given: object, **fields: object) -> None:
    """Call a tool, and wait until its function runs."""
    channel.call("s", tool, given, **fields)
    assert channel.hear()["__port"] == "tool_update"


def test_a_function_that_is_cancelled_has_time_to_end_itself(agent: Agent) -> None:
    began = time.monotonic()
    begun(agent, "stops", {"how": "ends"})
    agent.say({"__port": "tool_cancel", "id": "s"})
    told = json.loads(agent.hear()["content"])
    assert (told["error"], told["stdout_tail"], told["stderr_tail"]) == (
        "cancelled",
        '"where I was"',
        "begun\ncleaned up\n",
    )
    assert time.monotonic() - began < 20


def test_the_deadline_sets_it_too(agent: Agent) -> None:
    begun(agent, "stops", {"how": "ends"}, deadline_ms=1500)
    told = json.loads(agent.hear()["content"])
    assert (told["error"], told["stdout_tail"]) == ("timeout", '"where I was"')


def test_who_waits_for_the_cancel_is_woken(agent: Agent) -> None:
    begun(agent, "wakes", {})
    agent.say({"__port": "tool_cancel", "id": "s"})
    assert json.loads(agent.hear()["content"])["stdout_tail"] == '"woken"'


@pytest.mark.parametrize("tool", ["short", "at_once"])
def test_one_that_does_not_end_is_killed(agent: Agent, daemon: Daemon, tool: str) -> None:
    begun(agent, tool, {"how": "ignores"})
    agent.say({"__port": "tool_cancel", "id": "s"})
    assert json.loads(agent.hear()["content"])["error"] == "cancelled"


def test_a_second_cancel_kills_at_once(agent: Agent) -> None:
    began = time.monotonic()
    begun(agent, "stops", {"how": "ignores"})
    agent.say({"__port": "tool_cancel", "id": "s"}, {"__port": "tool_cancel", "id": "s"})
    assert json.loads(agent.hear()["content"])["error"] == "cancelled"
    assert time.monotonic() - began < 20


def test_the_agents_end_sets_it_and_nothing_is_left(daemon: Daemon) -> None:
    with daemon.agent() as agent:
        greet(agent, "default", updates=True)
        begun(agent, "stops", {"how": "ends"})
        forks = children(daemon)
    until(lambda: children(daemon) < forks)


def children(daemon: Daemon) -> int:
    """How many processes the daemon has started, and these."""
    return len(daemon.family())


def test_the_daemon_is_where_it_was(daemon: Daemon) -> None:
    assert Path(f"/proc/{daemon.process.pid}/cwd").resolve() == Path(os.getcwd()).resolve()  # noqa: PTH109
