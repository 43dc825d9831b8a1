"""Messages of the revisions with a handshake."""

import msgspec
import pytest

from tooldispatchd.catalog.schemas import ACCEPT
from tooldispatchd.providers.mcp.dialects import Dialect, Legacy
from tooldispatchd.providers.mcp.messages import Outgoing
from tooldispatchd.providers.mcp.server import McpTool

ECHO = McpTool(
    name="echo",
    input_schema={"type": "object"},
    input=ACCEPT,
)
READ = msgspec.structs.replace(ECHO, name="read_resource", method="resources/read")
DIALECT: Dialect = Legacy("2025-11-25")


def test_a_call_holds_its_tool_and_its_arguments() -> None:
    assert DIALECT.call(7, ECHO, b'{"text":"x"}') == Outgoing(
        b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}\n',
        "tools/call",
        7,
        "echo",
        b'{"text":"x"}',
    )


def test_a_call_holds_what_the_server_is_to_know_besides() -> None:
    assert DIALECT.call(7, ECHO, b"{}", meta={"progressToken": 7}).line == (
        b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{},'
        b'"_meta":{"progressToken":7}}}\n'
    )


@pytest.mark.parametrize(
    ("meta", "members"),
    [
        (None, {"requestState": "s"}),
        ({"progressToken": 7}, {"requestState": "s", "_meta": {"progressToken": 7}}),
    ],
)
def test_what_was_answered_is_further_members(meta: dict[str, object] | None, members: dict[str, object]) -> None:
    line = DIALECT.call(7, ECHO, b"{}", meta=meta, answered={"requestState": "s"}).line
    assert msgspec.json.decode(line)["params"] == {"name": "echo", "arguments": {}, **members}


def test_the_arguments_of_another_request_are_its_parameters() -> None:
    message = DIALECT.call(7, READ, b'{"uri":"file:///a"}', meta={"progressToken": 7})
    assert message == Outgoing(
        b'{"jsonrpc":"2.0","id":7,"method":"resources/read",'
        b'"params":{"uri":"file:///a","_meta":{"progressToken":7}}}\n',
        "resources/read",
        7,
        "file:///a",
        b'{"uri":"file:///a"}',
    )


def test_large_arguments_become_the_line_and_are_still_known() -> None:
    arguments = bytearray(b'{"text":"x"}')
    sent = DIALECT.call(2, ECHO, arguments, answered={"more": 1})
    assert sent.line is arguments
    params = b'{"name":"echo","arguments":{"text":"x"},"more":1}'
    assert sent.line == b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":%b}\n' % params
    assert sent.arguments == b'{"text":"x"}'
    assert sent.body == sent.line[:-1]
    # Once more, for another round.
    assert DIALECT.call(3, ECHO, sent.arguments).line.endswith(b'"arguments":{"text":"x"}}}\n')


def test_numbers_of_any_size_stay_as_they_are_and_an_agent_cannot_say_what_the_client_says_of_itself() -> None:
    arguments = b'{"uri":"file:///a","big":123456789012345678901,"_meta":{"progressToken":1}}'
    line = DIALECT.call(7, READ, arguments, meta={"progressToken": 2}, answered={"requestState": "s"}).line
    assert line.endswith(
        b'"params":{"uri":"file:///a","big":123456789012345678901,"requestState":"s","_meta":{"progressToken":2}}}\n'
    )
    assert DIALECT.call(7, READ, arguments).line.endswith(b'"big":123456789012345678901}}\n')


def test_a_request_and_a_notification_are_written_as_they_are() -> None:
    assert DIALECT.request(1, "tools/list", {}) == Outgoing(
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}\n', "tools/list", 1
    )
    assert DIALECT.request(1, "tools/list", {"cursor": "a"}).line == (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"a"}}\n'
    )
    assert DIALECT.notification("notifications/initialized") == Outgoing(
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n', "notifications/initialized"
    )


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
def test_all_but_the_handshake_bears_the_revision(revision: str) -> None:
    dialect = Legacy(revision)
    header = [("MCP-Protocol-Version", revision)]
    assert dialect.headers(dialect.call(7, ECHO, b"{}")) == header
    assert dialect.headers(dialect.notification("notifications/initialized")) == header
    assert dialect.headers(Outgoing(b'{"jsonrpc":"2.0","id":1,"result":{}}\n')) == header
    assert dialect.headers(dialect.request(1, "initialize", {})) == []


@pytest.mark.parametrize("revision", ["", "2024-11-05", "2025-03-26"])
def test_older_revisions_know_no_header(revision: str) -> None:
    dialect = Legacy(revision)
    assert dialect.headers(dialect.call(7, ECHO, b"{}")) == []
