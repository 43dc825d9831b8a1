"""The plumb seed: its samples as they are written, run by a daemon.

What differs, and why:

- Samples that use types the seed does not declare (`Query`, `Draft`, …) have these declared before them.
- An agent has no program in the seed, since plumb has its own; here `agent_command` names it (`examples/agent.py`).
- `plumb-mcp` and `npx` are programs of these tests on the daemon's PATH: nothing is fetched. Where the seed names a
  server on the network, the test puts one of its own on the loopback, and its URL into the sample.
- A stream process is no tool by itself, in the seed as here: a test that calls one adds a `tool { process: … }`.
- The seed gives no order of a server's failure and its warning: here it is a warning of `ready`, not of the log alone.
"""

import json
from pathlib import Path
from typing import Final

import pytest

from tests.daemon.spawned import Agent
from tests.real.listening import says_ports
from tests.seeds.model_api import model_api, says, uses
from tests.seeds.seeded import agent_command, install_server, names, plumbed, refusal, value_of

TYPES: Final = """
type Query = { text: string }
type Results = [{ title: string, url: string }]
"""
SEARCHER: Final = """
let searcher : !Query -> !Results = agent {
  prompt: "Search for relevant results."
}

let search : Query -> Results = tool { process: searcher }
"""
ANNOTATED: Final = """
@tool true
@description "Double the input score"
let double : int -> int = map(score * 2)

@tool true
let echo : string -> string = id
"""
WRITER: Final = """
let writer : !string -> !string = agent {
  prompt: "Write about the topic."
  tools: [search, double]
}
"""
BINDINGS: Final = """
let ldc = { command: "plumb-mcp", args: ["--docroot", "."] }
let github = { command: "npx", args: ["-y", "@anthropic/mcp-github"], tools: ["search_repositories"] }

let composer : !Draft -> !Review = agent {
  model: "claude-sonnet-4-5",
  tools: [read, write],
  mcp: [ldc, github]
}

let critic : !Review -> !Verdict = agent {
  model: "claude-haiku-4-5",
  mcp: [ldc]
}
"""
# What the sample uses and does not say.
BINDINGS_TYPES: Final = """
type Draft = { text: string }
type Review = { score: int }
type Verdict = bool
let read : { path: string } -> string = map("read " + path)
let write : { path: string } -> string = map("wrote " + path)
let compose : Draft -> Review = tool { process: composer }
let judge : Review -> Verdict = tool { process: critic }
"""
RESULTS: Final = [{"title": "Water", "url": "https://water.example/"}]


# --- two forms of tool ---


def test_a_lowered_process_is_a_tool_whose_agent_runs_its_prompt(tmp_path: Path) -> None:
    with (
        model_api(says(json.dumps(RESULTS))) as api,
        plumbed(tmp_path, TYPES + SEARCHER, agent_command(api.url)) as agent,
    ):
        assert names(agent.hello("default")) == ["search"]
        assert value_of(agent.ask("search", {"text": "climate change"})) == RESULTS
    asked = api.body(0)
    assert asked["system"].startswith("Search for relevant results.")
    assert asked["messages"] == [{"role": "user", "content": '{"text": "climate change"}'}]
    assert asked["model"] == "a model"


def test_a_request_and_its_response_are_the_seeds_lines(tmp_path: Path) -> None:
    with (
        model_api(says(json.dumps(RESULTS))) as api,
        plumbed(tmp_path, TYPES + SEARCHER, agent_command(api.url)) as agent,
    ):
        agent.hello("default")
        agent.say({"id": "toolu_abc123", "name": "search", "input": {"text": "climate change"}})
        content = '[{"title":"Water","url":"https://water.example/"}]'
        assert agent.hear() == {"id": "toolu_abc123", "content": content, "is_error": False}


def test_annotated_bare_morphisms_are_tools(tmp_path: Path) -> None:
    with plumbed(tmp_path, ANNOTATED) as agent:
        assert names(agent.hello("default")) == ["double", "echo"]
        assert value_of(agent.ask("double", 21)) == 42
        assert value_of(agent.ask("echo", "hello")) == "hello"


def test_a_bare_morphism_without_the_annotation_is_not_exposed(tmp_path: Path) -> None:
    text = """
let internal : int -> int = map(score * 2)
@tool false
let hidden : int -> int = map(score * 3)
let quadruple : int -> int = tool { process: twice }
let twice : !int -> !int = plumb { lift(internal) ; lift(internal) }
"""
    with plumbed(tmp_path, text) as agent:
        assert names(agent.hello("default")) == ["quadruple"]
        assert value_of(agent.ask("quadruple", 3)) == 12
        assert json.loads(agent.ask("internal", 3)["content"])["error"] == "not_allowed"
        assert json.loads(agent.ask("hidden", 3)["content"])["error"] == "not_allowed"


def test_input_and_output_are_checked_against_the_declared_types(tmp_path: Path) -> None:
    with (
        model_api(says('[{"title": "no url"}]')) as api,
        plumbed(tmp_path, TYPES + SEARCHER + ANNOTATED, agent_command(api.url)) as agent,
    ):
        agent.hello("default")
        answer = agent.ask("double", "many")
        assert (answer["is_error"], json.loads(answer["content"])["error"]) == (True, "invalid_input")
        answer = agent.ask("search", {"text": "x"})
        assert (answer["is_error"], json.loads(answer["content"])["error"]) == (True, "invalid_output")


def test_what_is_not_total_is_refused_at_load_time(tmp_path: Path) -> None:
    for kind, type_ in [("filter(score > 1)", "!int -> !int"), ("merge", "(!int, !int) -> !int")]:
        text = f"let p : {type_} = {kind}\nlet t : int -> int = tool {{ process: p }}"
        assert f"cannot lower {kind.partition('(')[0]} to a tool (not total)" in refusal(tmp_path, text)


def test_types_must_be_the_process_s_without_the_streams(tmp_path: Path) -> None:
    text = TYPES + SEARCHER.replace("let search : Query -> Results", "let search : Query -> int")
    assert "seed.plumb:" in refusal(tmp_path, text)


def test_a_bare_binding_cannot_be_wired(tmp_path: Path) -> None:
    text = ANNOTATED + "let main : !string -> !string = plumb { echo }"
    assert "echo" in refusal(tmp_path, text)


# --- tools of agents ---


def test_an_agent_calls_the_tools_of_its_config(tmp_path: Path) -> None:
    """`write` is added: the seed's `writer` is a stream process, which nobody calls by itself."""
    text = TYPES + SEARCHER + ANNOTATED + WRITER + "let write : string -> string = tool { process: writer }"
    turns = (
        uses(("toolu_1", "double", {"input": 21}), ("toolu_2", "double", {"input": "x"})),
        says("Water is wet."),
    )
    with model_api(*turns) as api, plumbed(tmp_path, text, agent_command(api.url)) as agent:
        agent.hello("default")
        assert value_of(agent.ask("write", "water")) == "Water is wet."
    shown = [tool["name"] for tool in api.body(0)["tools"]]
    assert shown[:2] == ["search", "double"]
    right, wrong = api.body(1)["messages"][-1]["content"]
    assert right == {"type": "tool_result", "tool_use_id": "toolu_1", "content": "42", "is_error": False}
    assert wrong["is_error"] is True
    assert json.loads(wrong["content"])["error"] == "invalid_input"


def test_agents_use_servers_by_bindings_and_each_has_its_own_connection(tmp_path: Path) -> None:
    install_server(tmp_path, "plumb-mcp", "leithdocs", "search", "read")
    install_server(tmp_path, "npx", "github-server", "search_repositories", "create_issue")
    turns = (
        uses(("toolu_1", "read", {"path": "a"}), ("toolu_2", "ldc__search", {})),
        says('{"score": 7}'),
        says("true"),
    )
    with (
        model_api(*turns) as api,
        plumbed(tmp_path, BINDINGS_TYPES + BINDINGS, agent_command(api.url)) as agent,
    ):
        agent.hello("default")
        assert value_of(agent.ask("compose", {"text": "A draft."})) == {"score": 7}
        assert value_of(agent.ask("judge", {"score": 7})) is True
    composer, results, critic = (api.body(number) for number in range(3))
    assert [tool["name"] for tool in composer["tools"] if not tool["name"].startswith("job_")] == [
        "read",
        "write",
        "ldc__search",
        "ldc__read",
        "github__search_repositories",
    ]
    assert [part["content"] for part in results["messages"][-1]["content"]] == ['"read a"', "search"]
    assert [tool["name"] for tool in critic["tools"] if not tool["name"].startswith("job_")] == [
        "ldc__search",
        "ldc__read",
    ]
    assert (composer["model"], critic["model"]) == ("claude-sonnet-4-5", "claude-haiku-4-5")
    started = (tmp_path / "plumb-mcp.started").read_text().splitlines()
    # The default profile has no agent's servers but those that are declared; each agent has opened its own.
    assert started.count("--docroot .") >= 2
    assert "-y @anthropic/mcp-github" in (tmp_path / "npx.started").read_text()


def test_a_whitelisted_tool_that_is_missing_is_an_error(tmp_path: Path) -> None:
    install_server(tmp_path, "plumb-mcp", "leithdocs", "search")
    install_server(tmp_path, "npx", "github-server", "create_issue")
    with plumbed(tmp_path, BINDINGS_TYPES + BINDINGS, agent_command("http://127.0.0.1:9")) as agent:
        refused = agent.hello("default")
        assert (refused["__port"], refused["error"]) == ("fault", "missing_tool")


# --- servers by URL ---

HTTP: Final = """
let ldc = { url: "https://leithdocs.com/ldc/mcp", token_env: "LDC_TOKEN" }

let writer : !string -> !string = agent {
  mcp: [ldc]
}
"""
PER_TOOL: Final = """
let ldc = { url: "https://leithdocs.com/ldc/mcp", token_env: "LDC_TOKEN" }
let search : Query -> Results = tool { mcp: ldc, name: "search" }
"""
