"""Requests as netdata's ai-agent writes them: what they become, and exact reports on what is wrong with them."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.config.test_mcp_json import load, report_of
from tooldispatchd.catalog.rest.declared import BuiltRequest
from tooldispatchd.catalog.specs import ToolSpec

# The documentation's own examples, each a part of it.
EXAMPLES = {
    "weather": {
        "description": "Get current weather for a location",
        "method": "GET",
        "url": "https://api.weather.com/current?location=${parameters.location}",
        "parametersSchema": {
            "type": "object",
            "properties": {"location": {"type": "string", "description": "City name or coordinates"}},
            "required": ["location"],
        },
    },
    "create_ticket": {
        "description": "Create a support ticket",
        "method": "POST",
        "url": "https://api.helpdesk.com/tickets",
        "headers": {"Authorization": "Bearer ${API_KEY}"},
        "bodyTemplate": {
            "subject": "${parameters.subject}",
            "description": "${parameters.description}",
            "priority": "${parameters.priority}",
        },
        "parametersSchema": {
            "type": "object",
            "properties": {
                "subject": {"type": "string"},
                "description": {"type": "string"},
                "priority": {"type": "string", "enum": ["low", "medium", "high"]},
            },
            "required": ["subject", "description"],
        },
    },
    "search": {
        "method": "GET",
        "url": "https://api.example.com/search",
        "hasComplexQueryParams": True,
        "queryParamNames": ["filters", "sort"],
        "parametersSchema": {
            "type": "object",
            "properties": {"q": {"type": "string"}, "filters": {"type": "array"}, "sort": {"type": "object"}},
        },
    },
    "chat": {
        "method": "POST",
        "url": "https://api.example.com/chat",
        "bodyTemplate": {"message": "${parameters.message}"},
        "streaming": {
            "mode": "json-stream",
            "linePrefix": "data: ",
            "discriminatorField": "type",
            "doneValue": "done",
            "tokenField": "content",
            "tokenValue": "token",
            "answerField": "answer",
            "timeoutMs": 60000,
        },
        "parametersSchema": {
            "type": "object",
            "properties": {"message": {"type": "string"}},
            "required": ["message"],
        },
    },
    "payload": {
        "method": "PUT",
        "url": "https://api.example.com/x",
        "bodyTemplate": "${parameters.payload}",
        "parametersSchema": {"type": "object", "properties": {"payload": {"type": ["object", "null"]}}},
    },
}
ENVIRON = {"API_KEY": "k$1"}


def tool(directory: Path, name: str) -> ToolSpec:
    return load(directory, {"restTools": EXAMPLES}, environ=ENVIRON).config.tools[name]


def request(directory: Path, name: str, values: Mapping[str, object]) -> BuiltRequest:
    declared = load(directory, {"restTools": EXAMPLES}, environ=ENVIRON).tools[name]
    assert declared.rest is not None
    return declared.rest.builder.build(values)


def test_a_simple_parameter_of_the_url_is_sent(tmp_path: Path) -> None:
    assert request(tmp_path, "weather", {"location": "New York"}).query == "location=New%20York"
    assert tool(tmp_path, "weather").description == "Get current weather for a location"


def test_a_body_is_its_template_without_what_is_not_given(tmp_path: Path) -> None:
    made = request(tmp_path, "create_ticket", {"subject": "a", "description": "b"})
    assert (made.body, made.media_type) == (b'{"subject":"a","description":"b"}', "application/json")
    assert made.headers == (("Authorization", "Bearer k$1"),)


def test_the_names_that_are_listed_are_written_in_brackets_and_others_plainly(tmp_path: Path) -> None:
    values = {"q": "x", "filters": [{"field": "email", "value": "a@b"}], "sort": {"field": "date"}}
    assert request(tmp_path, "search", values).query == (
        "filters%5B0%5D%5Bfield%5D=email&filters%5B0%5D%5Bvalue%5D=a%40b&sort%5Bfield%5D=date&q=x"
    )


def test_a_stream_is_one_of_lines(tmp_path: Path) -> None:
    spec = tool(tmp_path, "chat")
    assert spec.call_s == 60
    assert spec.rest is not None
    assert spec.rest.stream is not None
    assert (spec.rest.stream.format, spec.rest.stream.line_prefix) == ("json-lines", "data: ")


@pytest.mark.parametrize(("payload", "body"), [({"a": [1]}, b'{"a":[1]}'), (None, b"null")], ids=["a record", "null"])
def test_a_body_that_is_one_placeholder_is_the_value(tmp_path: Path, payload: object, body: bytes) -> None:
    assert request(tmp_path, "payload", {"payload": payload}).body == body


def test_a_template_that_is_a_text_is_sent_as_it_is(tmp_path: Path) -> None:
    entry = {
        "method": "post",
        "url": "https://x.example/",
        "bodyTemplate": "a=${parameters.a}&cost=$5",
        "headers": {"Content-Type": "application/x-www-form-urlencoded"},
        "parametersSchema": {"properties": {"a": {"type": "string"}}},
    }
    declared = load(tmp_path, {"restTools": {"t": entry}}).tools["t"]
    assert declared.rest is not None
    made = declared.rest.builder.build({"a": "1"})
    assert (made.body, declared.rest.builder.method) == (b"a=1&cost=$5", "POST")


def test_the_same_may_stand_in_the_configuration_itself(tmp_path: Path) -> None:
    text = """\
[restTools.weather]
description = "Get current weather for a location"
method = "GET"
url = "https://api.weather.com/current?location=${parameters.location}"
[restTools.weather.parametersSchema]
type = "object"
required = ["location"]
properties = { location = { type = "string" } }
"""
    (tmp_path / "t.toml").write_text(text)
    declared = load(tmp_path, {"mcpServers": {}}, text).tools["weather"]
    assert declared.rest is not None
    assert declared.rest.builder.build({"location": "x"}).query == "location=x"


def test_a_file_may_have_both_servers_and_requests(tmp_path: Path) -> None:
    document = {"mcpServers": {"a": {"command": "x"}}, "restTools": {"weather": EXAMPLES["weather"]}}
    catalog = load(tmp_path, document)
    assert (list(catalog.servers), list(catalog.tools)) == (["a"], ["weather"])


def test_a_null_within_a_schema_is_one(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"a": {"enum": ["x", None], "default": None}}}
    entry = {"method": "GET", "url": "https://x.example/", "parametersSchema": schema, "bodyTemplate": None}
    assert load(tmp_path, {"restTools": {"t": entry}}).tools["t"].input.is_valid({"a": None})


# --- what is wrong ---


def test_a_mistake_is_told_where_it_stands(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    entry = {"method": "GET", "url": "https://x.example/${parameters.ctiy}", "parametersSchema": schema}
    assert report_of(tmp_path, {"restTools": {"a": entry}}) == (
        "cannot use t.toml: 1 problem\n"
        ".mcp.json:5: restTools.a.url: the tool takes no parameter ctiy\n"
        '    did you mean "city"?\n'
        "    …${parameters.ctiy}\n"
        "                  ^"
    )


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"rateLimit": 5}, "restTools.a.rateLimit: unknown key"),
        ({"parameterSchema": {}}, 'restTools.a.parameterSchema: unknown key\n    did you mean "parametersSchema"?'),
        ({"method": "TRACE"}, "restTools.a.method: no such choice"),
        ({"queue": "slow"}, "restTools.a.queue: no such queue in [queues]"),
        ({"cache": "1 hour"}, "restTools.a.cache: for how long is not to be read from this"),
        ({"streaming": {"mode": "sse"}}, "restTools.a.streaming.mode: no such choice"),
        ({"url": "https://x.example/${API_KEY}"}, "restTools.a.url: the environment has no API_KEY"),
        ({"queryParamNames": ["x"], "hasComplexQueryParams": True}, "the tool takes no parameter x"),
    ],
)
def test_a_key_that_is_not_understood_is_an_error(tmp_path: Path, more: dict[str, object], said: str) -> None:
    report = report_of(tmp_path, {"restTools": {"a": {"method": "GET", "url": "https://x.example/", **more}}})
    assert said in report
    assert ".mcp.json:" in report


@pytest.mark.parametrize(
    ("cache", "kept"), [("off", (None, None)), (0, (None, None)), ("1h", ("1h", True)), (300_000, (300_000, True))]
)
def test_a_request_whose_answers_are_given_again_changes_nothing(tmp_path: Path, cache: object, kept: object) -> None:
    entry = {"method": "POST", "url": "https://x.example/", "queue": "default", "cache": cache}
    spec = load(tmp_path, {"restTools": {"a": entry}}).tools["a"].spec
    assert (spec.cache, spec.read_only) == kept


def test_a_request_waits_in_the_queue_that_it_names_and_in_the_default_one_where_there_is_one(tmp_path: Path) -> None:
    requests = {name: {"method": "GET", "url": f"https://{name}.example/"} for name in ("a", "b")}
    requests["a"]["queue"] = "slow"
    queues = {"slow": {"concurrent": 1}}
    for more, found in (({}, None), ({"default": {"concurrent": 8}}, "default")):
        tools = load(tmp_path, {"restTools": requests, "queues": queues | more}).config.tools
        assert {name: tool.queue for name, tool in tools.items()} == {"a": "slow", "b": found}


def test_a_name_is_declared_once(tmp_path: Path) -> None:
    text = 'mcp_json = [".mcp.json"]\n[tools.a]\ninline = "id"\n'
    document = {"restTools": {"a": {"method": "GET", "url": "https://x.example/"}}}
    assert "restTools.a: a tool a is declared already" in report_of(tmp_path, document, text)
    text = 'mcp_json = [".mcp.json"]\n[restTools.a]\nmethod = "GET"\nurl = "https://x.example/"\n'
    assert "restTools.a is declared already, at t.toml:2" in report_of(tmp_path, document, text)
