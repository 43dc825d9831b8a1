"""Workers of the toolbox's tools behind a real daemon: one session's own, and gone with it."""

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.spawned import Agent, Daemon, daemon_on, until
from tests.daemon.test_workspaces import LANDLOCK

pytestmark = LANDLOCK

CONFIG = """
[toolbox.files]
guard = "off"
[toolbox.clock]
[tools.whose]
python = "whose:whose"
resident = true
read = ["workspace"]
write = ["workspace"]
[agents.default]
toolboxes = ["files", "clock"]
tools = ["whose"]
workspace = "work/${agent}"
make = true
"""
# A function that an agent has bent to its will: it tells what any path holds.
WHOSE = """
import os, time

def whose(path: str = "", wait_s: float = 0) -> tuple[int, str]:
    time.sleep(wait_s)
    try:
        return os.getpid(), open(path).read() if path else ""
    except OSError as error:
        return os.getpid(), type(error).__name__
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    home = tmp_path_factory.mktemp("workers").resolve()
    (home / "work").mkdir()
    (home / "whose.py").write_text(WHOSE)
    with daemon_on(home, CONFIG) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def resting(daemon: Daemon) -> set[int]:
    """The processes that stay: a warm parent starts with its first call, and one worker is no session's own."""
    with daemon.agent() as first:
        greet(first, "first")
        told(first, "first", "current_date")
        whose(first, "first")
        passing = whose(first, "first")[0]
    until(lambda: passing not in daemon.family())
    return daemon.family()


def greet(agent: Agent, name: str) -> None:
    agent.say({"__port": "hello", "agent": name})
    assert agent.hear()["__port"] == "ready"


def told(agent: Agent, name: str, tool: str, **fields: object) -> str:
    return str(agent.ask(tool, fields, agent=name)["content"])


def whose(agent: Agent, name: str, path: Path | None = None) -> tuple[int, str]:
    """The process that served the call, and what it read."""
    pid, text = json.loads(told(agent, name, "whose", **({} if path is None else {"path": str(path)})))
    return pid, text


def test_all_files_tools_of_a_session_have_one_process(daemon: Daemon, resting: set[int]) -> None:
    with daemon.agent() as agent:
        greet(agent, "files")
        told(agent, "files", "write", path="a", content="1\n")
        assert len(daemon.family() - resting) == 1
        before = daemon.family()
        assert "replaced at line 1" in told(agent, "files", "edit", path="a", old="1", new="2")
        assert "1\t2" in told(agent, "files", "read", path="a")
        assert "a:" not in told(agent, "files", "grep", pattern="3")
        told(agent, "files", "delete", path="a")
        assert daemon.family() == before


def test_no_session_reaches_the_worker_of_another(daemon: Daemon) -> None:
    work = daemon.path.parent / "work"
    with daemon.agent() as channel, daemon.agent() as other_channel:
        served: dict[str, set[int]] = {}
        agents = {"one": channel, "two": channel, "three": other_channel}
        for name, agent in agents.items():
            greet(agent, name)
            told(agent, name, "write", path="own", content=f"words of {name}")
        # In any order, so that each comes upon workers that others have left waiting.
        for name in random.Random(1).choices(list(agents), k=30):
            pid, text = whose(agents[name], name, work / name / "own")
            assert text == f"words of {name}"
            served.setdefault(name, set()).add(pid)
            for foreign in agents.keys() - {name}:
                assert whose(agents[name], name, work / foreign / "own")[1] == "PermissionError"
        assert not served["one"] & served["two"] | served["one"] & served["three"] | served["two"] & served["three"]
    with daemon.agent() as channel:
        # Nor under the name of one that has left.
        greet(channel, "one")
        assert whose(channel, "one")[0] not in served["one"]


def test_calls_at_the_same_time_do_not_wait_for_each_other(daemon: Daemon) -> None:
    with daemon.agent() as agent:
        greet(agent, "busy")
        for number in range(4):
            agent.call(f"slow{number}", "whose", {"wait_s": 20}, agent="busy")
        assert json.loads(told(agent, "busy", "whose"))[1] == ""
        agent.say({"__port": "tool_cancel", "id": "slow0", "agent": "busy"})
        assert json.loads(agent.hear()["content"])["error"] == "cancelled"


def test_a_worker_that_is_killed_costs_no_call_while_it_waits(daemon: Daemon) -> None:
    with daemon.agent() as agent:
        greet(agent, "killed")
        idle = whose(agent, "killed")[0]
        os.kill(idle, signal.SIGKILL)
        assert whose(agent, "killed")[0] != idle


def test_nothing_is_left_of_a_session_with_calls_that_are_cancelled_at_any_time(
    daemon: Daemon, resting: set[int]
) -> None:
    chance = random.Random(2)
    with daemon.agent() as agent:
        greet(agent, "hasty")
        for number in range(40):
            tool, fields = chance.choice([("list", {}), ("whose", {"wait_s": 0.01}), ("grep", {"pattern": "x"})])
            agent.call(str(number), tool, fields, agent="hasty")
            time.sleep(chance.random() / 100)
            agent.say({"__port": "tool_cancel", "id": str(number), "agent": "hasty"})
            agent.hear()
        agent.call("last", "whose", {"wait_s": 20}, agent="hasty")
    until(lambda: daemon.family() == resting)


def test_nothing_is_left_when_the_daemon_ends(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "whose.py").write_text(WHOSE)
    with daemon_on(tmp_path, CONFIG) as daemon, daemon.agent() as agent:
        greet(agent, "last")
        worker = whose(agent, "last")[0]
        family = daemon.family()
        assert worker in family
        daemon.process.send_signal(signal.SIGTERM)
        daemon.process.wait(20)
        assert not any(Path(f"/proc/{pid}").exists() for pid in family)
