"""What agents and servers can make a daemon hold, all together: it is bounded, told, and given back."""

import json
import select
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.daemon.asking_servers import asking_over_http, asking_over_websocket, half_saying_over_http
from tests.daemon.spawned import PATIENCE_S, ROOT, Agent, Message, daemon_on, until
from tests.daemon.test_attacks import ECHO, MIB, lines, request, resident_bytes, serves

# A connection that asks too much ends within some seconds; without a bound it takes 40 MiB a second.
ASKED: Final = 100 * MIB


Serving = Callable[[], AbstractContextManager[str]]


def greedy(name: str, way: str) -> str:
    """The table of a server that takes much memory in that way."""
    args = json.dumps(["-I", "-S", str(ROOT / "tests" / "servers" / "greedy.py"), way])
    return f"[mcp.{name}]\ncommand = {json.dumps(sys.executable)}\nargs = {args}\n"


def config_of(url: str) -> str:
    """A server at that URL for the profile `asked`, and none for others."""
    return f"""{ECHO}
[mcp.asking]
url = "{url}"
[agents.default]
tools = ["echo"]
[agents.asked]
mcp = ["asking"]
"""


@pytest.mark.parametrize(
    "serving",
    [
        pytest.param(lambda: asking_over_http("call"), id="in the answer to a call"),
        pytest.param(lambda: asking_over_http("stream"), id="on its own stream"),
        pytest.param(asking_over_websocket, id="over WebSocket"),
    ],
)
def test_a_server_that_asks_without_end_is_given_up(tmp_path: Path, serving: Serving) -> None:
    with serving() as url, daemon_on(tmp_path, config_of(url)) as daemon, daemon.agent() as agent:
        before = resident_bytes(daemon.process.pid)
        assert agent.hello("asked")["__port"] == "ready"
        agent.call("1", "asking:echo", {})
        heard = agent.hear()
        assert '"error":"connection_dead"' in heard["content"]
        assert "it does not read its input" in heard["content"]
        until(lambda: daemon.logged("connection ended") == 1)
        assert resident_bytes(daemon.process.pid) - before < ASKED
        assert serves(daemon)


# What a daemon that may keep `LIMIT` for others takes at most, with what it needs to deal with a few lines at once.
LIMIT: Final = 24 * MIB
KEPT: Final = 3 * LIMIT
# Whole answers, which nobody stores.
SHORT: Final = f'{ECHO}max_output = {64 * MIB}\noverflow = "truncate"\n[limits]\nbuffered_bytes = {LIMIT}\n'


def test_half_lines_of_all_agents_are_bounded_together_and_given_back(tmp_path: Path) -> None:
    half = lines(request("1", "echo", "x" * 4 * MIB))[:-1]
    with daemon_on(tmp_path, SHORT) as daemon, daemon.agent() as other:
        other.ask("echo", "open")
        before = resident_bytes(daemon.process.pid)
        with ExitStack() as agents:
            waiting = [agents.enter_context(daemon.agent()) for _ in range(50)]
            for agent in waiting:
                agent.channel.sendall(half)
                assert other.ask("echo", "hi")["content"] == '"hi"'
            assert resident_bytes(daemon.process.pid) - before < KEPT
            # Refused as a request, when there was no room for more of it; those that came first are still there.
            refused = waiting[-1].hear()
            assert refused["id"] == "1"
            assert '"error":"too_many"' in refused["content"]
            assert f'"what":"buffered_bytes","limit":{LIMIT}' in refused["content"]
            # Of nearly fifty that are refused.
            assert 0 < daemon.logged("line refused for want of memory") <= 12
            waiting[0].channel.sendall(b"\n")
            assert waiting[0].hear()["id"] == "1"
            # A channel lives on after that.
            waiting[-1].channel.sendall(b"\n")
            assert waiting[-1].ask("echo", "again")["content"] == '"again"'
        until(lambda: resident_bytes(daemon.process.pid) - before < LIMIT)
        assert serves(daemon)


def test_large_answers_that_nobody_reads_are_bounded_together(tmp_path: Path) -> None:
    large = lines(request("1", "echo", "x" * 4 * MIB))
    with daemon_on(tmp_path, SHORT) as daemon, ExitStack() as agents:
        other = agents.enter_context(daemon.agent())
        other.ask("echo", "open")
        before = resident_bytes(daemon.process.pid)
        flooding = [agents.enter_context(daemon.agent()) for _ in range(30)]
        for agent in flooding:
            agent.channel.sendall(large)
            assert other.ask("echo", "hi")["content"] == '"hi"'
            # The next come when this one's answer is there, if only its beginning.
            assert select.select([agent.channel], [], [], PATIENCE_S)[0]
        assert resident_bytes(daemon.process.pid) - before < KEPT
        assert "too_many" in flooding[-1].hear()["content"]
        assert len(flooding[0].hear()["content"]) == 4 * MIB + 2


def test_inputs_of_calls_on_many_channels_are_bounded_together(tmp_path: Path) -> None:
    config = f"""{SHORT}
[tools.hang]
command = ["sh", "-c", "sleep 1000"]
"""
    with daemon_on(tmp_path, config) as daemon, ExitStack() as agents:
        other = agents.enter_context(daemon.agent())
        other.ask("echo", "open")
        before = resident_bytes(daemon.process.pid)
        calling = [agents.enter_context(daemon.agent()) for _ in range(30)]
        for agent in calling:
            agent.call("1", "hang", "x" * 3 * MIB)
            assert other.ask("echo", "hi")["content"] == '"hi"'
        assert resident_bytes(daemon.process.pid) - before < KEPT
        assert "too_many" in calling[-1].hear()["content"]


def is_idle(agent: Agent, named: Message) -> bool:
    """Whether no job of this agent runs."""
    return "running" not in agent.ask("job_list", {}, **named)["content"]


def test_unread_results_of_many_agents_of_one_channel_are_bounded_together(tmp_path: Path) -> None:
    with daemon_on(tmp_path, SHORT) as daemon, daemon.agent() as agent, daemon.agent() as other:
        other.ask("echo", "open")
        before = resident_bytes(daemon.process.pid)
        heard = []
        for number in range(30):
            name = {"agent": f"a{number}"}
            agent.say({"__port": "hello", **name})
            assert agent.hear()["__port"] == "ready"
            heard.append(agent.ask("echo", "x" * 2 * MIB, background=True, **name)["content"])
            until(partial(is_idle, agent, name))
        assert resident_bytes(daemon.process.pid) - before < KEPT
        first, last = (agent.ask("job_read", {"job": "job-1"}, agent=name)["content"] for name in ("a0", "a29"))
        # There is room for an answer, as the job has it no longer.
        assert len(first) > 2 * MIB
        # There is no room for its input, or none for its result.
        assert "too_many" in heard[-1] + last
        assert "buffered_bytes" in heard[-1] + last
        assert '"hi"' in other.ask("echo", "hi")["content"]
        assert serves(daemon)


def test_half_messages_of_servers_are_bounded_together_and_the_fault_says_so(tmp_path: Path) -> None:
    config = SHORT + "".join(greedy(f"half{number}", "half") for number in range(4))
    config += '[agents.default]\ntools = ["echo"]\n[agents.asked]\nmcp = ["half0", "half1", "half2", "half3"]\n'
    with daemon_on(tmp_path, config) as daemon, daemon.agent() as agent:
        before = resident_bytes(daemon.process.pid)
        assert agent.hello("asked")["__port"] == "ready"
        for number in range(4):
            agent.call(str(number), f"half{number}:echo", {})
        for _ in range(4):
            heard = agent.hear()["content"]
            assert '"error":"connection_dead"' in heard
            assert f'"what":"buffered_bytes","limit":{LIMIT}' in heard
        assert resident_bytes(daemon.process.pid) - before < KEPT
        assert serves(daemon)


def test_half_an_event_of_a_server_over_http_is_bounded_and_the_fault_says_so(tmp_path: Path) -> None:
    with half_saying_over_http() as url, daemon_on(tmp_path, SHORT + config_of(url).removeprefix(ECHO)) as daemon:
        before = resident_bytes(daemon.process.pid)
        with daemon.agent() as agent:
            assert agent.hello("asked")["__port"] == "ready"
            for number in range(6):
                agent.call(str(number), "asking:echo", {})
            for _ in range(6):
                assert f'"what":"buffered_bytes","limit":{LIMIT}' in agent.hear()["content"]
            assert resident_bytes(daemon.process.pid) - before < KEPT
            assert serves(daemon)


def test_schemas_that_differ_by_session_are_given_back_to_the_system(tmp_path: Path) -> None:
    config = ECHO + greedy("odd", "schemas")
    config += '[agents.default]\ntools = ["echo"]\n[agents.asked]\nmcp = ["odd"]\n'
    with daemon_on(tmp_path, config) as daemon:
        before = resident_bytes(daemon.process.pid)
        with ExitStack() as agents:
            for _ in range(12):
                assert agents.enter_context(daemon.agent()).hello("asked")["__port"] == "ready"
            assert resident_bytes(daemon.process.pid) - before > 32 * MIB
        # What a first session leaves for good, its modules above all, is a fraction of that.
        until(lambda: resident_bytes(daemon.process.pid) - before < 20 * MIB)


def test_schemas_that_differ_by_session_are_bounded_together(tmp_path: Path) -> None:
    config = SHORT + greedy("odd", "schemas")
    config += '[agents.default]\ntools = ["echo"]\n[agents.asked]\nmcp = ["odd"]\n'
    with daemon_on(tmp_path, config) as daemon:
        before = resident_bytes(daemon.process.pid)
        with ExitStack() as agents:
            told = [agents.enter_context(daemon.agent()).hello("asked") for _ in range(12)]
            assert resident_bytes(daemon.process.pid) - before < KEPT
            # The first has all that the server offers, the last is told which it has not, and why.
            assert len(told[0]["tools"]) > len(told[-1]["tools"])
            assert "buffered_bytes" in told[-1]["warnings"][0]
        until(lambda: daemon.logged("connection ended") == 12)
        # There is room again.
        with daemon.agent() as agent:
            assert len(agent.hello("asked")["tools"]) == len(told[0]["tools"])
