"""Jobs of one agent: calls that run in the background, and their results until somebody has read them. Pure.

    opened ──▶ running ──▶ done ──▶ read ──▶ forgotten, when a newer one needs its room

A result that nobody has read is never dropped. Where it does not fit any more beside other unread ones the job is done
with a fault that says so.
"""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from msgspec import UNSET

from tooldispatchd.calls.memory import Share
from tooldispatchd.calls.outcome import Answer, Outcome, Update, content_in
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import NOTHING_BESIDE, Beside
from tooldispatchd.wire.session import beside_fault

Told = Callable[[], None]

# Calls that wait for one job at once: each gets its result, which may be large.
MAX_WAITERS: Final = 4
# A job's cost beside its result; counted so that many empty ones are not free.
JOB_COST_BYTES: Final = 256


class Job:
    """One call in the background. `outcome` is None while it runs; `update` is the last thing that it said.

    `beside` is what its agent asked for beside the content.
    """

    __slots__ = ("beside", "id", "is_read", "name", "outcome", "size", "update", "waiters")

    def __init__(self, job_id: str, name: str) -> None:
        self.id = job_id
        self.name = name
        self.outcome: Outcome | None = None
        self.beside = NOTHING_BESIDE
        self.update: Update | None = None
        self.is_read = False
        self.size = JOB_COST_BYTES
        self.waiters: list[Told] = []

    def content(self) -> str:
        """The answer to the request that began it."""
        return msgspec.json.encode({"job": self.id}).decode()


class Jobs:
    """At most `max_jobs` jobs, whose results take at most `max_bytes` together, and of `share` what it has room for."""

    __slots__ = ("_bytes", "_jobs", "_max_bytes", "_max_jobs", "_opened", "_share")

    def __init__(self, share: Share, *, max_jobs: int, max_bytes: int) -> None:
        self._share = share
        self._max_jobs = max_jobs
        self._max_bytes = max_bytes
        self._jobs: dict[str, Job] = {}
        self._opened = 0
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs.values())

    def open(self, name: str) -> Job | None:
        """A new job for a call of the tool `name`; None where every one that is kept still runs or is unread."""
        if not self._make_room(1, JOB_COST_BYTES):
            return None
        self._opened += 1
        job = Job(f"job-{self._opened}", name)
        self._jobs[job.id] = job
        self._count(job.size)
        return job

    def get(self, job_id: str) -> Job | None:
        """The job of that id; None for one that never was, or is forgotten."""
        return self._jobs.get(job_id)

    def finish(self, job: Job, outcome: Outcome, beside: Beside = NOTHING_BESIDE) -> None:
        """End the job, and tell its waiters, which must not raise."""
        # A fault is small and bounded.
        size = 0 if isinstance(outcome, Fault) else outcome.size
        if not self._make_room(0, size):
            detail = f"the result does not fit into {self._max_bytes} bytes beside those that nobody has read"
            is_own = self._bytes + size > self._max_bytes
            outcome = Fault(Code.TOOL_FAILED, detail, {"limit": "job_bytes"}) if is_own else self._share.fault
            outcome = outcome.ran(may_have=True)
            size, beside = 0, beside_fault(outcome, beside.kind, None)
        job.size += size
        self._count(size)
        job.outcome, job.beside = outcome, beside
        job.update = None
        waiters, job.waiters = job.waiters, []
        for told in waiters:
            told()

    def forget(self, job: Job) -> None:
        """A job that never began, so that its id was never told, or whose result was read."""
        del self._jobs[job.id]
        self._count(-job.size)
        if isinstance(job.outcome, Answer):
            self._share.let_go_all(job.outcome.buffers)

    def close(self) -> None:
        """Forget all jobs."""
        for job in list(self):
            self.forget(job)

    def show(self, job: Job) -> dict[str, object]:
        """Describe a job, with its result where it is done; the caller marks it as read."""
        fields = _fields(job)
        outcome = job.outcome
        if outcome is not None:
            beside = job.beside
            fields["content"] = content_in(outcome, beside.kind)
            told = {"kind": beside.kind, "blocks": beside.blocks, "details": beside.details, "value": beside.value}
            fields.update((key, value) for key, value in told.items() if value is not None and value is not UNSET)
        elif job.update is not None:
            said = job.update
            so_far = {"progress": said.progress, "total": said.total, "message": said.message}
            fields.update((key, value) for key, value in so_far.items() if value is not None)
        return fields

    def list(self) -> list[dict[str, object]]:
        """Every job that is kept, oldest first, without its result."""
        return [_fields(job) | {"is_read": job.is_read} for job in self]

    def _make_room(self, jobs: int, size: int) -> bool:
        """Forget jobs whose results were read, oldest first, as far as needed; whether it helped."""
        if self._has_room(jobs, size):
            return True
        for job in [job for job in self if job.is_read]:
            self.forget(job)
            if self._has_room(jobs, size):
                return True
        return False

    def _has_room(self, jobs: int, size: int) -> bool:
        is_own = len(self._jobs) + jobs <= self._max_jobs and self._bytes + size <= self._max_bytes
        return is_own and self._share.has_room(size)

    def _count(self, change: int) -> None:
        self._bytes += change
        self._share.add(change)


def _fields(job: Job) -> dict[str, object]:
    fields: dict[str, object] = {"job": job.id, "name": job.name, "state": "running" if job.outcome is None else "done"}
    outcome = job.outcome
    if outcome is not None:
        fields["is_error"] = isinstance(outcome, Fault) or outcome.is_error
        if isinstance(outcome, Fault):
            fields["fault"] = True
    return fields
