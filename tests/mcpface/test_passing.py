"""Resources, prompts, completion and logging of the servers behind."""

import json
from typing import Any

from tests.mcpface.stage import Stage

SERVERS: list[dict[str, Any]] = [
    {"server": "a", "prefix": "a", "capabilities": {"resources": {}, "prompts": {}, "completions": {}}},
    {"server": "b", "prefix": "b", "capabilities": {"resources": {}, "prompts": {}, "logging": {}}},
]


def _open() -> Stage:
    stage = Stage()
    answer = stage.open(servers=SERVERS)
    assert set(answer["result"]["capabilities"]) == {"tools", "resources", "prompts", "completions", "logging"}
    stage.lines()
    return stage


def test_a_list_is_that_of_all_servers() -> None:
    stage = _open()
    stage.request("prompts/list")
    (line,) = stage.lines()
    assert (line["name"], line["input"]) == ("a!prompts/list", {})
    stage.answer(line, json.dumps({"prompts": [{"name": "x", "title": "X"}], "nextCursor": "2"}))
    (line,) = stage.lines()
    assert line["input"] == {"cursor": "2"}
    stage.answer(line, json.dumps({"prompts": [{"name": "y"}]}))
    (line,) = stage.lines()
    assert line["name"] == "b!prompts/list"
    stage.answer(line, '{"code":-32603,"message":"broken"}', is_error=True)
    assert stage.told()[0]["result"] == {"prompts": [{"name": "a__x", "title": "X"}, {"name": "a__y"}]}


def test_a_long_list_goes_on_at_its_cursor() -> None:
    stage = _open()
    stage.request("resources/list")
    many = [{"uri": f"u:{number}", "name": ""} for number in range(1000)]
    stage.answer(stage.lines()[0], json.dumps({"resources": many, "nextCursor": "next"}))
    cursor = stage.told()[0]["result"]["nextCursor"]
    stage.request("resources/list", {"cursor": cursor})
    (line,) = stage.lines()
    assert (line["name"], line["input"]) == ("a!resources/list", {"cursor": "next"})


def test_a_server_that_repeats_its_cursor_ends_its_list() -> None:
    stage = _open()
    stage.request("resources/list")
    for _ in range(2):
        stage.answer(stage.lines()[0], '{"resources":[],"nextCursor":"same"}')
    assert stage.lines()[0]["name"] == "b!resources/list"


def test_a_resource_is_read_where_it_was_listed() -> None:
    stage = _open()
    stage.request("resources/list")
    stage.answer(stage.lines()[0], '{"resources":[]}')
    stage.answer(stage.lines()[0], '{"resources":[{"uri":"u:1","name":"one"}]}')
    stage.told()
    stage.request("resources/read", {"uri": "u:1"})
    (line,) = stage.lines()
    assert (line["name"], line["input"]) == ("b!resources/read", {"uri": "u:1"})
    stage.answer(
        line,
        '{"contents":[],"resultType":"complete","ttlMs":5,"_meta":{"seen":1,"io.modelcontextprotocol/serverInfo":{}}}',
    )
    assert stage.told()[0]["result"] == {"contents": [], "_meta": {"seen": 1}}


def test_the_server_and_the_daemon_both_sign_a_result() -> None:
    stage = Stage()
    stage.stateless("resources/read", {"uri": "u:1"})
    stage.ready(servers=SERVERS)
    stage.answer(stage.lines()[0], '{"contents":[],"_meta":{"seen":1,"io.modelcontextprotocol/serverInfo":{}}}')
    meta = stage.told()[0]["result"]["_meta"]
    assert (meta["seen"], meta["io.modelcontextprotocol/serverInfo"]["name"]) == (1, "tooldispatchd")


def test_a_resource_that_nobody_listed_is_asked_for_in_turn() -> None:
    stage = _open()
    stage.request("resources/read", {"uri": "u:2"})
    for server in ("a", "b"):
        (line,) = stage.lines()
        assert line["name"] == f"{server}!resources/read"
        stage.answer(line, '{"code":-32602,"message":"none"}', is_error=True)
    assert stage.told()[0]["error"] == {"code": -32002, "message": "none"}


def test_a_prompt_goes_to_its_server_by_its_own_name() -> None:
    stage = _open()
    stage.request("prompts/get", {"name": "b__x", "arguments": {"k": "v"}})
    (line,) = stage.lines()
    assert (line["name"], line["input"]) == ("b!prompts/get", {"name": "x", "arguments": {"k": "v"}})
    stage.request("prompts/get", {"name": "nothing"})
    assert stage.told()[0]["error"]["code"] == -32602


def test_completion_goes_to_a_server_that_completes() -> None:
    stage = _open()
    argument = {"name": "k", "value": "v"}
    stage.request("completion/complete", {"ref": {"type": "ref/prompt", "name": "a__x"}, "argument": argument})
    (line,) = stage.lines()
    assert line["name"] == "a!completion/complete"
    assert line["input"] == {"ref": {"type": "ref/prompt", "name": "x"}, "argument": argument}
    stage.answer(line, '{"completion":{"values":[]}}')
    assert stage.told()[0]["result"] == {"completion": {"values": []}}
    stage.request("completion/complete", {"ref": {"type": "ref/prompt", "name": "b__x"}, "argument": argument})
    assert stage.told()[0]["error"]["code"] == -32602


def test_a_level_is_for_every_server_that_logs() -> None:
    stage = _open()
    stage.request("logging/setLevel", {"level": "debug"})
    stage.request("logging/setLevel", {"level": "loud"})
    assert [line["name"] for line in stage.lines()] == ["b!logging/setLevel"]
    assert [("result" in answer) for answer in stage.told()] == [True, False]


def test_what_the_server_that_listed_a_resource_says_of_it_is_the_answer() -> None:
    stage = _open()
    stage.request("resources/list")
    stage.answer(stage.lines()[0], '{"resources":[{"uri":"u:1","name":"one"}]}')
    stage.answer(stage.lines()[0], "{}")
    stage.told()
    stage.request("resources/read", {"uri": "u:1"})
    stage.answer(stage.lines()[0], '{"code":-32603,"message":"broken"}', is_error=True)
    assert stage.told()[0]["error"] == {"code": -32603, "message": "broken"}
    stage.daemon("server_note", server="a", method="notifications/resources/list_changed", params={})
    stage.request("resources/read", {"uri": "u:1"})
    stage.answer(stage.lines()[0], '{"code":-32602,"message":"none"}', is_error=True)
    assert [line["name"] for line in stage.lines()] == ["b!resources/read"]


def test_a_subscription_is_of_the_server_that_takes_it() -> None:
    stage = Stage()
    ticket = stage.stateless("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["u:1"]}})
    stage.ready(servers=SERVERS)
    stage.answer(stage.lines()[0], '{"code":-32602,"message":"none"}', is_error=True)
    (line,) = stage.lines()
    assert line["name"] == "b!resources/subscribe"
    stage.answer(line, "{}")
    stage.face.abandon(ticket)
    assert [line["name"] for line in stage.lines()] == ["b!resources/unsubscribe"]


def test_what_servers_note_is_passed_on() -> None:
    stage = _open()
    stage.daemon("server_note", server="b", method="notifications/message", params={"level": "info", "data": 1})
    stage.daemon("server_note", server="b", method="notifications/cancelled", params={})
    assert [note["params"] for note in stage.told()] == [{"level": "info", "data": 1}]


def test_without_servers_lists_are_empty() -> None:
    stage = Stage()
    stage.open()
    stage.request("resources/list")
    stage.request("resources/read", {"uri": "u:1"})
    listed, read = stage.told()
    assert listed["result"] == {"resources": []}
    assert read["error"]["code"] == -32002


SKILLS = "io.modelcontextprotocol/skills"
UI = "io.modelcontextprotocol/ui"
SKILLED: list[dict[str, Any]] = [
    {"server": "a", "prefix": "a", "capabilities": {"resources": {}, "extensions": {UI: {}}}},
    {"server": "b", "prefix": "b", "capabilities": {"resources": {}, "extensions": {SKILLS: {}}}},
    {"server": "c", "prefix": "c", "capabilities": {"resources": {}, "extensions": {SKILLS: {"directoryRead": True}}}},
]


def test_extensions_of_servers_are_declared_to_clients_that_know_them() -> None:
    stage = Stage()
    stage.stateless("server/discover")
    stage.ready(servers=SKILLED)
    assert stage.told()[0]["result"]["capabilities"]["extensions"] == {UI: {}, SKILLS: {"directoryRead": True}}
    older = Stage().open(servers=SKILLED)
    assert older["result"]["capabilities"]["extensions"] == {UI: {}}


def test_a_skill_is_got_where_it_was_listed() -> None:
    stage = Stage()
    stage.stateless("skills/list")
    stage.ready(servers=SKILLED)
    for server, uri in (("b", "skill://x/SKILL.md"), ("c", "skill://y/SKILL.md")):
        (line,) = stage.lines()
        assert line["name"] == f"{server}!skills/list"
        stage.answer(line, json.dumps({"skills": [{"uri": uri}], "ttlMs": 9, "cacheScope": "public"}))
    result = stage.told()[0]["result"]
    assert [skill["uri"] for skill in result["skills"]] == ["skill://x/SKILL.md", "skill://y/SKILL.md"]
    assert (result["ttlMs"], result["cacheScope"]) == (0, "private")
    stage.stateless("skills/get", {"uri": "skill://y/SKILL.md"})
    (line,) = stage.lines()
    assert (line["name"], line["input"]) == ("c!skills/get", {"uri": "skill://y/SKILL.md"})
    stage.answer(line, '{"skill":{"uri":"skill://y/SKILL.md"}}')
    assert stage.told()[0]["result"]["skill"] == {"uri": "skill://y/SKILL.md"}


def test_a_directory_is_read_on_at_the_cursor_of_its_server() -> None:
    stage = Stage()
    stage.stateless("resources/directory/read", {"uri": "skill://x", "cursor": "2"})
    stage.ready(servers=SKILLED)
    for server in ("b", "c"):
        (line,) = stage.lines()
        assert (line["name"], line["input"]) == (
            f"{server}!resources/directory/read",
            {"uri": "skill://x", "cursor": "2"},
        )
        stage.answer(line, '{"code":-32602,"message":"none"}', is_error=True)
    assert stage.told()[0]["error"] == {"code": -32602, "message": "none"}
