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

from tests.seeds.http_mcp import http_mcp
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
    assert wrong["content"].startswith("invalid_input: ")


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
    assert [part["content"] for part in results["messages"][-1]["content"]] == ["read a", "search"]
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


def at(url: str, text: str) -> str:
    """A sample with a URL of the test's own in the place of the seed's."""
    return text.replace("https://leithdocs.com/ldc/mcp", url)


def test_a_server_by_url_gets_its_bearer_token_and_a_delete_at_the_end(tmp_path: Path) -> None:
    """`write` is added, as above."""
    text = HTTP + "let write : string -> string = tool { process: writer }"
    with http_mcp("search", answer="found") as server, model_api(uses(("1", "ldc__search", {})), says("ok")) as api:
        with plumbed(tmp_path, at(server.url, text), agent_command(api.url), LDC_TOKEN="a-token") as agent:
            agent.hello("default")
            assert value_of(agent.ask("write", "water")) == "ok"
        assert api.body(1)["messages"][-1]["content"][0]["content"] == '"found"'
        assert {headers.get("authorization") for _, _, headers in server.seen} == {"Bearer a-token"}
        assert [method for method, _, _ in server.seen][-1] == "DELETE"
        assert server.seen[-1][2]["mcp-session-id"] == "session-1"


def test_a_variable_for_a_token_that_is_not_set_is_told_at_load_time(tmp_path: Path) -> None:
    assert "LDC_TOKEN" in refusal(tmp_path, HTTP)


def test_a_tool_may_be_backed_by_a_server_and_two_of_them_share_one_connection(tmp_path: Path) -> None:
    text = (
        TYPES + PER_TOOL + 'let find : Query -> Results = tool { mcp: "https://leithdocs.com/ldc/mcp", name: "find" }'
    )
    shared = text.replace('tool { mcp: "https://leithdocs.com/ldc/mcp"', "tool { mcp: ldc")
    with http_mcp("search", "find", answer=RESULTS) as server:
        with plumbed(tmp_path, at(server.url, shared), LDC_TOKEN="a-token") as agent:
            assert set(names(agent.hello("default"))) >= {"search", "find"}
            assert value_of(agent.ask("search", {"text": "x"})) == RESULTS
            assert value_of(agent.ask("find", {"text": "x"})) == RESULTS
        assert server.count("initialize") == 1


def test_a_tool_may_name_a_server_by_its_url_alone(tmp_path: Path) -> None:
    text = 'let search : Query -> Results = tool { mcp: "https://leithdocs.com/ldc/mcp", name: "search" }'
    with (
        http_mcp("search", answer=RESULTS) as server,
        plumbed(tmp_path, TYPES + at(server.url, text)) as agent,
    ):
        assert names(agent.hello("default")) == ["search"]
        assert value_of(agent.ask("search", {"text": "x"})) == RESULTS


def test_a_server_has_a_command_or_a_url_and_not_both_or_neither(tmp_path: Path) -> None:
    for table in ('{ command: "x", url: "https://leithdocs.com/ldc/mcp" }', '{ args: ["x"] }'):
        assert "a server has command or url" in refusal(tmp_path, f"let t : {{}} -> json = tool {{ mcp: {table} }}")


# --- names, priority, ends ---


def test_a_plumbing_tool_wins_over_a_servers_of_its_name_with_a_warning(tmp_path: Path) -> None:
    install_server(tmp_path, "plumb-mcp", "leithdocs", "echo", "look")
    server = '\n[mcp.ldc]\ncommand = "plumb-mcp"\nprefix = ""\n'
    with plumbed(tmp_path, ANNOTATED, server) as agent:
        ready_line = agent.hello("default")
        assert sorted(names(ready_line)) == ["double", "echo", "look"]
        assert len(ready_line["warnings"]) == 1
        assert "echo" in ready_line["warnings"][0]
        assert value_of(agent.ask("echo", "mine")) == "mine"


def test_a_server_that_fails_to_spawn_is_a_warning_and_is_skipped(tmp_path: Path) -> None:
    server = '\n[mcp.ldc]\ncommand = "no-such-program"\n'
    with plumbed(tmp_path, ANNOTATED, server) as agent:
        ready_line = agent.hello("default")
        assert names(ready_line) == ["double", "echo"]
        assert len(ready_line["warnings"]) == 1
        assert value_of(agent.ask("double", 1)) == 2


def test_a_call_that_times_out_marks_the_connection_dead(tmp_path: Path) -> None:
    """The seed's 60 s are `limits.call_s` here; the test does not wait for so long."""
    install_server(tmp_path, "plumb-mcp", "leithdocs", "look")
    server = '\n[mcp.ldc]\ncommand = "plumb-mcp"\ncall_s = 0.5\n'
    with plumbed(tmp_path, ANNOTATED, server) as agent:
        agent.hello("default")
        assert json.loads(agent.ask("ldc:look", {"sleep_s": 60})["content"])["error"] == "timeout"
        assert json.loads(agent.ask("ldc:look", {})["content"])["error"] == "connection_dead"


# --- the agent's program, where the API is another one ---


def completion(content: str | None, *calls: tuple[str, str, str]) -> dict[str, object]:
    """A turn of OpenAI's chat completions: its text, and calls with their arguments as they are written."""
    asked = [{"id": each[0], "type": "function", "function": {"name": each[1], "arguments": each[2]}} for each in calls]
    return {"choices": [{"message": {"role": "assistant", "content": content, "tool_calls": asked}}]}


def test_the_same_agents_run_against_an_api_like_openais(tmp_path: Path) -> None:
    text = TYPES + SEARCHER + ANNOTATED + WRITER + "let write : string -> string = tool { process: writer }"
    turns = (completion(None, ("call_1", "double", '{"input": 4}')), completion("Done."))
    with model_api(*turns) as api, plumbed(tmp_path, text, agent_command(api.url, "openai")) as agent:
        agent.hello("default")
        assert value_of(agent.ask("write", "water")) == "Done."
    path, headers, first = api.asked[0]
    assert (path, headers["authorization"]) == ("/chat/completions", "Bearer a key")
    assert first["messages"][0] == {"role": "system", "content": "Write about the topic."}
    assert [tool["function"]["name"] for tool in first["tools"]][:2] == ["search", "double"]
    assert api.body(1)["messages"][-1] == {"role": "tool", "tool_call_id": "call_1", "content": "8"}


def test_an_answer_that_is_no_value_is_asked_for_once_more(tmp_path: Path) -> None:
    with (
        model_api(says("Here it is!"), says(json.dumps(RESULTS))) as api,
        plumbed(tmp_path, TYPES + SEARCHER, agent_command(api.url)) as agent,
    ):
        agent.hello("default")
        assert value_of(agent.ask("search", {"text": "x"})) == RESULTS
    assert "That is not JSON" in api.body(1)["messages"][-1]["content"]


def test_an_api_that_refuses_fails_the_call_and_says_why(tmp_path: Path) -> None:
    with model_api(529) as api, plumbed(tmp_path, TYPES + SEARCHER, agent_command(api.url)) as agent:
        agent.hello("default")
        fault = json.loads(agent.ask("search", {"text": "x"})["content"])
        assert fault["error"] == "tool_failed"
        assert "the model's API answered 529" in fault["stderr_tail"]
