"""Nulls that are taken as left out, with tools of every kind, through a real daemon. [M158]."""

import json
import sys
from collections.abc import Iterator

import pytest

from tests.daemon.spawned import Agent, daemon_on

# Each call is answered with the arguments that came.
SERVER = """
import json, sys
FIELDS = {"text": {"type": "string"}, "limit": {"type": "integer"}}
SCHEMA = {"type": "object", "properties": FIELDS, "required": ["text"]}
for line in sys.stdin:
    asked = json.loads(line)
    answer = {"jsonrpc": "2.0", "id": asked.get("id")}
    match asked["method"]:
        case "initialize":
            said = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
            answer["result"] = said | {"serverInfo": {"name": "docs", "version": "1"}}
        case "tools/list":
            answer["result"] = {"tools": [{"name": "say", "inputSchema": SCHEMA}]}
        case "tools/call":
            words = json.dumps(asked["params"]["arguments"])
            answer["result"] = {"content": [{"type": "text", "text": words}]}
        case _:
            answer["error"] = {"code": -32601, "message": "Method not found"}
    if "id" in asked:
        print(json.dumps(answer), flush=True)
"""
PYTHON = "def told(text: str, limit: int = 7) -> dict:\n    return {'text': text, 'limit': limit}\n"
CONFIG = f"""
[types]
Query = "{{text: string, limit?: int}}"
[mcp.docs]
command = {json.dumps(sys.executable)}
args = ["-I", "-S", "-c", {json.dumps(SERVER)}]
[tools.inline]
type = "Query -> Query"
inline = "id"
[tools.program]
type = "Query -> json"
command = ["cat"]
[tools.nested]
type = "{{queries: [Query], kind?: {{name?: string}}}} -> json"
command = ["cat"]
[tools.function]
python = "nulls_told:told"
[tools.declared]
type = "Query -> string"
mcp = "docs"
name = "say"
[tools.lifting]
process = "lift"
[processes.lift]
kind = "plumb"
type = "!json -> !json"
chain = ["lift(listed)"]
[tools.listed]
mcp = "docs"
name = "say"
[agents.default]
tools = ["inline", "program", "nested", "function", "declared", "lifting"]
mcp = ["docs"]
"""


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    directory = tmp_path_factory.mktemp("nulls")
    (directory / "nulls_told.py").write_text(PYTHON)
    with daemon_on(directory, CONFIG) as daemon, daemon.agent() as agent:
        agent.say({"__port": "hello", "meta": True})
        assert agent.hear()["warnings"] == []
        yield agent


@pytest.mark.parametrize("tool", ["inline", "program", "declared", "docs:say"])
def test_what_runs_the_tool_is_given_the_input_without_its_needless_nulls(agent: Agent, tool: str) -> None:
    answer = agent.ask(tool, {"text": "a", "limit": None})
    content = json.loads(answer["content"])
    assert (json.loads(content) if isinstance(content, str) else content) == {"text": "a"}
    assert answer["meta"]["dropped"] == ["/limit"]


def test_a_function_has_its_default(agent: Agent) -> None:
    answer = agent.ask("function", {"text": "a", "limit": None})
    assert (json.loads(answer["content"]), answer["meta"]["dropped"]) == ({"text": "a", "limit": 7}, ["/limit"])


def test_nulls_are_found_at_any_depth(agent: Agent) -> None:
    value = {"queries": [{"text": "a", "limit": None}, {"text": "b", "limit": 1}], "kind": {"name": None}}
    answer = agent.ask("nested", value)
    assert json.loads(answer["content"]) == {"queries": [{"text": "a"}, {"text": "b", "limit": 1}], "kind": {}}
    assert sorted(answer["meta"]["dropped"]) == ["/kind/name", "/queries/0/limit"]


def test_a_tool_that_a_chain_lifts_is_given_its_input_without_them_too(agent: Agent) -> None:
    answer = agent.ask("lifting", {"text": "a", "limit": None})
    assert json.loads(json.loads(answer["content"])) == {"text": "a"}
    # They were none of the chain's own input, which is any JSON.
    assert "dropped" not in answer["meta"]


@pytest.mark.parametrize("tool", ["inline", "program", "nested", "function", "declared", "docs:say"])
def test_a_null_for_what_is_required_is_refused(agent: Agent, tool: str) -> None:
    answer = agent.ask(tool, {"queries" if tool == "nested" else "text": None})
    told = json.loads(answer["content"])
    assert told["error"] == "invalid_input"
    assert told["detail"].startswith(("/text: null is not", "/queries: null is not"))
    assert "dropped" not in answer["meta"]


def test_what_is_wrong_besides_is_told_without_them(agent: Agent) -> None:
    told = json.loads(agent.ask("program", {"text": 5, "limit": None})["content"])
    assert told["detail"] == '/text: 5 is not of type "string"'
