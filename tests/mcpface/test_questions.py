"""Questions of the daemon, as a client of either era is asked them."""

import json
from typing import Any

import pytest

from tests.mcpface.stage import Stage

ELICITS: dict[str, Any] = {"elicitation": {}}


def _called(stage: Stage) -> dict[str, Any]:
    stage.lines()
    stage.request("tools/call", {"name": "look"})
    return stage.lines()[0]


def _retry(asked: dict[str, Any]) -> dict[str, Any]:
    return {"requestState": asked["requestState"]}


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


def test_a_client_that_opens_pages_is_led_to_them_and_told_of_their_end() -> None:
    stage = Stage()
    stage.open(offer={"elicitation": {"url": {}}})
    line = _called(stage)
    page = {"mode": "url", "message": "Sign in.", "url": "https://login.example/e1", "elicitationId": "e1"}
    stage.daemon("ask", id="q1", kind="elicitation", server="s", params=page, call=line["id"])
    (asked,) = stage.told()
    assert (asked["method"], asked["params"]) == ("elicitation/create", page)
    stage.client({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept"}})
    assert stage.lines()[0]["result"] == {"action": "accept"}
    ended = {"elicitationId": "e1"}
    stage.daemon("server_note", server="s", method="notifications/elicitation/complete", params=ended)
    (told,) = stage.told()
    assert (told["method"], told["params"]) == ("notifications/elicitation/complete", ended)


@pytest.mark.parametrize(("offer", "is_passed"), [({"elicitation": {"url": {}}}, True), (ELICITS, False)])
def test_a_call_that_needs_pages_first_fails_so_for_a_client_that_opens_them(
    offer: dict[str, Any], *, is_passed: bool
) -> None:
    stage = Stage()
    stage.open(offer=offer)
    pages = {"elicitations": [{"mode": "url", "message": "", "url": "https://login.example", "elicitationId": "e1"}]}
    fault = {"error": "tool_failed", "detail": "sign in first", "ran": "maybe", "rpc_code": -32042, "rpc_data": pages}
    stage.answer(_called(stage), json.dumps(fault), is_error=True, fault=True)
    (told,) = stage.told()
    assert told.get("error") == ({"code": -32042, "message": "sign in first", "data": pages} if is_passed else None)


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


def test_a_client_that_has_ended_answers_nothing_more() -> None:
    stage = Stage()
    stage.open(offer=ELICITS)
    line = _called(stage)
    stage.daemon("ask", id="q1", kind="elicitation", server="s", params={}, call=line["id"])
    stage.face.end_client()
    stage.daemon("ask", id="q2", kind="elicitation", server="s", params={}, call=line["id"])
    assert [(line["id"], "refuse" in line) for line in stage.lines()] == [("q1", True), ("q2", True)]


def test_a_call_whose_retry_cannot_come_any_more_is_cancelled() -> None:
    stage = Stage()
    line = stage.stateless_call(ELICITS)
    stage.daemon("ask", id="q1", kind="elicitation", server="s", params={}, call=line["id"])
    stage.face.end_client()
    assert [line["__port"] for line in stage.lines()] == ["tool_cancel", "ask_resp"]
    stage.daemon("ask", id="q2", kind="elicitation", server="s", params={}, call=line["id"])
    assert "refuse" in stage.lines()[0]


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


def test_all_questions_of_a_round_are_asked_at_once_by_the_names_that_the_server_gave_them() -> None:
    stage = Stage()
    offer: dict[str, Any] = {"elicitation": {}, "sampling": {}, "roots": {}}
    line = stage.stateless_call(offer)
    stage.daemon("ask", id="q1", kind="elicitation", key="who", params={"message": "Who?"}, call=line["id"], more=True)
    stage.daemon("ask", id="q2", kind="sampling", key="what", params={}, call=line["id"], more=True)
    assert stage.told() == []
    stage.daemon("ask", id="q3", kind="roots", key="who", call=line["id"])
    asked = stage.told()[0]["result"]
    assert asked["inputRequests"] == {
        "who": {"method": "elicitation/create", "params": {"message": "Who?"}},
        "what": {"method": "sampling/createMessage", "params": {}},
        "who-q3": {"method": "roots/list", "params": {}},
    }
    answers = {"who": {"action": "decline"}, "what": {"role": "user"}, "who-q3": {"roots": []}}
    stage.stateless("tools/call", {"name": "look", **_retry(asked), "inputResponses": answers}, offer)
    assert [(said["id"], said["result"]) for said in stage.lines()] == [
        ("q1", {"action": "decline"}),
        ("q2", {"role": "user"}),
        ("q3", {"roots": []}),
    ]


def test_a_round_whose_call_ends_before_it_is_whole_is_refused() -> None:
    stage = Stage()
    line = stage.stateless_call(ELICITS)
    stage.daemon("ask", id="q1", kind="elicitation", key="who", params={}, call=line["id"], more=True)
    stage.answer(line, "done")
    assert stage.told()[0]["result"]["resultType"] == "complete"
    assert "refuse" in stage.lines()[0]


def test_answers_may_come_with_the_call_itself() -> None:
    stage = Stage()
    given = {"who": {"action": "decline"}, "nobody": {}}
    stage.stateless("tools/call", {"name": "look", "inputResponses": given}, ELICITS)
    stage.ready()
    (line,) = stage.lines()
    stage.daemon("ask", id="q1", kind="elicitation", key="who", params={}, call=line["id"])
    assert stage.lines() == [{"__port": "ask_resp", "agent": "mcp", "id": "q1", "result": {"action": "decline"}}]
    stage.daemon("ask", id="q2", kind="elicitation", key="who", params={}, call=line["id"])
    assert list(stage.told()[0]["result"]["inputRequests"]) == ["who"]


@pytest.mark.parametrize("answer", [12345, None, "x", []])
def test_what_cannot_be_an_answer_is_asked_again(answer: object) -> None:
    stage = Stage()
    line = stage.stateless_call(ELICITS)
    stage.daemon("ask", id="q1", kind="elicitation", key="who", params={}, call=line["id"])
    asked = stage.told()[0]["result"]
    stage.stateless("tools/call", {"name": "look", **_retry(asked), "inputResponses": {"who": answer}}, ELICITS)
    again = stage.told()[0]["result"]
    assert (again["resultType"], again["inputRequests"]) == ("input_required", asked["inputRequests"])
    assert stage.lines() == []


@pytest.mark.parametrize(
    ("kind", "params", "needs"),
    [
        ("sampling", {}, {"sampling": {}}),
        ("roots", {}, {"roots": {}}),
        ("elicitation", {"mode": "url"}, {"elicitation": {"url": {}}}),
    ],
)
def test_a_call_that_asks_more_than_its_request_offers_fails_and_is_cancelled(
    kind: str, params: object, needs: object
) -> None:
    stage = Stage()
    line = stage.stateless_call(ELICITS)
    stage.daemon("ask", id="q1", kind=kind, key="who", params=params, call=line["id"])
    error = stage.told()[0]["error"]
    assert (error["code"], error["data"]) == (-32021, {"requiredCapabilities": needs})
    assert [said["__port"] for said in stage.lines()] == ["tool_cancel", "ask_resp"]


def test_a_server_that_asks_for_roots_in_passing_fails_no_call() -> None:
    stage = Stage()
    line = stage.stateless_call(ELICITS)
    stage.daemon("ask", id="q1", kind="roots", params={}, call=line["id"])
    assert stage.told() == []
    assert "refuse" in stage.lines()[0]


def test_a_client_of_a_handshake_is_asked_for_its_roots() -> None:
    stage = Stage()
    stage.open(offer={"roots": {}})
    _called(stage)
    stage.daemon("ask", id="q1", kind="roots", params={})
    (asked,) = stage.told()
    assert asked["method"] == "roots/list"
    stage.client({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}})
    assert stage.lines() == [{"__port": "ask_resp", "agent": "mcp", "id": "q1", "result": {"roots": []}}]


def test_an_answer_that_is_too_long_refuses() -> None:
    stage = Stage()
    stage.open(offer=ELICITS, limits={"line": 200})
    _called(stage)
    stage.daemon("ask", id="q1", kind="elicitation", params={})
    asked = stage.told()[0]["id"]
    stage.client({"id": asked, "result": {"action": "accept", "content": {"text": "x" * 200}}})
    (line,) = stage.lines()
    assert set(line) == {"__port", "agent", "id", "refuse"}


def test_a_question_of_a_job_is_of_no_open_request() -> None:
    stage = Stage()
    stage.open(offer=ELICITS)
    _called(stage)
    stage.daemon("ask", id="q1", kind="elicitation", params={}, call="job-1")
    assert stage.told()[0]["method"] == "elicitation/create"
    assert stage.said[-1].ticket is None


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
