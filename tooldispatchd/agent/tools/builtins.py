"""The built-in tools: `job_wait`, `job_read`, `job_list` and `job_stop` for an agent's jobs, and `info` for long texts.

Those for jobs look only at the session's own calls, and take no place among those that run: a job must be readable, and
stoppable, while its agent has as many calls running as it may.
"""

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

import msgspec
import trio
from msgspec import Raw, UnsetType

from tooldispatchd.agent.calls.agentcall import AgentCall
from tooldispatchd.agent.calls.call import Call, Plan
from tooldispatchd.agent.calls.checking import Reader
from tooldispatchd.agent.calls.step import READ
from tooldispatchd.agent.faults import CANCELLED, SHOWN_NAME, queue_full
from tooldispatchd.agent.steps.sizes import exceeded_window
from tooldispatchd.calls.content import given_bytes
from tooldispatchd.calls.jobs import MAX_WAITERS, Job, Jobs
from tooldispatchd.calls.outcome import Answer, Outcome
from tooldispatchd.calls.stages import Reason
from tooldispatchd.calls.tally import Tallies
from tooldispatchd.catalog.offered import Offered
from tooldispatchd.catalog.schemas import compile_check
from tooldispatchd.providers.mcp.greeting import instructions_text
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.heavy import HEAVY_BYTES
from tooldispatchd.wire.messages import QuotedText

JOBS_KIND: Final = "builtin"
# A job ends by the limits of its own tool; this only bounds the wait for it.
WAIT_LIMIT_S: Final = 86_400.0

_JOB: Final = {"type": "string", "description": "The id that the background call was answered with."}
_encode: Final = msgspec.json.Encoder().encode


class _Input(msgspec.Struct):
    job: str = ""
    timeout_s: float | None = None


_decode: Final = msgspec.json.Decoder(_Input).decode

Run = Callable[[Call, Jobs, Job, _Input], None]


def job_plans() -> list[Plan]:
    """The four tools, for every profile that has not said `jobs = false`."""
    wait = {"job": _JOB, "timeout_s": {"type": "number", "exclusiveMinimum": 0, "maximum": WAIT_LIMIT_S}}
    return [
        JobPlan("job_wait", "Wait until a job is done, or `timeout_s` seconds, and give its result.", wait, _wait),
        JobPlan("job_read", "Give a job's result, or how far it is.", {"job": _JOB}, _read),
        JobListPlan("job_list", "List the jobs: which run, which are done.", {}, _read),
        JobPlan("job_stop", "Stop a job.", {"job": _JOB}, _stop),
    ]


class JobPlan(Plan):
    """A tool on the job that its input names."""

    __slots__ = ("_run",)

    def __init__(self, name: str, description: str, properties: dict[str, object], run: Run) -> None:
        schema: dict[str, object] = {
            "type": "object",
            "properties": properties,
            "required": [key for key in properties if key == "job"],
            "additionalProperties": False,
        }
        read = Reader(compile_check(schema), missing={}, wrapped=False)
        offered = Offered(name=name, description=description, input_schema=schema)
        super().__init__(offered, kind=JOBS_KIND, limit_s=WAIT_LIMIT_S, read=read, provider="jobs")
        self.takes_place = self.gives_json = False
        self.set_steps((READ,))
        self._run = run

    def start(self, call: Call) -> None:
        jobs = call.context.calls.jobs
        wanted = _decode(call.line)
        job = jobs.get(wanted.job)
        if job is None:
            detail = "no such job; a result that was read may have been forgotten for a newer one"
            call.finish(Fault(Code.UNKNOWN_JOB, detail, {"source": wanted.job[:128]}).ran(may_have=False))
        else:
            self._run(call, jobs, job, wanted)


class JobListPlan(JobPlan):
    """Lists all jobs."""

    __slots__ = ()

    def start(self, call: Call) -> None:
        answer = _answer({"jobs": call.context.calls.jobs.list()})
        call.finish(_over_window(call, answer) or answer)


def _answer(value: object) -> Answer:
    return Answer(_encode(value).decode())


def _read(call: Call, jobs: Jobs, job: Job, _wanted: _Input) -> None:
    _give(call, jobs, job)


def _give(call: Call, jobs: Jobs, job: Job) -> None:
    """Answer with the job as it is; a result that cannot be sent now is not read by that."""
    context = call.context
    crowding = None if job.outcome is None else context.channel.crowding(job.size)
    # Where there is no room beside it, the answer has the room of the job.
    takes_room = crowding is not None and context.channel.crowding(0) is None and jobs.get(job.id) is job
    if crowding is not None and not takes_room:
        call.finish(crowding)
    elif job.size <= HEAVY_BYTES:
        call.finish(_given(call, jobs, job, _answer(jobs.show(job)), takes_room=takes_room))
    elif job.size > _window(call):
        call.finish(exceeded_window(job.size))
    else:
        call.work(partial(_quoted, call, jobs, job, takes_room=takes_room))


async def _quoted(call: Call, jobs: Jobs, job: Job, *, takes_room: bool) -> Outcome:
    """Have a checker write a long result as a text within the answer's text."""
    checking, turns = call.context.checking, call.context.account.turns
    outcome = await checking.quote(_pieces(jobs.show(job)), call.wanted.kind, turns=turns)
    return outcome if isinstance(outcome, Fault) else _given(call, jobs, job, outcome, takes_room=takes_room)


def _given(call: Call, jobs: Jobs, job: Job, answer: Answer, *, takes_room: bool) -> Outcome:
    """Mark a finished job as read and give its answer, or the fault that it does not fit."""
    refusal = _over_window(call, answer)
    if refusal is None and job.outcome is not None:
        job.is_read = True
        if takes_room and jobs.get(job.id) is job:
            jobs.forget(job)
    return refusal or answer


def _over_window(call: Call, answer: Answer) -> Fault | None:
    size = given_bytes(answer, call.wanted.kind)
    return exceeded_window(size) if size > _window(call) else None


def _window(call: Call) -> float:
    return call.asked_room if isinstance(call, AgentCall) else math.inf


def _pieces(known: dict[str, object]) -> list[bytes | bytearray | memoryview]:
    """The job as JSON, in pieces: what may be large is none's part."""
    large = {key: known.pop(key) for key in ("content", "blocks", "details") if key in known}
    pieces: list[bytes | bytearray | memoryview] = [_encode(known)[:-1]]
    for key, value in large.items():
        pieces.append(b',"%b":' % key.encode())
        if isinstance(value, QuotedText):
            pieces.append(value.literal)
        else:
            pieces.append(memoryview(value) if isinstance(value, Raw) else _encode(value))
    return [*pieces, b"}"]


def _stop(call: Call, jobs: Jobs, job: Job, wanted: _Input) -> None:
    call.context.calls.cancel(job)
    # The job ends when nothing of it is left, which is what the agent wants to know; it ends soon, however many wait.
    _give_when_done(call, jobs, job, wanted)


def _wait(call: Call, jobs: Jobs, job: Job, wanted: _Input) -> None:
    if len(job.waiters) >= MAX_WAITERS:
        call.finish(queue_full("job").ran(may_have=False))
    else:
        _give_when_done(call, jobs, job, wanted)


def _give_when_done(call: Call, jobs: Jobs, job: Job, wanted: _Input) -> None:
    if job.outcome is not None:
        _give(call, jobs, job)
    else:
        _Wait(call, jobs, job, wanted.timeout_s)


class _Wait:
    """A call that waits for a job."""

    __slots__ = ("_call", "_entry", "_job", "_jobs")

    def __init__(self, call: Call, jobs: Jobs, job: Job, timeout_s: float | None) -> None:
        self._call = call
        self._jobs = jobs
        self._job = job
        self._entry = None if timeout_s is None else call.context.timer.add(trio.current_time() + timeout_s, self)
        job.waiters.append(self.done)
        call.halt = self.halt

    def done(self) -> None:
        """The job is done."""
        self._drop_entry()
        self._finish()

    def expire(self) -> None:
        """The agent wants to wait no longer: it is told how far the job is."""
        self._entry = None
        self._leave()
        self._finish()

    def halt(self, _reason: Reason) -> None:
        """The wait is cancelled; the job goes on."""
        self._drop_entry()
        self._leave()
        self._call.finish(CANCELLED)

    def _finish(self) -> None:
        _give(self._call, self._jobs, self._job)
        self._call.context.channel.flush()

    def _leave(self) -> None:
        if self.done in self._job.waiters:
            self._job.waiters.remove(self.done)

    def _drop_entry(self) -> None:
        if self._entry is not None:
            self._call.context.timer.drop(self._entry)
            self._entry = None


INFO: Final = "info"
_SCHEMA: Final[dict[str, object]] = {
    "type": "object",
    "properties": {"name": {"type": "string", "description": "The name of the tool."}},
    "required": ["name"],
    "additionalProperties": False,
}
_CHECK: Final = compile_check(_SCHEMA)


class InfoPlan(Plan):
    """The tool `info`, which answers at once: `{name: string} -> string`.

    `documented` are tools that have a text. `find` gives the tool that is meant by a name, however it is spelled.
    """

    __slots__ = ("find",)

    def __init__(
        self, documented: Iterable[str], find: Callable[[str], Plan | None], *, limit_s: float, tallies: Tallies
    ) -> None:
        read = Reader(_CHECK, missing={}, wrapped=False)
        shown = ", ".join(documented)
        description = f"Give the full documentation of a tool. There is one for: {shown}"
        offered = Offered(name=INFO, description=description[:1_000], input_schema=_SCHEMA)
        super().__init__(offered, kind="builtin", limit_s=limit_s, read=read, provider=INFO)
        self.find = find
        self.gives_json = False
        self.tally = tallies.of(self)
        self.now = self._answer

    def start(self, call: Call) -> None:
        """Answer a call that had to wait for its turn."""
        content = self._answer(Raw(bytes(call.line)))
        call.finish(content if isinstance(content, Fault) else Answer(content))

    def _answer(self, raw: Raw | UnsetType, dropped: list[str] | None = None, /) -> str | Fault:
        if not self.read.is_light(raw):
            return Fault(Code.INVALID_INPUT, "a name is not that long")
        value = self.read(raw, dropped)
        if isinstance(value, Fault):
            return value
        name = value["name"] if isinstance(value, dict) else ""
        plan = self.find(str(name))
        if plan is None:
            why = f"{str(name)[:SHOWN_NAME]} is no tool of this agent"
            violation = {"path": "/name", "message": why}
            return Fault(Code.INVALID_INPUT, why, {"violations": [violation], "source": str(name)[:SHOWN_NAME]})
        return _encode(plan.offered.doc or _described(plan.offered)).decode()


def _described(offered: Offered) -> str:
    """What is said of a tool that has no text of its own."""
    schema = f"Input (JSON Schema): {_encode(offered.input_schema).decode()}"
    return "\n\n".join(part for part in (offered.name, offered.description, schema) if part)


def instructions_of(plans: Iterable[Plan], advice: Iterable[tuple[str, str]] = ()) -> str | None:
    """The text of `instructions`: hints and advice for all the agent's tools; None where there are none.

    First the hints, a line each, in the order in which the tools are offered; then what the servers advise, each by
    its prefix.
    """
    hints = [plan.offered.hint.strip() for plan in plans if plan.offered.hint]
    parts = ["\n".join(f"- {' '.join(hint.split())}" for hint in hints), instructions_text(advice)]
    return "\n\n".join(part for part in parts if part) or None
