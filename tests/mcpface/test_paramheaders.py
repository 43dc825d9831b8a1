"""Headers that repeat arguments: which of a schema's marks count, and whether a header says what its argument says."""

import json

import pytest
from msgspec import Raw

from tests.mcpface.stage import Stage
from tooldispatchd.mcpface.paramheaders import find_mismatch, marks_of


def raw(value: object) -> Raw:
    return Raw(json.dumps(value).encode())


def marked(mark: object, type_: object = "string") -> dict[str, object]:
    return {"type": type_, "x-mcp-header": mark}


def test_a_mark_of_a_property_of_the_root_counts_where_a_header_can_repeat_it() -> None:
    properties = {
        "region": marked("Region"),
        "count": marked("Count", "integer"),
        "again": marked("REGION"),
        "share": marked("Share", "number"),
        "spaced": marked("a b"),
        "inner": {"type": "object", "properties": {"zone": marked("Zone")}},
    }
    assert marks_of(raw({"properties": properties})) == {"region": "Region", "count": "Count"}
    assert marks_of(raw({"properties": ["x-mcp-header"]})) == {}


@pytest.mark.parametrize(
    ("value", "header", "is_same"),
    [
        ("eu", "eu", True),
        ("eu", "us", False),
        ("eu", None, False),
        ("Zürich", "=?base64?WsO8cmljaA==?=", True),
        ("Zürich", "=?base64?WsO8cmljaA?=", False),
        ("V8O8", "V8O8", True),
        ("", "", True),
        (5, "5", True),
        (5, "5.0", True),
        (2**53 + 1, str(2**53), False),
        (5, "five", False),
        (5, "sNaN", False),
        (True, "true", True),
        (True, "1", False),
        (None, None, True),
        (None, "eu", False),
        ([1], None, True),
    ],
)
def test_a_header_says_what_its_argument_says(value: object, header: str | None, *, is_same: bool) -> None:
    headers = {} if header is None else {"mcp-param-region": header}
    wrong = find_mismatch({"region": "Region"}, raw({"region": value}), headers)
    assert wrong == (None if is_same else "Mcp-Param-Region")


def test_an_argument_that_is_left_out_has_no_header() -> None:
    assert find_mismatch({"region": "Region"}, raw({}), {}) is None
    assert find_mismatch({"region": "Region"}, raw({}), {"mcp-param-region": "eu"}) == "Mcp-Param-Region"
    assert find_mismatch({"region": "Region"}, raw([1]), {}) is None


@pytest.mark.parametrize(("headers", "is_called"), [({"mcp-param-region": "eu"}, True), ({}, False), (None, True)])
def test_a_call_over_http_whose_header_contradicts_it_is_refused(
    headers: dict[str, str] | None, *, is_called: bool
) -> None:
    stage = Stage()
    tool = {"name": "look", "inputSchema": {"type": "object", "properties": {"region": marked("Region")}}}
    stage.stateless("tools/list")
    stage.ready(tools=[tool])
    assert stage.told()[0]["result"]["tools"][0]["inputSchema"] == tool["inputSchema"]
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "look", "arguments": {"region": "eu"}, "_meta": meta}
    call = json.dumps({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params}).encode()
    stage.lines()
    stage.face.take_client(call, 0.0, "2026-07-28", headers)
    assert len(stage.lines()) == is_called
    assert [told["error"]["code"] for told in stage.told()] == ([] if is_called else [-32020])
