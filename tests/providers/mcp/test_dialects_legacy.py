"""Messages of the revisions with a handshake."""

import msgspec
import pytest

from tooldispatchd.catalog.schemas import ACCEPT
from tooldispatchd.providers.mcp.dialects import Dialect, Legacy
from tooldispatchd.providers.mcp.messages import Outgoing
from tooldispatchd.providers.mcp.server import McpTool

ECHO = McpTool(
    name="echo",
    title=None,
    description="",
    input_schema={"type": "object"},
    output_schema=None,
    annotations=None,
    input=ACCEPT,
    output=None,
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
    )


def test_a_request_and_a_notification_are_written_as_they_are() -> None:
    assert DIALECT.request(1, "tools/list", {}) == Outgoing(
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}\n', "tools/list", 1
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
