from typing import Final

import pytest

from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.specs import Config
from tooldispatchd.config.schema_check import check_form, validator_of, words_of


def test_a_right_table_has_no_problem() -> None:
    assert check_form({"tools": {"a": {"inline": "id", "call_s": 1, "input_schema": {"type": "string"}}}}) == []


def test_every_mistake_is_found_with_its_whole_path() -> None:
    problems = check_form(
        {
            "limits": {"call_s": "x", "waiting": 0, "other": 1},
            "mcp": {"a": {"env": {"K": 1}}, "b c": {"command": "x"}},
            "tools": {"t": {"command": [], "args": ["a", 1]}},
        }
    )
    assert {problem.path for problem in problems} == {
        ("limits", "call_s"),
        ("limits", "waiting"),
        ("limits", "other"),
        ("mcp", "a", "env", "K"),
        ("mcp", "b c"),
        ("tools", "t", "command"),
        ("tools", "t", "args", 1),
    }


def test_a_key_of_an_optional_kind_is_told_its_own_mistake() -> None:
    assert check_form({"mcp": {"a": {"command": "x", "call_s": 0}}}) == [
        Problem(("mcp", "a", "call_s"), "too small", value=0, allowed="a number, over 0 and at most 86400")
    ]


def test_bounds_of_length_are_told() -> None:
    name = "a" * 129
    assert check_form({"agents": {name: {}}}) == [
        Problem(
            ("agents", name),
            "not a valid name",
            allowed='letters, digits, "-" and "_", a letter first, with dots between parts',
        )
    ]


SERVER = "a server's name in [mcp], a URL, or a table as in [mcp]"


def test_a_server_may_be_a_name_a_url_or_a_table_wherever_it_is_used() -> None:
    servers = ["docs", "https://example.org/mcp", {"command": "x", "args": ["y"]}]
    tools = {f"t{number}": {"mcp": server} for number, server in enumerate(servers)}
    assert check_form({"tools": tools, "processes": {"p": {"kind": "agent", "mcp": servers}}}) == []


def test_what_is_no_server_is_told_what_may_be_one() -> None:
    assert check_form({"tools": {"a": {"mcp": 3}}, "processes": {"p": {"kind": "agent", "mcp": [["x"]]}}}) == [
        Problem(("tools", "a", "mcp"), "wrong kind of value", value=3, allowed=SERVER),
        Problem(("processes", "p", "mcp", 0), "wrong kind of value", value=["x"], allowed=SERVER),
    ]


def test_what_is_wrong_within_a_servers_table_is_told_and_not_the_table() -> None:
    table = {"commnd": "x", "call_s": 0, "env": {"A": 1}}
    assert sorted(check_form({"tools": {"a": {"mcp": table}}}), key=lambda problem: problem.path) == [
        Problem(("tools", "a", "mcp", "call_s"), "too small", value=0, allowed="a number, over 0 and at most 86400"),
        Problem(("tools", "a", "mcp", "commnd"), "unknown key", nearest="command"),
        Problem(("tools", "a", "mcp", "env", "A"), "wrong kind of value", value=1, allowed="a string without NUL"),
    ]


def test_owners_keep_their_own_words() -> None:
    allowed = "a number or a name, or a list of them"
    assert check_form({"agents": {"a": {"uid": {"x": 1}}}}) == [
        Problem(("agents", "a", "uid"), "wrong kind of value", value={"x": 1}, allowed=allowed)
    ]


def test_a_chain_has_both_its_bounds_told() -> None:
    allowed = "an array of 1 to 128 of: a string"
    entries = ["x"] * 129
    assert check_form({"processes": {"p": {"kind": "plumb", "chain": entries}}}) == [
        Problem(("processes", "p", "chain"), "too many entries", value=entries, allowed=allowed)
    ]


def test_a_text_that_is_too_long_is_told_its_length() -> None:
    assert check_form({"tools": {"a": {"hint": "x" * 2001}}}) == [
        Problem(("tools", "a", "hint"), "too long", value="x" * 2001, allowed="a string of at most 2000 characters")
    ]


def test_a_key_of_processes_in_a_tool_says_where_it_belongs() -> None:
    (problem,) = check_form({"tools": {"z": {"chain": ["a"]}}})
    assert problem.why == "chain is a key of [processes]; a tool is made of a process"
    assert problem.allowed == 'process = "z", and chain in [processes.z]'


# Each is right to Python's patterns, or to the Structs, which look first.
ONLY_THE_SCHEMA_REFUSES: Final[dict[str, dict[str, object]]] = {
    "a name with a line break": {"tools": {"a\n": {"inline": "id"}}},
    "a header with a line break": {"tools": {"a": {"rest": {"url": "http://a/", "headers": {"C": "a\n"}}}}},
    "a function in another script": {"tools": {"a": {"python": "mödul:f"}}},
    "a URL with a byte order mark": {"traces": {"endpoint": "http://a\ufeff"}},
    "a null in a request": {
        "restTools": {"a": {"method": "GET", "url": "x", "streaming": {"mode": "json-stream", "timeoutMs": None}}}
    },
}


@pytest.mark.parametrize("what", ONLY_THE_SCHEMA_REFUSES)
def test_what_only_the_schema_refuses_is_a_mistake(what: str) -> None:
    assert len(check_form(ONLY_THE_SCHEMA_REFUSES[what])) == 1


def test_what_a_text_must_be_is_told_in_words_for_each_pattern() -> None:
    nodes: list[object] = [validator_of(Config)[0]]
    for node in nodes:
        nodes += node.values() if isinstance(node, dict) else node if isinstance(node, list) else []
    patterns = {node["pattern"] for node in nodes if isinstance(node, dict) and isinstance(node.get("pattern"), str)}
    assert {pattern for pattern in patterns if words_of({"type": "string", "pattern": pattern}) == "a string"} == set()


def test_a_header_of_a_request_says_what_it_may_be() -> None:
    request = {"url": "http://a/", "headers": {"C": "a\nb"}}
    assert check_form({"tools": {"t": {"rest": request}}}) == [
        Problem(("tools", "t", "rest", "headers", "C"), "not well-formed", value="a\nb", allowed="a text in one line")
    ]
