"""Whether a call may run, as a client of either era is asked it."""

from typing import Any

import pytest

from tests.mcpface.stage import Stage

ELICITS: dict[str, Any] = {"elicitation": {}}
ASKED: dict[str, Any] = {
    "id": "q1",
    "name": "shell",
    "input": {"line": "rm a\nb\u202e"},
    "reason": "shell asks each time",
    "sha256": "9f86",
}
MESSAGE = """May shell run?
Why this is asked: shell asks each time
Input: {"line": "rm a\\nb\\u202e"}
SHA-256 of the input: 9f86"""
SCHEMA = {
    "type": "object",
    "properties": {
        "allow": {
            "type": "string",
            "title": "Allow",
            "description": "What an accepted question allows; without an answer this call.",
            "enum": ["this call", "this input", "this tool"],
        }
    },
}


def called(stage: Stage) -> dict[str, Any]:
    stage.lines()
    stage.request("tools/call", {"name": "look"})
    return stage.lines()[0]


def verdict(stage: Stage) -> dict[str, Any]:
    """What the daemon is answered."""
    (line,) = stage.lines()
    assert (line.pop("__port"), line.pop("agent"), line.pop("id")) == ("approve_resp", "mcp", "q1")
    return line


@pytest.mark.parametrize(
    ("revision", "offer", "answers"),
    [
        ("2025-11-25", {"elicitation": {}}, ["elicitation", "approve"]),
        ("2025-11-25", {"elicitation": {"form": {}, "url": {}}}, ["elicitation", "url", "approve"]),
        ("2025-11-25", {"elicitation": {"url": {}}}, ["url"]),
        ("2025-06-18", {"elicitation": {}}, ["elicitation", "approve"]),
        ("2025-03-26", {"elicitation": {}, "sampling": {}}, ["sampling"]),
        ("2025-11-25", {"sampling": {}}, ["sampling"]),
    ],
)
def test_a_client_that_shows_forms_answers_whether_calls_may_run(
    revision: str, offer: dict[str, Any], answers: list[str]
) -> None:
    stage = Stage()
    stage.request("initialize", {"protocolVersion": revision, "capabilities": offer})
    assert stage.lines()[0]["answers"] == answers


@pytest.mark.parametrize(
    ("result", "answered"),
    [
        ({"action": "accept"}, {"allow": True}),
        ({"action": "accept", "content": {"allow": "this call"}}, {"allow": True}),
        ({"action": "accept", "content": {"allow": "this input"}}, {"allow": True, "remember": True}),
        ({"action": "accept", "content": {"allow": "this tool"}}, {"allow": True, "remember": "tool"}),
        ({"action": "accept", "content": {"allow": ["this tool"]}}, {"allow": True}),
        ({"action": "decline"}, {"allow": False, "reason": "the client's user declined"}),
        (
            {"action": "cancel", "content": {"allow": "this tool"}},
            {"allow": False, "reason": "the client gave no answer"},
        ),
        ({"action": 1}, {"allow": False, "reason": "the client gave no answer"}),
        ({}, {"allow": False, "reason": "the client gave no answer"}),
    ],
)
def test_what_is_to_run_is_shown_as_a_form_and_its_answer_is_the_verdict(
    result: dict[str, Any], answered: dict[str, Any]
) -> None:
    stage = Stage()
    stage.open(offer=ELICITS)
    line = called(stage)
    stage.said.clear()
    stage.daemon("approve_req", **ASKED, call=line["id"])
    (asked,) = stage.told()
    assert (asked["method"], asked["params"]["requestedSchema"]) == ("elicitation/create", SCHEMA)
    # What would not be seen as it is, such as a change of direction, is written as JSON writes it.
    assert asked["params"]["message"] == MESSAGE
    assert stage.said[0].ticket == int(line["id"]) - 1
    stage.client({"jsonrpc": "2.0", "id": asked["id"], "result": result})
    assert verdict(stage) == answered


def test_an_approver_is_told_whose_call_it_is() -> None:
    stage = Stage()
    stage.open(offer=ELICITS)
    stage.lines()
    stage.daemon("approve_req", **ASKED, caller={"profile": "worker", "agent": "w1"})
    (asked,) = stage.told()
    assert "\nFor: worker/w1\n" in asked["params"]["message"]
    assert stage.said[-1].ticket is None


def test_a_client_that_never_answers_or_is_gone_refuses() -> None:
    stage = Stage()
    stage.open(offer=ELICITS)
    line = called(stage)
    stage.daemon("approve_req", **ASKED, call=line["id"])
    (asked,) = stage.told()
    stage.face.wake(600.0)
    assert stage.told()[0]["params"] == {"requestId": asked["id"]}
    assert verdict(stage)["allow"] is False
    stage.daemon("approve_req", **ASKED, call=line["id"])
    stage.face.end_client()
    assert verdict(stage)["allow"] is False


def test_the_question_is_taken_back_where_the_daemon_waits_no_more() -> None:
    stage = Stage()
    stage.open(offer=ELICITS)
    line = called(stage)
    stage.daemon("approve_req", **ASKED, call=line["id"])
    (asked,) = stage.told()
    stage.answer(line, '{"error":"approval_refused","detail":"nobody answered"}', is_error=True, fault=True)
    assert stage.told()[-1]["params"] == {"requestId": asked["id"]}


def test_the_stateless_revision_asks_in_a_round_and_runs_with_its_retry() -> None:
    stage = Stage()
    line = stage.stateless_call(ELICITS)
    stage.daemon("approve_req", **ASKED, call=line["id"])
    (asked,) = stage.told()
    (form,) = asked["result"]["inputRequests"].values()
    assert (form["method"], form["params"]["message"]) == ("elicitation/create", MESSAGE)
    retry = {
        "name": "look",
        "requestState": asked["result"]["requestState"],
        "inputResponses": {"q1": {"action": "accept", "content": {"allow": "this tool"}}},
    }
    stage.stateless("tools/call", retry, ELICITS)
    assert verdict(stage) == {"allow": True, "remember": "tool"}
    stage.answer(line, "done")
    assert stage.told()[0]["result"]["content"] == [{"type": "text", "text": "done"}]


def test_an_answer_that_comes_before_its_question_approves_nothing() -> None:
    stage = Stage()
    given = {"name": "look", "inputResponses": {"q1": {"action": "accept"}}}
    stage.stateless("tools/call", given, ELICITS)
    stage.ready()
    (line,) = stage.lines()
    stage.daemon("approve_req", **ASKED, call=line["id"])
    assert stage.lines() == []
    assert list(stage.told()[0]["result"]["inputRequests"]) == ["q1"]


@pytest.mark.parametrize("offer", [{}, {"elicitation": {"url": {}}}])
def test_a_request_whose_client_shows_no_forms_is_refused_with_what_to_do(offer: dict[str, Any]) -> None:
    stage = Stage()
    line = stage.stateless_call(offer)
    stage.daemon("approve_req", **ASKED, call=line["id"])
    told = verdict(stage)
    assert told["allow"] is False
    assert "`elicitation`" in told["reason"]
    assert "`approver`" in told["reason"]
    # It is the call that is told of it, by the daemon.
    assert stage.told() == []
