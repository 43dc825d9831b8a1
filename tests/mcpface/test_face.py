"""The face between a client and a daemon: the handshake, and what every request may rely on."""

import json
import math
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.mcpface.stage import READY, Stage


def test_initialize_opens_a_session_and_is_answered_when_it_is_ready() -> None:
    stage = Stage()
    stage.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}}})
    (hello,) = stage.lines()
    assert hello == {
        "__port": "hello",
        "agent": "mcp",
        "id": "hello-1",
        "protocol": [1],
        "schemas": "mcp",
        "content": "blocks",
        "updates": True,
        "capabilities": ["value", "servers", "opening"],
        "profile": "web",
        "token": "secret",
        "answers": ["elicitation", "approve"],
        "max_output": 2**40,
    }
    assert stage.told() == []
    stage.daemon(**{**READY, "port": "ready", "id": "hello-1"})
    (answer,) = stage.told()
    assert answer["result"]["protocolVersion"] == "2025-06-18"
    assert answer["result"]["instructions"] == "Be kind."
    assert answer["result"]["capabilities"]["tools"] == {"listChanged": True}


def test_an_open_session_leaves_nothing_to_wake_for() -> None:
    stage = Stage()
    stage.open()
    stage.stateless("server/discover")
    stage.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}}, now=10.0)
    stage.face.wake(10.0)
    assert stage.face.wake_at == math.inf


@pytest.mark.parametrize("batch", [[], [{}] * 17, [{"x": "x" * 1_100_000}]])
def test_a_batch_that_is_too_much_is_refused_as_a_whole(batch: list[object]) -> None:
    stage = Stage()
    stage.open("2025-03-26")
    stage.client(batch)
    assert stage.told()[0]["error"]["code"] == -32600


@pytest.mark.parametrize("offered", ["2019-01-01", "2026-07-28"])
def test_a_handshake_with_a_revision_that_has_none_gets_the_newest_one(offered: str) -> None:
    assert Stage().open(offered)["result"]["protocolVersion"] == "2025-11-25"


def test_initialize_does_not_wait_for_ever() -> None:
    stage = Stage()
    stage.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}}, now=10.0)
    assert stage.face.wake_at == 15.0
    stage.face.wake(15.0)
    (answer,) = stage.told()
    assert "instructions" not in answer["result"]
    assert stage.face.wake_at == math.inf


OPENING: dict[str, Any] = {"id": "hello-1", "capabilities": {"jobs": True}}
GREETER = {"server": "g", "prefix": "g", "capabilities": {"prompts": {}}}


def beginning() -> Stage:
    stage = Stage()
    stage.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}})
    return stage


def test_initialize_waits_for_no_server_that_is_known_from_before() -> None:
    stage = beginning()
    stage.daemon("opening", complete=True, servers=[GREETER], instructions="Be kind.", **OPENING)
    (answer,) = stage.told()
    assert answer["result"]["instructions"] == "Be kind."
    assert answer["result"]["capabilities"].keys() == {"tools", "prompts"}
    stage.notify("notifications/initialized")
    stage.daemon(**{**READY, "port": "ready", "id": "hello-1"})
    assert stage.told() == []


def test_servers_that_say_something_else_this_time_are_told_of_by_a_changed_list() -> None:
    stage = beginning()
    stage.daemon("opening", complete=True, servers=[], instructions="Be quick.", **OPENING)
    stage.daemon(**{**READY, "port": "ready", "id": "hello-1"})
    assert [each.get("method") for each in stage.told()] == [None]
    stage.notify("notifications/initialized")
    assert [each["method"] for each in stage.told()] == ["notifications/tools/list_changed"]


def test_initialize_waits_shortly_for_servers_of_which_nothing_is_known() -> None:
    stage = beginning()
    stage.daemon("opening", complete=False, servers=[], **OPENING)
    assert stage.told() == []
    stage.face.wake(0.5)
    (answer,) = stage.told()
    assert {"resources", "prompts", "logging"} <= answer["result"]["capabilities"].keys()
    assert "instructions" not in answer["result"]


def test_a_refused_session_is_told_with_its_fault_and_may_be_asked_for_again() -> None:
    stage = Stage()
    stage.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}})
    stage.daemon("fault", id="hello-1", error="not_authenticated", category="denied", detail="No.", line=1)
    (answer,) = stage.told()
    assert answer["error"]["message"] == "No."
    assert answer["error"]["data"] == {"error": "not_authenticated", "category": "denied", "detail": "No."}
    stage.lines()
    stage.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}})
    assert stage.lines()[0]["id"] == "hello-2"


def test_what_the_daemon_warns_of_and_why_it_refuses_is_to_be_logged_once() -> None:
    stage = Stage()
    stage.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}})
    stage.daemon("fault", id="hello-1", error="missing_tool", category="config", detail="send is left out", line=1)
    stage.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}})
    stage.ready(warnings=["server s: tool 'x' is left out: why"])
    assert stage.face.to_log == ["send is left out", "server s: tool 'x' is left out: why"]


def test_tools_and_calls_wait_until_the_session_is_open() -> None:
    stage = Stage()
    stage.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}})
    hello = stage.lines()
    stage.request("tools/list")
    stage.request("tools/call", {"name": "look"})
    assert stage.lines() == []
    stage.daemon(**{**READY, "port": "ready", "id": hello[0]["id"]})
    assert [line["name"] for line in stage.lines()] == ["look"]
    assert [answer["id"] for answer in stage.told()] == [1, 2]


def test_a_ping_is_answered_before_anything_is_open() -> None:
    stage = Stage()
    stage.request("ping")
    assert stage.told() == [{"jsonrpc": "2.0", "id": 1, "result": {}}]
    assert stage.lines() == []


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"{", -32700),
        (b"\xff", -32700),
        (b"[" * 5000, -32700),
        (b"5", -32600),
        (b"{}", -32600),
        (b'{"id":null,"method":"ping"}', -32600),
        (b'{"id":{},"method":"ping"}', -32600),
        (b'{"id":1,"method":5}', -32600),
        (b"[]", -32600),
    ],
)
def test_a_malformed_message_is_told_and_is_not_the_end(message: bytes, code: int) -> None:
    stage = Stage()
    ticket = stage.client(message)
    (answer,) = stage.told()
    assert (answer["id"], answer["error"]["code"]) == (None, code)
    assert [(said.ticket, said.is_last) for said in stage.said] == [(ticket, True)]
    stage.request("ping")
    assert stage.told()[0]["result"] == {}


@pytest.mark.parametrize("method", ["ping", "tools/list", "prompts/list", "tasks/list"])
def test_params_that_are_null_are_as_if_absent(method: str) -> None:
    stage = Stage()
    stage.open(capabilities={"jobs": True})
    stage.client({"jsonrpc": "2.0", "method": "notifications/initialized", "params": None})
    assert stage.told() == []
    stage.client({"jsonrpc": "2.0", "id": 7, "method": method, "params": None})
    if method == "tasks/list":
        stage.answer(stage.lines()[-1], '{"jobs":[]}')
    (answer,) = stage.told()
    assert answer["id"] == 7
    assert "result" in answer


@pytest.mark.parametrize(
    ("message", "id_"),
    [
        (rb'{"id":1,"method":"tools/call","params":{"name":"same","arguments":{"a":"\ud800"}}}', 1),
        (rb'{"params":{"\uDFFF":1},"method":"ping","id":"\ud83d\ude00"}', "\U0001f600"),
        (rb'{"id":2,"method":"p\ud800\ud83d\ude00"}', 2),
        (rb'{"id":"\ud800","method":"ping"}', None),
        (rb'{"id":3,"method":"ping","params":{"a":"\\ud800"}', None),
        (rb'{"id":4,"method":"ping","params":"' + rb"\ud800" * 50_000 + b'"}', None),
    ],
)
def test_half_of_a_pair_of_surrogates_is_told_by_the_requests_id(message: bytes, id_: object) -> None:
    stage = Stage()
    stage.client(message)
    (answer,) = stage.told()
    assert (answer["id"], answer["error"]["code"]) == (id_, -32700)


def test_a_message_that_is_too_long_is_told_by_its_own_id() -> None:
    stage = Stage()
    stage.open(limits={"line": 200})
    arguments = {"text": "x" * 200}
    stage.client(
        {"method": "tools/call", "params": {"name": "same", "arguments": arguments}, "jsonrpc": "2.0", "id": "a"}
    )
    stage.client({"method": "notifications/cancelled", "params": {"requestId": 2, "reason": "x" * 200}})
    (answer,) = stage.told()
    assert (answer["id"], answer["error"]["code"], answer["error"]["data"]["error"]) == ("a", -32600, "line_too_long")
    assert stage.lines() == []


def test_the_version_is_that_of_the_package() -> None:
    package = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert Stage().open()["result"]["serverInfo"]["version"] == package["version"]


def test_an_unknown_method_and_wrong_parameters_are_the_requests_own_mistakes() -> None:
    stage = Stage()
    stage.open()
    stage.request("tools/fly")
    stage.request("tools/call", {"name": 5})
    stage.request("tools/call", {})
    assert [answer["error"]["code"] for answer in stage.told()] == [-32601, -32602, -32602]


def test_a_notification_has_a_ticket_that_ends_with_nothing() -> None:
    stage = Stage()
    ticket = stage.notify("notifications/initialized")
    assert stage.told() == []
    assert [(said.ticket, said.message, said.is_last) for said in stage.said] == [(ticket, b"", True)]


def test_a_batch_is_answered_as_one_in_the_revision_that_has_them() -> None:
    stage = Stage()
    stage.open("2025-03-26")
    stage.said.clear()
    ticket = stage.client(
        [
            {"jsonrpc": "2.0", "id": "a", "method": "ping"},
            {"jsonrpc": "2.0", "method": "notifications/other"},
            {"jsonrpc": "2.0", "id": "b", "method": "tools/call", "params": {"name": "look"}},
        ]
    )
    assert stage.told() == []
    stage.answer(stage.lines()[0], "seen")
    answers = stage.told()[0]
    assert sorted(answer["id"] for answer in json.loads(json.dumps(answers))) == ["a", "b"]
    assert [(said.ticket, said.is_last) for said in stage.said] == [(ticket, True)]


def test_a_batch_is_refused_by_other_revisions() -> None:
    stage = Stage()
    stage.open("2025-06-18")
    stage.client([{"jsonrpc": "2.0", "id": "a", "method": "ping"}])
    assert stage.told()[0]["error"]["code"] == -32600


def test_when_the_daemon_is_lost_calls_fail_and_other_requests_are_errors() -> None:
    stage = Stage()
    stage.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}})
    stage.face.lost("the daemon has gone")
    assert stage.told()[0]["error"]["message"] == "the daemon has gone"
    assert stage.face.is_over
    stage.request("tools/list")
    assert stage.told()[0]["error"]["message"] == "the daemon has gone"

    stage = Stage()
    stage.open()
    stage.request("tools/call", {"name": "look"})
    stage.face.lost("the daemon has gone")
    (answer,) = stage.told()
    assert answer["result"]["isError"] is True
    assert answer["result"]["content"][0] == {"type": "text", "text": "draining: the daemon has gone"}
