"""Jobs as tasks, in the revision that has them and in the extension."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.mcpface.stage import Stage

JOBS: dict[str, Any] = {"capabilities": {"jobs": True}}
OFFER: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
ASKED: dict[str, Any] = {**OFFER, "elicitation": {}}


def test_a_call_with_a_task_starts_a_job_and_its_result_is_read_later() -> None:
    stage = Stage()
    answer = stage.open(**JOBS)
    assert answer["result"]["capabilities"]["tasks"]["requests"] == {"tools": {"call": {}}}
    stage.lines()
    stage.request("tools/list")
    assert stage.told()[0]["result"]["tools"][0]["execution"] == {"taskSupport": "optional"}
    stage.request("tools/call", {"name": "same", "task": {}})
    (line,) = stage.lines()
    assert line["background"] is True
    stage.answer(line, '{"job":"job-1"}', job="job-1")
    task = stage.told()[0]["result"]["task"]
    assert (task["status"], task["createdAt"]) == ("working", "1970-01-01T00:00:00Z")
    stage.request("tasks/get", {"taskId": task["taskId"]})
    (line,) = stage.lines()
    assert (line["name"], line["input"]) == ("job_read", {"job": "job-1"})
    stage.answer(line, '{"job":"job-1","name":"same","state":"running","message":"half"}')
    told = stage.told()[0]["result"]
    assert (told["status"], told["statusMessage"]) == ("working", "half")
    stage.request("tasks/result", {"taskId": task["taskId"]})
    (line,) = stage.lines()
    assert line["name"] == "job_wait"
    stage.answer(line, json.dumps({"job": "job-1", "name": "same", "state": "done", "content": '{"a":1}'}))
    result = stage.told()[0]["result"]
    assert result["structuredContent"] == {"a": 1}
    assert result["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": task["taskId"]}
    assert stage.face.knows(task["taskId"])


@pytest.mark.parametrize("name", ["job_list", "job_read", "job_stop", "job_wait"])
def test_tools_of_jobs_take_no_task(name: str) -> None:
    stage = Stage()
    stage.open(tools=[{"name": name, "inputSchema": {"type": "object"}}], **JOBS)
    stage.request("tools/list")
    assert "execution" not in stage.told()[0]["result"]["tools"][0]


def test_tasks_are_listed_and_cancelled() -> None:
    stage = Stage()
    stage.open(**JOBS)
    stage.lines()
    stage.request("tools/call", {"name": "look", "task": {}})
    stage.answer(stage.lines()[0], '{"job":"job-1"}', job="job-1")
    task_id = stage.told()[0]["result"]["task"]["taskId"]
    stage.request("tasks/list")
    jobs = [{"job": "job-1", "name": "look", "state": "running"}, {"job": "job-2", "name": "x", "state": "done"}]
    stage.answer(stage.lines()[0], json.dumps({"jobs": jobs}))
    assert [task["taskId"] for task in stage.told()[0]["result"]["tasks"]] == [task_id]
    stage.request("tasks/cancel", {"taskId": task_id})
    fault = '{"error":"cancelled","category":"unavailable","detail":"It was cancelled."}'
    job = {"job": "job-1", "name": "look", "state": "done", "is_error": True, "fault": True, "content": fault}
    stage.answer(stage.lines()[0], json.dumps(job))
    assert stage.told()[0]["result"]["status"] == "cancelled"
    stage.request("tasks/list")
    stage.answer(stage.lines()[0], json.dumps({"jobs": [{**job, "content": None}]}))
    assert stage.told()[0]["result"]["tasks"][0]["status"] == "cancelled"


def test_a_job_that_was_stopped_is_a_cancelled_task_whoever_stopped_it() -> None:
    stage = Stage()
    stage.open(**JOBS)
    stage.lines()
    stage.request("tools/call", {"name": "look", "task": {}})
    stage.answer(stage.lines()[0], '{"job":"job-1"}', job="job-1")
    task_id = stage.told()[0]["result"]["task"]["taskId"]
    stage.request("tasks/get", {"taskId": task_id})
    fault = '{"error":"cancelled","category":"unavailable","detail":"It was cancelled."}'
    job = {"job": "job-1", "name": "look", "state": "done", "is_error": True, "fault": True, "content": fault}
    stage.answer(stage.lines()[0], json.dumps(job))
    assert stage.told()[0]["result"]["status"] == "cancelled"


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
def test_who_did_not_say_that_it_takes_tasks_is_told_so(method: str) -> None:
    stage = Stage()
    stage.stateless(method, {"taskId": "x"})
    stage.ready(**JOBS)
    error = stage.told()[0]["error"]
    assert (error["code"], error["data"]) == (-32021, {"requiredCapabilities": OFFER})
    stage.stateless(method, {"taskId": "x"}, OFFER)
    assert stage.told()[0]["error"]["code"] == -32602


def test_a_task_that_is_not_there_is_a_mistake() -> None:
    stage = Stage()
    stage.open(**JOBS)
    stage.request("tasks/get", {"taskId": "job-1"})
    assert stage.told()[0]["error"]["code"] == -32602


def test_where_there_are_no_jobs_nothing_is_said_of_tasks() -> None:
    stage = Stage()
    assert "tasks" not in stage.open()["result"]["capabilities"]
    stage.request("tools/list")
    assert "execution" not in stage.told()[0]["result"]["tools"][0]


def test_a_call_that_takes_long_becomes_a_task_for_who_takes_one() -> None:
    stage = Stage()
    line = stage.stateless_call(OFFER, **JOBS)
    stage.face.wake(10.0)
    assert stage.lines() == [{"__port": "tool_background", "agent": "mcp", "id": line["id"]}]
    stage.answer(line, '{"job":"job-1"}', job="job-1")
    task = stage.told()[0]["result"]
    assert (task["resultType"], task["status"], task["ttlMs"]) == ("task", "working", None)
    stage.stateless("tasks/get", {"taskId": task["taskId"]}, OFFER)
    job = {"job": "job-1", "name": "look", "state": "done", "content": "seen"}
    stage.answer(stage.lines()[0], json.dumps(job))
    told = stage.told()[0]["result"]
    assert told["status"] == "completed"
    assert told["result"] == {"resultType": "complete", "content": [{"type": "text", "text": "seen"}]}


def test_a_short_call_stays_one() -> None:
    stage = Stage()
    line = stage.stateless_call(OFFER, **JOBS)
    stage.answer(line, '{"job":"is its content"}')
    assert stage.told()[0]["result"]["resultType"] == "complete"
    stage.face.wake(10.0)
    assert stage.lines() == []


def _task(stage: Stage, **ready: Any) -> str:
    """Have a call become a task of the stateless revision at once; returns its id."""
    stage.answer(stage.stateless_call(ASKED, **JOBS, **ready), '{"job":"job-1"}', job="job-1")
    return str(stage.told()[0]["result"]["taskId"])


def _get(stage: Stage, task_id: str, **job: Any) -> dict[str, Any]:
    """Read the task, whose job is so."""
    stage.stateless("tasks/get", {"taskId": task_id}, OFFER)
    stage.answer(stage.lines()[-1], json.dumps({"job": "job-1", "name": "look", "state": "running", **job}))
    told: dict[str, Any] = stage.told()[-1]["result"]
    return told


def _asks(stage: Stage, id_: str, **more: Any) -> None:
    stage.daemon("ask", id=id_, kind="elicitation", server="s", params={"message": id_}, call="job-1", **more)


def test_a_call_that_the_daemon_makes_a_job_is_a_task_at_once() -> None:
    stage = Stage()
    told = _get(stage, _task(stage))
    assert (told["resultType"], told["status"]) == ("complete", "working")


def test_who_takes_no_tasks_is_told_the_job() -> None:
    stage = Stage()
    stage.answer(stage.stateless_call({}, **JOBS), '{"job":"job-1"}', job="job-1")
    result = stage.told()[0]["result"]
    assert (result["resultType"], result["content"]) == ("complete", [{"type": "text", "text": '{"job":"job-1"}'}])


def test_questions_of_a_task_stand_with_it_until_each_is_answered() -> None:
    stage = Stage()
    task_id = _task(stage)
    _asks(stage, "q1", key="who", more=True)
    _asks(stage, "q2")
    assert stage.told() == []
    told = _get(stage, task_id)
    assert told["status"] == "input_required"
    assert told["inputRequests"] == {
        "who-q1": {"method": "elicitation/create", "params": {"message": "q1"}},
        "q2": {"method": "elicitation/create", "params": {"message": "q2"}},
    }
    answers = {"who-q1": {"action": "decline"}, "q2": "no object", "q3": {}}
    stage.stateless("tasks/update", {"taskId": task_id, "inputResponses": answers}, OFFER)
    assert stage.lines() == [{"__port": "ask_resp", "agent": "mcp", "id": "q1", "result": {"action": "decline"}}]
    assert stage.told()[0]["result"]["resultType"] == "complete"
    assert list(_get(stage, task_id)["inputRequests"]) == ["q2"]
    stage.stateless("tasks/update", {"taskId": task_id, "inputResponses": {"who-q1": {}, "q2": {}}}, OFFER)
    assert [line["id"] for line in stage.lines()] == ["q2"]
    assert _get(stage, task_id)["status"] == "working"


def test_whether_a_task_may_run_is_asked_with_it() -> None:
    stage = Stage()
    task_id = _task(stage)
    stage.daemon("approve_req", id="q1", name="look", input={}, reason="it asks each time", call="job-1")
    stage.stateless("tasks/update", {"taskId": task_id, "inputResponses": {"q1": {"action": "accept"}}}, OFFER)
    assert [(line["__port"], line["allow"]) for line in stage.lines()] == [("approve_resp", True)]


def test_a_task_whose_client_answers_no_such_question_refuses_it_and_runs_on() -> None:
    stage = Stage()
    task_id = _task(stage)
    stage.daemon("ask", id="q1", kind="sampling", server="s", params={}, call="job-1")
    assert "refuse" in stage.lines()[0]
    assert _get(stage, task_id)["status"] == "working"


def _wait(stage: Stage, task_id: str) -> None:
    stage.face.wake(600.0)


def _leave(stage: Stage, task_id: str) -> None:
    stage.face.end_client()


def _end(stage: Stage, task_id: str) -> None:
    assert _get(stage, task_id, state="done", content="seen")["status"] == "completed"


def _make_more(stage: Stage, task_id: str) -> None:
    for number in range(2, 1026):
        stage.stateless("tools/call", {"name": "look"}, ASKED)
        stage.answer(stage.lines()[-1], "{}", job=f"job-{number}")
    stage.told()
    stage.stateless("tasks/get", {"taskId": task_id}, OFFER)
    assert stage.told()[0]["error"]["code"] == -32602


@pytest.mark.parametrize("end", [_wait, _leave, _end, _make_more])
def test_a_question_of_a_task_is_refused_where_nobody_will_answer_it(end: Callable[[Stage, str], None]) -> None:
    stage = Stage()
    task_id = _task(stage)
    _asks(stage, "q1")
    stage.lines()
    end(stage, task_id)
    assert [line["id"] for line in stage.lines() if "refuse" in line] == ["q1"]


def test_a_task_whose_server_answered_with_an_error_has_failed_so() -> None:
    stage = Stage()
    fault = {"error": "tool_failed", "category": "internal", "detail": "It failed: no.", "rpc_code": -32603}
    told = _get(stage, _task(stage), state="done", is_error=True, fault=True, content=json.dumps(fault))
    assert told["status"] == "failed"
    assert told["error"] == {"code": -32603, "message": "It failed: no.", "data": fault}
    assert "result" not in told


def test_a_job_whose_call_was_cancelled_meanwhile_is_stopped() -> None:
    stage = Stage()
    line = stage.stateless_call(OFFER, **JOBS)
    stage.face.abandon(stage.last_ticket)
    stage.lines()
    stage.answer(line, '{"job":"job-1"}', job="job-1")
    assert [(said["name"], said["input"]) for said in stage.lines()] == [("job_stop", {"job": "job-1"})]
    assert stage.told() == []


def test_a_retry_becomes_a_task_where_it_takes_long_itself() -> None:
    stage = Stage()
    line = stage.stateless_call(ASKED, **JOBS)
    stage.daemon("ask", id="q1", kind="elicitation", server="s", params={}, call=line["id"], now=8.0)
    asked = stage.told()[0]["result"]
    stage.stateless("tools/call", {"name": "look", "requestState": asked["requestState"]}, ASKED)
    again = stage.told()[0]["result"]
    answers = {"requestState": again["requestState"], "inputResponses": {"q1": {}}}
    stage.stateless("tools/call", {"name": "look", **answers}, ASKED, now=9.0)
    stage.lines()
    stage.face.wake(10.0)
    assert stage.lines() == []
    stage.face.wake(19.0)
    assert [said["__port"] for said in stage.lines()] == ["tool_background"]
    stage.answer(line, '{"job":"job-1"}', job="job-1")
    assert stage.told()[0]["result"]["resultType"] == "task"


def test_a_client_of_a_handshake_is_asked_beside_its_task_whose_state_tells_of_it() -> None:
    stage = Stage()
    stage.open(offer={"elicitation": {}}, **JOBS)
    stage.lines()
    stage.request("tools/call", {"name": "look", "task": {}})
    stage.answer(stage.lines()[0], '{"job":"job-1"}', job="job-1")
    task_id = stage.told()[0]["result"]["task"]["taskId"]
    _asks(stage, "q1")
    _asks(stage, "q2")
    first, second = stage.told()
    assert first["params"] == {"message": "q1", "_meta": {"io.modelcontextprotocol/related-task": {"taskId": task_id}}}
    stage.client({"jsonrpc": "2.0", "id": first["id"], "result": {"action": "decline"}})
    assert [line["result"] for line in stage.lines()] == [{"action": "decline"}]
    stage.request("tasks/get", {"taskId": task_id})
    stage.answer(stage.lines()[0], '{"job":"job-1","name":"look","state":"running"}')
    assert stage.told()[0]["result"]["status"] == "input_required"
    stage.request("tasks/get", {"taskId": task_id})
    stage.answer(stage.lines()[0], '{"job":"job-1","name":"look","state":"done","content":"seen"}')
    withdrawn, told = stage.told()
    assert withdrawn["params"] == {"requestId": second["id"]}
    assert told["result"]["status"] == "completed"
    assert ["refuse" in line for line in stage.lines()] == [True]
