"""What headers must repeat of a message."""

import json

import pytest

from tooldispatchd.mcpface.web.bodies import mismatch, peek_body


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
@pytest.mark.parametrize(("name", "wrong"), [("task-1", None), (None, None), ("task-2", "Mcp-Name"), ("", "Mcp-Name")])
def test_a_name_that_is_not_the_tasks_is_wrong(method: str, name: str | None, wrong: str | None) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"taskId": "task-1"}}
    peeked = peek_body(json.dumps(message).encode())
    assert mismatch(peeked, revision=None, method=method, name=name) == wrong


def test_params_that_are_null_are_read_as_none() -> None:
    peeked = peek_body(b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":null}')
    assert (peeked.is_request, peeked.method, peeked.keys) == (True, "tools/list", ())
