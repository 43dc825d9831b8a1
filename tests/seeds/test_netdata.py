"""The netdata ai-agent seed: its configuration files as they are written, run by a daemon.

What differs, and why:

- `npx` is a program of these tests on the daemon's PATH, with the tools that the sample names: nothing is fetched.
- A server's `cache` holds for tools that change nothing, as the server says, or `read_only` in `[mcp.NAME]` beside the
  file. The file itself stays as it is written.
- A queue must be declared: the sample of one server alone names one that is in another file.
- Tools are shown as `github:search_code`, and are called by `github__search_code` too where the model's provider is
  asked for, as here: the seed's `{provider}__{toolname}` is what Anthropic and OpenAI are shown.
- A parameter of a REST tool that is not in its URL is sent, and an HTTP error is an error.
- `agent__batch` and its like are not there yet; sub-agents are agent processes, and a declared tool may be called
  `agent__researcher` or `router__handoff-to`.
- The events `tool_started` and `tool_finished` are lines for an agent that asks for them.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.config.test_foreign_requests import EXAMPLES
from tests.daemon.spawned import Agent
from tests.rest.recording import answer, recording
from tests.seeds.model_api import model_api, says
from tests.seeds.seeded import agent_command, install_server, seeded, value_of

# The "Example Configuration".
YAML: Final = """\
defaults:
  toolTimeout: 30000
  toolResponseMaxBytes: 100000

mcpServers:
  github:
    type: stdio
    command: npx
    args: ["-y", "@mcp/github"]
    toolsAllowed: ["search_code", "get_file_contents"]
    queue: github-queue

queues:
  github-queue:
    concurrent: 5
"""
# The "Configuration Example" of MCPProvider, which is one server's.
JSON: Final = """\
{
    "type": "stdio",
    "command": "npx",
    "args": ["-y", "@mcp/github"],
    "env": { "GITHUB_TOKEN": "${GITHUB_TOKEN}" },
    "toolsAllowed": ["search_code", "get_file"],
    "toolsDenied": ["delete_repo"],
    "cache": 300000,
    "queue": "github-queue"
}
"""
READING: Final = '[mcp.github]\nread_only = ["search_*"]\n'
OFFERED: Final = ("search_code", "get_file", "get_file_contents", "delete_repo", "create_issue")


@contextmanager
def on_yaml(directory: Path, more: str = "") -> Iterator[Agent]:
    """An agent of a daemon on the YAML file."""
    install_server(directory, "npx", "github", *OFFERED)
    files = {"ai-agent.yaml": YAML}
    environ = {"STATE_DIRECTORY": str(directory / "state")}
    with seeded(directory, f'mcp_json = ["ai-agent.yaml"]\n{more}', files, environ) as daemon, daemon.agent() as agent:
        yield agent


def test_its_server_comes_up_with_the_tools_that_it_allows(tmp_path: Path) -> None:
    with on_yaml(tmp_path) as agent:
        agent.say({"__port": "hello", "schemas": "anthropic"})
        ready = agent.hear()
        assert [tool["name"] for tool in ready["tools"] if not tool["name"].startswith(("job_", "output_"))] == [
            "github__search_code",
            "github__get_file_contents",
        ]
        assert agent.ask("github__search_code", {})["content"] == "search_code"
        fault = json.loads(agent.ask("github:delete_repo", {})["content"])
        assert fault["error"] in {"unknown_tool", "not_allowed"}
    assert (tmp_path / "npx.started").read_text() == "-y @mcp/github\n"


def test_an_answer_over_the_size_of_the_file_is_stored_and_told_in_the_seed_s_form(tmp_path: Path) -> None:
    """The "Stored Output Format": `tool_output` with the same five keys, beside which stand two more here."""
    with on_yaml(tmp_path) as agent:
        log = (tmp_path / "log").read_text()
        assert "mean nothing here" not in log
        assert agent.ask("github:search_code", {"size": 100_000})["content"] == "x" * 100_000
        told = json.loads(agent.ask("github:search_code", {"size": 1_048_576})["content"])["tool_output"]
        assert (told["reason"], told["bytes"], told["lines"]) == ("size_limit_exceeded", 1_048_576, 1)
        assert (type(told["tokens"]), type(told["handle"])) == (int, str)


def test_a_call_over_the_time_out_of_the_file_ends_there(tmp_path: Path) -> None:
    """With 300 ms in the place of the sample's 30 s."""
    install_server(tmp_path, "npx", "github", *OFFERED)
    text = YAML.replace("toolTimeout: 30000", "toolTimeout: 300")
    config = 'mcp_json = ["ai-agent.yaml"]\n'
    with seeded(tmp_path, config, {"ai-agent.yaml": text}) as daemon, daemon.agent() as agent:
        agent.hello("default")
        fault = json.loads(agent.ask("github:search_code", {"sleep_s": 60})["content"])
        assert fault["error"] == "timeout"


def test_a_server_of_the_json_sample_has_its_lists_its_environment_and_its_cache(tmp_path: Path) -> None:
    install_server(tmp_path, "npx", "github", *OFFERED)
    document = f'{{"mcpServers": {{"github": {JSON}}}, "queues": {{"github-queue": {{"concurrent": 5}}}}}}'
    config = f'mcp_json = ["mcp.json"]\n{READING}'
    with (
        seeded(tmp_path, config, {"mcp.json": document}, {"GITHUB_TOKEN": "x"}) as daemon,
        daemon.agent() as agent,
    ):
        agent.say({"__port": "hello", "meta": True})
        names = [tool["name"] for tool in agent.hear()["tools"]]
        assert [name for name in names if name.startswith("github:")] == ["github:search_code", "github:get_file"]
        called = [agent.ask(name, {}) for name in ("github:search_code", "github:get_file") for _ in "12"]
        assert [answer["meta"]["cached"] for answer in called] == [False, True, False, False]


def test_a_request_time_out_is_in_milliseconds(tmp_path: Path) -> None:
    install_server(tmp_path, "npx", "github", *OFFERED)
    document = f'{{"mcpServers": {{"github": {JSON.replace("300000", "0")}}}}}'.replace(
        '"queue": "github-queue"', '"requestTimeoutMs": 200'
    )
    config = 'mcp_json = ["mcp.json"]\n'
    with (
        seeded(tmp_path, config, {"mcp.json": document}, {"GITHUB_TOKEN": "x"}) as daemon,
        daemon.agent() as agent,
    ):
        agent.hello("default")
        assert json.loads(agent.ask("github:search_code", {"sleep_s": 60})["content"])["error"] == "timeout"


def test_tools_are_called_by_provider_and_tool(tmp_path: Path) -> None:
    """`resolution`: the provider by its namespace, the tool in it, or "tool not found"."""
    with on_yaml(tmp_path) as agent:
        agent.say({"__port": "hello", "schemas": "openai"})
        agent.hear()
        assert agent.ask("github__search_code", {})["content"] == "search_code"
        assert json.loads(agent.ask("gitlab__search_code", {})["content"])["error"] == "unknown_tool"


def test_a_sub_agent_is_a_tool_with_tools_of_its_own(tmp_path: Path) -> None:
    """The seed's `researcher`, which gets the prompt and answers with its report."""
    install_server(tmp_path, "npx", "github", *OFFERED)
    config = """
[processes.researcher]
kind = "agent"
type = "!string -> !string"
prompt = "Research."
tools = ["github:search_code"]
[tools.researcher]
process = "researcher"
"""
    with model_api(says("The report.")) as api:
        whole = f'mcp_json = ["ai-agent.yaml"]\n{agent_command(api.url)}{config}'
        with seeded(tmp_path, whole, {"ai-agent.yaml": YAML}) as daemon, daemon.agent() as agent:
            agent.hello("default")
            assert value_of(agent.ask("researcher", "What is new?")) == "The report."
        shown = [tool["name"] for tool in api.body(0)["tools"] if not tool["name"].startswith(("job_", "output_"))]
        assert shown == ["github__search_code"]


NAMED_AS_THERE: Final = """
[tools.agent__researcher]
type = "string -> string"
inline = "id"
[tools.rest__weather_api]
type = "string -> string"
inline = "id"
[tools.router__handoff-to]
type = "{agent: string, message?: string} -> {agent: string, message?: string}"
inline = "id"
"""


@pytest.mark.parametrize("form", ["plain", "anthropic", "openai"])
def test_tools_have_the_names_of_their_kinds_of_provider(tmp_path: Path, form: str) -> None:
    names = ["agent__researcher", "rest__weather_api", "router__handoff-to"]
    with seeded(tmp_path, NAMED_AS_THERE) as daemon, daemon.agent() as agent:
        agent.say({"__port": "hello", "schemas": form})
        shown = [tool.get("function", tool)["name"] for tool in agent.hear()["tools"]]
        assert shown[:3] == names
        assert value_of(agent.ask("router__handoff-to", {"agent": "x"})) == {"agent": "x"}


def test_an_execution_begins_and_ends_with_an_event(tmp_path: Path) -> None:
    """With the seed's metrics: latency, size and status."""
    with on_yaml(tmp_path) as agent:
        agent.say({"__port": "hello", "events": ["tool_started", "tool_finished"]})
        agent.hear()
        agent.call("1", "github:search_code", {})
        started, finished, answer = agent.hear(), agent.hear(), agent.hear()
    assert (started["kind"], started["provider"]) == ("tool_started", "github")
    assert (finished["kind"], finished["is_error"], finished["bytes"]) == ("tool_finished", False, len("search_code"))
    assert answer["content"] == "search_code"


# --- REST tools ---

# The "Configuration Example" of RestProvider, which is one tool's; its API is a server of this test.
REST: Final = """\
{
    "description": "Get weather data for a city",
    "method": "GET",
    "url": "https://api.weather.com/v1/${parameters.city}",
    "headers": {
        "Authorization": "Bearer ${WEATHER_API_KEY}"
    },
    "parametersSchema": {
        "type": "object",
        "properties": {
            "city": { "type": "string", "description": "City name" }
        },
        "required": ["city"]
    }
}
"""
REST_TOML: Final = """\
[restTools.weather]
description = "Get weather data for a city"
method = "GET"
url = "https://api.weather.com/v1/${parameters.city}"
[restTools.weather.headers]
Authorization = "Bearer ${WEATHER_API_KEY}"
[restTools.weather.parametersSchema]
type = "object"
required = ["city"]
properties = { city = { type = "string", description = "City name" } }
"""


@pytest.mark.parametrize("name", ["weather", "rest__weather"])
@pytest.mark.parametrize("is_json", [True, False])
def test_the_sample_of_a_rest_tool_works_as_it_is_written(tmp_path: Path, name: str, *, is_json: bool) -> None:
    with recording(lambda _request: [answer(b'{"degrees": 21}')]) as api:
        here = ("https://api.weather.com", api.url)
        files = {"ai-agent.json": f'{{"restTools": {{"weather": {REST.replace(*here)}}}}}'} if is_json else {}
        config = 'mcp_json = ["ai-agent.json"]\n' if is_json else REST_TOML.replace(*here)
        with seeded(tmp_path, config, files, {"WEATHER_API_KEY": "key"}) as daemon, daemon.agent() as agent:
            agent.say({"__port": "hello", "schemas": "mcp"})
            [tool] = [tool for tool in agent.hear()["tools"] if not tool["name"].startswith("job_")]
            assert value_of(agent.ask(name, {"city": "New York"})) == {"degrees": 21}
            assert json.loads(agent.ask(name, {})["content"])["error"] == "invalid_input"
    assert (tool["name"], tool["description"]) == ("weather", "Get weather data for a city")
    assert tool["inputSchema"]["properties"] == {"city": {"type": "string", "description": "City name"}}
    assert api.lines() == ["GET /v1/New%20York HTTP/1.1"]
    assert b"Authorization: Bearer key\r\n" in api.asked[0]


def test_the_sample_of_a_stream_works_as_it_is_written(tmp_path: Path) -> None:
    """The documentation's "JSON Streaming", and the stream that it shows."""
    shown = (
        b'data: {"type": "token", "content": "Hello"}\n'
        b'data: {"type": "token", "content": " world"}\n'
        b'data: {"type": "done", "answer": "Hello world"}\n'
    )
    with recording(lambda _request: [answer(shown, media_type="text/event-stream")]) as api:
        text = json.dumps({"restTools": {"chat": EXAMPLES["chat"]}}).replace("https://api.example.com", api.url)
        with (
            seeded(tmp_path, 'mcp_json = ["ai-agent.json"]\n', {"ai-agent.json": text}) as daemon,
            daemon.agent() as agent,
        ):
            assert value_of(agent.ask("rest__chat", {"message": "hi"})) == "Hello world"
    assert api.asked[0].endswith(b'{"message":"hi"}')
