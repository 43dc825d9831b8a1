"""Jobs of the daemon as tasks of MCP: the experimental ones of 2025-11-25, and the extension of the stateless revision.

In the first a client asks for a task with its call. In the second the server decides: a call that takes long becomes
one, for a client that takes tasks. A task's id is ours and cannot be guessed; a job's is.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Final
from uuid import uuid4

import msgspec
from msgspec import Raw

from tooldispatchd.mcpface.alarms import Alarms
from tooldispatchd.mcpface.answers import called
from tooldispatchd.mcpface.clientside import ClientRequest, ClientSide
from tooldispatchd.mcpface.daemonside import DaemonLine, DaemonSide, fault_of, read_line
from tooldispatchd.mcpface.jsonrpc import INTERNAL, UNREADABLE, WRONG_PARAMS
from tooldispatchd.mcpface.revisions import RELATED_TASK, TASKS_EXTENSION

# Who waits longer than that for an answer does better to ask for it later.
PROMOTED_S: Final = 10.0
POLL_MS: Final = 1000
# A day: as long as `job_wait` waits.
WAIT_S: Final = 86_400
# More than the jobs that an agent may have.
MAX_TASKS: Final = 1024


class _Task:
    """One job as the client knows it."""

    def __init__(self, job: str, now: str, *, is_structured: bool) -> None:
        # As random as `secrets`, with which OpenSSL is loaded: that takes as long as most of the face.
        self.id = f"task-{uuid4().hex}"
        self.job = job
        self.started = now
        self.is_structured = is_structured
        self.is_cancelled = False


class ClientTasks:
    """Starts tasks and tells of them."""

    def __init__(self, client: ClientSide, daemon: DaemonSide, alarms: Alarms, epoch: float) -> None:
        self._client = client
        self._daemon = daemon
        self._alarms = alarms
        self._epoch = epoch
        self._tasks: dict[str, _Task] = {}

    @property
    def are_there(self) -> bool:
        """Whether this session has jobs."""
        return self._daemon.capabilities.get("jobs") is True

    def knows(self, task_id: str) -> bool:
        """Whether a task has that id."""
        return task_id in self._tasks

    def promote_later(self, request: ClientRequest, wire_id: str) -> None:
        """Make a task of a call that takes long."""
        if self.are_there and request.offer.has_tasks and request.revision.is_stateless:
            self._alarms.after(PROMOTED_S, partial(self._promote, request, wire_id))

    def started(self, request: ClientRequest, line: DaemonLine, *, is_structured: bool) -> bool:
        """Answer `request` with a task, if that is what `line` says."""
        started = _job_in(line)
        if started is None or started.job is None:
            return False
        if len(self._tasks) >= MAX_TASKS:
            del self._tasks[next(iter(self._tasks))]
        task = _Task(started.job, self._now(), is_structured=is_structured)
        self._tasks[task.id] = task
        told = self._told(task, started, request)
        is_stateless = request.revision.is_stateless
        self._client.answer(request, {"resultType": "task", **told} if is_stateless else {"task": told})
        return True

    def get(self, request: ClientRequest) -> None:
        """`tasks/get`: how it is; in the stateless revision with its result."""
        self._ask(request, "job_read", {}, self._got)

    def result(self, request: ClientRequest) -> None:
        """`tasks/result`: what the call gave, when it is done."""
        self._ask(request, "job_wait", {"timeout_s": WAIT_S}, self._resulted)

    def cancel(self, request: ClientRequest) -> None:
        """`tasks/cancel`."""
        self._ask(request, "job_stop", {}, self._stopped)

    def update(self, request: ClientRequest) -> None:
        """`tasks/update`: no task of ours asks anything, so there is nothing to take."""
        if self._find(request) is not None:
            self._client.answer(request, {})

    def show(self, request: ClientRequest) -> None:
        """`tasks/list`."""
        self._daemon.call("job_list", Raw(b"{}"), partial(self._listed, request), wire_id=str(request.number))

    def _promote(self, request: ClientRequest, wire_id: str) -> None:
        if request.number in self._client.open:
            request.is_promoted = True
            self._daemon.promote(wire_id)

    def _find(self, request: ClientRequest) -> _Task | None:
        """The task that a request names; fails it where there is none, or where its client takes none."""
        task = self._tasks.get(request.params.task_id or "")
        if request.revision.is_stateless and not request.offer.has_tasks:
            self._client.lacks(request, {"extensions": {TASKS_EXTENSION: {}}})
        elif task is None:
            self._client.fail(request, WRONG_PARAMS, "there is no such task")
        else:
            return task
        return None

    def _ask(
        self,
        request: ClientRequest,
        tool: str,
        more: dict[str, object],
        then: Callable[[ClientRequest, _Task, DaemonLine], None],
    ) -> None:
        task = self._find(request)
        if task is not None:
            wire_id = str(request.number)
            request.cancel = partial(self._daemon.cancel, wire_id)
            said = Raw(msgspec.json.encode({"job": task.job, **more}))
            self._daemon.call(tool, said, lambda line: self._answered(request, task, line, then), wire_id=wire_id)

    def _answered(
        self,
        request: ClientRequest,
        task: _Task,
        line: DaemonLine,
        then: Callable[[ClientRequest, _Task, DaemonLine], None],
    ) -> None:
        job = _job_in(line)
        if job is None:
            fault = fault_of(line)
            code = WRONG_PARAMS if fault is not None and fault.error == "unknown_job" else INTERNAL
            self._client.fail(request, code, "the task cannot be read" if fault is None else fault.detail)
            return
        fault = fault_of(job)
        task.is_cancelled = fault is not None and fault.error == "cancelled"
        then(request, task, job)

    def _got(self, request: ClientRequest, task: _Task, job: DaemonLine) -> None:
        told = self._told(task, job, request)
        if request.revision.is_stateless and told["status"] == "completed":
            result = called(job, request.revision, is_structured=task.is_structured)
            told["result"] = {"resultType": "complete", **result}
        self._client.answer(request, told)

    def _resulted(self, request: ClientRequest, task: _Task, job: DaemonLine) -> None:
        if job.state != "done":
            self._client.fail(request, INTERNAL, "the task is not done yet")
            return
        result = called(job, request.revision, is_structured=task.is_structured)
        self._client.answer(request, result, {RELATED_TASK: {"taskId": task.id}})

    def _stopped(self, request: ClientRequest, task: _Task, job: DaemonLine) -> None:
        self._client.answer(request, {} if request.revision.is_stateless else self._told(task, job, request))

    def _listed(self, request: ClientRequest, line: DaemonLine) -> None:
        try:
            jobs = msgspec.json.decode(line.content or "", type=dict[str, list[DaemonLine]]).get("jobs", [])
        except UNREADABLE:
            jobs = []
        known = {task.job: task for task in self._tasks.values()}
        told = [self._told(known[job.job], job, request) for job in jobs if job.job in known]
        self._client.answer(request, {"tasks": told})

    def _told(self, task: _Task, job: DaemonLine, request: ClientRequest) -> dict[str, object]:
        is_stateless = request.revision.is_stateless
        status = "completed"
        if job.state != "done":
            status = "working"
        elif task.is_cancelled:
            status = "cancelled"
        elif job.is_error and not is_stateless:
            status = "failed"
        told: dict[str, object] = {"taskId": task.id, "status": status}
        if job.message is not None:
            told["statusMessage"] = job.message
        told["createdAt"], told["lastUpdatedAt"] = task.started, self._now()
        # A job is kept while its session lives, so no time is promised.
        told["ttlMs" if is_stateless else "ttl"] = None
        told["pollIntervalMs" if is_stateless else "pollInterval"] = POLL_MS
        return told

    def _now(self) -> str:
        return datetime.fromtimestamp(self._epoch + self._alarms.now, UTC).isoformat().replace("+00:00", "Z")


def _job_in(line: DaemonLine) -> DaemonLine | None:
    """The job that a tool of jobs gave, or that a call has become."""
    try:
        return None if line.is_error else read_line(line.content or "")
    except UNREADABLE:
        return None
