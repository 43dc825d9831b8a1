"""Agents that tools start: nobody else opens their profiles, and their calls are asked about above them."""

import json
import os
import sys
from collections.abc import Iterator
from typing import Final

import pytest

from tests.daemon.spawned import Agent, Daemon, daemon_on

# It says that it answers `approve`, calls `danger`, and allows that itself if it is asked.
CHILD: Final = """
import json, os, sys
requests, answers = (os.fdopen(int(fd), mode) for fd, mode in zip(os.environ["TOOLDISPATCHD_CHANNEL"].split(","), "wr"))
def say(line):
    print(json.dumps(line), file=requests, flush=True)
say({"__port": "hello", "answers": ["approve"]})
say({"id": "1", "name": "danger", "input": 5})
for text in answers:
    line = json.loads(text)
    if line.get("__port") == "approve_req":
        say({"__port": "approve_resp", "id": line["id"], "allow": True})
    if line.get("id") == "1" and "content" in line:
        print(json.dumps(str(line["content"])))
        break
"""
CONFIG: Final = f"""
[tools.danger]
type = "int -> int"
inline = "id"
approve = "always"
[tools.ask]
process = "w"
[processes.w]
kind = "agent"
type = "!int -> !string"
command = {json.dumps([sys.executable, "-c", CHILD])}
tools = ["danger"]
[agents.default]
tools = ["ask"]
[agents.watched]
tools = ["ask"]
approver = "boss"
[agents.boss]
approver = true
uid = {os.geteuid()}
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_on(tmp_path_factory.mktemp("called"), CONFIG) as daemon:
        yield daemon


def hello(agent: Agent, **fields: object) -> None:
    agent.say({"__port": "hello", **fields})


def test_nobody_opens_the_profile_of_an_agent_process(daemon: Daemon) -> None:
    with daemon.agent() as agent:
        hello(agent, profile="w")
        assert agent.hear()["error"] == "not_authenticated"


def test_a_call_of_a_called_agent_is_asked_about_above_it_whatever_that_says(daemon: Daemon) -> None:
    with daemon.agent() as agent:
        hello(agent, answers=["approve"])
        agent.hear()
        agent.call("1", "ask", 1)
        asked = agent.hear()
        assert (asked["__port"], asked["name"], asked["caller"]) == ("approve_req", "danger", {"profile": "w"})
        agent.say({"__port": "approve_resp", "id": asked["id"], "allow": True})
        assert agent.hear()["content"] == '"5"'


def test_it_is_refused_where_nobody_above_it_answers(daemon: Daemon) -> None:
    with daemon.agent() as agent:
        agent.call("1", "ask", 1)
        assert "approval_refused" in agent.hear()["content"]


def test_the_approver_of_the_profile_that_came_in_is_asked(daemon: Daemon) -> None:
    with daemon.agent() as agent, daemon.agent() as boss:
        hello(boss, profile="boss", answers=["approve"])
        boss.hear()
        hello(agent, profile="watched", answers=["approve"])
        agent.hear()
        agent.call("1", "ask", 1)
        asked = boss.hear()
        assert (asked["__port"], asked["name"]) == ("approve_req", "danger")
        boss.say({"__port": "approve_resp", "id": asked["id"], "allow": False})
        assert "approval_refused" in agent.hear()["content"]
