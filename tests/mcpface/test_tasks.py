"""Jobs as tasks, in the revision that has them and in the extension."""

import json
from typing import Any

import pytest

from tests.mcpface.stage import Stage

JOBS: dict[str, Any] = {"capabilities": {"jobs": True}}
OFFER: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}


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
    stage.answer(line, '{"job":"job-1"}')
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
    stage.answer(stage.lines()[0], '{"job":"job-1"}')
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
    stage.answer(stage.lines()[0], '{"job":"job-1"}')
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
    stage.answer(line, '{"job":"job-1"}')
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
