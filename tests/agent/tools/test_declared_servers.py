"""Declared tools that are tools of MCP servers, through a real daemon."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.agent.declaring import NAMED, code_of, command, names_of
from tests.daemon.spawned import Agent, Daemon, Message, daemon_on, server, until
from tests.processes import is_running

RESULT: Final = "{result: json}"
SLOW: Final = command(NAMED, "slow", "doze", call_s=1)


def tool(name: str, *lines: str, mcp: str) -> str:
    return "\n".join([f"[tools.{name}]", f"mcp = {mcp}", *lines])


CONFIG = "\n".join(
    [
        server("results", "results"),
        server("raw", "echo", 'prefix = ""'),
        server("broken", "dies_at_start"),
        server("off", "echo", "enabled = false"),
        server("parent", "grandchild"),
        server("lively", "lively", "call_s = 1.9", "reset_timeout_on_progress = true"),
        '[mcp.docs]\nurl = "http://127.0.0.1:1/mcp"',
        f"[mcp]\nkit = {command(NAMED, 'kit', 'open', 'shut', 'lock', tools=['open'], deny=['lock'])}",
        '[tools.first]\ninline = "id"\ntype = "string -> string"',
        tool("number", f'type = "{RESULT} -> int"', 'name = "echo"', mcp='"results"'),
        tool("text", f'type = "{RESULT} -> string"', 'name = "echo"', mcp='"results"'),
        tool("alias", 'name = "open"', mcp='"kit"'),
        tool("shut", 'description = "Close it."', 'title = "Closer"', mcp='"kit"'),
        tool("echo", 'name = "echo"', mcp='"results"'),
        tool("given", 'name = "echo"', "output_schema = { type = 'integer' }", mcp='"results"'),
        tool("taken", 'name = "echo"', "input_schema = { type = 'object', required = ['result'] }", mcp='"results"'),
        tool("quoted", 'type = "{result: {content: [json]}} -> json"', 'name = "echo"', mcp='"results"'),
        tool(
            "unquoted",
            'type = "{result: {content: [json]}} -> json"',
            'name = "echo"',
            "repair = false",
            mcp='"results"',
        ),
        tool("down", 'type = "{} -> string"', mcp='"broken"'),
        tool("bare", mcp='"broken"'),
        tool("lacking", mcp='"results"'),
        tool("far", 'type = "{text: string} -> string"', 'name = "search"', mcp='"docs"'),
        tool("switched", 'type = "{} -> string"', 'name = "echo"', mcp='"off"'),
        tool("brief", 'name = "doze"', "call_s = 0.2", mcp=SLOW),
        tool("long", 'name = "doze"', "call_s = 2", mcp=SLOW),
        tool("plain", 'name = "doze"', mcp=SLOW),
        tool("child", 'name = "echo"', mcp='"parent"'),
        '[tools.piped]\nprocess = "pipe"',
        '[processes.pipe]\nkind = "plumb"\ntype = "!json -> !json"\nchain = ["lift(plain)"]',
        '[tools.leaking]\nprocess = "leak"',
        '[processes.leak]\nkind = "plumb"\ntype = "!json -> !json"\nchain = ["lift(down)"]',
        '[agents.typed]\ntools = ["first", "number", "text"]',
        '[agents.halves]\ntools = ["given", "taken"]',
        '[agents.alias]\ntools = ["alias", "first", "shut"]',
        '[agents.both]\ntools = ["shut", "kit:open"]\nmcp = ["kit"]',
        '[agents.raw]\ntools = ["echo"]\nmcp = ["raw"]',
        '[agents.down]\ntools = ["first", "down", "bare"]',
        '[agents.lacking]\ntools = ["lacking"]',
        tool("misspelt", 'name = "ecko"', mcp='"results"'),
        '[agents.misspelt]\ntools = ["misspelt"]\nmcp = ["results"]',
        '[agents.far]\ntools = ["far"]\nmcp = ["docs"]',
        '[agents.switched]\ntools = ["switched"]',
        '[agents.off]\nmcp = ["off"]',
        '[agents.slow]\ntools = ["brief", "long", "plain"]',
        '[agents.child]\ntools = ["child"]',
        '[agents.quoted]\ntools = ["quoted", "unquoted"]',
        '[agents.lively]\ntools = ["first"]\nmcp = ["lively"]',
        '[agents.piped]\ntools = ["piped"]',
        '[agents.leaking]\ntools = ["leaking"]',
    ]
)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_on(tmp_path_factory.mktemp("declared"), CONFIG) as daemon:
        yield daemon


@pytest.fixture
def agent(daemon: Daemon) -> Iterator[Agent]:
    with daemon.agent() as agent:
        yield agent


def shown(ready: Message, name: str) -> Message:
    (found,) = [tool for tool in ready["tools"] if tool["name"] == name]
    return dict(found)


def result(**fields: object) -> dict[str, object]:
    """What makes the server answer with a result of these fields."""
    return {"result": fields}


def said(text: str, **fields: object) -> dict[str, object]:
    return result(content=[{"type": "text", "text": text}], **fields)


# --- declared tools ---


def test_a_declared_type_is_what_the_tool_gives(agent: Agent) -> None:
    ready = agent.hello("typed")
    assert (names_of(ready), ready["warnings"]) == (["first", "number", "text"], [])
    assert agent.ask("number", result(structuredContent=3))["content"] == "3"
    assert agent.ask("number", said(" 4"))["content"] == "4"
    assert agent.ask("text", said("4"))["content"] == '"4"'
    assert agent.ask("text", result(structuredContent="hi"))["content"] == '"hi"'


def test_what_breaks_a_declared_type_is_told_on_both_sides(agent: Agent) -> None:
    agent.hello("typed")
    assert code_of(agent.ask("number", {"more": 1})) == "invalid_input"
    assert code_of(agent.ask("number", said("four"))) == "invalid_output"
    assert code_of(agent.ask("number", result(structuredContent="4"))) == "invalid_output"


def test_json_in_quotes_is_taken_for_what_it_holds_unless_the_table_says_otherwise(agent: Agent) -> None:
    agent.hello("quoted")
    quoted = {"result": '{"content":"[{\\"type\\":\\"text\\",\\"text\\":\\"4\\"}]"}'}
    assert agent.ask("quoted", quoted)["content"] == "4"
    answer = agent.ask("unquoted", quoted)
    assert code_of(answer) == "invalid_input"
    assert "this text holds JSON" in json.loads(answer["content"])["violations"][0]["message"]


def test_an_error_of_the_server_is_passed_on_unchecked(agent: Agent) -> None:
    agent.hello("typed")
    answer = agent.ask("number", said("no such thing", isError=True))
    assert (answer["content"], answer["is_error"], answer.get("fault")) == ("no such thing", True, None)


def test_a_tool_without_a_type_is_as_its_server_lists_it_but_for_what_is_declared(agent: Agent) -> None:
    ready = agent.hello("alias")
    assert (names_of(ready), ready["warnings"]) == (["alias", "first", "shut"], [])
    schema = {"type": "object", "properties": {"sleep_s": {"type": "number"}}}
    alias, shut = shown(ready, "alias"), shown(ready, "shut")
    assert (alias["description"], alias["input_schema"]) == ("Say open.", schema)
    assert (shut["description"], shut["input_schema"]) == ("Close it.", schema)
    assert agent.ask("alias", {})["content"] == "open"
    assert code_of(agent.ask("alias", {"sleep_s": "long"})) == "invalid_input"


def test_what_only_one_half_declares_leaves_the_other_to_the_server(agent: Agent) -> None:
    ready = agent.hello("halves")
    assert shown(ready, "given")["input_schema"] == {"type": "object"}
    assert agent.ask("given", said("4"))["content"] == "4"
    assert code_of(agent.ask("given", said("four"))) == "invalid_output"
    assert code_of(agent.ask("given", 4)) == "invalid_input"
    assert agent.ask("taken", said("four"))["content"] == "four"
    assert code_of(agent.ask("taken", {})) == "invalid_input"


def test_a_part_of_a_profile_has_the_servers_of_that_part(daemon: Daemon, agent: Agent) -> None:
    before = daemon.family()
    agent.say({"__port": "hello", "profile": "alias", "spec": {"tools": ["first"]}})
    assert names_of(agent.hear()) == ["first"]
    assert daemon.family() <= before
    assert code_of(agent.ask("alias", {})) == "not_allowed"


def test_tools_of_one_server_share_its_connection(daemon: Daemon, agent: Agent) -> None:
    before = daemon.running("kit")
    agent.hello("alias")
    assert len(daemon.running("kit") - before) == 1


def test_what_only_declared_tools_use_is_not_offered(agent: Agent) -> None:
    agent.hello("alias")
    assert code_of(agent.ask("kit:open", {})) == "unknown_tool"


def test_a_whitelist_says_what_is_offered_and_not_what_may_be_declared(agent: Agent) -> None:
    assert names_of(agent.hello("both")) == ["shut", "kit:open"]
    assert agent.ask("shut", {})["content"] == "shut"
    assert code_of(agent.ask("kit:shut", {})) == "unknown_tool"
    assert code_of(agent.ask("kit:lock", {})) == "not_allowed"


def test_a_request_during_the_opening_waits_for_the_tools_own_server(agent: Agent) -> None:
    agent.say({"__port": "hello", "profile": "typed"})
    agent.call("1", "number", result(structuredContent=1))
    agent.call("2", "first", "at once")
    assert agent.hear()["content"] == '"at once"'
    lines = {line["__port"]: line for line in (agent.hear(), agent.hear())}
    assert lines.keys() == {"ready", "tool_resp"}
    assert lines["tool_resp"]["content"] == "1"


def test_a_server_that_is_down_is_a_warning_and_its_tools_say_why(agent: Agent) -> None:
    ready = agent.hello("down")
    # Of the other one nothing is known without its server.
    assert names_of(ready) == ["first", "down"]
    assert len(ready["warnings"]) == 1
    assert "exited with code 3" in ready["warnings"][0]
    assert code_of(agent.ask("down", {"more": 1})) == "invalid_input"
    assert [code_of(agent.ask(name, {})) for name in ("down", "bare")] == ["server_unavailable"] * 2
    assert agent.ask("first", "alive")["content"] == '"alive"'


def test_a_server_that_lacks_a_declared_tool_refuses_the_session(agent: Agent) -> None:
    refused = agent.hello("lacking")
    assert (refused["__port"], refused["error"]) == ("fault", "missing_tool")
    assert (refused["server"], refused["tool"]) == ("results", "lacking")
    assert "did_you_mean" not in refused
    assert agent.hear() == {"end": True}


def test_the_tool_that_its_server_probably_means_is_named(daemon: Daemon, agent: Agent) -> None:
    before = daemon.logged("tool missing")
    refused = agent.hello("misspelt")
    assert (refused["error"], refused["did_you_mean"]) == ("missing_tool", "echo")
    assert refused["detail"].endswith("which the tool misspelt is made of; did you mean echo?")
    assert daemon.logged("tool missing") == before + 1


def test_a_declared_tool_hides_a_servers_tool_of_its_name_with_one_warning(daemon: Daemon, agent: Agent) -> None:
    before = daemon.logged("tool hidden")
    ready = agent.hello("raw")
    assert names_of(ready) == ["echo"]
    assert ready["warnings"] == ["server raw: echo is hidden by another tool of that name"]
    assert daemon.logged("tool hidden") == before + 1
    assert agent.ask("echo", said("declared"))["content"] == "declared"


# --- limits ---


def test_a_tools_own_limit_that_is_shorter_than_the_servers_leaves_the_connection(agent: Agent) -> None:
    agent.hello("slow")
    answer = agent.ask("brief", {"sleep_s": 0.3})
    assert (code_of(answer), json.loads(answer["content"])["limit_ms"]) == ("timeout", 200)
    assert agent.ask("plain", {})["content"] == "doze"


def test_the_servers_limit_is_that_of_a_tool_that_has_none(agent: Agent) -> None:
    agent.hello("slow")
    answer = agent.ask("plain", {"sleep_s": 5})
    assert (code_of(answer), json.loads(answer["content"])["limit_ms"]) == ("timeout", 1000)
    assert code_of(agent.ask("brief", {})) == "connection_dead"


def test_a_tool_may_have_longer_than_its_server_and_then_the_connection_is_dead(agent: Agent) -> None:
    agent.hello("slow")
    assert agent.ask("long", {"sleep_s": 1.2})["content"] == "doze"
    answer = agent.ask("long", {"sleep_s": 5})
    assert (code_of(answer), json.loads(answer["content"])["limit_ms"]) == ("timeout", 2000)
    assert code_of(agent.ask("long", {})) == "connection_dead"


def test_progress_begins_the_servers_limit_anew_where_its_table_says_so(agent: Agent) -> None:
    agent.hello("lively")
    assert agent.ask("lively:echo", {})["content"] == "at last"


def test_a_limit_begun_anew_holds_while_the_answer_is_shortened(agent: Agent) -> None:
    agent.say({"__port": "hello", "profile": "lively", "max_output": 1024})
    agent.hear()
    # The process that shortens has started: only its work is within the limit of the call.
    assert "output_read" in agent.ask("first", "x" * 5000)["content"]
    answer = agent.ask("lively:echo", {"text": "x" * 5000})
    assert "output_read" in answer["content"]


# --- chains ---


def test_a_chain_lifts_a_servers_tool_that_the_profile_does_not_offer(agent: Agent) -> None:
    ready = agent.hello("piped")
    assert names_of(ready) == ["piped"]
    assert agent.ask("piped", {})["content"] == '"doze"'
    assert code_of(agent.ask("plain", {})) == "not_allowed"


def test_a_chain_waits_for_the_servers_of_what_it_lifts(agent: Agent) -> None:
    agent.say({"__port": "hello", "profile": "piped"})
    agent.call("1", "piped", {})
    lines = {line["__port"]: line for line in (agent.hear(), agent.hear())}
    assert lines["tool_resp"]["content"] == '"doze"'


def test_a_chain_whose_server_is_down_is_told_so(agent: Agent) -> None:
    ready = agent.hello("leaking")
    assert names_of(ready) == ["leaking"]
    assert len(ready["warnings"]) == 1
    answer = agent.ask("leaking", {})
    assert answer["fault"]
    assert "broken is not available" in answer["content"]


# --- servers that are not there ---


def test_the_tools_of_a_url_where_nobody_is_say_why(daemon: Daemon, agent: Agent) -> None:
    before = daemon.family()
    ready = agent.hello("far")
    assert names_of(ready) == ["far"]
    assert len(ready["warnings"]) == 1
    assert "server docs is not available: cannot connect to 127.0.0.1 port 1: " in ready["warnings"][0]
    assert code_of(agent.ask("far", {"text": "x"})) == "server_unavailable"
    assert code_of(agent.ask("far", {})) == "invalid_input"
    assert code_of(agent.ask("docs:search", {})) == "server_unavailable"
    assert daemon.family() <= before


def test_a_declared_tool_of_a_server_that_is_not_enabled_says_so(agent: Agent) -> None:
    ready = agent.hello("switched")
    assert ready["warnings"] == ["server off is not available: it is not enabled"]
    assert code_of(agent.ask("switched", {})) == "server_unavailable"


def test_a_tool_of_a_server_that_a_profile_names_and_is_not_enabled_says_so(agent: Agent) -> None:
    assert names_of(agent.hello("off")) == []
    answer = agent.ask("off:echo", {})
    assert code_of(answer) == "server_unavailable"
    assert "server off is not available: it is not enabled" in answer["content"]


def test_a_server_of_another_clients_file_that_is_left_out_tells_the_agent_why(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"bad": {"type": "pigeon", "command": "x"}}}')
    config = 'mcp_json = ["mcp.json"]\n[agents.default]\nmcp = ["bad"]\ntools = ["mine"]\n[tools.mine]\nmcp = "bad"\n'
    with daemon_on(tmp_path, config) as daemon, daemon.agent() as agent:
        told = agent.hello("default")["warnings"]
        assert any("bad is left out: mcp.bad.type: no such type" in each for each in told)
        for name in ("bad:fly", "mine"):
            answer = agent.ask(name, {})
            assert code_of(answer) == "server_unavailable"
            assert "left out: mcp.bad.type: no such type" in answer["content"]


# --- ends ---


def test_what_a_declared_tool_started_is_gone_with_its_agent(daemon: Daemon) -> None:
    with daemon.agent() as agent:
        agent.hello("child")
        mine = int(agent.ask("child", {})["content"])
        assert is_running(mine)
    until(lambda: not is_running(mine))


@pytest.mark.parametrize("profile", ["lacking", "leaking"])
def test_nothing_is_left_of_a_session_whose_servers_failed(daemon: Daemon, profile: str) -> None:
    with daemon.agent() as witness:
        witness.hello("alias")  # its server shows the daemon's run id
        before = daemon.family()
        files = len(list(Path(f"/proc/{daemon.process.pid}/fd").iterdir()))
        with daemon.agent() as agent:
            agent.hello(profile)
        until(lambda: daemon.family() <= before)
        until(lambda: len(list(Path(f"/proc/{daemon.process.pid}/fd").iterdir())) <= files)


def test_an_agent_that_vanishes_while_its_chain_waits_for_a_server_leaves_nothing(daemon: Daemon) -> None:
    with daemon.agent() as agent:
        before = daemon.running("slow")
        agent.hello("piped")
        mine = daemon.running("slow") - before
        agent.call("1", "piped", {"sleep_s": 0.5})
    until(lambda: not any(is_running(pid) for pid in mine))
    assert len(mine) == 1
