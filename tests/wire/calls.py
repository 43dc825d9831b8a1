"""One agent of the reference model: its calls in flight and its jobs, on a session machine. No clock, no task."""

import math
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tests.wire.toolbox import (
    INFO,
    TOOLS,
    Configuration,
    Profile,
    Tool,
    encode,
    entry,
    read_input,
    run,
    spell,
    spellings,
)
from tooldispatchd.agent.calls.beside import beside_of, in_kind, wanted_kind
from tooldispatchd.calls.jobs import Job, Jobs
from tooldispatchd.calls.memory import Memory
from tooldispatchd.calls.outcome import Answer, Outcome
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import (
    Beside,
    ByeSaid,
    CallMeta,
    ContentKind,
    Request,
    Select,
    ShortReq,
    Switched,
    ToolsReq,
    ToolUpdate,
)
from tooldispatchd.wire.questions import Questions
from tooldispatchd.wire.session import Event, SessionMachine, State, beside_fault, body_of

CANCELLED: Final = Fault(Code.CANCELLED, "the call was cancelled")
JOB_TOOLS: Final = ("job_wait", "job_read", "job_list", "job_stop")
# What is on and off, by `tags` or `tools` and the name there.
Switches = dict[tuple[str, str], bool]


def too_many(what: str, limit: int) -> Fault:
    return Fault(Code.TOO_MANY, "over the limit", {"what": what, "limit": limit})


def queue_full(queue: str) -> Fault:
    return Fault(Code.QUEUE_FULL, "too many calls are waiting", {"queue": queue, "retry_after_ms": 1000})


def _read(jobs: Jobs, job: Job) -> dict[str, object]:
    job.is_read = job.outcome is not None
    return jobs.show(job)


class Call:
    """One call in flight; `tool` is None for one that waits for the job `awaits`."""

    def __init__(self, body: ShortReq, *, tool: Tool | None, value: object, limit_ms: float) -> None:
        self.id = body.id
        self.tool = tool
        self.value = value
        self.limit_ms = limit_ms
        self.traceparent = body.traceparent
        self.bytes_in = size_of(body.input)
        self.asked: ContentKind | None = None
        self.job: Job | None = None
        self.awaits: Job | None = None


def size_of(raw: Raw | UnsetType) -> int:
    return 0 if isinstance(raw, UnsetType) else len(raw)


def is_job_input(name: str, value: object) -> bool:
    """Whether this is an input of one of the four tools of jobs."""
    if not isinstance(value, dict):
        return False
    wanted = value.get("job", "" if name == "job_list" else None)
    known = {"job_list": set(), "job_wait": {"job", "timeout_s"}}.get(name, {"job"})
    return type(wanted) is str and value.keys() <= known and 0 < value.get("timeout_s", 1) <= 86_400


def said_in(asked: ToolsReq | Switched) -> Switches:
    """What is said of tags and of tools."""
    both = (("tags", asked.tags), ("tools", asked.tools))
    return {(kind, name): is_on for kind, said in both for name, is_on in (said or {}).items()}


class Agent:
    """One session: what it may call, what it has called, what became of it."""

    def __init__(self, config: Configuration, machine: SessionMachine, profile: Profile) -> None:
        self.machine = machine
        self.questions = Questions(machine)
        self.farewell: ByeSaid | None = None
        self._config = config
        self._profile = profile
        self._switched: Switches = {}
        if machine.asked.select is not None:
            self._switched = said_in(machine.asked.select)
        # By names that it was shown, the tools' own.
        self._shown: dict[str, str] = {}
        # In the order they came: so many of the first run, the others wait.
        self._calls: list[Call] = []
        self._jobs = Jobs(Memory(2**40).share(0), max_jobs=config.limit("jobs"), max_bytes=config.limit("job_bytes"))
        machine.apply(Event.OPENED)

    def select(self, asked: ToolsReq) -> Fault | Switches:
        """What is switched with what is asked for, and from here on where a `select` asks."""
        switched = dict(self._switched)
        for (kind, name), is_on in said_in(asked).items():
            meant = self._meant(name) if kind == "tools" and name != "*" else name
            is_built_in = meant in {*(JOB_TOOLS if self._profile.jobs else ()), INFO}
            if kind == "tools" and name != "*" and not is_built_in:
                found = self._config.find(meant, self._profile)
                if isinstance(found, Fault):
                    return found
            switched[kind, meant] = is_on
        if isinstance(asked, Select):
            self._switched = switched
        return switched

    def is_on(self, name: str, switched: Switches) -> bool:
        """Whether a tool is on: by its name, else by its tags, else as all are."""
        if ("tools", name) in switched:
            return switched["tools", name]
        by_tags = [switched["tags", tag] for tag in self._config.tags(name) if ("tags", tag) in switched]
        return False not in by_tags if by_tags else switched.get(("tools", "*"), True)

    def tools(self, form: str, switched: Switches | None = None) -> list[Raw]:
        """The tools in a form; their names as it spells them are taken from here on."""
        config = self._config
        switched = self._switched if switched is None else switched
        names = [*self._profile.tools, *(JOB_TOOLS if self._profile.jobs else ())]
        names += [INFO] if config.docs(self._profile) else []
        self._shown |= {spell(name, form): name for name in names}
        entries = [
            entry(
                form,
                spell(name, form),
                title=config.title(name),
                description=config.descriptions.get(name, ""),
                gives_record=name in TOOLS and TOOLS[name].gives_record,
                takes_nothing=name in TOOLS and TOOLS[name].missing is None,
                tags=config.tags(name),
            )
            for name in names
            if self.is_on(name, switched)
        ]
        return [Raw(msgspec.json.encode(each)) for each in entries]

    @property
    def instructions(self) -> str | None:
        """What `ready` says of the tools as a whole."""
        return self._config.instructions(self._profile)

    # --- requests ---

    def request(self, request: Request, *, line: int) -> None:
        if not self.machine.is_taken(request, line=line):
            return
        body = body_of(request)
        if body.background and not self._profile.jobs:
            self.machine.reply_fault(request, Fault(Code.NOT_ALLOWED, "no jobs for this agent"))
        elif self._profile.jobs and body.name in JOB_TOOLS and body.background:
            self.machine.reply_fault(request, Fault(Code.INVALID_REQUEST, "never in the background", {"ran": "no"}))
        elif self._profile.jobs and body.name in JOB_TOOLS and self.is_on(body.name, self._switched):
            self._use_job(request)
        else:
            self._use_tool(request)

    def _meant(self, said: str) -> str:
        """The tool's own name where one of the session's tools is shown so by some form."""
        if said in self._shown or said in self._profile.tools:
            return self._shown.get(said, said)
        meant = [name for name in self._profile.tools if said in spellings(name)]
        return meant[0] if len(meant) == 1 else said

    def _use_tool(self, request: Request) -> None:
        body = body_of(request)
        name = self._meant(body.name)
        tool = self._config.find(name, self._profile)
        is_there = not isinstance(tool, Fault) or (self._profile.jobs and name in JOB_TOOLS)
        if is_there and not self.is_on(name, self._switched):
            tool = Fault(Code.NOT_ALLOWED, "switched off", {"source": body.name})
        if isinstance(tool, Fault):
            close = tool.extras.get("did_you_mean")
            extras = {"did_you_mean": spell(str(close), self.machine.asked.schemas or "plain")} if close else {}
            self.machine.reply_fault(request, Fault(tool.code, tool.detail, {**tool.extras, **extras}))
            return
        refusal = self._refusal(body) if tool.waits else None
        dropped: list[str] = []
        value = read_input(tool, body.input, dropped)
        if not isinstance(value, Fault) and not tool.waits:
            value = run(tool, value, None)
        job = self._jobs.open(body.name) if body.background and not isinstance(value, Fault) else None
        if refusal is not None:
            self.machine.reply_fault(request, refusal.ran(may_have=False))
        elif isinstance(value, Fault):
            fault = value.ran(may_have=value.code is not Code.INVALID_INPUT)
            content = fault.content()
            if (asked := wanted_kind(body, self.machine)) is ContentKind.TEXT:
                meta = self._meta(size_of(body.input), content, tool.kind, tool.provider or "", None)
                beside = beside_fault(fault, asked, meta)
                self.machine.reply(request, fault.text(), is_error=True, fault=True, beside=beside)
            else:
                self._reply(request, content, tool.kind, is_fault=True, by=tool.provider or "")
        elif body.background and job is None:
            self.machine.reply_fault(request, queue_full("jobs").ran(may_have=False))
        elif not tool.waits:
            content = encode(value)
            if job is not None:
                self._jobs.finish(job, Answer(content))
                content = encode({"job": job.id})
            self._reply(request, content, tool.kind, by=tool.provider or "", dropped=dropped, job=job)
        else:
            self._start(request, tool, value, job)

    def _refusal(self, body: ShortReq) -> Fault | None:
        config = self._config
        if len(self._placed()) >= config.limit("in_flight") + config.limit("waiting"):
            return queue_full("agent")
        size = sum(call.bytes_in for call in self._calls)
        if self._calls and size + size_of(body.input) > config.limit("in_flight_bytes"):
            return too_many("in_flight_bytes", config.limit("in_flight_bytes"))
        return None

    def _start(self, request: Request, tool: Tool, value: object, job: Job | None) -> None:
        body = body_of(request)
        limit_ms = self._config.limit_ms(body.name, body.deadline_ms)
        call = Call(body, tool=tool, value=value, limit_ms=limit_ms)
        call.asked = wanted_kind(body, self.machine)
        self._calls.append(call)
        call.job = job
        if job is None:
            self.machine.start(request)
        else:
            self._reply(request, encode({"job": job.id}), tool.kind, job=job)

    def _reply(
        self,
        request: Request,
        content: str,
        kind: str,
        *,
        is_fault: bool = False,
        by: str = "",
        dropped: list[str] | None = None,
        job: Job | None = None,
    ) -> None:
        meta = self._meta(size_of(body_of(request).input), content, kind, by, dropped)
        is_json = kind != "builtin" and not is_fault and not body_of(request).background
        asked = wanted_kind(body_of(request), self.machine)
        # The name of a job is no result.
        stays = is_fault or bool(body_of(request).background)
        content, beside = self._as_asked(content, asked, meta, stays=stays, is_json=is_json)
        if job is not None and (asked is not None or self.machine.asked.wants_more):
            beside = msgspec.structs.replace(beside, job=job.id)
        self.machine.reply(request, content, is_error=is_fault, fault=is_fault, beside=beside)

    def _as_asked(
        self, content: str, asked: ContentKind | None, meta: CallMeta | None, *, stays: bool, is_json: bool
    ) -> tuple[str, Beside]:
        if stays:
            return content, Beside(meta, kind=None if asked is None else ContentKind.JSON)
        answer = in_kind(Answer(content), asked, 1_000_000)
        assert isinstance(answer, Answer)
        assert isinstance(answer.content, str)
        return answer.content, beside_of(answer, asked, self.machine, gives_json=is_json, meta=meta)

    def _meta(
        self, bytes_in: int, content: str, kind: str, by: str = "", dropped: list[str] | None = None
    ) -> CallMeta | None:
        if not self.machine.asked.meta:
            return None
        return CallMeta(0.0, 0.0, kind, by or kind, bytes_in, len(content.encode()), dropped=dropped or UNSET)

    # --- jobs ---

    def _use_job(self, request: Request) -> None:
        body = body_of(request)
        wanted = {} if isinstance(body.input, UnsetType) else msgspec.json.decode(body.input)
        if not is_job_input(body.name, wanted):
            fault = Fault(Code.INVALID_INPUT, "a job is missing", {"violations": [{"path": "", "message": "wrong"}]})
            self._reply(request, fault.ran(may_have=False).content(), "builtin", is_fault=True, by="jobs")
            return
        if body.name == "job_list":
            self._reply(request, encode({"jobs": self._jobs.list()}), "builtin", by="jobs")
            return
        job = self._jobs.get(wanted["job"])
        if job is None:
            fault = Fault(Code.UNKNOWN_JOB, "no such job", {"source": wanted["job"]}).ran(may_have=False)
            self._reply(request, fault.content(), "builtin", is_fault=True, by="jobs")
            return
        if body.name == "job_stop":
            self._stop_jobs(job)
        if job.outcome is not None or body.name == "job_read":
            self._reply(request, encode(_read(self._jobs, job)), "builtin", by="jobs")
            return
        call = Call(body, tool=None, value=None, limit_ms=wanted.get("timeout_s", math.inf) * 1000)
        call.asked = wanted_kind(body, self.machine)
        call.awaits = job
        self._calls.append(call)
        self.machine.start(request)

    def _stop_jobs(self, only: Job | None = None) -> None:
        for call in [call for call in self._calls if call.job is not None and only in {None, call.job}]:
            self._end(call, CANCELLED)

    # --- ends of calls ---

    def _placed(self) -> list[Call]:
        return [call for call in self._calls if call.tool is not None]

    def finish_one(self) -> bool:
        """End the running call that came first, of those that ever end; whether there was one."""
        for call in self._placed()[: self._config.limit("in_flight")]:
            if call.tool is not None and call.tool.run is not None:
                if call.job is None:
                    for said in call.tool.updates:
                        update = msgspec.convert({"__port": "tool_update", "id": call.id, **said}, ToolUpdate)
                        update.agent = self.machine.agent
                        self.machine.update(update)
                self._end(call, run(call.tool, call.value, call.traceparent))
                return True
        return False

    def next_limit_ms(self) -> float:
        """The least limit of any call in flight: infinite where nothing ever ends by it."""
        return min((call.limit_ms for call in self._calls), default=math.inf)

    def expire_one(self) -> None:
        """The limit of one call has passed."""
        call = min(self._calls, key=lambda call: call.limit_ms)
        if call.awaits is not None:
            self._calls.remove(call)
            self._answer(call, encode(_read(self._jobs, call.awaits)))
            return
        stage = "run" if call in self._placed()[: self._config.limit("in_flight")] else "queue"
        self._end(call, Fault(Code.TIMEOUT, "too late", {"limit_ms": call.limit_ms, "stage": stage}))

    def cancel(self, call_id: str) -> None:
        for call in [call for call in self._calls if call.job is None and call.id == call_id]:
            self._end(call, CANCELLED)

    def _end(self, call: Call, result: object) -> None:
        has_begun = call.tool is None or call in self._placed()[: self._config.limit("in_flight")]
        self._calls.remove(call)
        if isinstance(result, Fault):
            result = result.ran(may_have=has_begun)
        is_fault = isinstance(result, Fault)
        content = result.content() if isinstance(result, Fault) else encode(result)
        if call.job is None:
            self._answer(call, content, is_fault=is_fault)
            return
        outcome: Outcome = result if isinstance(result, Fault) else Answer(content)
        outcome = in_kind(outcome, call.asked, 1_000_000)
        beside = beside_of(outcome, call.asked, self.machine, gives_json=False, meta=None)
        self._jobs.finish(call.job, outcome, beside)
        for waiting in [waiting for waiting in self._calls if waiting.awaits is call.job]:
            self._calls.remove(waiting)
            self._answer(waiting, encode(_read(self._jobs, call.job)))

    def _answer(self, call: Call, content: str, *, is_fault: bool = False) -> None:
        kind, by = ("builtin", "jobs") if call.tool is None else (call.tool.kind, "")
        meta = self._meta(call.bytes_in, content, kind, by)
        is_json = kind != "builtin" and not is_fault
        content, beside = self._as_asked(content, call.asked, meta, stays=is_fault, is_json=is_json)
        self.machine.answer(call.id, content, is_error=is_fault, fault=is_fault, beside=beside)

    # --- ends of the session ---

    def end(self) -> None:
        """No more requests: jobs are cancelled, the rest is finished."""
        if self.machine.state is not State.CLOSED:
            self.machine.apply(Event.ENDED)
            self._stop_jobs()

    def is_done(self) -> bool:
        """Whether the session has just come to its end: nothing is owed any more."""
        if self.machine.state is not State.DRAINING or self._calls:
            return False
        self.machine.apply(Event.TORN_DOWN)
        self.questions.close()
        return True
