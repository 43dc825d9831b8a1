"""What the log says of a session when it is closed: every request that was answered counts, however it ended."""

import json
from pathlib import Path

from tests.daemon.spawned import Agent, Daemon, Message, daemon_on, server, until

CONFIG = "\n".join(
    [
        '[tools.echo]\ntype = "string -> string"\ninline = "id"',
        '[tools.slow]\ntype = "json -> json"\ncommand = ["sleep", "9"]',
        server("broken", "dies_at_start"),
        server("tidy", "echo"),
        '[agents.default]\ntools = ["echo", "slow"]\nmcp = ["broken", "tidy"]\njobs = false',
        "[limits]\nin_flight = 1\nwaiting = 1",
    ]
)


def closed(daemon: Daemon) -> tuple[int, int]:
    """How many answers the only session has had, and how many of them were faults."""
    until(lambda: daemon.logged("session closed") == 1)
    (line,) = events(daemon, "session closed")
    return int(line["answered"]), int(line["faults"])


def events(daemon: Daemon, name: str) -> list[Message]:
    return [line for line in map(json.loads, daemon.log.read_text().splitlines()) if line["event"] == name]


def test_a_fault_that_is_known_when_the_call_comes_counts_and_is_logged_as_an_answer(tmp_path: Path) -> None:
    with daemon_on(tmp_path, CONFIG, "--log-level", "debug") as daemon:
        with daemon.agent() as agent:
            agent.hello("default")
            assert agent.ask("echo", "hi")["content"] == '"hi"'
            assert agent.ask("tidy:echo", {})["is_error"] is False
            for name in ("no-such-tool", "broken:find"):
                assert agent.ask(name, {})["fault"]
            agent.say({"__port": "tool_req", "id": "b", "name": "echo", "input": "hi", "background": True})
            assert agent.hear()["fault"]
            agent.say({"__port": "admin_req", "id": "a", "ask": "calls"})
            ended = [call["tool"] for call in agent.hear()["value"]["ended"]]
        assert closed(daemon) == (5, 3)
        told = [(line["tool"], line.get("server"), line["is_error"]) for line in events(daemon, "call answered")]
    assert told == [
        ("echo", None, False),
        ("tidy:echo", "tidy", False),
        ("no-such-tool", None, True),
        ("broken:find", None, True),
        ("echo", None, True),
    ]
    # The first was answered in the moment it came, and is in no list, though somebody hears of single calls.
    assert ended == ["tidy:echo", "no-such-tool", "broken:find", "echo"]


def test_a_call_for_which_there_is_no_room_counts(tmp_path: Path) -> None:
    with daemon_on(tmp_path, CONFIG) as daemon:
        with daemon.agent() as agent:
            agent.hello("default")
            for number in range(3):
                agent.call(str(number), "slow", {})
            assert agent.hear()["id"] == "2"
        assert closed(daemon) == (3, 3)


def test_a_call_that_comes_when_the_session_takes_no_more_counts_and_one_with_a_taken_id_is_no_answer(
    tmp_path: Path,
) -> None:
    with daemon_on(tmp_path, CONFIG) as daemon:
        with daemon.agent() as agent:
            agent.hello("default")
            duplicate(agent)
            agent.say({"__port": "bye"})
            agent.call("late", "echo", "hi")
            assert agent.hear()["id"] == "late"
            agent.say({"__port": "tool_cancel", "id": "1"})
        assert closed(daemon) == (2, 2)


def duplicate(agent: Agent) -> None:
    agent.call("1", "slow", {})
    agent.call("1", "echo", "hi")
    assert agent.hear()["__port"] == "fault"
