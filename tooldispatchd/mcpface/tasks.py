"""Jobs of the daemon as tasks of MCP: the experimental ones of 2025-11-25, and the extension of the stateless revision.

In the first a client asks for a task with its call. In the second the server decides: a call that takes long becomes
one, for a client that takes tasks. A task's id is ours and cannot be guessed; a job's is.
"""

import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Final

import msgspec
from msgspec import Raw, UnsetType

from tooldispatchd.mcpface.alarms import Alarms
from tooldispatchd.mcpface.answers import called
from tooldispatchd.mcpface.clientside import ClientRequest, ClientSide
from tooldispatchd.mcpface.daemonside import DaemonLine, DaemonSide, fault_of
from tooldispatchd.mcpface.jsonrpc import INTERNAL, UNREADABLE, WRONG_PARAMS

# Who waits longer than that for an answer does better to ask for it later.
PROMOTED_S: Final = 10.0
POLL_MS: Final = 1000
# A day: as long as `job_wait` waits.
WAIT_S: Final = 86_400
# More than the jobs that an agent may have.
MAX_TASKS: Final = 1024
RELATED: Final = "io.modelcontextprotocol/related-task"


class _Started(msgspec.Struct):
    job: str


class _Job(msgspec.Struct):
    job: str
    state: str
    content: str | None = None
    is_error: bool = False
    fault: bool = False
    blocks: Raw | UnsetType = msgspec.UNSET
    value: Raw | UnsetType = msgspec.UNSET
    message: str | None = None

    def line(self) -> DaemonLine:
        """The answer that the call would have had."""
        return DaemonLine(
            "tool_resp",
            content=self.content,
            is_error=self.is_error,
            fault=self.fault,
            blocks=self.blocks,
            value=self.value,
        )


class _Task:
    """One job as the client knows it."""

    def __init__(self, job: str, request: ClientRequest, now: str, *, is_structured: bool) -> None:
        self.id = f"task-{secrets.token_urlsafe(18)}"
        self.job = job
        self.started = now
        self.name = request.params.name
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
        try:
            job = None if line.is_error else msgspec.json.decode(line.content or "", type=_Started).job
        except UNREADABLE:
            job = None
        if job is None:
            return False
        if len(self._tasks) >= MAX_TASKS:
            del self._tasks[next(iter(self._tasks))]
        task = _Task(job, request, self._now(), is_structured=is_structured)
        self._tasks[task.id] = task
        told = self._told(task, _Job(job, "running"), request)
        if request.revision.is_stateless:
            self._client.answer(request, {"resultType": "task", **told})
        else:
            self._client.answer(request, {"task": told})
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
        self._client.answer(request, {})

    def show(self, request: ClientRequest) -> None:
        """`tasks/list`."""
        self._daemon.call("job_list", Raw(b"{}"), partial(self._listed, request), wire_id=str(request.number))

    def _promote(self, request: ClientRequest, wire_id: str) -> None:
        if request.latest.number in self._client.open:
            request.is_promoted = True
            self._daemon.promote(wire_id)

    def _ask(
        self,
        request: ClientRequest,
        tool: str,
        more: dict[str, object],
        then: Callable[[ClientRequest, _Task, _Job], None],
    ) -> None:
        task = self._tasks.get(request.params.task_id or "")
        if task is None:
            self._client.fail(request, WRONG_PARAMS, "there is no such task")
            return
        wire_id = str(request.number)
        request.cancel = partial(self._daemon.cancel, wire_id)
        said = Raw(msgspec.json.encode({"job": task.job, **more}))
        self._daemon.call(tool, said, partial(self._answered, request, task, then), wire_id=wire_id)

    def _answered(
        self,
        request: ClientRequest,
        task: _Task,
        then: Callable[[ClientRequest, _Task, _Job], None],
        line: DaemonLine,
    ) -> None:
        fault = fault_of(line)
        try:
            job = None if line.is_error else msgspec.json.decode(line.content or "", type=_Job)
        except UNREADABLE:
            job = None
        if job is None:
            code = WRONG_PARAMS if fault is not None and fault.error == "unknown_job" else INTERNAL
            self._client.fail(request, code, "the task cannot be read" if fault is None else fault.detail)
        else:
            then(request, task, job)

    def _got(self, request: ClientRequest, task: _Task, job: _Job) -> None:
        told = self._told(task, job, request)
        if request.revision.is_stateless and told["status"] == "completed":
            told["result"] = {"resultType": "complete", **self._called(request, task, job)}
        self._client.answer(request, told)

    def _resulted(self, request: ClientRequest, task: _Task, job: _Job) -> None:
        if job.state != "done":
            self._client.fail(request, INTERNAL, "the task is not done yet")
            return
        related = {"_meta": {RELATED: {"taskId": task.id}}}
        self._client.answer(request, {**self._called(request, task, job), **related})

    def _stopped(self, request: ClientRequest, task: _Task, job: _Job) -> None:
        line = job.line()
        fault = fault_of(line)
        task.is_cancelled = fault is not None and fault.error == "cancelled"
        told = self._told(task, job, request)
        self._client.answer(request, {} if request.revision.is_stateless else told)

    def _listed(self, request: ClientRequest, line: DaemonLine) -> None:
        try:
            jobs = msgspec.json.decode(line.content or "", type=dict[str, list[_Job]]).get("jobs", [])
        except UNREADABLE:
            jobs = []
        known = {task.job: task for task in self._tasks.values()}
        told = [self._told(known[job.job], job, request) for job in jobs if job.job in known]
        self._client.answer(request, {"tasks": told})

    def _called(self, request: ClientRequest, task: _Task, job: _Job) -> dict[str, object]:
        return called(job.line(), request.revision, is_structured=task.is_structured)

    def _told(self, task: _Task, job: _Job, request: ClientRequest) -> dict[str, object]:
        is_stateless = request.revision.is_stateless
        told: dict[str, object] = {"taskId": task.id, "status": _status(task, job, is_stateless=is_stateless)}
        if job.message is not None:
            told["statusMessage"] = job.message
        told["createdAt"], told["lastUpdatedAt"] = task.started, self._now()
        # A job is kept while its session lives, so no time is promised.
        told["ttlMs" if is_stateless else "ttl"] = None
        told["pollIntervalMs" if is_stateless else "pollInterval"] = POLL_MS
        return told

    def _now(self) -> str:
        return datetime.fromtimestamp(self._epoch + self._alarms.now, UTC).isoformat().replace("+00:00", "Z")


def _status(task: _Task, job: _Job, *, is_stateless: bool) -> str:
    if job.state != "done":
        return "working"
    if task.is_cancelled:
        return "cancelled"
    return "failed" if job.is_error and not is_stateless else "completed"
