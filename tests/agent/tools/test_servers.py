"""Sessions with MCP servers of their own, through a real daemon."""

import json
from collections.abc import Iterator

import pytest

from tests.daemon.spawned import Agent, Daemon, Message, daemon_on, server, until
from tests.processes import is_running

CONFIG = "\n".join(
    [
        '[tools.echo]\ntype = "string -> string"\ninline = "id"',
        server("steady", "echo"),
        server("silent", "silent", "handshake_s = 0.5"),
        server("wanted", "silent", "handshake_s = 0.5", 'tools = ["echo"]'),
        server("lacking", "echo", 'tools = ["echo", "frobnicate"]'),
        server("hangs", "silent_calls", "call_s = 0.3"),
        server("late", "late"),
        server("parent", "grandchild"),
        server("broken", "dies_at_start"),
        '[agents.default]\ntools = ["echo"]',
        '[agents.steady]\ntools = ["echo"]\nmcp = ["steady"]',
        '[agents.silent]\ntools = ["echo"]\nmcp = ["silent", "steady"]',
        '[agents.wanted]\ntools = ["echo"]\nmcp = ["wanted"]',
        '[agents.lacking]\nmcp = ["lacking"]',
        '[agents.hangs]\nmcp = ["hangs"]',
        '[agents.late]\nmcp = ["late"]',
        '[agents.parent]\nmcp = ["parent"]',
        '[agents.broken]\ntools = ["echo"]\nmcp = ["broken"]',
    ]
)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_on(tmp_path_factory.mktemp("servers"), CONFIG) as daemon:
        yield daemon


@pytest.fixture
def agent(daemon: Daemon) -> Iterator[Agent]:
    with daemon.agent() as agent:
        yield agent


def code_of(answer: Message) -> str:
    """The code of an answer that is a fault."""
    assert answer["is_error"]
    assert answer["fault"]
    return str(answer["content"].split('"')[3])


def names_of(ready: Message) -> list[str]:
    return [tool["name"] for tool in ready["tools"] if not tool["name"].startswith("job_")]


# --- words ---


@pytest.mark.parametrize(
    ("profile", "name", "told"),
    [
        ("default", "ecko", "profile default; did you mean echo?"),
        ("default", "zzzz", "profile default"),
        ("steady", "steady:ecko", "profile steady, nor at its server steady; did you mean steady:echo?"),
        ("silent", "zzzz", "profile silent, nor at its servers silent (not available), steady"),
    ],
)
def test_an_unknown_tool_is_told_with_where_it_was_looked_for(agent: Agent, profile: str, name: str, told: str) -> None:
    agent.hello(profile)
    detail = json.loads(agent.ask(name, {})["content"])["detail"]
    assert detail == f"{name} is an unknown tool: it is not among those of {told}"


# --- opening ---


def test_ready_shows_the_tools_of_the_servers(agent: Agent) -> None:
    ready = agent.hello("steady")
    assert (names_of(ready), ready["warnings"]) == (["echo", "steady:echo"], [])
    assert agent.ask("steady:echo", {"text": "hi"})["content"] == "hi"


def test_a_server_that_never_answers_initialize_is_a_warning_and_the_agent_goes_on(agent: Agent) -> None:
    ready = agent.hello("silent")
    assert names_of(ready) == ["echo", "steady:echo"]
    assert len(ready["warnings"]) == 1
    assert "silent" in ready["warnings"][0]
    assert agent.ask("echo", "alive")["content"] == '"alive"'
    assert agent.ask("steady:echo", {"text": "alive"})["content"] == "alive"
    assert code_of(agent.ask("silent:echo", {})) == "server_unavailable"


def test_a_server_that_dies_at_its_start_is_a_warning(agent: Agent) -> None:
    ready = agent.hello("broken")
    assert names_of(ready) == ["echo"]
    assert "exited with code 3" in ready["warnings"][0]


def test_hello_is_refused_where_a_whitelisted_server_never_answers(agent: Agent) -> None:
    refused = agent.hello("wanted")
    assert (refused["__port"], refused["error"], refused["server"]) == ("fault", "server_unavailable", "wanted")
    assert agent.hear() == {"end": True}


def test_requests_that_waited_get_the_fault_of_a_refused_hello(agent: Agent) -> None:
    agent.say({"__port": "pong"})
    agent.say({"__port": "hello", "id": "h", "profile": "wanted"})
    agent.call("1", "wanted:echo", {})
    answer, fault = sorted((agent.hear(), agent.hear()), key=lambda line: line["__port"], reverse=True)
    assert (fault["error"], fault["line"], fault["id"]) == ("server_unavailable", 2, "h")
    told = json.loads(answer["content"])
    # The same fault, without the places that a line of its own has.
    assert told == {key: value for key, value in fault.items() if key not in {"__port", "line", "id"}}
    assert agent.hear() == {"end": True}


def test_a_whitelisted_tool_that_its_server_lacks_refuses_the_session(agent: Agent) -> None:
    refused = agent.hello("lacking")
    assert (refused["__port"], refused["error"], refused["category"]) == ("fault", "missing_tool", "config")
    assert (refused["server"], refused["tool"]) == ("lacking", "frobnicate")
    assert agent.hear() == {"end": True}


def test_a_refused_session_leaves_no_server(daemon: Daemon, agent: Agent) -> None:
    with daemon.agent() as other:
        other.hello("steady")  # its server shows the daemon's run id
        before = daemon.family()
        agent.hello("lacking")
        until(lambda: daemon.family() <= before)


def test_requests_during_the_opening_wait_and_are_then_answered(agent: Agent) -> None:
    agent.say({"__port": "hello", "profile": "steady"})
    agent.call("1", "steady:echo", {"text": "early"})
    lines = {line["__port"]: line for line in (agent.hear(), agent.hear())}
    assert lines.keys() == {"ready", "tool_resp"}
    assert lines["tool_resp"]["content"] == "early"


def test_declared_tools_are_answered_while_servers_open(agent: Agent) -> None:
    agent.say({"__port": "hello", "profile": "silent"})
    agent.call("1", "silent:echo", {})
    agent.call("2", "echo", "at once")
    assert agent.hear()["content"] == '"at once"'
    lines = {line["__port"]: line for line in (agent.hear(), agent.hear())}
    assert code_of(lines["tool_resp"]) == "server_unavailable"
    assert len(lines["ready"]["warnings"]) == 1


def test_the_deadline_of_a_call_covers_the_opening(agent: Agent) -> None:
    agent.say({"__port": "hello", "profile": "silent"})
    agent.call("1", "silent:echo", {}, deadline_ms=50)
    answer = agent.hear()
    assert code_of(answer) == "timeout"
    assert '"stage":"opening"' in answer["content"]
    assert agent.hear()["__port"] == "ready"


def test_ready_is_told_though_the_input_has_ended_while_servers_opened(agent: Agent) -> None:
    agent.say({"__port": "hello", "profile": "silent"})
    agent.call("1", "echo", "at once")
    agent.end_input()
    assert agent.hear()["content"] == '"at once"'
    ready = agent.hear()
    assert (ready["__port"], len(ready["warnings"])) == ("ready", 1)
    assert agent.hear() == {"end": True}


def test_a_session_that_must_be_refused_is_never_ready_though_the_input_has_ended(agent: Agent) -> None:
    agent.say({"__port": "hello", "profile": "lacking", "id": "h"})
    agent.call("1", "lacking:echo", {})
    agent.end_input()
    told = [agent.hear(), agent.hear()]
    assert sorted((line["__port"], line["id"]) for line in told) == [("fault", "h"), ("tool_resp", "1")]
    assert agent.hear() == {"end": True}


# --- failing ---


def test_a_server_that_dies_in_a_call_is_told_at_once(agent: Agent) -> None:
    agent.hello("steady")
    # Its limit would end it too, much later and as a timeout.
    answer = agent.ask("steady:echo", {"exit": 3})
    assert code_of(answer) == "connection_dead"
    assert '"server":"steady"' in answer["content"]


def test_every_call_after_the_death_of_its_server_is_told_at_once(agent: Agent) -> None:
    agent.hello("steady")
    agent.ask("steady:echo", {"kill": True})
    # Before what is said after it is looked at: nothing waits.
    for _ in range(3):
        agent.call("ask", "steady:echo", {"text": "x"})
        agent.say({"__port": "ping"})
        assert code_of(agent.hear()) == "connection_dead"
        assert agent.hear() == {"__port": "pong"}
    assert agent.ask("echo", "alive")["content"] == '"alive"'


def test_a_call_longer_than_its_server_may_take_times_out_and_the_connection_is_dead(agent: Agent) -> None:
    agent.hello("hangs")
    answer = agent.ask("hangs:echo", {})
    assert code_of(answer) == "timeout"
    assert '"limit_ms":300' in answer["content"]
    assert '"stage":"run"' in answer["content"]
    # As above: its limit is not waited for again.
    agent.call("ask", "hangs:echo", {})
    agent.say({"__port": "ping"})
    assert code_of(agent.hear()) == "connection_dead"
    assert agent.hear() == {"__port": "pong"}


def test_calls_in_flight_beside_one_that_times_out_find_the_connection_dead(agent: Agent) -> None:
    agent.hello("hangs")
    agent.call("first", "hangs:echo", {})
    # The first line is served before the second is read: its limit passes first.
    agent.say({"__port": "ping"})
    assert agent.hear() == {"__port": "pong"}
    agent.call("second", "hangs:echo", {})
    answers = {answer["id"]: code_of(answer) for answer in (agent.hear(), agent.hear())}
    assert answers == {"first": "timeout", "second": "connection_dead"}


def test_a_deadline_of_the_agent_passes_and_the_connection_still_works(agent: Agent) -> None:
    agent.hello("late")
    answer = agent.ask("late:echo", {"hold": True}, deadline_ms=100)
    assert code_of(answer) == "timeout"
    assert '"limit_ms":100' in answer["content"]
    assert agent.ask("late:echo", {})["content"] == "prompt"
    # The late answer to the first call came before this one: nobody was given it.
    assert agent.ask("late:echo", {})["content"] == "prompt"


def test_a_cancelled_call_is_answered_and_the_connection_still_works(agent: Agent) -> None:
    agent.hello("late")
    agent.call("1", "late:echo", {"hold": True})
    agent.say({"__port": "tool_cancel", "id": "1"})
    assert code_of(agent.hear()) == "cancelled"
    assert agent.ask("late:echo", {})["content"] == "prompt"


# --- belonging ---


def test_two_agents_have_servers_of_their_own(daemon: Daemon) -> None:
    with daemon.agent() as first, daemon.agent() as second:
        first.hello("steady")
        second.hello("steady")
        first.ask("steady:echo", {"exit": 3})
        assert code_of(first.ask("steady:echo", {})) == "connection_dead"
        assert second.ask("steady:echo", {"text": "unharmed"})["content"] == "unharmed"


def test_what_an_agent_owned_is_gone_with_it_and_the_other_agents_keep_theirs(daemon: Daemon) -> None:
    with daemon.agent() as first, daemon.agent() as second:
        first.hello("parent")
        second.hello("parent")
        mine, other = (int(agent.ask("parent:echo", {})["content"]) for agent in (first, second))
        first.close()
        until(lambda: not is_running(mine))
        assert is_running(other)
        assert second.ask("parent:echo", {})["content"] == str(other)


def test_at_the_end_of_input_a_running_call_is_answered_and_then_its_server_is_gone(daemon: Daemon) -> None:
    with daemon.agent() as agent:
        before = daemon.running("echo")
        agent.hello("steady")
        mine = daemon.running("echo") - before
        assert len(mine) == 1
        agent.call("1", "steady:echo", {"text": "done", "sleep_s": 0.2})
        agent.end_input()
        assert agent.hear()["content"] == "done"
        assert agent.hear() == {"end": True}
        assert not any(is_running(pid) for pid in mine)


def test_an_agent_that_vanishes_in_a_call_leaves_no_server(daemon: Daemon) -> None:
    with daemon.agent() as agent:
        before = daemon.running("silent_calls")
        agent.hello("hangs")
        mine = daemon.running("silent_calls") - before
        agent.call("1", "hangs:echo", {})
    until(lambda: not any(is_running(pid) for pid in mine))
    assert len(mine) == 1
