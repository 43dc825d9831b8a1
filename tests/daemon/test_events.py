"""Events and orders with a real daemon: an agent that does not read, servers that come and go, calls that wait."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.daemon.spawned import Agent, Daemon, Message, daemon_on, until

GREETER: Final = Path(__file__).parents[2] / "protocol" / "fixtures" / "greeter.sh"
# Their answers and events lie unread in the daemon, and the requests are few enough to be taken at once.
CALLS: Final = 2000
CONFIG: Final = f"""
[tools.echo]
type = "json -> json"
inline = "id"
[tools.later]
type = "json -> json"
command = ["cat"]
mode = "background"
[mcp.greeter]
command = "sh"
args = ["{GREETER}"]
restart = "backoff"
[mcp.slow]
command = "sh"
args = ["-c", "sleep 0.5; exec sh {GREETER}"]
[agents.default]
tools = ["echo", "later"]
[agents.served]
tools = ["echo"]
mcp = ["greeter"]
[agents.ordered]
tools = ["echo"]
mcp = ["slow"]
order = "sequential"
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_on(tmp_path_factory.mktemp("events"), CONFIG) as daemon:
        yield daemon


def told(agent: Agent, kind: str) -> Message:
    """The next event, which must be of that kind."""
    heard = agent.hear()
    assert (heard["__port"], heard["kind"]) == ("event", kind), heard
    return heard


def test_an_agent_that_does_not_read_has_every_answer_and_a_count_of_the_events_that_it_missed(daemon: Daemon) -> None:
    with daemon.agent() as agent:
        agent.say({"__port": "hello", "events": ["tool_finished"]})
        agent.hear()
        agent.say(*({"id": str(number), "name": "echo", "input": number} for number in range(CALLS)))
        agent.call("last", "later", "so that all else has been answered")
        answered, events, dropped = [], 0, 0
        heard = agent.hear()
        while heard.get("job") != "job-1":
            if heard.get("__port") == "event":
                events, dropped = events + 1, dropped + heard.get("dropped", 0)
            else:
                answered.append(heard["id"])
            heard = agent.hear()
        assert sorted(answered) == sorted([*map(str, range(CALLS)), "last"])
        dropped += heard.get("dropped", 0)
        assert events + dropped == CALLS


def test_a_server_that_is_gone_is_told_as_dead_and_then_as_up_again(daemon: Daemon) -> None:
    with daemon.agent() as agent:
        agent.say({"__port": "hello", "profile": "served", "events": ["server_up", "server_dead"]})
        assert told(agent, "server_up")["server"] == "greeter"
        assert agent.hear()["__port"] == "ready"
        until(lambda: bool(daemon.running(str(GREETER))))
        for pid in daemon.running(str(GREETER)):
            os.kill(pid, signal.SIGKILL)
        dead = told(agent, "server_dead")
        assert dead["server"] == "greeter"
        assert dead["reason"]
        assert told(agent, "server_up")["server"] == "greeter"
        assert agent.ask("greeter:greet", {})["content"] == "hello"


def test_a_call_that_waits_for_its_server_is_not_overtaken_where_there_is_an_order(daemon: Daemon) -> None:
    with daemon.agent() as agent:
        agent.say({"__port": "hello", "profile": "ordered"})
        agent.call("1", "slow:greet", {})
        agent.call("2", "echo", 2)
        agent.call("3", "job_list", {})
        heard = [agent.hear() for _ in range(4)]
        ids = [line["id"] for line in heard if line["__port"] == "tool_resp"]
        assert ids == ["3", "1", "2"]


def test_a_call_of_a_tool_in_the_background_is_done_without_anybody_who_waits_for_it(daemon: Daemon) -> None:
    with daemon.agent() as agent:
        agent.say({"__port": "hello", "events": ["job_done"]})
        agent.hear()
        job = json.loads(agent.ask("later", {"a": 1})["content"])["job"]
        assert told(agent, "job_done")["job"] == job
        read = json.loads(agent.ask("job_read", {"job": job})["content"])
        assert (read["state"], read["content"]) == ("done", '{"a":1}')
