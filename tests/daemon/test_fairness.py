"""Agents that keep all the places they can get, and others who want one."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.daemon.places.test_doors import abstract, connected
from tests.daemon.spawned import Agent, Daemon, daemon_on, server, until
from tests.daemon.test_peers import AS_ROOT, STRANGER, being

TOOLS: Final = """
[limits]
processes = 8
mcp_opening = 8
[tools.keep]
command = ["sleep", "1000"]
[tools.cat]
command = ["cat"]
"""


def keep_all(daemon: Daemon, *channels: Agent, **fields: object) -> None:
    """Have each of them call more than there are places; they have as many as they get when this returns."""
    for channel in channels:
        for number in range(20):
            channel.call(f"kept {number}", "keep", {}, **fields)
        # Behind its requests: they have been looked at.
        channel.say({"__port": "ping"})
        assert channel.hear()["__port"] == "pong"
    until(lambda: bool(daemon.running("sleep")))


def is_served(channel: Agent, **fields: object) -> bool:
    """Whether a program is run for the agent now, though nobody else gives a place back."""
    channel.call("mine", "cat", "alive", **fields)
    heard = channel.hear()
    return (heard["id"], heard["content"]) == ("mine", '"alive"')


def test_an_agent_that_keeps_what_it_can_get_holds_up_no_other(tmp_path: Path) -> None:
    with daemon_on(tmp_path, TOOLS) as daemon, daemon.agent() as greedy, daemon.agent() as other:
        keep_all(daemon, greedy)
        assert is_served(other)
        assert is_served(other)
        assert len(daemon.running("sleep")) == 6


def test_a_named_agent_that_keeps_what_it_can_get_holds_up_no_other_on_its_channel(tmp_path: Path) -> None:
    with daemon_on(tmp_path, TOOLS) as daemon, daemon.agent() as channel, daemon.agent() as other:
        for name in ("greedy", "modest"):
            channel.say({"__port": "hello", "agent": name})
            channel.hear()
        keep_all(daemon, channel, agent="greedy")
        assert is_served(channel, agent="modest")
        assert is_served(other)


def test_a_channel_with_many_greedy_agents_holds_up_no_other_channel(tmp_path: Path) -> None:
    with daemon_on(tmp_path, TOOLS) as daemon, daemon.agent() as channel, daemon.agent() as other:
        for number in range(50):
            channel.say({"__port": "hello", "agent": f"greedy {number}"})
            channel.hear()
            channel.call("kept", "keep", {}, agent=f"greedy {number}")
        until(lambda: len(daemon.running("sleep")) == 7)
        assert is_served(other)


@AS_ROOT
def test_a_stranger_with_many_channels_has_the_places_of_one(tmp_path: Path) -> None:
    name = abstract("channels")
    with daemon_on(tmp_path, TOOLS, "--listen", f"unix:@{name}?uid=any") as daemon, ExitStack() as channels:
        with being(STRANGER, STRANGER, []):
            greedy = [channels.enter_context(connected(f"\0{name}")) for _ in range(10)]
        keep_all(daemon, *greedy)
        until(lambda: len(daemon.running("sleep")) == 7)
        with daemon.agent() as other:
            assert is_served(other)


@pytest.mark.parametrize("shared", ["false", "true"])
def test_servers_that_never_answer_hold_up_no_other_agent_s(tmp_path: Path, shared: str) -> None:
    hanging = [f"hanging{number}" for number in range(40)]
    keys = (f"shared = {shared}", "handshake_s = 1000")
    config = TOOLS + "".join(server(name, "silent", *keys) for name in hanging) + server("steady", "echo")
    config += f'[agents.default]\nmcp = ["steady"]\n[agents.hanging]\nmcp = {json.dumps(hanging)}\n'
    with daemon_on(tmp_path, config) as daemon, daemon.agent() as greedy, daemon.agent() as other:
        greedy.say({"__port": "hello", "profile": "hanging"})
        until(lambda: len(daemon.running("silent")) == 6)
        assert other.hello("default")["__port"] == "ready"


def test_servers_of_all_agents_of_one_channel_are_bounded_and_no_other_channels(tmp_path: Path) -> None:
    config = f"[limits]\nmcp_processes = 2\n{server('own', 'echo')}"

    def asked(channel: Agent, name: str) -> dict[str, object]:
        channel.say({"__port": "hello", "profile": "default", "agent": name})
        assert channel.hear()["__port"] == "ready"
        return channel.ask("own:echo", {}, agent=name)

    with daemon_on(tmp_path, config) as daemon, daemon.agent() as many, daemon.agent() as other:
        for name in ("a", "b"):
            assert not asked(many, name)["is_error"]
        refused = json.loads(str(asked(many, "c")["content"]))
        assert (refused["error"], refused["what"], refused["limit"]) == ("server_unavailable", "mcp_processes", 2)
        assert not asked(other, "c")["is_error"]
        many.say({"__port": "bye", "agent": "a"})
        assert many.hear()["__port"] == "bye"
        assert not asked(many, "d")["is_error"]
