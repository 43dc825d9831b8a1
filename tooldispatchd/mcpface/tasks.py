"""Jobs of the daemon as tasks of MCP: the experimental ones of 2025-11-25, and the extension of the stateless revision.

In the first a client asks for a task with its call. In the second the server decides: for a client that takes tasks, a
call that the daemon makes a job becomes one, and so does a call that takes long. What the daemon asks about a task
stands in `tasks/get` (`input_required`), and `tasks/update` answers it. A task's id is ours and cannot be guessed; a
job's is.
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
from tooldispatchd.mcpface.jsonrpc import INTERNAL, UNREADABLE, WRONG_PARAMS, is_object
from tooldispatchd.mcpface.revisions import RELATED_TASK, TASKS_EXTENSION

# Before an answer over HTTP becomes a stream (5 s), and within the 10 s that an impatient client waits.
PROMOTED_S: Final = 4.0
POLL_MS: Final = 1000
# A day: as long as `job_wait` waits.
WAIT_S: Final = 86_400
# More than the jobs that an agent may have.
MAX_TASKS: Final = 1024
# A person who was called away comes back within that; the daemon's own limits of the call end it earlier.
QUESTION_S: Final = 600.0


class ClientTask:
    """One job as the client knows it."""

    def __init__(self, job: str, now: str, request: ClientRequest, *, is_structured: bool) -> None:
        # As random as `secrets`, with which OpenSSL is loaded: that takes as long as most of the face.
        self.id = f"task-{uuid4().hex}"
        self.job = job
        self.started = now
        self.offer = request.offer
        self.takes_updates = request.revision.is_stateless
        self.is_structured = is_structured
        self.is_cancelled = False
        self.questions: dict[str, tuple[dict[str, object], Callable[[Raw | None], None]]] = {}
        """Open ones by their keys: the input request, and what takes its answer."""


class ClientTasks:
    """Starts tasks and tells of them."""

    def __init__(self, client: ClientSide, daemon: DaemonSide, alarms: Alarms, epoch: float) -> None:
        self._client = client
        self._daemon = daemon
        self._alarms = alarms
        self._epoch = epoch
        self._tasks: dict[str, ClientTask] = {}

    @property
    def are_there(self) -> bool:
        """Whether this session has jobs."""
        return self._daemon.capabilities.get("jobs") is True

    def knows(self, task_id: str) -> bool:
        """Whether a task has that id."""
        return task_id in self._tasks

    def promote_later(self, request: ClientRequest) -> None:
        """Make a task of a call that takes long; a retry has that time anew."""
        if self.are_there and request.offer.has_tasks and request.revision.is_stateless:
            self._alarms.after(PROMOTED_S, partial(self._promote, request, request.ticket))

    def started(self, request: ClientRequest, line: DaemonLine, *, is_structured: bool) -> bool:
        """Answer `request` with a task, if its call became a job and its client takes tasks."""
        if line.job is None:
            return False
        request.cancel = partial(self._stop, line.job)
        if not request.is_parked and request.number not in self._client.open:
            # Cancelled while the daemon made a job of its call: nobody will hear of that job.
            request.cancel()
            return True
        is_stateless = request.revision.is_stateless
        takes_tasks = request.offer.has_tasks if is_stateless else request.wants_task
        if takes_tasks:
            if len(self._tasks) >= MAX_TASKS:
                self._refuse(self._tasks.pop(next(iter(self._tasks))))
            task = ClientTask(line.job, self._now(), request, is_structured=is_structured)
            self._tasks[task.id] = task
            told = self._told(task, line, request)
            self._client.answer(request, {"resultType": "task", **told} if is_stateless else {"task": told})
        return takes_tasks

    def of_job(self, job: str | None) -> ClientTask | None:
        """The task of a job; None where there is none."""
        return next((task for task in self._tasks.values() if task.job == job), None)

    def ask(self, task: ClientTask, key: str, told: dict[str, object], then: Callable[[Raw | None], None]) -> None:
        """Ask the client of a task; `then` gets its answer, or None where none will come."""
        task.questions[key] = told, then
        self._alarms.after(QUESTION_S, partial(self.settle, task, key, None))

    def settle(self, task: ClientTask, key: str, answer: Raw | None) -> None:
        """End a question of a task, unless it has ended."""
        _, then = task.questions.pop(key, (None, None))
        if then is not None:
            then(answer)

    def end(self) -> None:
        """Refuse the questions of all tasks: their client sends nothing more."""
        for task in self._tasks.values():
            self._refuse(task)

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
        """`tasks/update`: answers to questions, of which some may stay open."""
        task = self._find(request)
        if task is not None:
            for key, answer in (request.params.input_responses or {}).items():
                if is_object(answer):
                    self.settle(task, key, answer)
            self._client.answer(request, {})

    def show(self, request: ClientRequest) -> None:
        """`tasks/list`."""
        self._daemon.call("job_list", Raw(b"{}"), partial(self._listed, request), wire_id=str(request.number))

    def _promote(self, request: ClientRequest, ticket: int) -> None:
        if request.number in self._client.open and request.ticket == ticket:
            self._daemon.promote(str(request.number))

    def _stop(self, job: str) -> None:
        self._daemon.call("job_stop", Raw(msgspec.json.encode({"job": job})), lambda _: None)

    def _refuse(self, task: ClientTask) -> None:
        for key in list(task.questions):
            self.settle(task, key, None)

    def _find(self, request: ClientRequest) -> ClientTask | None:
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
        then: Callable[[ClientRequest, ClientTask, DaemonLine], None],
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
        task: ClientTask,
        line: DaemonLine,
        then: Callable[[ClientRequest, ClientTask, DaemonLine], None],
    ) -> None:
        job = _job_in(line)
        if job is None:
            fault = fault_of(line)
            code = WRONG_PARAMS if fault is not None and fault.error == "unknown_job" else INTERNAL
            self._client.fail(request, code, "the task cannot be read" if fault is None else fault.detail)
            return
        fault = fault_of(job)
        task.is_cancelled = fault is not None and fault.error == "cancelled"
        if job.state == "done":
            self._refuse(task)
        then(request, task, job)

    def _got(self, request: ClientRequest, task: ClientTask, job: DaemonLine) -> None:
        told, fault = self._told(task, job, request), fault_of(job)
        status = told["status"] if request.revision.is_stateless else None
        if status == "input_required":
            told["inputRequests"] = {key: question for key, (question, _) in task.questions.items()}
        elif status == "completed":
            result = called(job, request.revision, is_structured=task.is_structured)
            told["result"] = {"resultType": "complete", **result}
        elif status == "failed" and fault is not None:
            told["error"] = {"code": fault.rpc_code, "message": fault.detail, "data": Raw((job.content or "").encode())}
        self._client.answer(request, told)

    def _resulted(self, request: ClientRequest, task: ClientTask, job: DaemonLine) -> None:
        if job.state != "done":
            self._client.fail(request, INTERNAL, "the task is not done yet")
            return
        result = called(job, request.revision, is_structured=task.is_structured)
        self._client.answer(request, result, {RELATED_TASK: {"taskId": task.id}})

    def _stopped(self, request: ClientRequest, task: ClientTask, job: DaemonLine) -> None:
        self._client.answer(request, {} if request.revision.is_stateless else self._told(task, job, request))

    def _listed(self, request: ClientRequest, line: DaemonLine) -> None:
        try:
            jobs = msgspec.json.decode(line.content or "", type=dict[str, list[DaemonLine]]).get("jobs", [])
        except UNREADABLE:
            jobs = []
        known = {task.job: task for task in self._tasks.values()}
        told = [self._told(known[job.job], job, request) for job in jobs if job.job in known]
        self._client.answer(request, {"tasks": told})

    def _told(self, task: ClientTask, job: DaemonLine, request: ClientRequest) -> dict[str, object]:
        is_stateless, fault = request.revision.is_stateless, fault_of(job)
        # In the stateless revision a failed call is a result, but where its server itself answered with an error.
        has_failed = fault is not None and isinstance(fault.rpc_code, int) if is_stateless else job.is_error
        status = "completed"
        if job.state != "done":
            status = "input_required" if task.questions else "working"
        elif task.is_cancelled:
            status = "cancelled"
        elif has_failed:
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
    """The job that a tool of jobs gave."""
    try:
        return None if line.is_error else read_line(line.content or "")
    except UNREADABLE:
        return None
