"""The stateless revision: every request says what it is, and nothing is told that was not asked for."""

import pytest

from tests.mcpface.stage import READY, Stage


def test_discover_says_what_there_is() -> None:
    stage = Stage()
    stage.stateless("server/discover")
    assert stage.lines()[0]["answers"] == ["elicitation", "url", "sampling", "roots", "ui", "approve"]
    stage.daemon(**{**READY, "port": "ready", "id": "hello-1"})
    result = stage.told()[0]["result"]
    assert result["supportedVersions"][0] == "2026-07-28"
    assert (result["resultType"], result["cacheScope"], result["instructions"]) == ("complete", "private", "Be kind.")
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "tooldispatchd"


def test_a_call_needs_no_handshake() -> None:
    stage = Stage()
    line = stage.stateless_call({})
    stage.answer(line, "seen", blocks=[{"type": "text", "text": "seen"}])
    result = stage.told()[0]["result"]
    assert (result["resultType"], result["content"]) == ("complete", [{"type": "text", "text": "seen"}])


@pytest.mark.parametrize("revision", ["2027-01-01", "2025-11-25"])
def test_another_revision_is_told_which_there_are(revision: str) -> None:
    stage = Stage()
    meta = {"io.modelcontextprotocol/protocolVersion": revision, "io.modelcontextprotocol/clientCapabilities": {}}
    stage.request("tools/list", {"_meta": meta})
    error = stage.told()[0]["error"]
    assert (error["code"], error["data"]["requested"]) == (-32022, revision)
    assert "2026-07-28" in error["data"]["supported"]


def test_capabilities_are_required() -> None:
    stage = Stage()
    stage.request("tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}})
    stage.face.take_client(b'{"id":2,"method":"tools/list"}', 0.0, "2026-07-28")
    assert [answer["error"]["code"] for answer in stage.told()] == [-32602, -32602]


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "resources/subscribe", "tasks/list"])
def test_methods_of_the_handshake_are_unknown(method: str) -> None:
    stage = Stage()
    stage.stateless(method, {"protocolVersion": "2026-07-28"})
    assert stage.told()[0]["error"]["code"] == -32601


def test_both_eras_may_come_on_one_face() -> None:
    stage = Stage()
    stage.stateless("server/discover")
    stage.daemon(**{**READY, "port": "ready", "id": "hello-1"})
    stage.lines()
    stage.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}})
    assert [answer["id"] for answer in stage.told()] == [1, 2]
    assert stage.lines() == []


def test_a_subscription_hears_what_it_asked_for_until_it_is_abandoned() -> None:
    servers = [{"server": "a", "prefix": "a", "capabilities": {"resources": {"subscribe": True}}}]
    stage = Stage()
    wish = {"toolsListChanged": True, "promptsListChanged": True, "resourceSubscriptions": ["u:1"]}
    ticket = stage.stateless("subscriptions/listen", {"notifications": wish})
    stage.ready(servers=servers)
    (ack,) = stage.told()
    assert ack["params"] == {
        "notifications": {"toolsListChanged": True, "resourceSubscriptions": ["u:1"]},
        "_meta": {"io.modelcontextprotocol/subscriptionId": 1},
    }
    assert [line["name"] for line in stage.lines()] == ["a!resources/subscribe"]
    stage.daemon("tools_changed", tools=[])
    stage.daemon("server_note", server="a", method="notifications/resources/updated", params={"uri": "u:1"})
    stage.daemon("server_note", server="a", method="notifications/resources/updated", params={"uri": "u:2"})
    stage.daemon("server_note", server="a", method="notifications/prompts/list_changed", params={})
    changed, updated = stage.told()
    assert changed["method"] == "notifications/tools/list_changed"
    assert updated["params"] == {"uri": "u:1", "_meta": {"io.modelcontextprotocol/subscriptionId": 1}}
    stage.face.abandon(ticket)
    stage.daemon("tools_changed", tools=[])
    assert stage.told() == []
    assert [line["name"] for line in stage.lines()] == ["a!resources/unsubscribe"]


def test_a_subscription_ends_well_when_the_daemon_is_lost() -> None:
    stage = Stage()
    stage.stateless("subscriptions/listen", {"notifications": {}})
    stage.ready()
    stage.face.lost("gone")
    assert stage.told()[1]["result"]["resultType"] == "complete"


def test_a_closed_stream_cancels_its_call() -> None:
    stage = Stage()
    line = stage.stateless_call({})
    stage.face.abandon(stage.last_ticket)
    assert stage.lines() == [{"__port": "tool_cancel", "agent": "mcp", "id": line["id"]}]
