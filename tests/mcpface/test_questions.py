"""Questions of the daemon, as a client of either era is asked them."""

from typing import Any

import pytest

from tests.mcpface.stage import Stage

ELICITS: dict[str, Any] = {"elicitation": {}}


def _called(stage: Stage) -> dict[str, Any]:
    stage.lines()
    stage.request("tools/call", {"name": "look"})
    return stage.lines()[0]


def test_a_question_goes_under_the_ticket_of_its_call_and_its_answer_to_the_daemon() -> None:
    stage = Stage()
    stage.open(offer=ELICITS)
    line = _called(stage)
    stage.said.clear()
    stage.daemon("ask", id="q1", kind="elicitation", server="s", params={"message": "Day?"}, call=line["id"])
    (asked,) = stage.told()
    assert (asked["method"], asked["params"]) == ("elicitation/create", {"message": "Day?"})
    assert stage.said[0].ticket == int(line["id"]) - 1
    stage.client({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}})
    assert stage.lines() == [{"__port": "ask_resp", "agent": "mcp", "id": "q1", "result": {"action": "decline"}}]


@pytest.mark.parametrize("reply", [{"error": {"code": 1, "message": "no"}}, {}])
def test_a_client_that_fails_refuses(reply: dict[str, Any]) -> None:
    stage = Stage()
    stage.open(offer={"sampling": {}})
    _called(stage)
    stage.daemon("ask", id="q1", kind="sampling", server="s", params={})
    (asked,) = stage.told()
    assert asked["method"] == "sampling/createMessage"
    stage.client({"jsonrpc": "2.0", "id": asked["id"], **reply})
    assert "refuse" in stage.lines()[0]


def test_who_cannot_be_asked_refuses_at_once() -> None:
    stage = Stage()
    stage.open(offer=ELICITS)
    _called(stage)
    stage.daemon("ask", id="q1", kind="sampling", server="s", params={})
    stage.daemon("ask", id="q2", kind="elicitation", server="s", params={"mode": "url"})
    assert [(line["id"], "refuse" in line) for line in stage.lines()] == [("q1", True), ("q2", True)]
    assert stage.told() == []


@pytest.mark.parametrize(
    ("result", "allow"),
    [
        ({"action": "accept", "content": {"allow": True}}, True),
        ({"action": "accept", "content": {"allow": False}}, False),
        ({"action": "accept", "content": {"allow": "true"}}, False),
        ({"action": "accept"}, False),
        ({"action": "cancel", "content": {"allow": True}}, False),
        (5, False),
    ],
)
def test_a_call_is_approved_by_one_boolean(result: object, allow: bool) -> None:
    stage = Stage()
    stage.open(offer=ELICITS)
    _called(stage)
    stage.daemon("approve_req", id="q1", name="look", input={"a": 1}, reason="it asks each time")
    (asked,) = stage.told()
    assert asked["params"]["requestedSchema"]["required"] == ["allow"]
    stage.client({"jsonrpc": "2.0", "id": asked["id"], "result": result})
    assert stage.lines() == [{"__port": "approve_resp", "agent": "mcp", "id": "q1", "allow": allow}]


def test_a_question_ends_with_its_call() -> None:
    stage = Stage()
    stage.open(offer=ELICITS)
    line = _called(stage)
    stage.daemon("ask", id="q1", kind="elicitation", server="s", params={}, call=line["id"])
    (asked,) = stage.told()
    stage.answer(line, "done")
    assert stage.told()[-1]["params"] == {"requestId": asked["id"]}
    assert "refuse" in stage.lines()[0]
    stage.client({"jsonrpc": "2.0", "id": asked["id"], "result": {}})
    assert stage.lines() == []


def test_the_stateless_revision_is_told_that_input_is_required_and_its_retry_gets_the_answer() -> None:
    stage = Stage()
    line = stage.stateless_call(ELICITS)
    stage.daemon("ask", id="q1", kind="elicitation", server="s", params={"message": "Day?"}, call=line["id"])
    (asked,) = stage.told()
    assert asked["result"]["resultType"] == "input_required"
    assert asked["result"]["inputRequests"] == {"q1": {"method": "elicitation/create", "params": {"message": "Day?"}}}
    state = asked["result"]["requestState"]
    assert stage.face.knows(state)
    answers = {"q1": {"action": "accept", "content": {}}, "other": {}}
    retry = {"name": "look", "requestState": state, "inputResponses": answers}
    stage.stateless("tools/call", retry, ELICITS)
    assert stage.lines()[0]["result"] == {"action": "accept", "content": {}}
    assert stage.told() == []
    stage.answer(line, "done")
    (answer,) = stage.told()
    assert answer["id"] == asked["id"] + 1
    assert answer["result"]["resultType"] == "complete"
    stage.stateless("tools/call", retry, ELICITS)
    assert stage.told()[0]["error"]["code"] == -32602


def test_what_comes_while_nobody_waits_is_kept_for_the_retry() -> None:
    stage = Stage()
    line = stage.stateless_call(ELICITS)
    stage.daemon("ask", id="q1", kind="elicitation", server="s", params={}, call=line["id"])
    state = stage.told()[0]["result"]["requestState"]
    stage.daemon("ask", id="q2", kind="elicitation", server="s", params={}, call=line["id"])
    stage.stateless("tools/call", {"name": "look", "requestState": state, "inputResponses": {"q1": {}}}, ELICITS)
    second = stage.told()[0]["result"]
    assert list(second["inputRequests"]) == ["q2"]
    stage.answer(line, "done")
    assert stage.told() == []
    stage.stateless("tools/call", {"name": "look", "requestState": second["requestState"]}, ELICITS)
    assert stage.told()[0]["result"]["content"] == [{"type": "text", "text": "done"}]


def test_a_retry_of_something_else_is_refused() -> None:
    stage = Stage()
    line = stage.stateless_call(ELICITS)
    stage.daemon("ask", id="q1", kind="elicitation", server="s", params={}, call=line["id"])
    state = stage.told()[0]["result"]["requestState"]
    stage.stateless("tools/call", {"name": "same", "requestState": state}, ELICITS)
    assert stage.told()[0]["error"]["code"] == -32602


def test_a_call_whose_retry_does_not_come_is_cancelled() -> None:
    stage = Stage()
    line = stage.stateless_call(ELICITS)
    stage.daemon("ask", id="q1", kind="elicitation", server="s", params={}, call=line["id"])
    stage.told()
    stage.face.wake(600.0)
    assert [said["__port"] for said in stage.lines()] == ["tool_cancel", "ask_resp"]
    stage.answer(line, "late")
    assert stage.told() == []
