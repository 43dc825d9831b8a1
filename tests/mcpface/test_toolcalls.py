"""Lists of tools and calls, as each revision has them."""

import json

import pytest

from tests.mcpface.stage import Stage


def test_a_call_goes_to_the_daemon_under_an_id_of_ours_and_its_answer_comes_back() -> None:
    stage = Stage()
    stage.open()
    stage.client(b'{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"same","arguments":{\n"a":1.50}}}')
    (line,) = stage.lines()
    assert line == {"__port": "tool_req", "agent": "mcp", "id": line["id"], "name": "same", "input": {"a": 1.5}}
    assert line["id"] != "x"
    stage.answer(line, '{"a":1.5}', value={"a": 1.5}, blocks=[{"type": "text", "text": '{"a":1.5}'}])
    assert stage.told() == [
        {
            "jsonrpc": "2.0",
            "id": "x",
            "result": {"content": [{"type": "text", "text": '{"a":1.5}'}], "structuredContent": {"a": 1.5}},
        }
    ]


def test_a_revision_without_structure_is_told_of_none() -> None:
    stage = Stage()
    stage.open("2024-11-05")
    stage.request("tools/list")
    same, look = stage.told()[0]["result"]["tools"]
    assert same == {"name": "same", "description": "Give it back.", "inputSchema": {"type": "object"}}
    assert look["name"] == "look"
    stage.request("tools/call", {"name": "same"})
    parts = [
        {"type": "audio", "data": "", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///a", "name": "a"},
        {"type": "text", "text": "b", "_meta": {}},
    ]
    stage.answer(stage.lines()[0], "{}", value={}, blocks=parts)
    assert stage.told()[0]["result"] == {
        "content": [
            {"type": "text", "text": "[audio]"},
            {"type": "text", "text": "file:///a"},
            {"type": "text", "text": "b"},
        ]
    }


def test_a_long_value_is_structured_though_the_daemon_writes_it_once() -> None:
    stage = Stage()
    stage.open()
    stage.request("tools/call", {"name": "same"})
    stage.answer(stage.lines()[0], '{"long":1}', blocks=[])
    assert stage.told()[0]["result"]["structuredContent"] == {"long": 1}


def test_a_fault_is_its_code_and_sentence_and_whole_in_meta() -> None:
    stage = Stage()
    stage.open()
    stage.request("tools/call", {"name": "look"})
    content = '{"error":"timeout","category":"unavailable","detail":"It took too long.","ran":"maybe"}'
    stage.answer(stage.lines()[0], content, is_error=True, fault=True)
    assert stage.told()[0]["result"] == {
        "content": [{"type": "text", "text": "timeout: It took too long."}],
        "isError": True,
        "_meta": {"tooldispatchd/fault": json.loads(content)},
    }


PYTHON = """loading
Traceback (most recent call last):
  File "/srv/t.py", line 2, in f
    raise ValueError("no way")
ValueError: no way
"""
GROUP = """  + Exception Group Traceback (most recent call last):
  |   File "/srv/t.py", line 2, in f
  | ExceptionGroup: two (1 sub-exception)
"""
NODE = """Error: no way
    at f (/srv/t.js:2:7)
    at node:internal/main:1:1
"""


@pytest.mark.parametrize(
    ("detail", "tail", "text"),
    [
        (
            "'f' raised ValueError: no way",
            PYTHON.removeprefix("loading\n"),
            "tool_failed: 'f' raised ValueError: no way",
        ),
        ("'p' exited with code 1", PYTHON, "tool_failed: 'p' exited with code 1\nloading\nValueError: no way\n"),
        ("'f' raised ExceptionGroup", GROUP, "tool_failed: 'f' raised ExceptionGroup"),
        ("'p' exited with code 1", NODE, "tool_failed: 'p' exited with code 1\nError: no way\n"),
        ("'p' exited with code 1", " at\nhome\n", "tool_failed: 'p' exited with code 1\n at\nhome\n"),
    ],
)
def test_a_model_is_told_no_traceback(detail: str, tail: str, text: str) -> None:
    stage = Stage()
    stage.open()
    stage.request("tools/call", {"name": "look"})
    fault = {"error": "tool_failed", "detail": detail, "stderr_tail": tail, "ran": "maybe"}
    stage.answer(stage.lines()[0], json.dumps(fault), is_error=True, fault=True)
    result = stage.told()[0]["result"]
    assert result["content"] == [{"type": "text", "text": text}]
    assert "/srv/" not in json.dumps(result)


def test_a_fault_of_the_newest_revision_has_the_servers_name_beside_it() -> None:
    stage = Stage()
    line = stage.stateless_call({})
    stage.answer(line, '{"error":"timeout","detail":"late"}', is_error=True, fault=True)
    meta = stage.told()[0]["result"]["_meta"]
    assert set(meta) == {"tooldispatchd/fault", "io.modelcontextprotocol/serverInfo"}


@pytest.mark.parametrize("name", ["nothing", "server!resources/list"])
def test_an_unknown_tool_is_a_mistake_of_the_request(name: str) -> None:
    stage = Stage()
    stage.open()
    stage.request("tools/call", {"name": name})
    for line in stage.lines():
        content = '{"error":"unknown_tool","category":"not_found","detail":"There is none."}'
        stage.answer(line, content, is_error=True, fault=True)
    assert stage.told()[0]["error"]["code"] == -32602


def test_progress_grows_for_who_asked_for_it() -> None:
    stage = Stage()
    stage.open()
    ticket = stage.request("tools/call", {"name": "look", "_meta": {"progressToken": "p"}})
    stage.request("tools/call", {"name": "look"})
    first, second = stage.lines()
    stage.daemon("tool_update", id=second["id"], progress=1)
    stage.daemon("tool_update", id=first["id"], progress=0)
    stage.daemon("tool_update", id=first["id"], progress=1, total=2, message="half")
    stage.daemon("tool_update", id=first["id"], progress=1)
    stage.said.clear()
    begun, one, two = stage.told()
    assert begun["params"] == {"progressToken": "p", "progress": 0}
    assert one["params"] == {"progressToken": "p", "progress": 1, "total": 2, "message": "half"}
    assert two["params"]["progress"] > 1
    assert [(said.ticket, said.is_last) for said in stage.said] == [(ticket, False)] * 3


def test_a_cancelled_call_is_cancelled_in_the_daemon_and_gets_no_answer() -> None:
    stage = Stage()
    stage.open()
    ticket = stage.request("tools/call", {"name": "look"})
    (line,) = stage.lines()
    stage.said.clear()
    stage.notify("notifications/cancelled", {"requestId": 2})
    assert stage.lines() == [{"__port": "tool_cancel", "agent": "mcp", "id": line["id"]}]
    stage.answer(line, "late")
    assert stage.told() == []
    assert (ticket, b"", True) in [(said.ticket, said.message, said.is_last) for said in stage.said]


def test_a_changed_list_is_told() -> None:
    stage = Stage()
    stage.open()
    stage.daemon("tools_changed", tools=[])
    assert stage.told() == [{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}]
    stage.request("tools/list")
    assert stage.told()[0]["result"] == {"tools": []}


def test_a_long_list_comes_in_pages() -> None:
    stage = Stage()
    tools = [{"name": f"t{number}", "description": "", "inputSchema": {}} for number in range(1001)]
    stage.open(tools=tools)
    stage.request("tools/list")
    page = stage.told()[0]["result"]
    assert len(page["tools"]) == 1000
    stage.request("tools/list", {"cursor": page["nextCursor"]})
    assert stage.told()[0]["result"] == {"tools": [tools[-1]]}


def test_long_tools_come_on_pages_of_fewer() -> None:
    stage = Stage()
    tools = [{"name": f"t{number}", "description": "x" * 2_000_000, "inputSchema": {}} for number in range(3)]
    stage.open(tools=tools)
    stage.request("tools/list")
    page = stage.told()[0]["result"]
    assert [tool["name"] for tool in page["tools"]] == ["t0", "t1"]
    stage.request("tools/list", {"cursor": page["nextCursor"]})
    assert [tool["name"] for tool in stage.told()[0]["result"]["tools"]] == ["t2"]


@pytest.mark.parametrize("cursor", ["", "x", "é", "bnVsbA==", "a" * 10_000])
def test_a_foreign_cursor_is_a_mistake(cursor: str) -> None:
    stage = Stage()
    stage.open()
    stage.request("tools/list", {"cursor": cursor})
    assert stage.told()[0]["error"]["code"] == -32602


@pytest.mark.parametrize("params", [{}, {"arguments": None}, {"arguments": {}}])
def test_arguments_may_be_left_out(params: dict[str, object]) -> None:
    stage = Stage()
    stage.open()
    stage.lines()
    stage.request("tools/call", {"name": "look", **params})
    assert stage.lines()[0]["input"] == {}


def test_marks_of_headers_are_not_shown_and_a_property_of_that_name_is() -> None:
    marked = {"type": "string", "x-mcp-header": "Region"}
    named = {"x-mcp-header": {"type": "string"}, "region": marked, "in": {"allOf": [{"properties": {"a": marked}}]}}
    stage = Stage()
    stage.open(tools=[{"name": "same", "inputSchema": {"type": "object", "properties": named}}])
    stage.request("tools/list")
    plain = {"type": "string"}
    assert stage.told()[0]["result"]["tools"][0]["inputSchema"]["properties"] == {
        "x-mcp-header": plain,
        "region": plain,
        "in": {"allOf": [{"properties": {"a": plain}}]},
    }


APPS: dict[str, object] = {"extensions": {"io.modelcontextprotocol/ui": {}}}


@pytest.mark.parametrize(("offer", "shown"), [({}, ["both"]), (APPS, ["alone", "both"])])
def test_a_tool_for_an_app_alone_is_shown_to_a_client_that_shows_apps(
    offer: dict[str, object], shown: list[str]
) -> None:
    tools = [
        {"name": "alone", "inputSchema": {"type": "object"}, "_meta": {"ui": {"visibility": ["app"]}}},
        {"name": "both", "inputSchema": {"type": "object"}, "_meta": {"ui": {"visibility": ["model", "app"]}}},
    ]
    stage = Stage()
    stage.stateless("tools/list", None, offer)
    stage.ready(tools=tools)
    assert [tool["name"] for tool in stage.told()[0]["result"]["tools"]] == shown
