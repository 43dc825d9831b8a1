"""Servers that have no table in `[mcp]`, offered to an agent process, through a real daemon."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.agent.declaring import NAMED, agent_process, code_of, command, late, names_of
from tests.daemon.spawned import MISBEHAVING, Agent, Daemon, daemon_on, until

CONFIG: Final = "\n".join(
    [
        "[tools.first]\ninline = 'id'\ntype = 'string -> string'",
        "[agents.default]\ntools = ['first']",
        f"[mcp]\nkit = {command(NAMED, 'kit', 'open')}\ntardy = {late(NAMED, 'tardy', 'look', 'find')}",
        agent_process("anonymous", late(NAMED, "My Docs!", "find"), command(NAMED, "my-docs", "look")),
        agent_process("mixing", "'tardy'", "'kit'") + "\ntools = ['first', 'kept']",
        "[tools.kept]\nmcp = 'tardy'\nname = 'find'",
        agent_process("nameless", command(NAMED, "", "find")),
        agent_process("stated", command(NAMED, "docs", "find", prefix="mine")),
        agent_process("failing", command(MISBEHAVING, "dies_at_start")),
        agent_process("silent", command(MISBEHAVING, "silent", handshake_s=0.5)),
        agent_process("mixed", late(NAMED, "late", "find"), '"http://127.0.0.1:1/mcp"', command(NAMED, "kit", "find")),
        agent_process("taken", '"kit"', command(NAMED, "kit", "find")),
    ]
)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_on(tmp_path_factory.mktemp("anonymous"), CONFIG) as daemon:
        yield daemon


@pytest.fixture
def agent(daemon: Daemon) -> Iterator[Agent]:
    with daemon.agent() as agent:
        yield agent


def test_a_server_without_a_name_is_called_what_it_calls_itself(agent: Agent) -> None:
    ready = agent.hello("anonymous")
    # In the order in which the profile has them, and not as they came up.
    assert names_of(ready) == ["my-docs:find", "my-docs-2:look"]
    assert len(ready["warnings"]) == 1
    assert 'prefix "my-docs" is taken, its tools are offered as "my-docs-2:…"' in ready["warnings"][0]
    for name in names_of(ready):
        assert agent.ask(name, {})["content"] == name.partition(":")[2]


def test_tools_stand_in_the_order_of_the_profile_whichever_server_is_quicker(agent: Agent) -> None:
    ready = agent.hello("mixing")
    jobs = ["job_wait", "job_read", "job_list", "job_stop"]
    names = [tool["name"] for tool in ready["tools"]]
    assert names == ["first", "kept", *jobs, "tardy:look", "tardy:find", "kit:open"]


def test_a_server_that_does_not_say_its_name_is_called_after_its_command(agent: Agent) -> None:
    (name,) = names_of(agent.hello("nameless"))
    assert name.startswith("python")
    assert agent.ask(name, {})["content"] == "find"


def test_a_prefix_that_is_stated_stays(agent: Agent) -> None:
    assert names_of(agent.hello("stated")) == ["mine:find"]


def test_a_prefix_of_a_server_that_has_a_name_is_not_given_again(agent: Agent) -> None:
    ready = agent.hello("taken")
    assert sorted(names_of(ready)) == ["kit-2:find", "kit:open"]
    assert len(ready["warnings"]) == 1


def test_a_request_by_a_prefix_that_is_not_known_yet_waits(agent: Agent) -> None:
    agent.say({"__port": "hello", "profile": "nameless"})
    agent.call("1", "nobody:find", {})
    agent.call("2", "nobody", {})
    assert code_of(agent.hear()) == "unknown_tool"
    lines = {line["__port"]: line for line in (agent.hear(), agent.hear())}
    assert lines.keys() == {"ready", "tool_resp"}
    assert code_of(lines["tool_resp"]) == "unknown_tool"


@pytest.mark.parametrize("profile", ["failing", "silent"])
def test_a_server_that_failed_before_it_said_its_name_offers_no_prefix(agent: Agent, profile: str) -> None:
    agent.say({"__port": "hello", "profile": profile})
    agent.call("1", "misbehaving:echo", {})
    lines = {line["__port"]: line for line in (agent.hear(), agent.hear())}
    assert code_of(lines["tool_resp"]) == "unknown_tool"
    assert len(lines["ready"]["warnings"]) == 1


def test_a_server_that_cannot_be_started_may_stand_among_others(agent: Agent) -> None:
    ready = agent.hello("mixed")
    assert names_of(ready) == ["late:find", "kit:find"]
    assert len(ready["warnings"]) == 1
    assert "is not available: cannot connect to 127.0.0.1 port 1: " in ready["warnings"][0]


@pytest.mark.parametrize("profile", ["failing", "silent"])
def test_nothing_is_left_of_a_session_whose_servers_failed(daemon: Daemon, profile: str) -> None:
    with daemon.agent() as witness:
        witness.hello("stated")  # its server shows the daemon's run id
        before = daemon.family()
        files = len(list(Path(f"/proc/{daemon.process.pid}/fd").iterdir()))
        with daemon.agent() as agent:
            agent.hello(profile)
        until(lambda: daemon.family() <= before)
        until(lambda: len(list(Path(f"/proc/{daemon.process.pid}/fd").iterdir())) <= files)
