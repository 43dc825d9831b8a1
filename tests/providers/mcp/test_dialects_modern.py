"""Messages of the revision without a handshake; the SDK's server takes them for what they are."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tooldispatchd.catalog.schemas import ACCEPT
from tooldispatchd.providers.mcp.dialects import Dialect, Modern
from tooldispatchd.providers.mcp.greeting import CLIENT
from tooldispatchd.providers.mcp.messages import Outgoing
from tooldispatchd.providers.mcp.server import McpTool

ECHO = McpTool(
    name="echo",
    input_schema={"type": "object"},
    input=ACCEPT,
    params=(("Mcp-Param-Region", ("where", "region")),),
)
READ = msgspec.structs.replace(ECHO, name="read_resource", method="resources/read", params=())
DIALECT: Dialect = Modern("2026-07-28", {"roots": {}})
STAMP = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
    "io.modelcontextprotocol/logLevel": "info",
}


def params_of(message: Outgoing) -> object:
    assert message.line.endswith(b"}\n")
    return msgspec.json.decode(message.line)["params"]


def test_a_call_says_all_that_it_needs() -> None:
    message = DIALECT.call(7, ECHO, b'{"text":"x"}')
    assert msgspec.json.decode(message.line) == {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "tools/call",
        "params": {"name": "echo", "arguments": {"text": "x"}, "_meta": STAMP},
    }
    assert (message.method, message.number, message.name) == ("tools/call", 7, "echo")


def test_what_the_server_is_to_know_besides_stands_beside_it() -> None:
    message = DIALECT.call(7, ECHO, b"{}", meta={"progressToken": 7, "traceparent": "00-1"})
    meta = {**STAMP, "progressToken": 7, "traceparent": "00-1"}
    assert params_of(message) == {"name": "echo", "arguments": {}, "_meta": meta}


def test_what_was_answered_is_further_members() -> None:
    answered: dict[str, object] = {"inputResponses": {"a": {"action": "accept"}}, "requestState": "s"}
    message = DIALECT.call(7, ECHO, b"{}", meta={"progressToken": 7}, answered=answered)
    assert params_of(message) == {
        "name": "echo",
        "arguments": {},
        "inputResponses": {"a": {"action": "accept"}},
        "requestState": "s",
        "_meta": {**STAMP, "progressToken": 7},
    }


def test_nothing_answered_is_no_member() -> None:
    assert params_of(DIALECT.call(7, ECHO, b"{}", answered={})) == {"name": "echo", "arguments": {}, "_meta": STAMP}


def test_the_arguments_of_another_request_are_its_parameters() -> None:
    message = DIALECT.call(7, READ, b'{"uri":"file:///a"}', meta={"progressToken": 7}, answered={"requestState": "s"})
    assert params_of(message) == {"uri": "file:///a", "requestState": "s", "_meta": {**STAMP, "progressToken": 7}}
    assert (message.method, message.name) == ("resources/read", "file:///a")


def test_another_request_can_be_made_once_more_of_what_it_was_made_of() -> None:
    first = DIALECT.call(7, READ, b'{"uri":"file:///a"}')
    again = DIALECT.call(8, READ, first.arguments, answered={"requestState": "s"})
    assert params_of(again) == {"uri": "file:///a", "requestState": "s", "_meta": STAMP}


@pytest.mark.parametrize("params", [{}, {"cursor": "b"}, {"cursor": Raw(b'"b"')}])
def test_a_request_says_all_that_it_needs(params: dict[str, object]) -> None:
    said = msgspec.json.decode(msgspec.json.encode(params))
    assert params_of(DIALECT.request(1, "tools/list", params)) == {**said, "_meta": STAMP}


def test_a_notification_is_written_as_it_is() -> None:
    assert DIALECT.notification("notifications/cancelled", {"requestId": 7}) == Outgoing(
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}\n', "notifications/cancelled"
    )


def test_a_call_has_the_headers_that_repeat_it() -> None:
    message = DIALECT.call(7, ECHO, b'{"where":{"region":" eu"}}')
    assert DIALECT.headers(message) == [
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "echo"),
    ]


def test_a_resource_is_named_by_its_uri_as_far_as_a_header_can_hold_it() -> None:
    message = DIALECT.request(7, "resources/read", {"uri": "file:///é"})
    assert DIALECT.headers(message)[2:] == [("Mcp-Name", "=?base64?ZmlsZTovLy/DqQ==?=")]


def test_other_messages_are_about_nothing() -> None:
    version = ("MCP-Protocol-Version", "2026-07-28")
    assert DIALECT.headers(DIALECT.request(7, "tools/list", {})) == [version, ("Mcp-Method", "tools/list")]
    assert DIALECT.headers(Outgoing(b"{}\n")) == [version]


@given(
    st.dictionaries(st.sampled_from(["where", "text"]), st.none() | st.text() | st.dictionaries(st.text(), st.text())),
    st.none() | st.fixed_dictionaries({"progressToken": st.integers(0, 9)}),
    st.sampled_from([ECHO, READ]),
)
def test_the_server_of_the_sdk_accepts_any_call(
    arguments: dict[str, object], meta: dict[str, object] | None, tool: McpTool
) -> None:
    inbound = pytest.importorskip("mcp.shared.inbound")
    message = DIALECT.call(7, tool, msgspec.json.encode(arguments), meta=meta)
    headers = {name.lower(): value for name, value in DIALECT.headers(message)}
    route = inbound.classify_inbound_request(msgspec.json.decode(message.line), headers=headers)
    assert isinstance(route, inbound.InboundModernRoute)
