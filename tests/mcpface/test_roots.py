"""The client's first root as the workspace of its session."""

from typing import Any

import pytest

from tests.mcpface.stage import READY, Stage

WORKSPACE: dict[str, Any] = {"capabilities": {"workspace": True}}


def _asked(stage: Stage) -> str:
    stage.open(offer={"roots": {}}, **WORKSPACE)
    (asked,) = [line for line in stage.told_early() if line.get("method") == "roots/list"]
    stage.lines()
    return str(asked["id"])


def test_the_session_is_opened_anew_in_the_first_root_and_calls_wait_for_it() -> None:
    stage = Stage()
    asked = _asked(stage)
    stage.request("tools/call", {"name": "look"})
    assert stage.lines() == []
    stage.client({"id": asked, "result": {"roots": [{"uri": "http://a/b"}, {"uri": "file:///home/a%20b"}]}})
    assert [line["__port"] for line in stage.lines()] == ["bye"]
    stage.daemon("bye")
    (hello,) = stage.lines()
    assert hello["workspace"] == "/home/a b"
    stage.daemon(**{**READY, "port": "ready", "id": hello["id"]})
    assert [line["__port"] for line in stage.lines()] == ["tool_req"]


def test_a_root_that_is_refused_is_left_out() -> None:
    stage = Stage()
    asked = _asked(stage)
    stage.request("tools/list")
    stage.client({"id": asked, "result": {"roots": [{"uri": "file:///nowhere"}]}})
    stage.daemon("bye")
    hello = stage.lines()[-1]
    stage.daemon("fault", id=hello["id"], error="not_allowed", category="denied", detail="No.", line=5)
    (hello,) = stage.lines()
    assert "workspace" not in hello
    assert stage.told() == []
    stage.daemon(**{**READY, "port": "ready", "id": hello["id"]})
    assert "tools" in stage.told()[0]["result"]


@pytest.mark.parametrize("result", [{}, {"roots": []}, {"roots": [{"uri": "file://["}]}, {"roots": 5}, None])
def test_without_a_root_the_session_stays(result: object) -> None:
    stage = Stage()
    asked = _asked(stage)
    stage.client({"id": asked, "result": result})
    stage.request("tools/list")
    assert "tools" in stage.told()[0]["result"]
    assert stage.lines() == []


def test_a_client_that_does_not_say_its_roots_is_served_after_two_seconds() -> None:
    stage = Stage()
    _asked(stage)
    stage.request("tools/list")
    assert stage.told() == []
    stage.face.wake(2.0)
    assert "tools" in stage.told()[-1]["result"]


def test_roots_are_not_asked_for_where_no_workspace_is_admitted() -> None:
    stage = Stage()
    stage.open(offer={"roots": {}})
    assert [line for line in stage.told_early() if "method" in line] == []
    stage.request("tools/list")
    assert "tools" in stage.told()[0]["result"]
