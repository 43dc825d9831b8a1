"""Agents that guess tokens: what the log says of them, and what it costs their user."""

import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

from tests.daemon.spawned import Agent, Daemon, Message, daemon_on, until

RIGHT: Final = "the-right-token"
WRONG: Final = "not-the-right-token"
CONFIG: Final = f"""
[tools.echo]
type = "string -> string"
inline = "id"
[agents.default]
tools = ["echo"]
[agents.secret]
tools = ["echo"]
token = "{RIGHT}"
"""


def hello(token: str) -> Message:
    return {"__port": "hello", "profile": "secret", "token": token}


def guess(daemon: Daemon, *, channels: int) -> None:
    """Two wrong tokens on each of so many channels, all of which were open before."""
    with ExitStack() as opened:
        agents = [opened.enter_context(daemon.agent()) for _ in range(channels)]
        for agent in agents:
            assert agent.ask("echo", "open")["content"] == '"open"'
        for number, agent in enumerate(agents):
            for name in ("a", "b"):
                agent.say(hello(f"{WRONG} {number}") | {"agent": name})
                assert agent.hear()["error"] == "not_authenticated"


def refusals(daemon: Daemon) -> list[dict[str, Any]]:
    lines = map(json.loads, daemon.log.read_text().splitlines())
    return [line for line in lines if line["event"] == "hello refused"]


def greeting_of(agent: Agent, token: str) -> str:
    agent.say(hello(token))
    return str(agent.hear()["__port"])


def test_each_wrong_token_is_logged_and_of_many_ever_fewer(tmp_path: Path) -> None:
    with daemon_on(tmp_path, CONFIG) as daemon:
        guess(daemon, channels=50)
        lines = refusals(daemon)
        assert [line["lately"] for line in lines] == [*range(1, 11), 16, 32, 64]
        assert {(line["level"], line["uid"], line["pid"], line["profile"]) for line in lines} == {
            ("warning", os.geteuid(), os.getpid(), "secret")
        }
        assert WRONG not in daemon.log.read_text()


def test_a_token_in_the_place_of_a_profile_is_not_logged(tmp_path: Path) -> None:
    with daemon_on(tmp_path, CONFIG) as daemon, daemon.agent() as agent:
        agent.say(hello(WRONG) | {"profile": RIGHT})
        assert agent.hear()["error"] == "not_authenticated"
        assert [line["profile"] for line in refusals(daemon)] == ["(no such profile)"]
        assert RIGHT not in daemon.log.read_text()


def test_a_user_s_new_channels_wait_after_many_wrong_tokens_and_are_served_then(tmp_path: Path) -> None:
    with daemon_on(tmp_path, CONFIG) as daemon, daemon.agent() as early:
        assert early.ask("echo", "open")["content"] == '"open"'
        guess(daemon, channels=10)
        # An open channel waits for nothing, and the right token opens a session on any.
        began = time.monotonic()
        assert early.ask("echo", "still")["content"] == '"still"'
        with daemon.agent() as late:
            assert greeting_of(late, RIGHT) == "ready"
        assert time.monotonic() - began >= 2.0


def test_another_program_of_the_user_waits_for_nothing(tmp_path: Path) -> None:
    with daemon_on(tmp_path, CONFIG) as daemon:
        guess(daemon, channels=10)
        greeting = json.dumps(hello(RIGHT)) + "\n"
        program = f"""if True:
            import socket, time
            began = time.monotonic()
            channel = socket.socket(socket.AF_UNIX)
            channel.connect({str(daemon.path)!r})
            channel.sendall({greeting!r}.encode())
            assert b"ready" in channel.recv(100)
            print(time.monotonic() - began)
        """
        took = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=20).stdout
        assert float(took) < 2.0


def test_a_few_wrong_tokens_cost_nothing_but_their_channel(tmp_path: Path) -> None:
    with daemon_on(tmp_path, CONFIG) as daemon:
        with daemon.agent() as agent:
            assert [greeting_of(agent, WRONG) for _ in range(3)] == ["fault"] * 3
            assert agent.hear() == {"end": True}
        with daemon.agent() as agent:
            assert greeting_of(agent, RIGHT) == "ready"


def test_a_channel_that_waits_when_the_daemon_ends_does_not_hold_it_up(tmp_path: Path) -> None:
    with daemon_on(tmp_path, CONFIG) as daemon:
        guess(daemon, channels=10)
        with daemon.agent() as late:
            began = time.monotonic()
            daemon.process.terminate()
            assert daemon.process.wait() == 0
            assert time.monotonic() - began < 8
            # One that was never accepted is reset by the kernel.
            with suppress(ConnectionResetError):
                assert late.hear().get("error") in {None, "draining"}


def test_the_log_says_who_opened_a_session_and_how_a_call_failed(tmp_path: Path) -> None:
    with daemon_on(tmp_path, CONFIG, "--log-level", "debug") as daemon, daemon.agent() as agent:
        agent.ask("echo", "fine")
        agent.ask("echo", 5)
        agent.ask("nothing", {})
        until(lambda: daemon.logged("call answered") == 3)
        lines = [json.loads(line) for line in daemon.log.read_text().splitlines()]
        (opened,) = [line for line in lines if line["event"] == "session opened"]
        assert (opened["uid"], opened["pid"]) == (os.geteuid(), os.getpid())
        answered = [line for line in lines if line["event"] == "call answered"]
        assert [(line["is_error"], line.get("fault")) for line in answered] == [
            (False, None),
            (True, "invalid_input"),
            (True, "unknown_tool"),
        ]
        assert answered[0]["bytes"] == len('"fine"')
        assert answered[1]["bytes"] > 100
        assert all(line["took_s"] >= 0 for line in answered)
